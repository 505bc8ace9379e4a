"""What a call asks of the database: nothing while it is answered, and a handful of statements afterwards, however many
records there are. Statements are counted where every one of them passes, in whichever thread."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.backends.utils import CursorWrapper

from governance.gateway import bridge
from governance.models import Application, SharedState
from telemetry.models import Call
from tests.factories import ConfigurationFactory, LanguageModelFactory, PriceFactory, ProviderFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Gateway
from tests.governance.gateway.upstream import answers, fails, streams
from tests.keys import issue_key
from tests.servers.fake_provider import Pause
from tests.servers.web import wait_until

POLL = 4
"""Statements of a poll that finds nothing changed: the version of the settings, of the catalogue, of the
budgets, of the keys."""


SHARED = SharedState._meta.db_table
"""What processes tell one another has tests of its own; it is told behind the calls, at moments of its own."""


class Statements(list[tuple[str, str]]):
    """Pairs of thread name and statement, without those that only begin a transaction."""

    def begun_by(self, word: str) -> int:
        """How many begin with a word."""
        return sum(statement.startswith(word) for _, statement in self)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Statements]:
    """Every statement that any thread executes inside the block."""
    statements = Statements()

    def note(sql: Any) -> None:
        if not str(sql).startswith(("BEGIN", "SAVEPOINT", "RELEASE")) and SHARED not in str(sql):
            statements.append((threading.current_thread().name, str(sql)))

    execute, executemany = CursorWrapper.execute, CursorWrapper.executemany

    def execute_and_note(self: CursorWrapper, sql: Any, params: Any = None) -> Any:
        note(sql)
        return execute(self, sql, params)

    def executemany_and_note(self: CursorWrapper, sql: Any, param_list: Any) -> Any:
        note(sql)
        return executemany(self, sql, param_list)

    with monkeypatch.context() as patched:
        patched.setattr(CursorWrapper, "execute", execute_and_note)
        patched.setattr(CursorWrapper, "executemany", executemany_and_note)
        yield statements


def statements_of_a_call(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, **members: Any) -> tuple[int, Statements]:
    """How many statements were executed before the answer was complete, and all of them once it is recorded."""
    recorder = gateway.service.services.recorder
    with counted(monkeypatch) as statements:
        with recorder._flushing:  # the writer waits here
            reply = gateway.chat(**members)
            assert reply.status == 200
            on_the_way = len(statements)
        gateway.flush()
    return on_the_way, statements


def test_a_call_waits_for_no_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.gateway.chat()
    world.gateway.flush()
    on_the_way, after = statements_of_a_call(world.gateway, monkeypatch)
    assert on_the_way == 0
    assert [sql.partition(" (")[0] for _, sql in after] == [
        'INSERT INTO "telemetry_call"',
        'INSERT INTO "telemetry_usageday"',
        'INSERT INTO "telemetry_usagehour"',
    ]
    assert {name.partition("_")[0] for name, _ in after} == {"bridge"}


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_call_costs_is_constant(world: World, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    """The first of a decision stores its record besides, one that was rescued its attempts."""
    script = streams() if stream else answers()
    world.script(script, script, script)

    def number() -> int:
        on_the_way, after = statements_of_a_call(world.gateway, monkeypatch, stream=stream)
        assert on_the_way == 0
        return len(after)

    assert [number(), number()] == [4, 3]
    world.script(fails(503))
    assert number() == 4
    world.script(script)
    provider = ProviderFactory(identifier="many", base_url=world.upstreams[2].url)
    for at in range(40):
        model = LanguageModelFactory(provider=provider, identifier=f"many-{at}")
        PriceFactory(model=model)
        ConfigurationFactory(identifier=f"many-{at}", fixed=True, fixed_model=model)
        issue_key(application=Application.objects.get(), name=f"Key {at}")
    world.configuration.selection = "criteria"
    world.configuration.save()
    world.gateway.refresh()
    assert [number(), number()] == [4, 3]
    assert Call.objects.count() == 5


def test_many_calls_share_a_transaction(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.gateway.chat()
    world.gateway.flush()
    recorder = world.gateway.service.services.recorder
    with counted(monkeypatch) as statements:
        with recorder._flushing:
            for conversation in [world.gateway.begin_chat() for _ in range(40)]:
                assert conversation.reply().status == 200
        world.gateway.flush()
    assert Call.objects.count() == 41
    assert len(statements) < 20  # a record or two for the writer that was woken first, all others together


def test_a_poll_costs_the_same_however_many_records_there_are(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = world.gateway

    def number() -> int:
        with counted(monkeypatch) as statements:
            gateway.threads.run(gateway.service._poll())
        return len(statements)

    assert number() == POLL
    world.models[0].save()
    changed = number()
    assert number() == POLL
    provider = ProviderFactory(identifier="many", base_url=world.upstreams[2].url)
    for at in range(20):
        PriceFactory(model=LanguageModelFactory(provider=provider, identifier=f"many-{at}"))
    assert number() == changed
    assert changed <= POLL + 10
    for _ in range(5):
        gateway.chat()
    gateway.flush()
    assert number() == POLL


def test_connections_are_the_bridges_and_no_more(world: World) -> None:
    """A hundred calls at a time, none of which holds a connection while it waits."""
    world.script([Pause(0.2), *answers()])
    threads_before = set(threading.enumerate())
    conversations = [world.gateway.begin_chat() for _ in range(100)]
    during = _connections()
    assert {conversation.reply().status for conversation in conversations} == {200}
    world.gateway.flush()
    most = max(during, _connections())
    if connection.vendor == "postgresql":
        assert 1 <= most <= bridge.THREADS + 1  # the one of this thread is among them
    assert Call.objects.count() == 100
    names = {each.name for each in threading.enumerate() if each.name.startswith(("bridge", "asyncio", "ThreadPool"))}
    assert len([name for name in names if name.startswith("bridge")]) <= bridge.THREADS
    made = {each.name for each in set(threading.enumerate()) - threads_before}
    assert not [name for name in made if name.startswith("ThreadPool")]  # nothing crossed by another way


def _connections() -> int:
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()")
        number: int = cursor.fetchone()[0]
    return number


def test_a_bridge_that_closes_leaves_no_connection_behind(tables: None, world: World) -> None:
    made = bridge.Bridge(threads=3)
    meeting = threading.Barrier(3)

    def look() -> None:
        meeting.wait(5)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    before = _connections()
    with ThreadPoolExecutor(3) as askers:
        waits = [askers.submit(world.gateway.threads.run, made.cross(look)) for _ in range(3)]
        for wait in waits:
            wait.result(5)
    if connection.vendor == "postgresql":
        assert _connections() == before + 3
    made.close()
    wait_until(lambda: _connections() == before)  # the server takes a moment to say so


def test_a_key_costs_the_rest_interface_no_query(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks is recognised by what is in memory, as for a call; a key that was revoked since is refused."""
    with counted(monkeypatch) as statements:
        known = world.gateway.request(path="/api/v1/me", method="GET")
        unknown = world.gateway.request(path="/api/v1/me", method="GET", key="sb-nobody")
    assert (known.status, known.json["key_holder"]["key"]) == (200, str(world.configuration_key))
    assert (unknown.status, unknown.json["type"]) == (401, "not_authenticated")
    assert statements == []
