"""``manage.py prune_ledger``, and the task that does the same."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from budgets.ledger import settle
from budgets.models import Crossing, Entry
from budgets.proof import check
from budgets.windows import WindowKind
from governance.audit.actions import Author, Channel
from governance.changes.settings import store_setting
from governance.models import AlertDelivery
from governance.tasks import prune_ledger
from routing.core.money import Money
from tests.budgets.claims import claim, hold, key_of
from tests.governance.alerts.rows import crossing, delivery, webhook

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
    assert told() == "0 entries of 0 accounts carried over; 0 accounts and 0 deliveries of alerts removed.\n"
    prune_ledger()
    assert Entry.objects.count() == 2
    store_setting("budgets.entryDays", 99, author=Author("a test", Channel.COMMAND))
    prune_ledger()
    assert Entry.objects.count() == 0
    verdict = check()
    assert (verdict.flaws, verdict.entries, verdict.carried) == ((), 0, 2)


def test_or_by_what_is_said_this_once() -> None:
    assert told("--days", "90").startswith("2 entries of 1 accounts carried over; ")


@pytest.mark.parametrize("days", ["0", "6", "-1"])
def test_too_little_is_refused(days: str) -> None:
    with pytest.raises(CommandError, match="--days: a whole number from 7 to 36500 is needed"):
        told("--days", days)


def test_alerts_go_with_their_account_and_what_was_told_with_them() -> None:
    """Three years and more ago; what was told of them was kept for longer than they are."""
    at = datetime.now(UTC) - timedelta(days=1200)
    store_setting("budgets.deliveryDays", 36_500, author=Author("a test", Channel.COMMAND))
    pager, day = webhook(), key_of(moment=at, window=WindowKind.DAY)
    gone, kept = crossing("old", key=day, at=at), crossing("young")
    for row in (gone, kept):
        AlertDelivery(webhook=pager, crossing=row.pk, payload="{}", created_at=row.at, due_at=None).save()
    assert told().endswith("; 1 accounts and 1 deliveries of alerts removed.\n")
    assert [each.crossing for each in AlertDelivery.objects.all()] == [kept.pk]
    assert list(Crossing.objects.all()) == [kept]
    assert check().flaws == ()


def test_what_was_told_goes_sooner_also_what_still_waits() -> None:
    row = delivery()
    for days, left in ((89, 1), (91, 0)):
        AlertDelivery.objects.update(created_at=datetime.now(UTC) - timedelta(days=days))
        prune_ledger()
        assert AlertDelivery.objects.count() == left
    assert [each.pk for each in Crossing.objects.all()] == [row.crossing]
