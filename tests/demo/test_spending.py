"""What the demo's past has cost stands in the ledger, call by call, and is booked once."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Sum

from budgets.models import Account, Entry
from budgets.proof import check
from budgets.readouts import standings
from governance.access.budgets import spec_of
from governance.changes.records import retire
from governance.demo import cast
from governance.demo.seed import seed
from governance.demo.spending import book_past
from governance.models import Budget
from routing.core.money import NANOS
from routing.vault import Vault
from telemetry.models import Call
from tests.authors import SOMEBODY

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 27, 15, 20, tzinfo=UTC)  # a Friday
VAULT = Vault([("k1", bytes(32))])


def start(now: datetime = NOW) -> int:
    """The demo is started; gives how many calls were booked."""
    seed(now=now, simulator="http://127.0.0.1:8900", vault=VAULT, length=timedelta(hours=30))
    return book_past(now=now)


def cost_of(application: str, *, since: datetime) -> int:
    calls = Call.objects.filter(application=application, started_at__gte=since).order_by()
    return int(calls.aggregate(cost=Sum("actual_cost_nanos"))["cost"] or 0)


def test_the_budgets_are_the_casts() -> None:
    start()
    assert {row.identifier: row.source for row in Budget.objects.all()} == {
        each.spec.identifier: cast.SOURCE for each in cast.BUDGETS
    }
    for each in cast.BUDGETS:
        found = spec_of(Budget.objects.get(identifier=each.spec.identifier))
        assert (found.scope, found.alerts) == (each.spec.scope, each.spec.alerts)
        assert (found.tiers, found.enforces_targets) == (each.spec.tiers, each.spec.enforces_targets)
        assert found.limit == each.spec.limit or each.spent_percent is not None


def test_each_stands_where_its_calls_have_brought_it() -> None:
    start()
    found = standings([spec_of(row) for row in Budget.objects.all()], now=NOW)
    (mine,) = found["your-day"]
    assert (mine.spent, mine.left) == (0, NANOS)
    (pilot,) = found["review-pilot"]
    assert pilot.spent == cost_of("dev-tools", since=NOW - timedelta(hours=30))
    assert 93 <= pilot.percent(pilot.spent) <= 96
    today = {each.scope.application: each.spent for each in found["each-application"]}
    midnight = NOW.replace(hour=0, minute=0)
    assert set(today) == {"help-desk", "dev-tools", "back-office", "media-shelf"}
    assert today == {name: cost_of(str(name), since=midnight) for name in today}
    assert list(check().flaws) == []


def test_an_entry_leads_to_its_call_and_is_of_its_time() -> None:
    start()
    entry = Entry.objects.filter(kind="settled", account__scope__application="help-desk").order_by("pk")[0]
    call = Call.objects.get(pk=entry.call)
    assert (entry.spent, entry.at) == (
        call.actual_cost_nanos,
        call.started_at + timedelta(milliseconds=call.latency_ms),
    )
    assert Account.objects.get(pk=entry.account_id).opened_at <= call.started_at


def test_starting_again_books_what_has_come_since_and_nothing_twice() -> None:
    assert start() > 100
    assert start() == 0
    before = Entry.objects.count()
    added = start(NOW + timedelta(hours=2))
    assert added > 5
    assert Entry.objects.count() >= before + 2 * added
    assert list(check().flaws) == []


def test_a_budget_that_somebody_has_retired_is_left_alone() -> None:
    start()
    retire(Budget.objects.get(identifier="each-application"), author=SOMEBODY)
    before = Entry.objects.filter(account__scope__application="media-shelf").count()
    start(NOW + timedelta(hours=2))
    assert Entry.objects.filter(account__scope__application="media-shelf").count() == before
    assert Budget.objects.get(identifier="each-application").retired_at is not None
