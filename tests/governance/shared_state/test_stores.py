"""What a store that processes share promises, whichever it is; and what happens while it is away."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import OperationalError, connection
from pytest_django import DjangoAssertNumQueries, Settings

from governance import tasks
from governance.models import SharedState
from governance.shared_state import shared_state
from governance.shared_state.memory import MOST_KEPT, MemoryStore
from governance.shared_state.server import ServerStore
from governance.shared_state.standby import StandbyStore
from governance.shared_state.table import TableStore
from routing.core.meters import Charge, Metered, Pace
from routing.core.sharing import SharedStore, StoreAway
from tests.servers.ports import find_free_port
from tests.servers.valkey import ValkeyServer

NOW = 1_600_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "table", "server"])
def store(request: pytest.FixtureRequest, clock: Clock) -> Iterator[SharedStore]:
    if request.param == "memory":
        yield MemoryStore(clock=clock)
    elif request.param == "table":
        request.getfixturevalue("db")
        yield TableStore(clock=clock)
    else:
        server: ValkeyServer = request.getfixturevalue("valkey_server")
        yield ServerStore(server.url)


@pytest.fixture
def key() -> str:
    return f"circuit:{uuid4()}"


def test_what_was_put_is_read(store: SharedStore, key: str) -> None:
    assert store.read([key]) == {}
    store.put(key, "résting", seconds=60)
    store.put(f"{key}:other", "", seconds=60)
    store.put(key, "resting on", seconds=60)
    assert store.read([f"{key}:other", f"{key}:absent", key]) == {key: "resting on", f"{key}:other": ""}
    assert store.read([]) == {}


def test_what_is_there_is_not_added_again(store: SharedStore, key: str) -> None:
    assert store.add(key, "first", seconds=60)
    assert not store.add(key, "second", seconds=60)
    assert store.read([key]) == {key: "first"}


def test_a_value_is_swapped_for_the_one_expected_alone(store: SharedStore, key: str) -> None:
    assert not store.swap(key, "b", expected="a", seconds=60)
    assert store.swap(key, "a", expected=None, seconds=60)
    assert not store.swap(key, "b", expected=None, seconds=60)
    assert not store.swap(key, "b", expected="A", seconds=60)
    assert store.swap(key, "b", expected="a", seconds=60)
    assert not store.swap(key, "c", expected="a", seconds=60)
    assert store.read([key]) == {key: "b"}


def test_a_value_is_removed_if_it_is_the_one_expected(store: SharedStore, key: str) -> None:
    store.put(key, "mine", seconds=60)
    assert not store.remove(key, expected="another's")
    assert store.remove(key, expected="mine")
    assert not store.remove(key, expected="mine")
    assert store.read([key]) == {}
    assert store.add(key, "next", seconds=60)


@pytest.mark.parametrize("kind", ["memory", "table"])
def test_what_has_expired_was_never_there(request: pytest.FixtureRequest, clock: Clock, key: str, kind: str) -> None:
    if kind == "table":
        request.getfixturevalue("db")
    store: SharedStore = MemoryStore(clock=clock) if kind == "memory" else TableStore(clock=clock)
    store.put(key, "old", seconds=0.25)
    clock.now += 0.2
    assert store.read([key]) == {key: "old"}
    clock.now += 0.05
    assert store.read([key]) == {}
    assert not store.swap(key, "new", expected="old", seconds=1)
    assert not store.remove(key, expected="old")
    assert store.add(key, "new", seconds=1)
    assert store.read([key]) == {key: "new"}
    assert store.swap(key, "newer", expected="new", seconds=2)
    clock.now += 1.5
    assert store.read([key]) == {key: "newer"}  # a swap begins its time anew


def test_the_server_forgets_by_itself(valkey_server: ValkeyServer, key: str) -> None:
    store = ServerStore(valkey_server.url)
    store.put(key, "short", seconds=0.0001)  # at the least a millisecond
    assert store._client.pttl(f"signalbox:state:{key}") <= 1
    store.add(f"{key}:lease", "mine", seconds=30)
    assert store.swap(f"{key}:lease", "mine", expected="mine", seconds=90)
    assert 80_000 < store._client.pttl(f"signalbox:state:{key}:lease") <= 90_000


@pytest.mark.django_db
def test_every_operation_on_the_table_is_one_statement(
    key: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    store = TableStore()
    with django_assert_num_queries(1):
        store.put(key, "a", seconds=60)
    with django_assert_num_queries(1):
        assert not store.add(key, "b", seconds=60)
    with django_assert_num_queries(1):
        assert store.swap(key, "b", expected="a", seconds=60)
    with django_assert_num_queries(1):
        assert store.read([f"circuit:{number}" for number in range(499)] + [key]) == {key: "b"}
    with django_assert_num_queries(1):
        assert store.remove(key, expected="b")


@pytest.mark.django_db
def test_rows_whose_time_is_over_are_removed(key: str) -> None:
    TableStore(clock=lambda: NOW).put(key, "old", seconds=60)
    TableStore().put(f"{key}:living", "new", seconds=60)
    tasks.remove_old()
    assert [each.key for each in SharedState.objects.all()] == [f"{key}:living"]


def test_memory_has_an_end(clock: Clock) -> None:
    store = MemoryStore(clock=clock)
    for number in range(MOST_KEPT):
        store.put(f"lease:{number}", "x", seconds=60 + number)
    store.put("last", "x", seconds=3600 * 24)
    assert store.read(["lease:0", f"lease:{MOST_KEPT - 1}", "last"]) == {
        f"lease:{MOST_KEPT - 1}": "x",
        "last": "x",
    }


# --- Away ------------------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_away(key: str) -> None:
    store = ServerStore(f"redis://:sesame@127.0.0.1:{find_free_port()}/0")
    for operation in (
        lambda: store.read([key]),
        lambda: store.put(key, "a", seconds=1),
        lambda: store.add(key, "a", seconds=1),
        lambda: store.swap(key, "b", expected="a", seconds=1),
        lambda: store.remove(key, expected="a"),
        lambda: store.meter([Charge(key, Pace.MINUTE, limit=1, amount=1)]),
        store.ping,
    ):
        with pytest.raises(StoreAway) as away:
            operation()
        assert "sesame" not in str(away.value)


@pytest.mark.django_db
def test_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch, key: str) -> None:

    def refuse() -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(connection, "cursor", refuse)
    with pytest.raises(StoreAway):
        TableStore().add(key, "a", seconds=1)


class Flaky:
    """A store that can be away, and counts who asks."""

    def __init__(self) -> None:
        self.behind = MemoryStore()
        self.is_away = False
        self.asked = 0

    def _ask(self) -> MemoryStore:
        self.asked += 1
        if self.is_away:
            raise StoreAway("gone")
        return self.behind

    def read(self, keys: Sequence[str]) -> Mapping[str, str]:
        return self._ask().read(keys)

    def put(self, key: str, value: str, *, seconds: float) -> None:
        self._ask().put(key, value, seconds=seconds)

    def add(self, key: str, value: str, *, seconds: float) -> bool:
        return self._ask().add(key, value, seconds=seconds)

    def swap(self, key: str, value: str, *, expected: str | None, seconds: float) -> bool:
        return self._ask().swap(key, value, expected=expected, seconds=seconds)

    def remove(self, key: str, *, expected: str) -> bool:
        return self._ask().remove(key, expected=expected)

    def meter(self, charges: Sequence[Charge], *, force: bool = False) -> Metered:
        return self._ask().meter(charges, force=force)


def test_a_process_goes_by_itself_while_the_store_is_away(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    flaky = Flaky()
    store = StandbyStore(flaky, memory=MemoryStore(), clock=clock)
    with caplog.at_level(logging.INFO):
        store.put("a", "shared", seconds=60)
        flaky.is_away = True
        assert store.add("a", "own", seconds=60)
        assert store.read(["a"]) == {"a": "own"}
        assert store.swap("a", "own again", expected="own", seconds=60)
        assert flaky.asked == 2  # the last two did not ask what had just been away
        clock.now += 1.5
        assert store.seconds_away() == 1.5
        assert store.read(["a"]) == {"a": "own again"}
        assert flaky.asked == 3
        flaky.is_away = False
        clock.now += 1.0
        assert store.read(["a"]) == {"a": "shared"}
        clock.now += 0.5
        assert store.seconds_away() is None
        assert (store.read(["a"]), flaky.asked) == ({"a": "shared"}, 5)  # and it is asked every time again
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]  # once for as long as it lasts


@pytest.mark.parametrize("kind", [TableStore, ServerStore])
def test_the_store_is_that_of_the_installation(
    kind: type, settings: Settings, valkey_server: ValkeyServer, key: str, db: None
) -> None:
    settings.REDIS_URL = valkey_server.url if kind is ServerStore else None
    store = shared_state()
    assert store.add(key, "a", seconds=60)
    assert ServerStore(valkey_server.url).read([key]) == ({key: "a"} if kind is ServerStore else {})
    living = SharedState.objects.filter(key=key, expires_at__gt=datetime.now(UTC) + timedelta(seconds=50))
    assert living.exists() is (kind is TableStore)
