"""What was used over some days, broken down by one dimension: by day, model, configuration and the like.

Read from usage by day, so its cost grows with the days and what was used on them, never with the calls. Nothing is
converted: each currency has its own sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from django.db.models import QuerySet, Sum

from routing.core.money import Money
from telemetry.models import UsageDay


class Dimension(StrEnum):
    """What usage can be broken down by."""

    DAY = "day"
    APPLICATION = "application"
    KEY = "key"
    USER = "user"
    SOURCE = "source"
    CONFIGURATION = "configuration"
    PROVIDER = "provider"
    MODEL = "model"
    OPERATION = "operation"


COUNTED = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
_SUMS = ("requests", "failures", "unpriced_requests", "cost_nanos", *COUNTED)


@dataclass(frozen=True, slots=True)
class Share:
    """The sums of one value of the dimension.

    Attributes:
        value: a day, or an identifier; empty for calls that have none, such as those no model served.
        tokens: by kind, as providers reported them; ``None`` if none did.
        costs: one amount for each currency in which something was priced.
        unpriced: calls that were answered and whose cost is not known.
    """

    value: str
    requests: int
    failures: int
    unpriced: int
    tokens: Mapping[str, int] | None
    costs: tuple[Money, ...]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Usage from a day to a day, both included. ``is_cut`` if there were more values than were asked for."""

    dimension: Dimension
    first: date
    last: date
    total: Share
    shares: tuple[Share, ...]
    is_cut: bool


def read_breakdown(
    *, by: Dimension, first: date, last: date, only: Mapping[Dimension, str] | None = None, most: int = 1000
) -> Breakdown:
    """Break the usage of some days down: one query.

    Days come in their order, everything else by how many requests there were.

    Args:
        by: the dimension.
        first: the first day, a UTC day.
        last: the last day.
        only: values that count alone.
        most: values at the most; the total is that of all.
    """
    rows = UsageDay.objects.filter(day__gte=first, day__lte=last, **{each.value: v for each, v in (only or {}).items()})
    found: dict[str, list[dict[str, Any]]] = {}
    for row in _summed(rows, by):
        found.setdefault(str(row[by.value]), []).append(row)
    shares = [_share(value, summed) for value, summed in found.items()]
    shares.sort(key=lambda each: each.value if by is Dimension.DAY else (-each.requests, each.value))
    return Breakdown(
        dimension=by,
        first=first,
        last=last,
        total=_share("", [row for summed in found.values() for row in summed]),
        shares=tuple(shares[:most]),
        is_cut=len(shares) > most,
    )


def _summed(rows: QuerySet[UsageDay], by: Dimension) -> QuerySet[UsageDay, dict[str, Any]]:
    sums = {f"sum_{each}": Sum(each) for each in _SUMS}
    summed: QuerySet[UsageDay, dict[str, Any]] = rows.order_by().values(by.value, "currency").annotate(**sums)
    return summed


def _share(value: str, rows: list[dict[str, Any]]) -> Share:
    def total(column: str) -> int:
        return sum(int(row[f"sum_{column}"]) for row in rows)

    costs: dict[str, int] = {}
    for row in rows:
        if row["currency"]:
            costs[row["currency"]] = costs.get(row["currency"], 0) + int(row["sum_cost_nanos"])
    tokens = MappingProxyType({each.removesuffix("_tokens"): total(each) for each in COUNTED})
    return Share(
        value=value,
        requests=total("requests"),
        failures=total("failures"),
        unpriced=total("unpriced_requests"),
        tokens=tokens if any(tokens.values()) else None,  # no call that is answered uses nothing
        costs=tuple(Money(nanos, currency) for currency, nanos in sorted(costs.items())),
    )
