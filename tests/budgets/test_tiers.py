"""Which tier is in force: the highest that was crossed, for the whole window, whatever is edited afterwards."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets import crossings
from budgets.crossings import Crossings, Spending, percent_of, watches_of
from budgets.scopes import EACH, BudgetBook, BudgetSpec, Scope, Subject, Tier
from budgets.tiers import tiers_for
from routing.core.tiers import BudgetTier
from tests.budgets.claims import NOW, ONE, cross

WHO = Subject(application="helpdesk", key="key-1", user="agent-17", configuration="assistant", provider="")
LADDER = (Tier(50, ("mid", "other")), Tier(80, ("small",)))
DESK = BudgetSpec("desk", Scope(application="helpdesk"), "USD", 10 * ONE, tiers=LADDER)


@pytest.fixture(autouse=True)
def unrecorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossings, "record", lambda fresh: None)


def known(*spent: int, budget: BudgetSpec = DESK, subject: Subject = WHO) -> Crossings:
    """What a process knows after an account stood at these amounts, one after the other."""
    noted = Crossings()
    noted.is_read = True
    for amount in spent:
        note(noted, amount, budget=budget, subject=subject)
    return noted


def note(noted: Crossings, amount: int, *, budget: BudgetSpec = DESK, subject: Subject = WHO) -> None:
    (watch,) = watches_of([budget], subject, began=NOW, now=NOW)
    cross(noted, [watch], {watch.account.identity: Spending(amount, 0)}, now=NOW)


def found(noted: Crossings, *budgets: BudgetSpec, subject: Subject = WHO) -> tuple[BudgetTier, ...]:
    return tiers_for(BudgetBook.of(budgets or [DESK]), [subject], noted, moment=NOW)


def in_force(percents: list[int], ladder: tuple[Tier, ...]) -> int:
    """The place in a ladder of what is in force after an account stood at these per cents; -1 for none."""
    budget = replace(DESK, limit=100, tiers=ladder, enforces_targets=True)
    tiers = found(known(*percents, budget=budget), budget)
    return -1 if not tiers else [each.threshold for each in ladder].index(tiers[0].threshold)


@pytest.mark.parametrize(
    ("thresholds", "percents", "places"),
    [
        ((50, 80), (60, 90), (0, 1)),
        ((50, 80), (10,), (-1,)),
        ((80,), (80,), (0,)),
        ((100,), (99, 100), (-1, 0)),
        ((50, 80), (90, 10), (1, 1)),
    ],
)
def test_a_ladder_is_climbed_and_not_descended(
    thresholds: tuple[int, ...], percents: tuple[int, ...], places: tuple[int, ...]
) -> None:
    ladder = tuple(Tier(each, (f"model-{each}",)) for each in thresholds)
    assert tuple(in_force([*percents[: count + 1]], ladder) for count in range(len(percents))) == places


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 2000)), min_size=1, max_size=20))
def test_the_tier_in_force_is_the_highest_that_was_ever_reached(moments: list[tuple[int, int]]) -> None:
    """Amounts and limits go up and down as they like."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crossings, "record", lambda fresh: None)
        noted, reached = known(), 0
        for spent, limit in moments:
            budget = replace(DESK, limit=limit)
            note(noted, spent, budget=budget)
            reached = max(reached, percent_of(spent, limit=limit))
            expected = [each.threshold for each in LADDER if each.threshold <= reached][-1:]
            assert [each.threshold for each in found(noted, budget)] == expected


def test_a_tier_is_told_with_the_figures_that_crossed_it() -> None:
    assert found(known(6 * ONE)) == (BudgetTier("desk", 50, 60, ("mid", "other"), is_strict=False),)
    assert found(known(6 * ONE, 9 * ONE)) == (BudgetTier("desk", 80, 90, ("small",), is_strict=False),)


def test_a_ladder_that_is_edited_stays_where_its_crossings_are() -> None:
    noted = known(9 * ONE)
    assert found(noted, replace(DESK, tiers=LADDER[:1]))[0].threshold == 50
    assert found(noted, replace(DESK, tiers=(Tier(70, ("new",)),)))[0].targets == ("new",)
    assert found(noted, replace(DESK, tiers=(Tier(85, ("new",)),))) == ()
    assert found(noted, replace(DESK, tiers=())) == ()


def test_a_raised_limit_takes_nothing_back_and_another_window_begins_anew() -> None:
    noted = known(9 * ONE)
    assert found(noted, replace(DESK, limit=1000 * ONE))[0].threshold == 80
    later = tiers_for(BudgetBook.of([DESK]), [WHO], noted, moment=NOW + timedelta(days=1))
    assert later == ()


def test_of_advisory_tiers_the_highest_threshold_counts_and_of_equal_ones_the_first_budget() -> None:
    noted = known(9 * ONE)
    other = replace(DESK, identifier="all", scope=Scope(), tiers=(Tier(60, ("huge",)),))
    note(noted, 9 * ONE, budget=other)
    assert [each.budget for each in found(noted, DESK, other)] == ["desk"]
    equal = replace(other, tiers=(Tier(80, ("huge",)),))
    note(noted, 9 * ONE, budget=equal)
    assert [each.budget for each in found(noted, DESK, equal)] == ["all"]


def test_every_strict_tier_counts_beside_it() -> None:
    noted = known(9 * ONE)
    strict = [
        replace(DESK, identifier=name, scope=scope, enforces_targets=True)
        for name, scope in (("strict-all", Scope()), ("strict-user", Scope(user=EACH)))
    ]
    for each in strict:
        note(noted, 9 * ONE, budget=each)
    assert [(each.budget, each.is_strict) for each in found(noted, DESK, *strict)] == [
        ("desk", False), ("strict-all", True), ("strict-user", True),
    ]  # fmt: skip
    stranger = replace(WHO, user="agent-18")
    assert [each.budget for each in found(noted, DESK, *strict, subject=stranger)] == ["desk", "strict-all"]


def test_a_configuration_falls_back_within_the_tiers_of_both() -> None:
    asked = replace(DESK, identifier="asked", scope=Scope(configuration="assistant"), enforces_targets=True)
    behind = replace(DESK, identifier="behind", scope=Scope(configuration="spare"), enforces_targets=True)
    spare = replace(WHO, configuration="spare")
    noted = known(9 * ONE, budget=asked)
    note(noted, 9 * ONE, budget=behind, subject=spare)
    book = BudgetBook.of([asked, behind])
    assert [each.budget for each in tiers_for(book, [WHO], noted, moment=NOW)] == ["asked"]
    assert [each.budget for each in tiers_for(book, [WHO, spare], noted, moment=NOW)] == ["asked", "behind"]


def test_where_it_was_never_read_strict_tiers_allow_nobody_and_advisory_ones_wish_nothing() -> None:
    strict = replace(DESK, identifier="strict", enforces_targets=True)
    other = replace(strict, identifier="of-another", scope=Scope(application="billing"))
    assert found(Crossings(), DESK, strict, other) == (BudgetTier("strict", 50, None, (), is_strict=True),)


def test_what_may_cost_nothing_is_used_up_from_the_beginning() -> None:
    assert found(Crossings(), replace(DESK, limit=0)) == (BudgetTier("desk", 80, 100, ("small",), is_strict=False),)


def test_tiers_are_watched_with_the_alerts() -> None:
    assert replace(DESK, alerts=(10, 80)).thresholds == (10, 50, 80)
    book = BudgetBook.of([replace(DESK, tiers=(), alerts=(10,))])
    assert (book.has_tiers, book.has_thresholds) == (False, True)
    assert BudgetBook.of([DESK]).has_tiers
