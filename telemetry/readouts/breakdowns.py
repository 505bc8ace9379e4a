"""What was used over some days, broken down by one dimension: by day, model, configuration and the like.

Read from usage by day, or, where days are those of another zone than UTC, from usage by hour; so its cost grows with
the days and what was used on them, never with the calls. Costs are those of calls, when they were made. Nothing is
converted: each currency has its own sum.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db.models import QuerySet, Sum

from routing.core.money import Money
from telemetry.models import DAYS_OF_HOURS, UsageDay, UsageHour

MOST_DAYS = 366
"""Days that are summed at once."""

MOST_DAYS_BY_HOUR = 14
"""Days whose hours are told one by one."""

_HOUR = timedelta(hours=1)


class Dimension(StrEnum):
    """What usage can be broken down by."""

    DAY = "day"
    HOUR = "hour"
    APPLICATION = "application"
    KEY = "key"
    USER = "user"
    SOURCE = "source"
    CONFIGURATION = "configuration"
    PROVIDER = "provider"
    MODEL = "model"
    OPERATION = "operation"

    @property
    def is_time(self) -> bool:
        """Whether its values are times, which come in their order."""
        return self in (Dimension.DAY, Dimension.HOUR)


class SpanError(ValueError):
    """Days that cannot be told of. The sentence says why; ``field`` is what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


COUNTED = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
_SUMS = ("requests", "failures", "unpriced_requests", "cost_nanos", *COUNTED)


