"""The database goes away under load and comes back: calls go on, and every row is written.

The cluster is this module's own. These tests run once, whatever database the suite itself runs on.
"""

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import orjson
import psycopg
import pytest
from pytest_django import DjangoDbBlocker

from governance.models import AccessKey
from routing.core.vocabulary import Reach
from telemetry.models import Call, UsageDay
from tests.factories import ApplicationFactory, ConfigurationFactory, LanguageModelFactory, ProviderFactory
from tests.keys import issue_key, revoke_key
from tests.servers.postgres import OVERRIDE, running_postgres
from tests.servers.simulator import SimulatorServer
from tests.servers.web import WebServer, running_web, wait_until

SECONDS_AWAY = 2.0

pytestmark = pytest.mark.skipif(OVERRIDE in os.environ, reason="a server that is not ours is not ours to stop")


class Cluster:
    """A PostgreSQL that can be stopped and started again at the same address; ``started`` is what was."""

    def __init__(self, url: str, started: list[subprocess.Popen[bytes]]) -> None:
        self._started = started
        with psycopg.connect(url) as session:
            row = session.execute("SHOW data_directory").fetchone()
        assert row is not None
        self._data = Path(row[0])

    def stop(self) -> None:
        """Stop it, ending every session."""
        pid = int(self._pid_file.read_text(encoding="utf-8").splitlines()[0])
        os.kill(pid, signal.SIGINT)
        wait_until(lambda: not self._pid_file.exists(), seconds=20)

    def start(self) -> None:
        """Start it as it was started before."""
        command = (self._data / "postmaster.opts").read_text(encoding="utf-8")
        program, *arguments = [part.strip('"') for part in command.strip().split(' "')]
        owner = self._data.stat()
        is_root = os.geteuid() == 0
        process = subprocess.Popen(
            [program, *arguments],
            cwd=self._data,
            user=owner.st_uid if is_root else None,
            group=owner.st_gid if is_root else None,
            extra_groups=[] if is_root else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._started.append(process)
        wait_until(self._is_ready, seconds=20)

    @property
    def _pid_file(self) -> Path:
        return self._data / "postmaster.pid"

    def _is_ready(self) -> bool:
        with suppress(OSError):
            lines = self._pid_file.read_text(encoding="utf-8").splitlines()
            return len(lines) > 7 and lines[7].strip() == "ready"
        return False


class Installation:
    """The cluster, a server on it, and two keys."""

    def __init__(self, cluster: Cluster, web: WebServer, secrets: tuple[str, str]) -> None:
        self.cluster = cluster
        self.web = web
        self.secret, self.doomed = secrets
        self._http = httpx.Client(trust_env=False, timeout=10.0)

    def ask(self, secret: str | None = None, *, user: str = "") -> httpx.Response:
        """Ask a question."""
        body = {"model": "support-chat", "messages": [{"role": "user", "content": "Hello"}], "user": user}
        return self._http.post(
            f"{self.web.url}/v1/chat/completions",
            content=orjson.dumps(body),
            headers={"authorization": f"Bearer {self.secret if secret is None else secret}"},
        )

    def close(self) -> None:
        """Close every connection."""
        self._http.close()


@pytest.fixture(scope="module")
def installation(django_db_blocker: DjangoDbBlocker) -> Iterator[Installation]:
    started: list[subprocess.Popen[bytes]] = []
    with (
        django_db_blocker.unblock(),
        running_postgres() as server,
        SimulatorServer() as simulator,
        running_web(
            environ={"SIGNALBOX_OUTBOUND_ALLOW": simulator.url.removeprefix("http://")},
            database_url=server.url,
            start=False,
        ) as web,
    ):
        with web.records():
            provider = ProviderFactory(base_url=simulator.base_url("east"), reach=Reach.SELF_HOSTED.value)
            ConfigurationFactory(fixed=True, fixed_model=LanguageModelFactory(provider=provider))
            application = ApplicationFactory()
            secrets = [issue_key(application=application, name=name)[1] for name in ("Ticket robot", "Doomed")]
        made = Installation(Cluster(server.url, started), web, (secrets[0], secrets[1]))
        yield made
        made.close()
    for process in started:
        process.wait(20)


def test_without_a_database_from_the_start(installation: Installation) -> None:
    """The process lives, says what is wrong and that asking again is right, and serves once it can."""
    installation.cluster.stop()
    installation.web.start()
    answer = installation.ask()
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "not_ready"
    assert answer.headers["retry-after"] == "1"
    assert "x-should-retry" not in answer.headers  # clients try again by themselves
    installation.cluster.start()
    wait_until(lambda: installation.ask().status_code == 200)


def test_calls_go_on_while_the_database_is_away(installation: Installation) -> None:
    answered: Counter[int] = Counter()
    slowest = 0.0
    over = threading.Event()

    def load() -> None:
        nonlocal slowest
        while not over.is_set():
            started = time.monotonic()
            answered[installation.ask(user="agent-17").status_code] += 1
            slowest = max(slowest, time.monotonic() - started)
            time.sleep(0.02)

    callers = [threading.Thread(target=load) for _ in range(3)]
    for caller in callers:
        caller.start()
    try:
        wait_until(lambda: answered[200] > 20)
        installation.cluster.stop()
        at_the_stop = answered[200]
        time.sleep(SECONDS_AWAY)
        during = answered[200] - at_the_stop
        # What is known stays known; a stranger is a stranger, and no fault of the database.
        assert installation.ask("sb-nobody").status_code == 401
        installation.cluster.start()
        time.sleep(0.5)
    finally:
        over.set()
        for caller in callers:
            caller.join(20)
    assert set(answered) == {200}
    assert during > 20
    assert slowest < 1.0  # no call has waited for the database
    with installation.web.records():
        rows = Call.objects.filter(user="agent-17")
        wait_until(lambda: rows.count() >= answered[200], seconds=10)
        assert rows.count() == answered[200]
        assert UsageDay.objects.get(user="agent-17").requests == answered[200]
    assert "the database is away" in installation.web.log
    assert "were lost" not in installation.web.log


def test_records_are_heard_of_again_afterwards(installation: Installation) -> None:
    assert installation.ask(installation.doomed).status_code == 200
    with installation.web.records():
        revoke_key(AccessKey.objects.get(name="Doomed"))
    wait_until(lambda: installation.ask(installation.doomed).status_code == 401, seconds=2)
    assert installation.ask().status_code == 200
