"""``manage.py prune_ledger``, and the task that does the same."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from budgets.ledger import settle
from budgets.models import Entry
from budgets.proof import check
from budgets.windows import WindowKind
from governance.audit.actions import Author, Channel
from governance.changes.settings import store_setting
from governance.tasks import prune_ledger
from routing.core.money import Money
from tests.budgets.claims import claim, hold, key_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def entries() -> None:
    """Of all time, booked a hundred days ago."""
    at = datetime.now(UTC) - timedelta(days=100)
    settle(attempt=hold(claim(key_of(window=WindowKind.TOTAL)), now=at), cost=Money(5, "USD"), now=at)


def told(*arguments: str) -> str:
    out = StringIO()
    call_command("prune_ledger", *arguments, stdout=out)
    return out.getvalue()


def test_it_goes_by_the_setting() -> None:
    assert told() == "0 entries of 0 accounts carried over.\n"
    prune_ledger()
    assert Entry.objects.count() == 2
    store_setting("budgets.entryDays", 99, author=Author("a test", Channel.COMMAND))
    prune_ledger()
    assert Entry.objects.count() == 0
    verdict = check()
    assert (verdict.flaws, verdict.entries, verdict.carried) == ((), 0, 2)


def test_or_by_what_is_said_this_once() -> None:
    assert told("--days", "90") == "2 entries of 1 accounts carried over.\n"


@pytest.mark.parametrize("days", ["0", "6", "-1"])
def test_too_little_is_refused(days: str) -> None:
    with pytest.raises(CommandError, match="--days: a whole number from 7 to 36500 is needed"):
        told("--days", days)
