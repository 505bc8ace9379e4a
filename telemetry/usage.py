"""Usage by day: one row for each day and combination of who asked and what served, kept by one upsert.

A day is a UTC day. Rows are written whether or not calls are recorded.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date

from django.db import connections, router

from telemetry.models import UsageDay
from telemetry.records import CallRecord

KEY_FIELDS = (
    "day", "application", "key", "user", "source", "configuration", "provider", "model", "operation", "currency",
)  # fmt: skip
SUM_FIELDS = (
    "requests", "failures", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens",
    "reasoning_tokens", "cost_nanos", "unpriced_requests",
)  # fmt: skip


def add_usage(records: Iterable[CallRecord]) -> None:
    """Add calls to their days. Call it inside a transaction.

    Rows are written in the order of their keys, so that two processes never wait for each other crosswise.
    """
    sums: dict[tuple[str | date, ...], list[int]] = defaultdict(lambda: [0] * len(SUM_FIELDS))
    for record in records:
        row = sums[_key(record)]
        for index, amount in enumerate(_amounts(record)):
            row[index] += amount
    if not sums:
        return
    parameters: list[str | date | int] = [value for key in sorted(sums, key=repr) for value in (*key, *sums[key])]
    connection = connections[router.db_for_write(UsageDay)]
    with connection.cursor() as cursor:
        cursor.execute(_upsert(len(sums)), parameters)


def _key(record: CallRecord) -> tuple[str | date, ...]:
    return (
        record.started_at.astimezone(UTC).date(),
        record.application,
        record.key,
        record.user,
        record.source,
        record.served.configuration,
        record.served.provider,
        record.served.model,
        record.operation,
        record.cost_currency,
    )


def _amounts(record: CallRecord) -> tuple[int, ...]:
    tokens = record.tokens
    unpriced = record.success and record.cost_nanos is None and not record.cache_hit
    counts = (0,) * 5 if tokens is None else (
        tokens.input, tokens.cache_read, tokens.cache_write, tokens.output, tokens.reasoning,
    )  # fmt: skip
    counted = (max(0, count) for count in counts)
    return (1, 0 if record.success else 1, *counted, record.cost_nanos or 0, 1 if unpriced else 0)


def _upsert(rows: int) -> str:
    """The statement. Names come from the model alone; every value is a parameter."""
    table = UsageDay._meta.db_table
    fields = (*KEY_FIELDS, *SUM_FIELDS)
    columns = ", ".join(f'"{field}"' for field in fields)
    places = ", ".join([f"({', '.join(['%s'] * len(fields))})"] * rows)
    conflict = ", ".join(f'"{field}"' for field in KEY_FIELDS)
    sums = ", ".join(f'"{field}" = "{table}"."{field}" + excluded."{field}"' for field in SUM_FIELDS)
    return f'INSERT INTO "{table}" ({columns}) VALUES {places} ON CONFLICT ({conflict}) DO UPDATE SET {sums}'  # noqa: S608
