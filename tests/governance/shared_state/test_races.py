"""Two processes at one store: of two who try the same, one succeeds, and nothing is lost."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.processes import ROOT, installation_environment, run_python
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

TIMES = 100
MOST = 60
"""What a limit admits, of twice ``TIMES`` that ask."""

PREPARE = """
import django; django.setup()
from django.db import connection
from governance.models import SharedState
with connection.schema_editor() as editor:
    editor.create_model(SharedState)
"""

RACE = f"""
import sys
import django; django.setup()
from governance.shared_state import shared_state
from routing.core.meters import Charge, Pace
store = shared_state()
store.read(["warm"])
print("ready", flush=True)
sys.stdin.readline()
added = sum(store.add(f"lease:{{n}}", "x", seconds=60) for n in range({TIMES}))
for _ in range({TIMES}):
    while True:
        before = store.read(["count"]).get("count")
        if store.swap("count", str(int(before or 0) + 1), expected=before, seconds=60):
            break
charges = [Charge("limit:key", Pace.DAY, limit={MOST}, amount=1), Charge("limit:app", Pace.DAY, limit=10**6, amount=1)]
admitted = sum(store.meter(charges).refused is None for _ in range({TIMES}))
left = [level.left for level in store.meter(charges).levels]
assert store.seconds_away() is None
print(added, store.read(["count"])["count"], admitted, *left, flush=True)
"""


@pytest.fixture(params=["sqlite", "postgresql", "valkey"])
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """An installation's environment, with nothing in its database but the table of the store."""
    environ = installation_environment(data_folder=tmp_path) | {
        "DJANGO_SETTINGS_MODULE": "governance.project.settings.installation"
    }
    if request.param == "valkey":
        server: ValkeyServer = request.getfixturevalue("valkey_server")
        yield environ | {"REDIS_URL": server.url.removesuffix("/0") + "/7"}
        return
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres_server")
        with postgres.database() as url:
            yield _prepared(environ | {"DATABASE_URL": url})
        return
    yield _prepared(environ)


def _prepared(environ: dict[str, str]) -> dict[str, str]:
    made = run_python("-c", PREPARE, environ=environ)
    assert made.returncode == 0, made.stderr
    return environ


def test_two_processes_race(environ: dict[str, str]) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n", racer.communicate()[1]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    ends = [racer.communicate(timeout=60) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0], ends
    added, counts, admitted, left, others = zip(*((int(word) for word in out.split()) for out, _ in ends), strict=True)
    assert sum(added) == TIMES
    assert max(counts) == 2 * TIMES
    assert sum(admitted) == MOST
    assert min(left) == 0
    assert min(others) == 10**6 - MOST  # what one limit refuses, the other is not charged for
