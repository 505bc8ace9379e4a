"""The examples of docs/rest.md, run in their order as they stand there, against a real server."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import Group, User
from pytest_django import DjangoDbBlocker

from routing.core.vocabulary import Reach
from tests.environment import TestDatabase, chosen_database
from tests.factories import (
    AccessKeyFactory,
    CallFactory,
    ConfigurationFactory,
    LanguageModelFactory,
    ProviderFactory,
    UsageDayFactory,
)
from tests.governance.api.program import PASS_PHRASE
from tests.servers.simulator import SimulatorServer
from tests.servers.web import running_web
from tests.servers.worker import running_worker

PAGE = Path(__file__).resolve().parents[3] / "docs/rest.md"
BLOCK = re.compile(r"^```(sh|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BETWEEN = "\x1e"


@dataclass
class Example:
    """Commands, and what the page says that the last of them prints."""

    commands: str
    printed: Any = None


def examples() -> list[Example]:
    found: list[Example] = []
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "sh":
            found.append(Example(text))
        else:
            found[-1].printed = json.loads(text)
    return found


@pytest.fixture(scope="module")
def environ(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, str]]:
    """What the page takes for given: a server, a worker, a key, an operator, a configuration that leads somewhere."""
    with ExitStack() as stack:
        database_url = None
        if chosen_database() is TestDatabase.POSTGRES:
            database_url = stack.enter_context(request.getfixturevalue("postgres_server").database())
        stack.enter_context(django_db_blocker.unblock())
        simulator = stack.enter_context(SimulatorServer())
        allowed = {"SIGNALBOX_OUTBOUND_ALLOW": simulator.url.removeprefix("http://")}
        web = stack.enter_context(running_web(environ=allowed, database_url=database_url, start=False))
        with web.records():
            _, secret = AccessKeyFactory.create()
            provider = ProviderFactory.create(
                adapter_type="custom", base_url=simulator.base_url("east"), reach=Reach.SELF_HOSTED.value
            )
            model = LanguageModelFactory.create(provider=provider, capabilities=[], priced=True)
            ConfigurationFactory.create(fixed=True, fixed_model=model)
            CallFactory.create()
            UsageDayFactory.create()
            person = User.objects.create_user("olivia", is_staff=True)
            # As the server reads it: the tests' own hasher is nobody else's.
            person.password = PBKDF2PasswordHasher().encode(PASS_PHRASE, "salt")
            person.save()
            person.groups.add(Group.objects.get(name="operator"))
        web.start()
        stack.enter_context(running_worker(web))
        yield {
            "PATH": os.environ["PATH"],
            "SIGNALBOX": web.url,
            "SIGNALBOX_KEY": secret,
            "OPERATOR": "olivia",
            "PASS_PHRASE": PASS_PHRASE,
        }


def agrees(shown: Any, printed: Any) -> bool:
    """Whether what was printed has everything that is shown; “…” stands for anything."""
    match shown:
        case dict():
            return isinstance(printed, dict) and all(
                name in printed and agrees(value, printed[name]) for name, value in shown.items()
            )
        case list():
            return (
                isinstance(printed, list)
                and len(shown) == len(printed)
                and all(agrees(*pair) for pair in zip(shown, printed, strict=True))
            )
        case str() if "…" in shown:
            return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), str(printed), re.DOTALL) is not None
    return bool(shown == printed) and type(shown) is type(printed)


def last_document(output: str) -> Any:
    """The last of the JSON documents that stand one after the other."""
    decoder, at, found = json.JSONDecoder(), 0, None
    while at < len(output):
        found, at = decoder.raw_decode(output, at)
        while at < len(output) and output[at].isspace():
            at += 1
    return found


def test_every_example_prints_what_the_page_says(environ: dict[str, str], tmp_path: Path) -> None:
    shown = examples()
    assert len(shown) > 8
    script = f"\nprintf '{BETWEEN}'\n".join(each.commands for each in shown)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for example, output in zip(shown, done.stdout.split(BETWEEN), strict=True):
        if example.printed is not None:
            assert agrees(example.printed, last_document(output)), f"{example.commands}\n{output}"


@pytest.mark.parametrize(
    ("shown", "printed", "does"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"a": True}, False),
        ([1], [1, 2], False),
        ("sb-…", "sb-x", True),
        ("sb-…", "tb-x", False),
    ],
)
def test_agreeing(shown: Any, printed: Any, does: bool) -> None:
    assert agrees(shown, printed) is does
