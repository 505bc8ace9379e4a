"""One browser for each module: while it runs its event loop keeps this thread to itself."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser
from pytest_django import DjangoDbBlocker

from routing.models import FallbackLink
from tests.browser.chromium import running_browser
from tests.browser.visitor import Visitor, make_user, visiting
from tests.factories import (
    AccessKeyFactory,
    ConfigurationFactory,
    LanguageModelFactory,
    ProviderFactory,
)
from tests.servers.web import WebServer, running_web


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as found:
        yield found


@dataclass(frozen=True)
class Office:
    """An operator at a small installation: two models, a listed configuration that falls back to another, a key."""

    web: WebServer
    visitor: Visitor


@pytest.fixture(scope="module")
def office(browser: Browser, django_db_blocker: DjangoDbBlocker) -> Iterator[Office]:
    """One for each module; each test goes to the page it is about."""
    with django_db_blocker.unblock(), running_web() as web:
        with web.records():
            make_user("oscar", group="operator")
            provider = ProviderFactory.create()
            models = [
                LanguageModelFactory.create(provider=provider, identifier=name, priced=True)
                for name in ("fast", "wise")
            ]
            listed = ConfigurationFactory.create(listed=True, models=models)
            fallback = ConfigurationFactory.create(identifier="plain-chat", fixed=True, fixed_model=models[0])
            FallbackLink.objects.create(configuration=listed, fallback=fallback)
            AccessKeyFactory.create()
        with visiting(browser, web, "oscar") as visitor:
            yield Office(web, visitor)
