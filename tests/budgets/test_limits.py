"""What a call takes of its limits, and what is booked when it is over."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import pytest

from budgets.limits import (
    Counted,
    Limit,
    LimitExceeded,
    admit,
    read_standings,
    settle,
    tightest,
)
from governance.shared_state.memory import MemoryStore
from routing.core.meters import MOST, Charge, Metered, Pace

NOW = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)


def limit(most: int, counted: Counted = Counted.TOKENS, pace: Pace = Pace.DAY, *, scope: str = "key") -> Limit:
    return Limit(scope=scope, holder=f"holder-{scope}", counted=counted, pace=pace, most=most)


TOKENS, REQUESTS = limit(1000), limit(3, Counted.REQUESTS)
BOTH = (TOKENS, REQUESTS)


def left(store: MemoryStore, *limits: Limit, now: datetime = NOW) -> list[int]:
    return [each.level.left for each in read_standings(store, limits or BOTH, now=now)]


def test_a_call_takes_a_request_and_the_estimated_tokens() -> None:
    store = MemoryStore()
    allowance = admit(store, BOTH, tokens=400, now=NOW)
    assert [each.level.left for each in allowance.standings] == [600, 2]
    assert left(store) == [600, 2]


def test_what_was_used_is_booked_instead_of_the_estimate() -> None:
    store = MemoryStore()
    settle(store, admit(store, BOTH, tokens=400, now=NOW), requests=1, tokens=150)
    assert left(store) == [850, 2]
    settle(store, admit(store, BOTH, tokens=100, now=NOW), requests=1, tokens=2000)  # more than there was
    assert left(store) == [0, 1]
    with pytest.raises(LimitExceeded):
        admit(store, BOTH, tokens=1, now=NOW)


def test_where_nobody_knows_what_was_used_the_estimate_stays() -> None:
    store = MemoryStore()
    settle(store, admit(store, BOTH, tokens=400, now=NOW), requests=1, tokens=None)
    assert left(store) == [600, 2]


def test_what_came_to_nothing_is_given_back() -> None:
    store = MemoryStore()
    settle(store, admit(store, BOTH, tokens=400, now=NOW), requests=0, tokens=0)
    assert left(store) == [1000, 3]


def test_what_does_not_fit_takes_nothing_of_any_limit() -> None:
    store = MemoryStore()
    with pytest.raises(LimitExceeded) as refused:
        admit(store, (REQUESTS, limit(10)), tokens=11, now=NOW)
    assert left(store) == [1000, 3]
    assert refused.value.wait is None
    assert str(refused.value) == (
        "this key may use 10 tokens per day, and the call alone asks for 11: make it smaller, or have the limit raised"
    )


def test_a_refusal_says_which_limit_how_much_is_left_and_how_long_to_wait() -> None:
    store = MemoryStore(wall=NOW.timestamp)
    admit(store, BOTH, tokens=900, now=NOW)
    with pytest.raises(LimitExceeded) as refused:
        admit(store, (REQUESTS, TOKENS), tokens=200, now=NOW)
    assert (refused.value.refused.limit, refused.value.wait) == (TOKENS, 1800)
    assert str(refused.value) == (
        "this key may use 1,000 tokens per day: 100 are left and 200 are asked for; try again in 1800 s"
    )
    assert [each.level.left for each in refused.value.standings] == [2, 100]


def test_a_day_is_a_utc_day_and_is_settled_where_it_began() -> None:
    store = MemoryStore()
    allowance = admit(store, BOTH, tokens=400, now=NOW)
    tomorrow = NOW + timedelta(hours=1)
    assert left(store, now=tomorrow) == [1000, 3]
    settle(store, allowance, requests=1, tokens=900)
    assert (left(store), left(store, now=tomorrow)) == ([100, 2], [1000, 3])
    local = datetime(2026, 12, 1, 0, 45, tzinfo=timezone(timedelta(hours=1)))  # 23:45 UTC
    assert left(store, now=local) == [100, 2]


def test_every_holder_pace_and_thing_has_a_count_of_its_own() -> None:
    store = MemoryStore()
    others = tuple(
        limit(50, counted, pace, scope=scope)
        for counted in Counted for pace in Pace for scope in ("key", "application")
    )  # fmt: skip
    admit(store, others[:1], tokens=1, now=NOW)
    assert left(store, *others) == [49] + [50] * 7


def test_without_a_difference_the_store_is_not_asked() -> None:
    class Silent(MemoryStore):
        def meter(self, charges: Sequence[Charge], *, force: bool = False) -> Metered:
            raise AssertionError("it was asked")

    allowance = admit(MemoryStore(), BOTH, tokens=4, now=NOW)
    settle(Silent(), allowance, requests=1, tokens=4)
    settle(Silent(), allowance, requests=1, tokens=None)
    assert read_standings(Silent(), (), now=NOW) == ()


def test_absurd_amounts_stay_whole() -> None:
    store = MemoryStore()
    settle(store, admit(store, (TOKENS,), tokens=1, now=NOW), requests=1, tokens=10**30)
    assert left(store, TOKENS) == [0]
    with pytest.raises(LimitExceeded):
        admit(store, (limit(MOST - 1),), tokens=10**30, now=NOW)


def test_the_limit_that_is_reached_first_is_told() -> None:
    store = MemoryStore()
    limits = (limit(500), limit(90, pace=Pace.MINUTE), limit(90, scope="application"), REQUESTS)
    standings = admit(store, limits, tokens=40, now=NOW).standings
    found = tightest(standings, Counted.TOKENS)
    assert found is not None
    assert found.limit in limits[1:3]
    assert tightest(standings[:3], Counted.REQUESTS) is None
