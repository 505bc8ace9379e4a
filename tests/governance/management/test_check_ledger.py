"""``manage.py check_ledger``."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from budgets.models import Account
from tests.budgets.claims import hold

pytestmark = pytest.mark.django_db


def test_a_ledger_that_adds_up() -> None:
    hold()
    told = StringIO()
    call_command("check_ledger", stdout=told)
    assert told.getvalue() == "The ledger adds up: 1 accounts, 1 entries.\n"


def test_a_balance_that_is_not_the_sum_of_its_entries_fails_the_command() -> None:
    hold()
    Account.objects.update(spent=3)
    with pytest.raises(CommandError, match=r"account \d+: spent is 3, and its entries sum up to 0"):
        call_command("check_ledger")
