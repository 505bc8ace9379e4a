"""Thresholds are crossed once, stay crossed, and are found again by whoever looks."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from budgets import crossings
from budgets.crossings import Crossings, Spending, Watch, crossed_by, look, percent_of, watches_of
from budgets.ledger import settle
from budgets.models import Account, Crossing, EntryError
from budgets.scopes import EACH, BudgetSpec, Scope, Subject
from budgets.windows import WindowKind
from routing.core.money import Money
from tests.budgets.claims import LATER, NOW, ONE, claim, cross, hold, key_of

DESK = BudgetSpec("desk", Scope(application="helpdesk"), "USD", 10 * ONE, zone="Europe/Berlin", alerts=(50, 80, 100))
WHO = Subject(application="helpdesk", key="key-1", user="agent-17", configuration="assistant", provider="prod-east")


def spend(nanos: int, *, window: WindowKind = WindowKind.MONTH, scope: Scope | None = None) -> dict[str, Spending]:
    """Spend in an account; gives what it stands at."""
    account = key_of(scope, window=window)
    settle(attempt=hold(claim(account, amount=nanos, limit=None)), cost=Money(nanos, "USD"), now=LATER)
    row = Account.objects.get(identity=account.identity)
    return {row.identity: Spending(row.spent, row.uncertain)}


def watches(budget: BudgetSpec = DESK) -> tuple[Watch, ...]:
    return watches_of([budget], WHO, began=NOW, now=LATER)


def recorded() -> list[int | None]:
    return list(Crossing.objects.order_by("threshold").values_list("threshold", flat=True))


@pytest.mark.parametrize(
    ("parts", "limit", "percent"),
    [
        ((79, 0), 100, 79),
        ((79, 1), 100, 80),
        ((101, 0), 100, 100),
        ((9223372036854775806, 1), 9223372036854775807, 100),
        ((4611686018427387903, 0), 9223372036854775807, 49),
        ((0, 0), 0, 100),
        ((-9223372036854775808, 1), 100, 100),
    ],
)
def test_per_cents_are_whole_and_saturate(parts: tuple[int, ...], limit: int, percent: int) -> None:
    assert percent_of(*parts, limit=limit) == percent


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.integers(1, 2**63))
def test_a_per_cent_is_reached_as_soon_as_the_amount_is(spent: int, uncertain: int, limit: int) -> None:
    percent = percent_of(spent, uncertain, limit=limit)
    assert 0 <= percent <= 100
    assert (spent + uncertain) * 100 >= percent * limit
    assert percent == 100 or (spent + uncertain) * 100 < (percent + 1) * limit
    assert percent <= percent_of(spent + 1, uncertain, limit=limit)


@given(
    st.lists(st.integers(0, 30 * ONE), min_size=1, max_size=20),
    st.lists(st.integers(0, 20 * ONE), min_size=1, max_size=20),
    st.sets(st.integers(1, 100), min_size=1, max_size=5),
)
def test_what_is_crossed_stays_so_whatever_becomes_of_the_limit(
    spent: list[int], limits: list[int], thresholds: set[int]
) -> None:
    """Balances that rise and fall, limits that are edited in between: crossed is all that was ever reached."""
    known = Crossings()
    reached: set[int] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crossings, "record", lambda fresh: None)
        for step, amount in enumerate(spent):
            limit = limits[step % len(limits)]
            watch = Watch("desk", key_of(), limit, tuple(sorted(thresholds)))
            fresh = cross(known, [watch], {watch.account.identity: Spending(amount, 0)}, now=NOW)
            expected = {each for each in thresholds if each <= percent_of(amount, limit=limit)}
            assert {each.threshold for each in fresh} == expected - reached
            reached |= expected
            assert [each.threshold for each in known.of(watch.account.identity, "desk")] == sorted(reached)


def test_without_thresholds_nothing_is_watched() -> None:
    assert watches(replace(DESK, alerts=())) == ()


def test_the_limit_of_the_moment_is_compared_and_the_account_is_of_the_calls_beginning() -> None:
    raised = replace(DESK, increase=10 * ONE, increase_until=NOW + timedelta(minutes=5))
    (early,) = watches_of([raised], WHO, began=NOW, now=NOW)
    (late,) = watches_of([raised], WHO, began=NOW, now=NOW + timedelta(days=1))
    assert (early.limit, late.limit) == (20 * ONE, 10 * ONE)
    assert early.account == late.account == key_of()


def test_a_threshold_is_reached_by_exactly_as_much() -> None:
    (watch,) = watches()
    assert [each.threshold for each in crossed_by(watch, Spending(5 * ONE - 1, 0), at=NOW)] == []
    assert [each.threshold for each in crossed_by(watch, Spending(4 * ONE, ONE), at=NOW)] == [50]
    assert [each.threshold for each in crossed_by(watch, Spending(20 * ONE, 0), at=NOW)] == [50, 80, 100]


@pytest.mark.django_db
def test_what_is_reserved_crosses_nothing() -> None:
    hold(claim(amount=10 * ONE))
    assert look([DESK], Crossings(), now=LATER) == []
    assert recorded() == []


@pytest.mark.django_db
def test_a_crossing_is_recorded_once_with_its_figures(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    known = Crossings()
    standing = spend(8 * ONE + ONE // 2)
    with django_assert_num_queries(2):
        fresh = cross(known, watches(), standing, now=LATER)
    assert [(each.threshold, each.percent) for each in fresh] == [(50, 85), (80, 85)]
    with django_assert_num_queries(0):
        assert cross(known, watches(), standing, now=LATER) == []
    row = Crossing.objects.get(threshold=80)
    assert (row.budget, row.limit, row.spent, row.uncertain, row.at) == ("desk", 10 * ONE, 8 * ONE + ONE // 2, 0, LATER)
    assert str(row) == "desk past 80 %"
    assert row.account.identity == key_of().identity


@pytest.mark.django_db
def test_of_two_processes_the_first_one_is_recorded_and_the_other_learns_it() -> None:
    one, other = Crossings(), Crossings()
    cross(one, watches(), spend(5 * ONE), now=LATER)
    cross(other, watches(), spend(ONE), now=LATER + timedelta(seconds=1))
    assert recorded() == [50]
    assert [each.spent for each in other.of(key_of().identity, "desk")] == [6 * ONE]
    was_read = other.is_read
    other.read(now=LATER)
    assert (was_read, other.is_read) == (False, True)
    assert [(each.spent, each.at) for each in other.of(key_of().identity, "desk")] == [(5 * ONE, LATER)]


@pytest.mark.django_db
def test_what_others_record_is_read_with_one_query_until_it_has_settled(
    django_assert_num_queries: DjangoAssertNumQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = iter(range(0, 1000, 4))
    monkeypatch.setattr("budgets.crossings.time.monotonic", lambda: float(next(moment)))
    one, other = Crossings(), Crossings()
    cross(one, watches(), spend(5 * ONE), now=LATER)
    for _ in range(5):
        with django_assert_num_queries(1):
            other.read(now=LATER)
    assert [each.threshold for each in other.of(key_of().identity, "desk")] == [50]
    assert other._read_up_to == Crossing.objects.get().pk
    cross(one, watches(), spend(5 * ONE), now=LATER)
    other.read(now=LATER)
    assert [each.threshold for each in other.of(key_of().identity, "desk")] == [50, 80, 100]


@pytest.mark.django_db
def test_a_row_that_becomes_visible_late_is_not_missed() -> None:
    """Its id is lower than one that was read already, since its transaction took longer."""
    known = Crossings()
    spend(10 * ONE)
    account = Account.objects.get()
    for pk, threshold in ((1000, 80), (999, 50)):
        row = {"budget": "desk", "threshold": threshold, "limit": 10 * ONE, "spent": 10 * ONE, "uncertain": 0}
        Crossing(pk=pk, account=account, at=LATER, **row).save()
        known.read(now=LATER)
    assert [each.threshold for each in known.of(account.identity, "desk")] == [50, 80]


@pytest.mark.django_db
def test_another_window_is_another_account() -> None:
    known = Crossings()
    cross(known, watches(), spend(8 * ONE), now=LATER)
    daily = replace(DESK, window=WindowKind.DAY)
    assert cross(known, watches(daily), spend(ONE, window=WindowKind.DAY), now=LATER) == []
    assert known.of(key_of(window=WindowKind.DAY).identity, "desk") == ()


@pytest.mark.django_db
def test_windows_that_are_over_are_forgotten_an_hour_later() -> None:
    known = Crossings()
    cross(known, watches(), spend(8 * ONE), now=LATER)
    ends = key_of().window.ends
    assert ends is not None
    known.read(now=ends + timedelta(minutes=59))
    assert known.of(key_of().identity, "desk")
    known.read(now=ends + timedelta(minutes=60))
    assert not known.of(key_of().identity, "desk")
    again = Crossings()
    again.read(now=ends + timedelta(minutes=60))
    assert not again.of(key_of().identity, "desk")


@pytest.mark.django_db
def test_what_nobody_noted_is_found(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """A process was killed between booking and noting, or a budget was edited."""
    spend(6 * ONE)
    spend(ONE, scope=Scope(application="helpdesk", user="agent-17"))
    spend(3 * ONE, scope=Scope(application="helpdesk", user="agent-18"))
    by_user = replace(DESK, identifier="by-user", scope=Scope(application="helpdesk", user=EACH), limit=2 * ONE)
    other = replace(DESK, identifier="euros", currency="EUR")
    known = Crossings()
    with django_assert_num_queries(3):
        found = look([DESK, by_user, other, replace(DESK, identifier="quiet", alerts=())], known, now=LATER)
    assert sorted((each.budget, each.threshold) for each in found) == [
        ("by-user", 50), ("by-user", 50), ("by-user", 80), ("by-user", 100), ("desk", 50),
    ]  # fmt: skip
    with django_assert_num_queries(1):
        assert look([DESK, by_user], known, now=LATER) == []
    with django_assert_num_queries(0):
        assert look([replace(DESK, alerts=())], known, now=LATER) == []


@pytest.mark.django_db
@pytest.mark.parametrize("dollars", [1, 3, 1_000_000])
def test_amounts_of_every_size_are_found(dollars: int) -> None:
    """Three dollars are more nano-units than a short integer holds."""
    limit = dollars * ONE
    spend(limit)
    (found,) = look([replace(DESK, limit=limit, alerts=(100,))], Crossings(), now=LATER)
    assert (found.threshold, found.spent) == (100, limit)


@pytest.mark.django_db
def test_a_limit_of_nothing_is_used_up_by_whatever_was_spent() -> None:
    spend(1)
    assert [each.threshold for each in look([replace(DESK, limit=0)], Crossings(), now=LATER)] == [50, 80, 100]


@pytest.mark.django_db
def test_crossings_are_neither_changed_nor_removed() -> None:
    cross(Crossings(), watches(), spend(5 * ONE), now=LATER)
    row = Crossing.objects.get()
    for change in (row.save, row.delete, Crossing.objects.all().delete, lambda: Crossing.objects.update(spent=0)):
        with pytest.raises(EntryError):
            change()


@pytest.fixture
def unwritable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    asked: list[Any] = []

    def fail(rows: Any) -> None:
        asked.append(rows)
        raise OperationalError

    with monkeypatch.context() as patch:
        patch.setattr(crossings, "record", fail)
        yield asked


def test_what_could_not_be_recorded_is_found_again(unwritable: list[Any]) -> None:
    known = Crossings()
    standing = {key_of().identity: Spending(5 * ONE, 0)}
    for _ in range(2):
        with pytest.raises(OperationalError):
            cross(known, watches(), standing, now=LATER)
    assert len(unwritable) == 2
