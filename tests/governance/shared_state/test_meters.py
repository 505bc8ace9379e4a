"""Counts in every store: the same arithmetic, whichever keeps them."""

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from pytest_django import DjangoAssertNumQueries

from governance.models import SharedState
from governance.shared_state.memory import MemoryStore
from governance.shared_state.server import ServerStore
from governance.shared_state.standby import StandbyStore
from governance.shared_state.table import TableStore, remove_expired
from routing.core.meters import DAY_MS, MOST, Charge, Metered, Pace
from routing.core.sharing import SharedStore, StoreAway
from tests.servers.valkey import ValkeyServer


@pytest.fixture(params=["memory", "table", "server"])
def store(request: pytest.FixtureRequest) -> Iterator[SharedStore]:
    if request.param == "memory":
        yield MemoryStore()
    elif request.param == "table":
        request.getfixturevalue("db")
        yield TableStore()
    else:
        server: ValkeyServer = request.getfixturevalue("valkey_server")
        yield ServerStore(server.url)


@pytest.fixture
def key() -> str:
    return f"limit:{uuid4()}"


def charge(key: str, amount: int = 1, *, limit: int = 3, pace: Pace = Pace.DAY) -> Charge:
    return Charge(key=key, pace=pace, limit=limit, amount=amount)


def test_a_limit_admits_exactly_as_many(store: SharedStore, key: str) -> None:
    assert [store.meter([charge(key)]).refused for _ in range(4)] == [None, None, None, 0]
    refused = store.meter([charge(key)])
    assert refused.levels[0].left == 0
    assert refused.wait_ms is not None
    assert 0 < refused.wait_ms <= DAY_MS
    assert refused.levels[0].reset_ms - refused.wait_ms in range(-2000, 1)


def test_all_or_none(store: SharedStore, key: str) -> None:
    first, second = charge(key, limit=10), charge(f"{key}:other", limit=1)
    assert [store.meter([first, second]).refused for _ in range(2)] == [None, 1]
    assert store.meter([charge(key, 0, limit=10)]).levels[0].left == 9
    assert store.meter([first, second]).refused == 1


def test_what_is_known_to_be_used_is_booked_in_any_case(store: SharedStore, key: str) -> None:
    store.meter([charge(key, 3)])
    assert store.meter([charge(key, 5)], force=True).refused is None
    assert store.meter([charge(key)]).refused == 0
    store.meter([charge(key, -6)], force=True)
    assert store.meter([charge(key)]).refused is None
    assert store.meter([charge(key, -100)], force=True).levels[0].left == 3


def test_a_rate_drains(store: SharedStore, key: str) -> None:
    fast = charge(key, 60_000, limit=60_000, pace=Pace.MINUTE)  # one a millisecond
    assert store.meter([fast]).refused is None
    refused = store.meter([charge(key, 30, limit=60_000, pace=Pace.MINUTE)])
    if refused.refused == 0:  # a machine that was slow may have let it drain meanwhile
        assert refused.wait_ms is not None
        assert 0 < refused.wait_ms <= 30
    time.sleep(0.04)
    assert store.meter([charge(key, 30, limit=60_000, pace=Pace.MINUTE)]).refused is None


def test_what_never_fits(store: SharedStore, key: str) -> None:
    metered = store.meter([charge(key, 4), charge(f"{key}:other", 4, pace=Pace.MINUTE)])
    assert (metered.refused, metered.wait_ms) == (0, None)
    assert [level.left for level in metered.levels] == [3, 3]


def test_the_largest_numbers_stay_whole(store: SharedStore, key: str) -> None:
    large = charge(key, MOST - 1, limit=MOST)
    assert store.meter([large]).levels[0].left == 1
    assert store.meter([charge(key, limit=MOST)]).levels[0].left == 0
    assert store.meter([charge(key, limit=MOST)]).refused == 0


def test_the_server_counts_as_the_core_does(valkey_server: ValkeyServer, key: str) -> None:
    server, memory = ServerStore(valkey_server.url), MemoryStore()
    draws = random.Random(7)
    for _ in range(300):
        charges = [
            charge(f"{key}:{name}", draws.randint(-3, 6), limit=draws.randint(4, 9))
            for name in draws.sample(["a", "b", "c", "d"], draws.randint(1, 4))
        ]
        force = draws.random() < 0.3
        theirs, ours = server.meter(charges, force=force), memory.meter(charges, force=force)
        assert (theirs.refused, [each.left for each in theirs.levels]) == (
            ours.refused, [each.left for each in ours.levels],
        )  # fmt: skip
        assert (theirs.wait_ms is None) == (ours.wait_ms is None)


def test_the_server_is_asked_once_whatever_the_number_of_counts(valkey_server: ValkeyServer, key: str) -> None:
    store = ServerStore(valkey_server.url)
    store.meter([charge(key)])  # the script is known from here on
    before = store._client.info("stats")["total_commands_processed"]
    store.meter([charge(f"{key}:{number}") for number in range(8)])
    commands = store._client.info("commandstats")
    assert commands["cmdstat_evalsha"]["calls"] >= 2
    spent = store._client.info("stats")["total_commands_processed"] - before
    assert spent <= 2 + 1 + 1 + 8 * 2  # the two questions about it; the script, its clock, a read and a write a count


def test_the_server_forgets_counts_that_count_nothing(valkey_server: ValkeyServer, key: str) -> None:
    store = ServerStore(valkey_server.url)
    store.meter([charge(key, 2, limit=60, pace=Pace.MINUTE), charge(f"{key}:day")])
    assert 1000 < store._client.pttl(f"signalbox:state:{key}") <= 3000
    assert DAY_MS < store._client.pttl(f"signalbox:state:{key}:day") <= 2 * DAY_MS


@pytest.mark.django_db
def test_the_table_takes_two_statements_however_many_counts(
    key: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    store = TableStore()
    store.meter([charge(key), charge(f"{key}:other")])
    with django_assert_num_queries(2 + 2):  # the savepoint of a test's transaction is two of them
        store.meter([charge(key), charge(f"{key}:other")])
    assert SharedState.objects.count() == 2


@pytest.mark.django_db
def test_a_count_that_is_swept_before_it_is_locked_is_made_anew(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Another process had just made it, for a charge that it refused."""
    manager, make = SharedState.objects, SharedState.objects.bulk_create
    swept: list[int] = []

    def make_and_sweep(*rows: Any, **settings: Any) -> None:
        make(*rows, **settings)
        if not swept:
            swept.append(remove_expired(now=datetime.now(UTC)))

    monkeypatch.setattr(manager, "bulk_create", make_and_sweep)
    metered = TableStore().meter([charge(key, 2, limit=5)])
    assert (metered.refused, [level.left for level in metered.levels], swept) == (None, [3], [1])


def test_while_the_store_is_away_a_process_counts_by_itself(key: str) -> None:
    class Away(MemoryStore):
        def meter(self, charges: object, *, force: bool = False) -> Metered:
            raise StoreAway("gone")

    store = StandbyStore(Away(), memory=MemoryStore())
    assert [store.meter([charge(key, limit=1)]).refused for _ in range(2)] == [None, 0]
