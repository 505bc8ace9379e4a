"""Provider health, read from the calls of the last quarter of an hour.

By adapter type of the first route *sent to*, since a rescued call is a failure of the route it was rescued from.
Faults of the caller, refusals by the model, our own refusals, cache hits and client aborts are no samples.
"""

from datetime import datetime, timedelta

from django.db.models import Avg, Count, Q

from routing.core.signals import HealthFigure
from telemetry.models import Call

WINDOW = timedelta(seconds=900)


def read_health(*, now: datetime) -> dict[str, HealthFigure]:
    """Health by adapter type: one query over the window."""
    answered = Q(first_failure_kind="")
    rows = (
        Call.objects.between(now - WINDOW, now)
        .first_attempts()
        .order_by()
        .values("first_adapter_type")
        .annotate(
            samples=Count("pk"),
            successes=Count("pk", filter=answered),
            mean_latency_ms=Avg("latency_ms", filter=answered & Q(success=True, fallback_attempts=0)),
        )
    )
    return {
        row["first_adapter_type"]: HealthFigure(
            samples=row["samples"], successes=row["successes"], mean_latency_ms=row["mean_latency_ms"]
        )
        for row in rows
    }
