"""The ledger beside the reports: what agrees, what differs and why."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from pytest_django import DjangoAssertNumQueries

from budgets import ledger
from budgets.ledger import Claim, reserve, settle
from budgets.models import Account
from budgets.scopes import AccountKey, Scope
from budgets.windows import WindowKind, window_at
from governance.reconciliation import Difference, Reconciliation, reconcile
from routing.core.money import Money
from telemetry.models import UsageDay, UsageHour
from telemetry.usage import add_usage
from tests.factories import BudgetFactory
from tests.telemetry.records import record

pytestmark = pytest.mark.django_db

ONE = 1_000_000_000
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
KEY = "5f0c7c0e-9b7e-4a44-a1bd-0f6f3a7b9d21"
DESK = Scope(application="helpdesk")


def account(
    scope: Scope = DESK, *, window: WindowKind = WindowKind.MONTH, zone: str = "UTC", currency: str = "USD"
) -> AccountKey:
    return AccountKey(scope, currency, window_at(window, zone=zone, moment=NOW))


def attempt(
    *accounts: AccountKey,
    at: datetime = BEGAN,
    amount: int = 3 * ONE,
    cost: int | None = None,
    later: int | None = None,
) -> None:
    """Reserve in accounts; settle at a cost; or say later what it was, when it was uncertain."""
    attempt = uuid4()
    claims = [Claim(budget="desk", account=each, amount=amount, limit=None) for each in accounts or [account()]]
    reserve(attempt=attempt, call=uuid4(), claims=claims, now=at, expires_at=at + timedelta(minutes=5))
    if cost is not None:
        settle(attempt=attempt, cost=Money(cost, "USD"), now=at)
    if later is not None:
        settle(attempt=attempt, cost=None, now=at)
        settle(attempt=attempt, cost=Money(later, "USD"), now=at + timedelta(days=1))


def used(cost: int, *, at: datetime = NOW - timedelta(days=3), **columns: Any) -> None:
    add_usage([record(started_at=at, cost_nanos=cost, **columns)])


def budget(*, at: datetime, **columns: Any) -> None:
    """A budget of the help desk that was last changed at a moment."""
    with patch("django.utils.timezone.now", return_value=at):
        BudgetFactory.create(**{"zone": "UTC", **columns})


def only(found: Reconciliation) -> Difference:
    (difference,) = found.differences
    return difference


@pytest.mark.parametrize(
    "key",
    [
        account(),
        account(zone="Europe/Berlin"),
        account(Scope()),
        account(window=WindowKind.TOTAL),
        account(Scope(user="agent-17", provider="prod-east")),
        account(
            Scope(application="helpdesk", configuration="support-chat", key="5f0c7c0e-9b7e-4a44-a1bd-0f6f3a7b9d21")
        ),
    ],
    ids=lambda key: f"{key.window.identity}-{'-'.join(key.scope.document)}",
)
def test_reports_filtered_by_scope_and_window_are_what_was_settled(key: AccountKey) -> None:
    """Beside what is of others, of another currency, and of before and after."""
    attempt(key, cost=2 * ONE)
    used(2 * ONE)
    if key.scope.document:
        used(ONE, application="web-shop", key="another", user="agent-18")
    used(ONE, cost_currency="EUR")
    if key.window.starts is not None and key.window.ends is not None:
        used(ONE, at=key.window.starts - timedelta(seconds=1))
        used(ONE, at=key.window.ends)
    assert reconcile(now=NOW) == Reconciliation(agreeing=1, untold=0, differences=())


def test_it_costs_the_same_however_many_accounts_there_are(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    def add(numbers: range) -> None:
        for number in numbers:
            attempt(account(Scope(user=f"agent-{number}")), account(), cost=ONE)
            used(ONE, user=f"agent-{number}")

    for numbers in (range(2), range(2, 20)):
        add(numbers)
        with django_assert_num_queries(4):  # budgets, accounts, and usage of the application and by user
            found = reconcile(now=NOW)
        assert (found.agreeing, found.differences) == (numbers.stop + 1, ())


def test_what_is_held_may_be_in_the_reports_already() -> None:
    attempt(cost=None)
    attempt(cost=ONE)
    used(3 * ONE)
    found = only(reconcile(now=NOW))
    assert str(found) == (
        f"account {Account.objects.get().pk} (application helpdesk; month 2026-11 UTC): settled 1 USD, reported 3: "
        "3 is held, reserved or uncertain"
    )
    assert found.is_explained
    used(ONE + 1)
    assert "held" not in only(reconcile(now=NOW)).reason


def test_what_somebody_said_afterwards_is_in_no_report() -> None:
    attempt(later=2 * ONE)
    found = only(reconcile(now=NOW))
    assert (found.settled, found.reported, found.is_explained) == (2 * ONE, 0, True)
    assert found.reason == "2 was uncertain before, and booked after its call had ended"


def test_what_was_settled_just_now_may_not_be_in_the_reports_yet() -> None:
    attempt(cost=ONE)
    used(ONE)
    attempt(at=NOW - timedelta(minutes=59), cost=2 * ONE)
    found = only(reconcile(now=NOW))
    assert (found.settled, found.reported, found.is_explained) == (3 * ONE, ONE, True)
    assert found.reason == "2 is of the last hour, of calls that may be under way"
    lost = only(reconcile(now=NOW + timedelta(minutes=2)))
    assert (lost.reason, lost.is_explained) == (
        "calls are missing in usage: a process ended before it wrote them down", False,
    )  # fmt: skip


@pytest.mark.parametrize("window", [WindowKind.MONTH, WindowKind.TOTAL])
def test_counting_that_began_within_the_window(window: WindowKind) -> None:
    """What was used before is in the reports; what was used since must be right all the same."""
    opened = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
    used(5 * ONE, at=opened - timedelta(days=1))
    attempt(account(window=window), at=opened, cost=ONE)
    used(ONE, at=datetime(2026, 11, 22, tzinfo=UTC))
    found = only(reconcile(now=NOW))
    assert (found.settled, found.reported, found.is_explained) == (ONE, 6 * ONE, True)
    assert found.reason == "counting began within the window, at 2026-11-20 09:30 UTC"
    budget(at=NOW, window=window.value)
    Account.objects.update(opened_at=BEGAN + timedelta(seconds=1))
    found = only(reconcile(now=NOW))
    assert "may not have counted before" in found.reason


def without_a_budget() -> None:
    """Nobody counts there any more."""


def with_one_that_was_changed() -> None:
    budget(at=NOW)


def with_one_that_stands() -> None:
    budget(at=BEGAN - timedelta(days=1))


@pytest.mark.parametrize(
    ("budgets", "reason", "is_explained"),
    [
        (without_a_budget, "no budget counts there any more", True),
        (with_one_that_was_changed, "a budget was changed at ", True),
        (with_one_that_stands, "calls were not booked: ", False),
    ],
)
def test_calls_that_were_not_counted(budgets: Callable[[], None], reason: str, is_explained: bool) -> None:
    attempt(at=BEGAN, cost=ONE)
    used(2 * ONE)
    budgets()
    found = only(reconcile(now=NOW))
    assert found.reason.startswith(reason)
    assert found.is_explained is is_explained


@pytest.mark.parametrize(
    ("key", "now"),
    [
        (account(zone="Asia/Kolkata"), NOW),
        (account(zone="Europe/Berlin"), NOW + timedelta(days=120)),
    ],
    ids=["half an hour beside UTC", "hours are not kept any more"],
)
def test_windows_that_usage_cannot_tell_of(key: AccountKey, now: datetime) -> None:
    attempt(key, cost=ONE)
    assert reconcile(now=now) == Reconciliation(agreeing=0, untold=1, differences=())


def test_released_and_unmeasured_attempts_are_no_difference() -> None:
    attempt(cost=ONE)
    used(ONE)
    free, unmeasured = uuid4(), uuid4()
    for each, amount in ((free, ONE), (unmeasured, None)):
        claims = [Claim(budget="desk", account=account(), amount=amount, limit=None)]
        reserve(attempt=each, call=uuid4(), claims=claims, now=BEGAN, expires_at=NOW)
    ledger.release(attempt=free, now=BEGAN)
    settle(attempt=unmeasured, cost=Money(5, "EUR"), now=BEGAN)
    used(5, cost_currency="EUR")
    assert reconcile(now=NOW).differences == ()


def test_days_and_hours_are_the_same_usage() -> None:
    used(ONE)
    assert UsageDay.objects.get().cost_nanos == UsageHour.objects.get().cost_nanos == ONE
