"""Call history: what calls of the last seven days took and cost, by serving adapter type, model id and operation.

The population is what a model answered itself: a rescued call measures its rescuer, a cache hit the cache. A cost
counts only where the provider reported usage exactly, and only in the currency in which money is compared.
"""

from datetime import datetime, timedelta

from django.db.models import Avg, Count, Q, Sum

from routing.core.calls import Coverage
from routing.core.money import Money, round_half_up
from routing.core.signals import HistoryFigure, HistoryKey
from routing.core.vocabulary import Operation
from telemetry.models import Call

WINDOW = timedelta(days=7)

_OPERATIONS = frozenset(Operation)


def read_history(*, now: datetime, currency: str) -> dict[HistoryKey, HistoryFigure]:
    """History by key: one GROUP BY over the window."""
    priced = Q(usage_coverage=Coverage.EXACT.value, actual_cost_nanos__isnull=False, cost_currency=currency)
    rows = (
        Call.objects.since(now - WINDOW)
        .filter(started_at__lte=now)
        .self_served()
        .order_by()
        .values_list("served_adapter_type", "served_model_id", "operation")
        .annotate(
            calls=Count("started_at"),
            mean_latency_ms=Avg("latency_ms"),
            priced_calls=Count("started_at", filter=priced),
            cost=Sum("actual_cost_nanos", filter=priced),
        )
    )
    history: dict[HistoryKey, HistoryFigure] = {}
    for adapter_type, model_id, operation, calls, latency, priced_calls, cost in rows:
        if operation not in _OPERATIONS:
            continue  # written by a version that knew more operations
        mean = Money(round_half_up(int(cost), priced_calls), currency) if priced_calls else None
        history[HistoryKey(adapter_type, model_id, Operation(operation))] = HistoryFigure(
            calls=calls, mean_latency_ms=latency, priced_calls=priced_calls, mean_cost=mean
        )
    return history