@dataclass(frozen=True, slots=True)
class Span:
    """Days of a zone, both ends included. Of days before ``hours_since`` no hours are kept."""

    first: date
    last: date
    zone: ZoneInfo
    hours_since: date = date.min

    @property
    def is_utc(self) -> bool:
        """Whether its days are those that are kept for good."""
        return self.zone.key == "UTC"

    @property
    def start(self) -> datetime:
        """When it begins."""
        return self._midnight(self.first)

    @property
    def end(self) -> datetime:
        """When it is over."""
        return self._midnight(self.last + timedelta(days=1))

    @property
    def days(self) -> tuple[date, ...]:
        """Each of its days."""
        return tuple(self.first + timedelta(days=index) for index in range((self.last - self.first).days + 1))

    @property
    def hours(self) -> tuple[datetime, ...]:
        """The beginning of each of its hours, of which a day has twenty-four unless its clocks are changed."""
        return tuple(
            (self.start + _HOUR * index).astimezone(self.zone) for index in range((self.end - self.start) // _HOUR)
        )

    @classmethod
    def of(cls, *, first: date, last: date, zone: str, today: date) -> "Span":
        """A span that can be told of.

        Raises:
            SpanError: it ends before it begins, is too long, its hours are not kept any more, or its zone is unknown
                or has days that no hours of UTC make up.
        """
        try:
            known = ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise SpanError("zone", f"There is no time zone {zone!r}; write one as in Europe/Berlin.") from None
        if first > last:
            raise SpanError("since", f"It begins after {last}, where it ends.")
        if (last - first).days >= MOST_DAYS:
            raise SpanError("since", f"At most {MOST_DAYS} days are summed at once.")
        span = cls(first, last, known, hours_since=today - timedelta(days=DAYS_OF_HOURS))
        if not span.is_utc:
            span._check_zone()
        return span

    def check_pace(self, by: Dimension) -> None:
        """Refuse to tell too many hours one by one, and hours that are not kept.

        Raises:
            SpanError: they are too many, or there are none.
        """
        if by is not Dimension.HOUR:
            return
        if (self.last - self.first).days >= MOST_DAYS_BY_HOUR:
            raise SpanError("since", f"At most {MOST_DAYS_BY_HOUR} days are told hour by hour.")
        if self.first < self.hours_since:
            raise SpanError("since", f"Hours are kept since {self.hours_since}; of what was before there are days.")

    def _check_zone(self) -> None:
        if self.first < self.hours_since:
            kept = f"which are kept since {self.hours_since}"
            raise SpanError("since", f"Days of a zone are made of hours, {kept}; UTC has all days.")
        if any(self._midnight(each).minute for each in (*self.days, self.last + timedelta(days=1))):
            raise SpanError(
                "zone", f"Days of {self.zone.key} do not begin at a full hour of UTC, by which usage is kept."
            )

    def _midnight(self, day: date) -> datetime:
        return datetime.combine(day, time(), self.zone).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Share:
    """The sums of one value of the dimension.

    Attributes:
        value: a day, an hour or an identifier; empty for calls that have none, such as those no model served.
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
    """Usage of a span. ``is_cut`` if there were more values than were asked for."""

    dimension: Dimension
    span: Span
    total: Share
    shares: tuple[Share, ...]
    is_cut: bool

    @property
    def first(self) -> date:
        """The first day."""
        return self.span.first

    @property
    def last(self) -> date:
        """The last day."""
        return self.span.last

    @property
    def zone(self) -> str:
        """Whose days they are."""
        return self.span.zone.key


def read_breakdown(
    *, by: Dimension, span: Span, only: Mapping[Dimension, str] | None = None, most: int = 1000
) -> Breakdown:
    """Break the usage of a span down: one query for times, and two for everything else.

    Times come in their order, everything else by how many requests there were; of that no more is read than is told.

    Args:
        by: the dimension.
        span: the days.
        only: values that count alone.
        most: values at the most; the total is that of all.

    Raises:
        SpanError: so many hours are not told one by one.
    """
    span.check_pace(by)
    chosen = {each.value: value for each, value in (only or {}).items()}
    found: dict[str, list[dict[str, Any]]] = {}
    for value, row in _times(by, span, chosen) if by.is_time else _values(by, span, chosen, most=most + 1):
        found.setdefault(value, []).append(row)
    shares = [_share(value, summed) for value, summed in found.items()]
    if by.is_time:
        everything = [row for summed in found.values() for row in summed]
    else:
        shares.sort(key=lambda each: (-each.requests, each.value))
        everything = list(_summed(_usage(span, chosen), "currency"))
    return Breakdown(
        dimension=by,
        span=span,
        total=_share("", everything),
        shares=tuple(shares[:most]),
        is_cut=len(shares) > most,
    )


def spell_hour(hour: datetime) -> str:
    """An hour as a value: with its distance from UTC, since a day may have the same hour twice."""
    return hour.isoformat(timespec="minutes")


_Rows = Iterable[tuple[str, dict[str, Any]]]
"""Values, each with its sums in one currency."""


def _usage(span: Span, only: Mapping[str, str]) -> QuerySet[Any]:
    """Usage of a span: days that are kept for good where they are its days, else hours."""
    if span.is_utc:
        return UsageDay.objects.filter(day__gte=span.first, day__lte=span.last, **only)
    return UsageHour.objects.filter(hour__gte=span.start, hour__lt=span.end, **only)


def _values(by: Dimension, span: Span, only: Mapping[str, str], *, most: int) -> _Rows:
    """The values with the most requests."""
    rows, column = _usage(span, only), by.value
    ranked = rows.order_by().values(column).annotate(ranked_by=Sum("requests")).order_by("-ranked_by", column)
    chosen = rows.filter(**{f"{column}__in": ranked.values(column)[:most]})
    return ((str(row[column]), row) for row in _summed(chosen, column))


def _times(by: Dimension, span: Span, only: Mapping[str, str]) -> _Rows:
    """The days, or hours, on which something was used."""
    if span.is_utc and by is Dimension.DAY:
        return ((str(row["day"]), row) for row in _summed(_usage(span, only), "day"))
    hours = UsageHour.objects.filter(hour__gte=span.start, hour__lt=span.end, **only)
    spell: Callable[[datetime], str] = spell_hour if by is Dimension.HOUR else _spell_day
    return ((spell(row["hour"].astimezone(span.zone)), row) for row in _summed(hours, "hour"))


def _spell_day(hour: datetime) -> str:
    return str(hour.date())


def _summed(rows: QuerySet[Any], column: str) -> QuerySet[Any, dict[str, Any]]:
    sums = {f"sum_{each}": Sum(each) for each in _SUMS}
    summed: QuerySet[Any, dict[str, Any]] = rows.order_by(column).values(column, "currency").annotate(**sums)
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
