"""What pages show of a period: cost, requests, tokens, failures, time to first token; by provider and bar by bar.

A period of days is read from usage by day: its cost grows with the days and what was used on them, never with the
calls, and it outlives them. Twenty-four hours are read from the calls themselves, hour by hour. Three queries either
way. Nothing is converted: each currency has its own sum. A sum that nobody reported anything to is ``None``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from statistics import median

from django.db.models import Count, Q, Sum
from django.db.models.functions import TruncHour

from routing.core.money import Money
from telemetry.models import Call, UsageDay
from telemetry.readouts.periods import Period

LOOKED_AT = 20_000
"""Calls, the latest ones, from which the median time to first token is taken."""

_COUNTED = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over some calls.

    Attributes:
        requests: calls, however they ended.
        failures: those that got no answer.
        tokens: input and output, cached ones included, as providers reported them; ``None`` if none did.
        costs: one amount for each currency in which something was priced, the largest sum first.
        unpriced: calls that were answered and whose cost is not known.
    """

    requests: int = 0
    failures: int = 0
    tokens: int | None = None
    costs: tuple[Money, ...] = ()
    unpriced: int = 0

    @property
    def failure_rate(self) -> float | None:
        """The share of calls that got no answer, from 0 to 1; ``None`` without calls."""
        return self.failures / self.requests if self.requests else None


@dataclass(frozen=True, slots=True)
class Bar:
    """The sums of one hour or one day."""

    start: datetime
    totals: Totals


@dataclass(frozen=True, slots=True)
class ProviderTotals:
    """The sums of what one provider served; the identifier is empty for calls that none did."""

    provider: str
    totals: Totals


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The median time to the first token of streamed calls; ``is_sampled`` if older calls were not looked at."""

    median_ms: float
    calls: int
    is_sampled: bool


@dataclass(frozen=True, slots=True)
class UsageReadout:
    """A period at a glance. ``bars`` has every hour or day, also those on which nothing happened."""

    period: Period
    totals: Totals
    bars: tuple[Bar, ...]
    providers: tuple[ProviderTotals, ...]
    first_token: FirstToken | None
    holds_marked: bool

    @property
    def since(self) -> datetime:
        """When it begins."""
        return self.bars[0].start


@dataclass(frozen=True, slots=True)
class _Row:
    """What the database sums up: one bar, provider and currency."""

    start: datetime
    provider: str
    currency: str
    requests: int
    failures: int
    tokens: int | None
    cost_nanos: int | None
    unpriced: int


def read_usage(*, period: Period, now: datetime, mark: str = "") -> UsageReadout:
    """Read a period that ends now: three queries. ``mark`` is the source of rows to be told of, such as a demo's."""
    starts = period.starts(now)
    rows = _hourly(starts[0], now) if period.is_hourly else _daily(starts[0].date(), now.date())
    by_start: dict[datetime, list[_Row]] = {start: [] for start in starts}
    by_provider: dict[str, list[_Row]] = {}
    for row in rows:
        by_start.setdefault(row.start, []).append(row)
        by_provider.setdefault(row.provider, []).append(row)
    providers = [ProviderTotals(provider, _sum(found)) for provider, found in by_provider.items()]
    days = UsageDay.objects.filter(day__gte=starts[0].date(), day__lte=now.astimezone(UTC).date())
    return UsageReadout(
        period=period,
        totals=_sum(rows),
        bars=tuple(Bar(start, _sum(by_start[start])) for start in starts),
        providers=tuple(sorted(providers, key=lambda each: (-each.totals.requests, each.provider))),
        first_token=_first_token(starts[0], now),
        holds_marked=bool(mark) and days.filter(source=mark).exists(),
    )


def _daily(first: date, last: date) -> list[_Row]:
    rows = (
        UsageDay.objects.filter(day__gte=first, day__lte=last)
        .order_by()
        .values_list("day", "provider", "currency")
        .annotate(Sum("requests"), Sum("failures"), Sum("cost_nanos"), Sum("unpriced_requests"))
        .annotate(*(Sum(column) for column in _COUNTED))
    )
    return [
        _Row(
            start=datetime.combine(day, time(), UTC),
            provider=provider,
            currency=currency,
            requests=int(requests),
            failures=int(failures),
            # A day's row does not tell nothing reported from nothing used; no call that is answered uses nothing.
            tokens=sum(map(int, counted)) or None,
            cost_nanos=int(cost) if currency else None,
            unpriced=int(unpriced),
        )
        for day, provider, currency, requests, failures, cost, unpriced, *counted in rows
    ]


def _hourly(first: datetime, now: datetime) -> list[_Row]:
    rows = (
        Call.objects.between(first, now)
        .order_by()
        .values_list(TruncHour("started_at", tzinfo=UTC), "served_provider", "cost_currency")
        .annotate(
            requests=Count("pk"),
            failures=Count("pk", filter=Q(success=False)),
            cost=Sum("actual_cost_nanos"),
            unpriced=Count("pk", filter=Q(success=True, cache_hit=False, actual_cost_nanos=None)),
        )
        .annotate(*(Sum(f"actual_{column}") for column in _COUNTED))
    )
    return [
        _Row(
            start=hour,
            provider=provider,
            currency=currency,
            requests=requests,
            failures=failures,
            tokens=_known(counted),
            cost_nanos=None if cost is None else int(cost),
            unpriced=unpriced,
        )
        for hour, provider, currency, requests, failures, cost, unpriced, *counted in rows
    ]


def _first_token(first: datetime, now: datetime) -> FirstToken | None:
    """From the latest calls: a sum over all of them would cost as much as there are."""
    latest = Call.objects.between(first, now).order_by("-started_at")
    found = list(latest.values_list("first_token_ms", flat=True)[:LOOKED_AT])
    measured = [each for each in found if each is not None]
    if not measured:
        return None
    return FirstToken(median_ms=median(measured), calls=len(measured), is_sampled=len(found) == LOOKED_AT)


def _sum(rows: Iterable[_Row]) -> Totals:
    found = list(rows)
    costs: dict[str, int] = {}
    for row in found:
        if row.cost_nanos is not None:
            costs[row.currency] = costs.get(row.currency, 0) + row.cost_nanos
    return Totals(
        requests=sum(row.requests for row in found),
        failures=sum(row.failures for row in found),
        tokens=_known([row.tokens for row in found]),
        costs=tuple(
            Money(nanos, currency) for currency, nanos in sorted(costs.items(), key=lambda each: (-each[1], each[0]))
        ),
        unpriced=sum(row.unpriced for row in found),
    )


def _known(counts: Sequence[int | None]) -> int | None:
    """The sum of what is known, ``None`` if nothing is."""
    known = [int(count) for count in counts if count is not None]
    return sum(known) if known else None
