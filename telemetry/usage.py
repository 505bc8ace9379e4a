"""Usage by day and by hour: a row for each of them and each combination of who asked and what served, kept by upserts.

A call counts for what served it. What other requests of the same call are charged (an answer that did not fit its
schema, say) counts for what they were sent to, as no request of its own: so the sums are those that the ledger of
budgets settles.

Days and hours are those of UTC. Rows are written whether or not calls are recorded. Days are kept for good; hours,
which are many more and are what the days of a time zone are made of, for ``DAYS_OF_HOURS``.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta

from django.db import connections, models, router

from telemetry.models import DAYS_OF_HOURS, UsageDay, UsageHour
from telemetry.records import AttemptRecord, CallRecord, RouteName, TokenCounts

KEY_FIELDS = (
    "application", "key", "user", "source", "configuration", "provider", "model", "operation", "currency",
)  # fmt: skip
SUM_FIELDS = (
    "requests", "failures", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens",
    "reasoning_tokens", "cost_nanos", "unpriced_requests",
)  # fmt: skip

_Key = tuple[date | datetime | str, ...]


def add_usage(records: Iterable[CallRecord]) -> None:
    """Add calls to their days and hours: two statements. Call it inside a transaction.

    Rows are written in the order of their keys, so that two processes never wait for each other crosswise.
    """
    days: dict[_Key, list[int]] = defaultdict(lambda: [0] * len(SUM_FIELDS))
    hours: dict[_Key, list[int]] = defaultdict(lambda: [0] * len(SUM_FIELDS))
    for record in records:
        began = record.started_at.astimezone(UTC)
        hour = began.replace(minute=0, second=0, microsecond=0)
        for key, amounts in _parts(record):
            for row in (days[began.date(), *key], hours[hour, *key]):
                for index, amount in enumerate(amounts):
                    row[index] += amount
    _upsert(UsageDay, "day", days)
    _upsert(UsageHour, "hour", hours)


def remove_old_hours(*, now: datetime) -> int:
    """Remove the hours that are not kept any longer; gives how many rows went.

    With two days to spare: the first day that can be told is whole in every zone.
    """
    removed, _ = UsageHour.objects.filter(hour__lt=now - timedelta(days=DAYS_OF_HOURS + 2)).delete()
    return removed


def _parts(record: CallRecord) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """What a call adds to which rows: for what served it, and for each other request that is charged."""
    yield _key(record, record.served, record.cost_currency), _amounts(record)
    for each in record.attempts:
        if each.is_charged_besides:
            yield _key(record, each.route, each.cost_currency), _amounts_besides(each)


def _key(record: CallRecord, route: RouteName, currency: str) -> tuple[str, ...]:
    return (
        record.application,
        record.key,
        record.user,
        record.source,
        route.configuration,
        route.provider,
        route.model,
        record.operation,
        currency,
    )


def _amounts(record: CallRecord) -> tuple[int, ...]:
    """A cost that is not what is charged is none, and makes the sums a floor, as a cost that is not known does."""
    is_known = record.cost_nanos is not None and record.is_charged
    should_be = record.success or record.cost_nanos is not None
    is_unpriced = should_be and not is_known and not record.cache_hit
    cost = record.cost_nanos if record.is_charged else None
    return (1, 0 if record.success else 1, *_counts(record.tokens), cost or 0, 1 if is_unpriced else 0)


def _amounts_besides(attempt: AttemptRecord) -> tuple[int, ...]:
    return (0, 0, *_counts(attempt.tokens), attempt.cost_nanos or 0, 0)


def _counts(tokens: TokenCounts | None) -> tuple[int, ...]:
    counts = (0,) * 5 if tokens is None else (
        tokens.input, tokens.cache_read, tokens.cache_write, tokens.output, tokens.reasoning,
    )  # fmt: skip
    return tuple(max(0, count) for count in counts)


def _upsert(model: type[models.Model], time: str, sums: dict[_Key, list[int]]) -> None:
    """Add sums to the rows of one table. Names come from the model alone; every value is a parameter."""
    if not sums:
        return
    connection = connections[router.db_for_write(model)]
    adapt = connection.ops.adapt_datetimefield_value
    parameters = [
        adapt(value) if isinstance(value, datetime) else value
        for key in sorted(sums, key=repr)
        for value in (*key, *sums[key])
    ]
    table, keys = model._meta.db_table, (time, *KEY_FIELDS)
    fields = (*keys, *SUM_FIELDS)
    columns = ", ".join(f'"{field}"' for field in fields)
    places = ", ".join([f"({', '.join(['%s'] * len(fields))})"] * len(sums))
    conflict = ", ".join(f'"{field}"' for field in keys)
    added = ", ".join(f'"{field}" = "{table}"."{field}" + excluded."{field}"' for field in SUM_FIELDS)
    statement = f'INSERT INTO "{table}" ({columns}) VALUES {places} ON CONFLICT ({conflict}) DO UPDATE SET {added}'  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
