"""Somebody at the admin: a log-in, a page, and an ear for everything that goes wrong on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import Group, User
from playwright.sync_api import Browser, ConsoleMessage, Page, Request

from tests.servers.web import WebServer

PASSWORD = "a long pass phrase"


@dataclass
class Visitor:
    """A page in which somebody is logged in."""

    page: Page
    url: str
    troubles: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        """Open a page of the server."""
        answer = self.page.goto(f"{self.url}{path}")
        assert answer is not None
        assert answer.status == 200, f"{path} answers {answer.status}"

    def listen(self) -> None:
        """Note every error in the console or in a script, and every request to another host."""
        host = urlsplit(self.url).netloc

        def hear(message: ConsoleMessage) -> None:
            if message.type == "error":
                self.troubles.append(f"{self.page.url}: {message.text}")

        def watch(request: Request) -> None:
            if urlsplit(request.url).netloc != host and not request.url.startswith(("data:", "blob:")):
                self.troubles.append(f"{self.page.url} asks {request.url}")

        self.page.on("console", hear)
        self.page.on("pageerror", lambda error: self.troubles.append(f"{self.page.url}: {error}"))
        self.page.on("request", watch)


def make_user(name: str, *, group: str | None = None, superuser: bool = False) -> User:
    """A log-in that the server accepts: it knows nothing of the quick hasher of the tests."""
    user = User(username=name, is_staff=True, is_superuser=superuser)
    user.password = PBKDF2PasswordHasher().encode(PASSWORD, "a-salt-of-the-tests", iterations=1000)
    user.save()
    if group is not None:
        user.groups.add(Group.objects.get(name=group))
    return user


@contextmanager
def visiting(browser: Browser, web: WebServer, name: str, *, width: int = 1280) -> Iterator[Visitor]:
    """Log in by the form."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="light")
    visitor = Visitor(context.new_page(), web.url)
    visitor.listen()
    visitor.page.goto(f"{web.url}/admin/login/")
    visitor.page.fill("[name=username]", name)
    visitor.page.fill("[name=password]", PASSWORD)
    visitor.page.press("[name=password]", "Enter")
    visitor.page.wait_for_url("**/admin/")
    try:
        yield visitor
    finally:
        context.close()
