"""Books what the calls of the demo's past have cost under its budgets, through the ledger as every call does.

Call by call, so that an account's entries lead to calls. A call that is booked already stays as it is, whether it was
booked here or when it was made; so a start that was broken off is taken up by the next one.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from uuid import uuid5

from budgets import ledger
from budgets.ledger import Claim
from budgets.models import Entry
from budgets.scopes import BudgetSpec, Subject
from budgets.windows import window_at
from governance.access.budgets import spec_of
from governance.demo.cast import SOURCE
from governance.models import Budget
from routing.core.money import Money
from telemetry.models import Call

_AT_ONCE = 500


def book_past(*, now: datetime) -> int:
    """Book the calls of the windows that ``now`` is in; gives how many were. Not within a transaction."""
    rows = Budget.objects.filter(source=SOURCE, is_active=True, retired_at=None)
    budgets = [spec_of(row) for row in rows]
    return sum(_book(call, budgets, now=now) for call in _unbooked(budgets, now=now))


def _unbooked(budgets: Sequence[BudgetSpec], *, now: datetime) -> Iterator[Call]:
    """Calls that cost something and have no entry, oldest first."""
    starts = [window_at(each.window, zone=each.zone, moment=now).starts for each in budgets]
    calls = Call.objects.filter(source=SOURCE, actual_cost_nanos__gt=0, started_at__lte=now).order_by("started_at")
    since = [each for each in starts if each is not None]
    if len(since) == len(starts) and since:
        calls = calls.filter(started_at__gte=min(since))
    rows = calls.iterator(_AT_ONCE)
    while batch := list(islice(rows, _AT_ONCE)):
        booked = set(Entry.objects.filter(call__in=[call.pk for call in batch]).values_list("call", flat=True))
        yield from (call for call in batch if call.pk not in booked)


def _book(call: Call, budgets: Sequence[BudgetSpec], *, now: datetime) -> bool:
    """Reserve what the call has cost, and settle it. The past is told and not admitted: no limit binds it."""
    subject = Subject(
        application=call.application,
        key=call.key,
        user=call.user,
        configuration=call.served_configuration,
        provider=call.served_provider,
    )
    cost = Money(call.actual_cost_nanos or 0, call.cost_currency)
    claims = [
        Claim(
            budget=budget.identifier,
            account=budget.account_of(subject, moment=call.started_at),
            amount=cost.nanos,
            limit=None,
        )
        for budget in budgets
        if budget.currency == cost.currency
        and budget.scope.holds(subject)
        and window_at(budget.window, zone=budget.zone, moment=now).holds(call.started_at)
    ]
    if not claims:
        return False
    attempt, ended = uuid5(call.pk, SOURCE), call.started_at + timedelta(milliseconds=call.latency_ms)
    ledger.reserve(attempt=attempt, call=call.pk, claims=claims, now=call.started_at, expires_at=ended)
    ledger.settle(attempt=attempt, cost=cost, now=ended)
    return True
