"""Calls that a budget has refused are noted once in an account, if the refusal lasts."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import IntegrityError, OperationalError
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from budgets import refusals
from budgets.crossings import Crossings, crossed_in
from budgets.ledger import OverBudget, settle
from budgets.models import Account, Crossing
from budgets.refusals import Refusals, lasting_refusal
from budgets.statements import Balance
from budgets.windows import WindowKind
from routing.core.money import Money
from tests.budgets.claims import LATER, NOW, ONE, claim, hold, key_of

AMOUNTS = st.integers(0, 20 * ONE)


def refused(*, budget: str = "desk", window: WindowKind = WindowKind.MONTH, needed: int | None = ONE) -> OverBudget:
    """A call that asks for one where half of one is left, of ten."""
    account = key_of(window=window)
    if not Account.objects.filter(identity=account.identity).exists():
        settle(attempt=hold(claim(account, amount=9 * ONE)), cost=Money(9 * ONE + ONE // 2, "USD"), now=LATER)
    with pytest.raises(OverBudget) as caught:
        hold(claim(account, amount=needed, limit=9 * ONE + ONE // 2 if needed is None else 10 * ONE, budget=budget))
    return caught.value


@given(AMOUNTS, AMOUNTS, AMOUNTS, st.none() | st.integers(1, 20 * ONE), AMOUNTS)
def test_a_refusal_lasts_if_nothing_that_is_reserved_had_to_come_back(
    spent: int, reserved: int, uncertain: int, needed: int | None, limit: int
) -> None:
    balance = Balance(spent=spent, reserved=reserved, uncertain=uncertain)
    asked = claim(amount=needed, limit=limit)
    lasting = lasting_refusal(OverBudget(asked, balance), now=NOW)
    least = 1 if needed is None else needed
    assert (lasting is not None) == (spent + uncertain + least > limit)
    assert lasting_refusal(OverBudget(asked, replace(balance, reserved=0)), now=NOW) == lasting


@pytest.mark.django_db
def test_it_is_noted_once_with_its_figures(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    known, word = Refusals(), refused()
    with django_assert_num_queries(2):
        known.note(known.take([word], now=LATER))
    with django_assert_num_queries(0):
        assert known.take([word, word], now=LATER) == []
    row = Crossing.objects.get()
    assert (row.budget, row.threshold, row.limit, row.spent, row.uncertain, row.needed, row.at) == (
        "desk", None, 10 * ONE, 9 * ONE + ONE // 2, 0, ONE, LATER,
    )  # fmt: skip
    assert (row.account.identity, str(row)) == (key_of().identity, "desk refuses calls")


@pytest.mark.django_db
def test_nobody_knows_what_it_could_have_cost() -> None:
    (taken,) = Refusals().take([refused(needed=None)], now=LATER)
    assert taken.needed is None


@pytest.mark.django_db
def test_another_budget_and_another_window_are_told_of_again_and_what_is_over_is_forgotten() -> None:
    known = Refusals()
    words = [refused(), refused(budget="by-agent"), refused(window=WindowKind.DAY)]
    known.note(known.take(words, now=LATER))
    assert Crossing.objects.count() == 3
    tomorrow = refused(window=WindowKind.TOTAL)
    assert len(known.take([tomorrow], now=NOW + timedelta(days=2))) == 1
    assert list(known._noted.values()) == [None], "the month and the day had ended"


@pytest.mark.django_db
def test_of_two_processes_the_first_one_is_recorded() -> None:
    word = refused()
    for seconds in (0, 1):
        other = Refusals()
        other.note(other.take([word], now=LATER + timedelta(seconds=seconds)))
    assert Crossing.objects.get().at == LATER


@pytest.mark.django_db
def test_what_cannot_be_recorded_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known, word = Refusals(), refused()

    def fail(rows: object) -> None:
        raise OperationalError

    with monkeypatch.context() as patch:
        patch.setattr(refusals, "record", fail)
        with pytest.raises(OperationalError):
            known.note(known.take([word], now=LATER))
    known.note(known.take([word], now=LATER))
    assert Crossing.objects.count() == 1


@pytest.mark.django_db
def test_it_is_no_threshold() -> None:
    """Tiers go by thresholds, and sort them."""
    known, thresholds = Refusals(), Crossings()
    known.note(known.take([refused()], now=LATER))
    thresholds.read(now=LATER)
    assert thresholds.of(key_of().identity, "desk") == ()
    assert crossed_in([Account.objects.get().pk]) == {}


@pytest.mark.django_db
def test_an_account_has_one_of_each_budget() -> None:
    known = Refusals()
    known.note(known.take([refused()], now=LATER))
    row = Crossing.objects.get()
    with pytest.raises(IntegrityError):
        Crossing(account=row.account, budget="desk", limit=ONE, spent=ONE, uncertain=0, at=LATER).save()
