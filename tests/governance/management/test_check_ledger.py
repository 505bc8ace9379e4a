"""``manage.py check_ledger``."""

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from unittest.mock import patch

import pytest
from django.core.management import CommandError, call_command

from budgets.ledger import release, settle
from budgets.models import Account
from budgets.retention import carry_over
from routing.core.money import Money
from tests.budgets.claims import LATER, NOW, ONE, hold

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def two_hours_later() -> Iterator[None]:
    """When no call is under way any more."""
    with patch("governance.management.commands.check_ledger.datetime") as clock:
        clock.now.return_value = LATER + timedelta(hours=2)
        yield


def test_a_ledger_that_adds_up() -> None:
    hold()
    told = StringIO()
    call_command("check_ledger", stdout=told)
    assert told.getvalue() == ("The ledger adds up: 1 accounts, 1 entries.\n1 accounts settled what is reported.\n")


def test_differences_with_a_reason_are_told() -> None:
    attempt = hold()
    settle(attempt=attempt, cost=None, now=LATER)
    settle(attempt=attempt, cost=Money(ONE // 2, "USD"), now=LATER)
    told = StringIO()
    call_command("check_ledger", stdout=told)
    assert told.getvalue().splitlines()[1:] == [
        "0 accounts settled what is reported; otherwise, with a reason:",
        f"  account {Account.objects.get().pk} (application helpdesk; month 2026-11 Europe/Berlin): settled 0.5 USD, "
        "reported 0: 0.5 was uncertain before, and booked after its call had ended",
    ]


def test_reports_that_say_something_else_fail_the_command() -> None:
    settle(attempt=hold(), cost=Money(ONE // 2, "USD"), now=LATER)
    with pytest.raises(CommandError, match=r"settled 0.5 USD, reported 0: calls are missing in usage"):
        call_command("check_ledger")


def test_what_was_carried_over_is_counted() -> None:
    release(attempt=hold(), now=NOW)
    carry_over(before=NOW + timedelta(days=30))
    told = StringIO()
    call_command("check_ledger", stdout=told)
    assert told.getvalue().startswith("The ledger adds up: 1 accounts, 0 entries, 2 carried over.\n")


def test_a_balance_that_is_not_the_sum_of_its_entries_fails_the_command() -> None:
    hold()
    Account.objects.update(spent=3)
    with pytest.raises(CommandError, match=r"account \d+: spent is 3, and its entries sum up to 0"):
        call_command("check_ledger")
