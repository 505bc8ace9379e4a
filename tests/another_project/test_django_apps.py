"""`docs/django-apps.md`: its files make a project, its command starts the worker, and a customer gets an answer."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from pytest_django import DjangoDbBlocker

from governance.models import Application, SubmissionState
from telemetry.models import Call
from tests.another_project.page import commands_of, files_of, write_files
from tests.governance.tasks.installation import Installation, installed
from tests.servers.web import ROOT, wait_until

PAGE = "django-apps.md"

pytestmark = pytest.mark.database

# What any Django project has besides: settings, and addresses for the views.
SETTINGS = """
    SECRET_KEY = "the shop's own"
    ALLOWED_HOSTS = ["testserver"]
    ROOT_URLCONF = "shop.urls"
    INSTALLED_APPS = ["shop"]
    MIDDLEWARE = []
    DATABASES = {}
    USE_TZ = True
"""
URLS = """
    from django.urls import path
    from shop import views
    urlpatterns = [path("tickets/", views.open_ticket), path("tickets/<str:ticket>/", views.show_ticket)]
"""
CUSTOMER = """
    import json, sys, time
    import django
    django.setup()
    from django.test import Client
    client = Client()
    opened = client.post("/tickets/", {"question": "Where is my parcel?", "customer": "customer-4711"})
    assert opened.status_code == 202, opened.content
    ticket = opened.json()["ticket"]
    deadline = time.monotonic() + 40
    while (shown := client.get(f"/tickets/{ticket}/").json())["state"] == "waiting":
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.1)
    assert not any(name.partition(".")[0] in ("governance", "routing") for name in sys.modules)
    print(json.dumps({"ticket": ticket, **shown}))
"""


@pytest.fixture(scope="module")
def installation(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[Installation]:
    with ExitStack() as stack:
        stack.enter_context(django_db_blocker.unblock())
        made = stack.enter_context(installed(request, broker="redis"))
        with made.web.records():
            application = Application.objects.get(identifier="web-shop")
            application.may_run_tasks = True
            application.save()
        yield made


@pytest.fixture(scope="module")
def worker(installation: Installation) -> Iterator[None]:
    """The command of the page, with the interpreter of the tests."""
    (command,) = commands_of(PAGE)
    assert command.startswith("celery ")
    process = subprocess.Popen(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT, env=dict(installation.web.environ), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    yield
    process.terminate()
    assert process.wait(40) == 0


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write_files(PAGE, tmp_path)
    for name, content in {"__init__.py": "", "settings.py": SETTINGS, "urls.py": URLS}.items():
        (tmp_path / "shop" / name).write_text(textwrap.dedent(content), encoding="utf-8")
    return tmp_path


def run(program: str, *, folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=folder, env={"PATH": os.environ["PATH"], **environ}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_shows_what_is_tested_here() -> None:
    assert set(files_of(PAGE)) == {"shop/signalbox.py", "shop/views.py", "shop_report.py"}


@pytest.mark.usefixtures("worker")
def test_a_customer_of_another_project_gets_an_answer(installation: Installation, shop: Path) -> None:
    assert installation.redis_url is not None
    environ = {"DJANGO_SETTINGS_MODULE": "shop.settings", "SIGNALBOX_REDIS_URL": installation.redis_url}
    shown = json.loads(run(CUSTOMER, folder=shop, environ=environ))
    assert (shown["state"], "Simulated answer" in shown["answer"]) == ("done", True)
    submission = installation.row_of(shown["ticket"])
    assert (submission.application, submission.user, submission.state) == (
        "web-shop", "customer-4711", SubmissionState.DONE,
    )  # fmt: skip
    with installation.web.records():
        wait_until(lambda: Call.objects.filter(pk=submission.pk).exists())
    with redis.Redis.from_url(installation.redis_url) as server:
        results = b"".join(server.get(key) or b"" for key in server.scan_iter("celery-task-meta-*"))
    assert b"Simulated answer" not in results  # it was forgotten


def test_a_program_of_ours_gets_an_answer(installation: Installation, shop: Path) -> None:
    environ = {**installation.web.environ, "DJANGO_SETTINGS_MODULE": "governance.project.settings.installation"}
    program = (shop / "shop_report.py").read_text(encoding="utf-8")
    said = run(program, folder=ROOT, environ=environ)
    assert "Simulated answer" in said
    assert "served by prod-east/fast for 0." in said
    with installation.web.records():
        assert Call.objects.filter(application="web-shop", key="").exists()
    refused = run(program.replace("web-shop", "nonesuch"), folder=ROOT, environ=environ)
    assert "no answer: forbidden" in refused
