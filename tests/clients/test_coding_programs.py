"""Claude Code and Codex at work: their model asks for a command, they run it in a folder and hand its output back.

Each asks for a provider that speaks its own vendor's protocol and for ones that do not, and notices no difference. What
they are told to do by settings is what docs/clients.md tells their users.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from telemetry.models import Call, DecisionRecord
from tests.clients.conftest import CODING, Installation
from tests.clients.programs import installed_programs, run_program
from tests.servers.coding_model import ANSWER, CACHED, OUTPUT, UNCACHED
from tests.servers.web import wait_until

pytestmark = pytest.mark.database

NOTE = "the parcel lies in Leipzig"
ASKED = "What does the note say?"
COST_NANOS = UNCACHED * 2_500 + CACHED * 1_000 + OUTPUT * 10_000  # at the price of the conftest

Program = Callable[[str], CompletedProcess[str]]
"""Asks a configuration the question."""


class Outside:
    """A proxy for everything that is not on this machine: it counts who comes, and lets nobody through."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.heard: list[bytes] = []
        threading.Thread(target=self._listen, name="outside", daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # the listener was closed
            with connection:
                connection.settimeout(1.0)
                self.heard.append(connection.recv(200))


@pytest.fixture(scope="module")
def secret(installation: Installation) -> str:
    """A key for the configurations that end at the coding model."""
    return installation.issue(allowed_configurations=[*CODING])


@pytest.fixture
def outside() -> Iterator[Outside]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield Outside(listener)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the programs work; there is a note in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "note.txt").write_text(NOTE)
    return folder


@pytest.fixture
def claude(installation: Installation, secret: str, outside: Outside, tmp_path: Path, folder: Path) -> Program:
    """Claude Code. It may use its shell without asking, and calls nobody but us."""

    def ask(configuration: str) -> CompletedProcess[str]:
        return run_program(
            [installed_programs()["claude"], "-p", ASKED, "--model", configuration, "--allowedTools", "Bash"],
            folder=folder,
            home=tmp_path,
            environ={
                "ANTHROPIC_BASE_URL": installation.web.url,
                "ANTHROPIC_API_KEY": secret,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "HTTPS_PROXY": outside.url,
            },
        )

    return ask


@pytest.fixture
def codex(installation: Installation, secret: str, outside: Outside, tmp_path: Path, folder: Path) -> Program:
    """Codex. Its web search is a tool that OpenAI runs, so it is turned off."""

    def ask(configuration: str) -> CompletedProcess[str]:
        home = tmp_path / ".codex"
        home.mkdir()
        (home / "config.toml").write_text(
            f"""
            model = "{configuration}"
            model_provider = "signalbox"
            web_search = "disabled"
            check_for_update_on_startup = false
            [features]
            plugins = false
            [analytics]
            enabled = false
            [model_providers.signalbox]
            name = "Signalbox"
            base_url = "{installation.web.url}/v1"
            env_key = "SIGNALBOX_KEY"
            wire_api = "responses"
            """
        )
        unasked = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return run_program(
            [installed_programs()["codex"], "exec", *unasked, ASKED],
            folder=folder,
            home=tmp_path,
            environ={"SIGNALBOX_KEY": secret, "HTTPS_PROXY": outside.url},
        )

    return ask


@pytest.mark.parametrize("configuration", CODING)
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_tool_round_trip(
    name: str, configuration: str, installation: Installation, outside: Outside, request: pytest.FixtureRequest
) -> None:
    with installation.web.records():
        before = set(Call.objects.values_list("pk", flat=True))
    ask: Program = request.getfixturevalue(name)
    done = ask(configuration)
    assert done.returncode == 0, done.stderr
    assert ANSWER in done.stdout
    assert NOTE in done.stdout
    assert outside.heard == []
    with installation.web.records():
        turns = Call.objects.exclude(pk__in=before).order_by("started_at")
        wait_until(lambda: turns.count() >= 2)
        assert [_told(turn) for turn in turns] == [_told_of(configuration)] * 2
        digests = {turn.decision_id for turn in turns}
        assert DecisionRecord.objects.filter(pk__in=digests).count() == len(digests)
        assert None not in digests


def _told(call: Call) -> dict[str, object]:
    """What a row says of one turn."""
    return {
        "asked": (call.requested, call.application, call.streamed),
        "served": (call.served_provider, call.served_model, call.requests_sent),
        "ended": (call.success, call.failure_kind, call.first_token_ms is not None),
        "tokens": (call.actual_input_tokens, call.actual_cache_read_tokens, call.actual_output_tokens),
        "cost": (call.actual_cost_nanos, call.cost_currency),
    }


def _told_of(configuration: str) -> dict[str, object]:
    return {
        "asked": (configuration, "helpdesk", True),
        "served": (f"host-{configuration}", f"coder-{configuration}", 1),
        "ended": (True, "", True),
        "tokens": (UNCACHED, CACHED, OUTPUT),
        "cost": (COST_NANOS, "USD"),
    }
