"""What was charged in a stretch of time, by who asked and what was asked. The ledger of budgets is compared with it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.db.models import QuerySet, Sum

from telemetry.models import DAYS_OF_HOURS, UsageDay, UsageHour


def read_charges(
    *, by: Sequence[str], currency: str, starts: datetime | None, ends: datetime | None, now: datetime
) -> Mapping[tuple[str, ...], int] | None:
    """The sums of one currency by the values of some columns, in nano-units: one query.

    Days are read where the stretch is made of whole days of UTC, else hours.

    Args:
        by: columns of usage; none is one sum of everything, under the empty tuple.
        currency: what is summed.
        starts: the first instant; ``None`` for all that was ever used.
        ends: the first instant after it; ``None`` for no end.
        now: the moment by which it is known which hours are kept.

    Returns:
        The sums; ``None`` if usage cannot tell of that stretch: it does not begin and end at full hours of UTC, or its
        hours are not kept any more.
    """
    rows = _rows(starts, ends, now=now)
    if rows is None:
        return None
    rows = rows.filter(currency=currency)
    if not by:
        return {(): int(rows.aggregate(charged=Sum("cost_nanos"))["charged"] or 0)}
    summed = rows.order_by().values_list(*by).annotate(charged=Sum("cost_nanos"))
    return {tuple(values): int(charged) for *values, charged in summed.iterator()}


def _rows(starts: datetime | None, ends: datetime | None, *, now: datetime) -> QuerySet[Any] | None:
    if all(each is None or _is_midnight(each) for each in (starts, ends)):
        bounds = {"day__gte": starts, "day__lt": ends}
        days = {name: each.astimezone(UTC).date() for name, each in bounds.items() if each is not None}
        return UsageDay.objects.filter(**days)
    oldest = now - timedelta(days=DAYS_OF_HOURS)
    if starts is None or starts < oldest or not all(each is None or _is_full_hour(each) for each in (starts, ends)):
        return None
    hours = {name: each for name, each in {"hour__gte": starts, "hour__lt": ends}.items() if each is not None}
    return UsageHour.objects.filter(**hours)


def _is_midnight(moment: datetime) -> bool:
    return moment.astimezone(UTC).time() == time()


def _is_full_hour(moment: datetime) -> bool:
    return moment.astimezone(UTC).replace(hour=0).time() == time()
