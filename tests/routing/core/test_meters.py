"""Counts that drain, and counts of a day."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.core.meters import DAY_MS, FINE, MOST, Charge, Count, Level, Metered, Pace, keep_seconds, meter

NOON = 20_000 * DAY_MS + DAY_MS // 2


def charge(amount: int = 1, *, limit: int = 60, pace: Pace = Pace.MINUTE) -> Charge:
    return Charge(key=f"count:{limit}", pace=pace, limit=limit, amount=amount)


def book(charges: list[Charge], counts: list[Count | None], now_ms: int, *, force: bool = False) -> Metered:
    return meter(charges, counts, now_ms=now_ms, force=force)[0]


def after(amounts: list[tuple[int, int]], *, limit: int = 60, pace: Pace = Pace.MINUTE) -> Count:
    """A count after forced bookings, each with its moment."""
    count: Count | None = None
    for moment, amount in amounts:
        _, (count,) = meter([charge(amount, limit=limit, pace=pace)], [count], now_ms=moment, force=True)
    assert count is not None
    return count


def test_a_whole_minutes_worth_may_come_at_once_and_then_one_a_second() -> None:
    count: Count | None = None
    for left in range(59, -1, -1):
        metered, (count,) = meter([charge()], [count], now_ms=NOON, force=False)
        assert metered.levels == (Level(60, left, (60 - left) * 1000),)
    assert book([charge()], [count], NOON) == Metered((Level(60, 0, 60_000),), refused=0, wait_ms=1000)
    assert book([charge()], [count], NOON + 999).wait_ms == 1
    assert book([charge()], [count], NOON + 1000).refused is None
    assert book([charge(5)], [count], NOON + 1000).wait_ms == 4000


def test_what_exactly_fits_is_admitted() -> None:
    assert book([charge(60)], [None], NOON).refused is None
    assert book([charge(60, pace=Pace.DAY)], [None], NOON).refused is None
    assert book([charge(60, pace=Pace.DAY)], [Count(FINE, NOON)], NOON).refused == 0


def test_what_never_fits_has_nothing_to_wait_for() -> None:
    assert book([charge(61)], [None], NOON) == Metered((Level(60, 60, 0),), refused=0, wait_ms=None)
    assert book([charge(61, pace=Pace.DAY)], [None], NOON).wait_ms is None


def test_a_day_does_not_drain_and_ends_at_midnight() -> None:
    count = after([(NOON, 60)], pace=Pace.DAY)
    metered = book([charge(pace=Pace.DAY)], [count], NOON + DAY_MS // 2 - 1)
    assert metered == Metered((Level(60, 0, 1),), refused=0, wait_ms=1)


def test_all_charges_are_booked_or_none() -> None:
    fits, full = charge(1, limit=100), charge(1, limit=10)
    metered, counts = meter([fits, full], [None, Count(10 * FINE, NOON)], now_ms=NOON, force=False)
    assert metered.refused == 1
    assert [count.used for count in counts] == [0, 10 * FINE]
    assert metered.levels[0].left == 100


def test_of_several_that_do_not_fit_the_one_to_wait_for_longest_is_named() -> None:
    soon, late = charge(1, limit=600), charge(1, limit=6)
    full = [Count(600 * FINE, NOON), Count(6 * FINE, NOON)]
    assert book([soon, late], [*full], NOON) == book([soon, late], [*full], NOON)
    assert (book([soon, late], [*full], NOON).refused, book([late, soon], [*full[::-1]], NOON).refused) == (1, 0)
    never = charge(7, limit=6)
    assert book([charge(1, limit=5), never], [Count(5 * FINE, NOON), None], NOON).refused == 1


def test_what_was_booked_too_low_is_waited_for() -> None:
    count = after([(NOON, 10), (NOON, 170)])  # three minutes' worth
    assert book([charge(0)], [count], NOON).levels == (Level(60, 0, 180_000),)
    assert book([charge()], [count], NOON).wait_ms == 121_000


def test_what_is_given_back_never_makes_more_than_the_limit() -> None:
    count = after([(NOON, 10), (NOON, -50)])
    assert count.used == 0
    assert book([charge(61)], [count], NOON).refused == 0


def test_a_clock_that_is_set_back_drains_nothing() -> None:
    count = after([(NOON, 60)])
    assert book([charge()], [count], NOON - 3_600_000).refused == 0


def test_a_limit_that_is_changed_counts_at_once() -> None:
    count = after([(NOON, 50)])
    assert book([charge(limit=40)], [count], NOON).refused == 0
    assert book([charge(limit=100)], [count], NOON).levels[0].left == 49


def test_nothing_is_kept_longer_than_it_counts() -> None:
    assert keep_seconds(charge(), 60 * FINE) == 61
    assert keep_seconds(charge(pace=Pace.DAY), FINE) == 2 * 86_400


def test_a_count_is_read_as_it_was_spelled() -> None:
    count = Count(MOST * FINE, NOON)
    assert Count.read(count.spell()) == count


@given(
    limit=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 50)), min_size=1, max_size=60),
)
def test_in_no_stretch_of_time_is_more_admitted_than_the_limit_and_what_drains(
    limit: int, steps: list[tuple[int, int]]
) -> None:
    count: Count | None = None
    now, admitted = NOON, list[tuple[int, int]]()
    for wait, amount in steps:
        now += wait
        metered, (booked,) = meter([charge(amount, limit=limit)], [count], now_ms=now, force=False)
        if metered.refused is None:
            count = booked
            admitted.append((now, amount))
    for first, (start, _) in enumerate(admitted):
        total = 0
        for moment, amount in admitted[first:]:
            total += amount
            assert total * FINE <= limit * FINE + (moment - start) * limit


@pytest.mark.parametrize("pace", list(Pace))
def test_whoever_waits_as_long_as_told_is_admitted_then_and_not_sooner(pace: Pace) -> None:
    count = after([(NOON, 60)], pace=pace)
    wait = book([charge(7, pace=pace)], [count], NOON).wait_ms
    assert wait is not None
    assert book([charge(7, pace=pace)], [count], NOON + wait - 1).refused == 0
    if pace is Pace.MINUTE:
        assert book([charge(7)], [count], NOON + wait).refused is None
