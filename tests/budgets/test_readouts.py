"""How budgets stand, and when they will be used up."""

from dataclasses import replace
from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from budgets.ledger import settle
from budgets.models import Account
from budgets.readouts import reached_at, standings
from budgets.scopes import EACH, BudgetSpec, Scope
from budgets.windows import ALL_TIME, WindowKind, window_at
from routing.core.money import Money
from tests.budgets.claims import LATER, NOW, ONE, claim, hold, key_of

DESK = BudgetSpec("desk", Scope(application="helpdesk"), "USD", 10 * ONE, zone="Europe/Berlin")
MONTH = window_at(WindowKind.MONTH, zone="UTC", moment=NOW)
BEGAN = NOW - timedelta(days=10)


@pytest.mark.django_db
def test_a_budget_in_its_account(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    settle(attempt=hold(claim(amount=3 * ONE)), cost=Money(2 * ONE, "USD"), now=LATER)
    settle(attempt=hold(claim(amount=ONE)), cost=None, now=LATER)
    hold(claim(amount=ONE // 2))
    hold(claim(key_of(currency="EUR")), claim(key_of(window=WindowKind.DAY)), claim(key_of(Scope())))
    with django_assert_num_queries(1):
        (found,) = standings([DESK], now=NOW)["desk"]
    assert (found.spent, found.reserved, found.uncertain, found.left) == (2 * ONE, ONE // 2, ONE, 6 * ONE + ONE // 2)
    assert [found.percent(part) for part in (found.spent, found.reserved, found.uncertain)] == [20, 5, 10]
    assert (found.scope, found.window.identity) == (DESK.scope, "month 2026-11 Europe/Berlin")


@pytest.mark.django_db
def test_one_that_nobody_has_used_stands_too() -> None:
    (found,) = standings([DESK], now=NOW)["desk"]
    assert (found.pk, found.spent, found.left, found.reached_at, found.counts_from) == (None, 0, 10 * ONE, None, None)


@pytest.mark.django_db
def test_each_on_its_own_the_fullest_first() -> None:
    people = replace(DESK, identifier="people", scope=Scope(application="helpdesk", user=EACH))
    assert standings([people], now=NOW)["people"] == ()
    for user, amount in (("agent-17", ONE), ("agent-18", 2 * ONE), ("", 3)):
        hold(claim(key_of(Scope(application="helpdesk", user=user)), amount=amount))
    hold(claim(key_of(Scope(application="web-shop", user="agent-19"))))
    hold(claim())
    found = standings([people, DESK], now=NOW)
    assert [each.scope.user for each in found["people"]] == ["agent-18", "agent-17", ""]
    assert [each.scope.user for each in found["desk"]] == [None]


@pytest.mark.django_db
def test_however_many_there_are_the_fullest_are_read_and_no_others(
    django_assert_num_queries: DjangoAssertNumQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One account for each of many users, in three budgets that count by user and one that does not."""
    by_user = replace(DESK, scope=Scope(application="helpdesk", user=EACH))
    budgets = [
        replace(by_user, identifier="hard"),
        replace(by_user, identifier="soft", is_hard=False, limit=ONE),
        replace(DESK, identifier="all", scope=Scope(application=EACH, user=EACH)),
        DESK,
    ]
    for number in range(30):
        hold(claim(key_of(Scope(application="helpdesk", user=f"agent-{number}")), amount=ONE + number))
        hold(claim(key_of(Scope(application="web-shop", user=f"agent-{number}")), amount=2 * ONE + number))
        hold(claim(key_of(Scope(user=f"agent-{number}")), amount=3 * ONE))
        hold(claim(key_of(Scope(application="helpdesk", user=f"agent-{number}"), currency="EUR"), amount=3 * ONE))
    hold(claim(amount=ONE))
    read: list[int] = []
    original = Account.from_db.__func__  # type: ignore[attr-defined]  # it is bound to the class

    def counted(cls: type[Account], db: object, names: object, values: object) -> Account:
        read.append(1)
        row: Account = original(cls, db, names, values)
        return row

    monkeypatch.setattr(Account, "from_db", classmethod(counted))
    with django_assert_num_queries(2):
        found = standings(budgets, now=NOW, most=5)
    assert len(read) == 3 * 5 + 1
    fullest = [f"agent-{number}" for number in (29, 28, 27, 26, 25)]
    for name in ("hard", "soft", "all"):
        assert [each.scope.user for each in found[name]] == fullest
    assert {each.scope.application for each in found["all"]} == {"web-shop"}
    assert [each.left for each in found["soft"]] == [-29, -28, -27, -26, -25]
    assert [each.spent + each.reserved for each in found["desk"]] == [ONE]
    with django_assert_num_queries(0):
        assert standings([], now=NOW) == {}


@pytest.mark.django_db
def test_words_of_a_query_within_a_name_are_a_name() -> None:
    """An application may be called anything: what looks like a place in a statement, or like its end."""
    for name in ("50%", "%s", "it's", 'say "hi"', ""):
        hold(claim(key_of(Scope(application=name, user="agent-17"))))
        budget = replace(DESK, identifier="odd", scope=Scope(application=name, user=EACH))
        assert [each.scope.user for each in standings([budget], now=NOW)["odd"]] == ["agent-17"]


@pytest.mark.parametrize(("used", "days"), [(0, None), (2 * ONE, None), (5 * ONE, 10), (10 * ONE, 0), (12 * ONE, 0)])
def test_the_day_a_limit_is_reached(used: int, days: int | None) -> None:
    """Two units in ten days leave eight for forty days, which are not in this window any more."""
    window = replace(MONTH, ends=NOW + timedelta(days=20))
    expected = None if days is None else NOW + timedelta(days=days)
    assert reached_at(used=used, limit=10 * ONE, since=BEGAN, window=window, now=NOW) == expected


def test_of_less_than_an_hour_nothing_is_concluded() -> None:
    since = NOW - timedelta(minutes=59)
    assert reached_at(used=ONE, limit=10 * ONE, since=since, window=ALL_TIME, now=NOW) is None
    since -= timedelta(minutes=1)
    assert reached_at(used=ONE, limit=10 * ONE, since=since, window=ALL_TIME, now=NOW) == NOW + timedelta(hours=9)
