"""Operations: what each route did for each operation, and how quickly, at what cost and how reliably.

Four populations, since one would be wrong for some column:

- *answered*: calls that the route answered, rescues of other routes included, cache hits not. Its share is of what
  all routes answered for the operation.
- *self-served*: of those, the calls it was the first to be sent, as for call history. Latencies.
- *priced*: self-served calls whose usage the provider reported exactly, in each currency by itself. Mean costs.
- *first attempts*: calls sent to the route first that it answered or failed by its own fault, as for health.

A route is told by its identifiers. Call history knows it by adapter type and model id: routes that share both share
one history, and a model that was given another id has begun a new one.

The 95th percentile is the nearest rank: the least latency that at least 95 in 100 calls do not exceed. It is a latency
that was measured, and the same on every database.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, Q, Sum, Window
from django.db.models.functions import RowNumber

from routing.core.calls import Coverage
from routing.core.money import Money, round_half_up
from telemetry.models import Call
from telemetry.querysets import CallQuerySet

LOOKED_AT = 50_000
"""Self-served calls, the latest ones, from which percentiles are taken: ranking more takes longer than a page may."""

PERCENTILES = (50, 95)

# Few columns: of more PostgreSQL expects so many groups that it sorts all calls instead of hashing them.
_SERVED = ("operation", "served_provider", "served_model")
_FIRST = ("operation", "first_provider", "first_model")


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers: identifiers of provider and model."""

    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of the latency of ``calls`` self-served calls, in milliseconds."""

    calls: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class MeanCost:
    """What priced calls cost on average, in one currency."""

    mean: Money
    calls: int


@dataclass(frozen=True, slots=True)
class RouteFigures:
    """What one route did for one operation. The populations are told at the top of the module.

    Attributes:
        answered: calls it answered.
        share: of all calls of the operation that were answered, from 0 to 1; ``None`` if none was.
        self_served: calls it answered as the first that was sent them.
        mean_ms: mean latency of those; ``None`` without any.
        percentiles: of the latest of those; ``None`` without any among them.
        costs: mean costs, the currency with most calls first; empty where no cost is known.
        attempts: first attempts.
        successes: of those, the answered ones.
    """

    operation: str
    route: Route
    answered: int = 0
    share: float | None = None
    self_served: int = 0
    mean_ms: float | None = None
    percentiles: Percentiles | None = None
    costs: tuple[MeanCost, ...] = ()
    attempts: int = 0
    successes: int = 0

    @property
    def success_rate(self) -> float | None:
        """The share of first attempts that it answered, from 0 to 1; ``None`` without any."""
        return self.successes / self.attempts if self.attempts else None


@dataclass(frozen=True, slots=True)
class OperationReadout:
    """Every route with something to tell, by operation, the one that answered most first.

    ``percentiles_since`` is the moment from which percentiles are taken, where there were too many calls to rank all.
    """

    since: datetime
    figures: tuple[RouteFigures, ...]
    percentiles_since: datetime | None

    def of(self, operation: str) -> tuple[RouteFigures, ...]:
        """The routes of one operation."""
        return tuple(each for each in self.figures if each.operation == operation)


_Key = tuple[str, Route]


@dataclass(slots=True)
class _Served:
    """Sums over what one route answered for one operation."""

    answered: int = 0
    self_served: int = 0
    latency_ms: float = 0.0
    costs: tuple[MeanCost, ...] = ()


def read_operations(*, since: datetime, now: datetime) -> OperationReadout:
    """What every route did between two moments: four queries."""
    calls = Call.objects.between(since, now)
    served, attempts = _served(calls), _attempts(calls)
    percentiles, percentiles_since = _percentiles(calls)
    by_operation: dict[str, int] = defaultdict(int)
    for (operation, _), sums in served.items():
        by_operation[operation] += sums.answered
    figures = [
        _figures(key, served.get(key, _Served()), attempts.get(key, (0, 0)), percentiles.get(key), by_operation[key[0]])
        for key in {**served, **attempts}
    ]
    figures.sort(key=lambda each: (each.operation, -each.answered, each.route.provider, each.route.model))
    return OperationReadout(since=since, figures=tuple(figures), percentiles_since=percentiles_since)


def _figures(
    key: _Key, served: _Served, attempts: tuple[int, int], percentiles: Percentiles | None, whole: int
) -> RouteFigures:
    operation, route = key
    return RouteFigures(
        operation=operation,
        route=route,
        answered=served.answered,
        share=served.answered / whole if whole else None,
        self_served=served.self_served,
        mean_ms=served.latency_ms / served.self_served if served.self_served else None,
        percentiles=percentiles,
        costs=served.costs,
        attempts=attempts[0],
        successes=attempts[1],
    )


def _served(calls: CallQuerySet) -> dict[_Key, _Served]:
    """One GROUP BY, in which the currency keeps costs apart."""
    self_served = Q(fallback_attempts=0)
    priced = self_served & Q(usage_coverage=Coverage.EXACT.value, actual_cost_nanos__isnull=False)
    rows = (
        calls.answered()
        .order_by()
        .values_list(*_SERVED, "cost_currency")
        .annotate(
            answered=Count("started_at"),
            self_served=Count("started_at", filter=self_served),
            latency=Sum("latency_ms", filter=self_served),
            priced=Count("started_at", filter=priced),
            cost=Sum("actual_cost_nanos", filter=priced),
        )
    )
    found: dict[_Key, _Served] = defaultdict(_Served)
    for operation, *route, currency, answered, own, latency, priced_calls, cost in rows:
        sums = found[operation, Route(*route)]
        sums.answered += answered
        sums.self_served += own
        sums.latency_ms += latency or 0.0
        if priced_calls:
            mean = MeanCost(Money(round_half_up(int(cost), priced_calls), currency), priced_calls)
            sums.costs = tuple(sorted((*sums.costs, mean), key=lambda each: (-each.calls, each.mean.currency)))
    return found


def _attempts(calls: CallQuerySet) -> dict[_Key, tuple[int, int]]:
    """First attempts, and those among them that were answered."""
    rows = (
        calls.first_attempts()
        .order_by()
        .values_list(*_FIRST)
        .annotate(Count("started_at"), answered=Count("started_at", filter=Q(first_failure_kind="")))
    )
    return {(operation, Route(*route)): (attempts, successes) for operation, *route, attempts, successes in rows}


def _percentiles(calls: CallQuerySet) -> tuple[Mapping[_Key, Percentiles], datetime | None]:
    """By ranks inside the database, which hands out nothing but the calls on the percentiles' ranks."""
    own = calls.self_served().order_by("-started_at")
    since = own.values_list("started_at", flat=True)[LOOKED_AT - 1 : LOOKED_AT].first()
    on_rank = Q()
    for percentile in PERCENTILES:
        on_rank |= Q(rank100__gte=F("calls") * percentile, rank100__lt=F("calls") * percentile + 100)
    rows = (
        (own if since is None else own.since(since))
        .order_by()
        .annotate(
            rank100=Window(RowNumber(), partition_by=_SERVED, order_by="latency_ms") * 100,
            calls=Window(Count("started_at"), partition_by=_SERVED),
        )
        .filter(on_rank)
        .values_list(*_SERVED, "calls", "rank100", "latency_ms")
    )
    found: dict[_Key, list[tuple[int, int, float]]] = defaultdict(list)
    for operation, *route, count, rank100, latency in rows:
        found[operation, Route(*route)].append((rank100, count, latency))
    return {key: _of_ranks(ranks) for key, ranks in found.items()}, since


def _of_ranks(ranks: list[tuple[int, int, float]]) -> Percentiles:
    """Percentiles of calls on their ranks, each a hundred times its rank, how many were ranked, and its latency."""
    p50, p95 = (
        next(latency for rank100, calls, latency in ranks if calls * each <= rank100 < calls * each + 100)
        for each in PERCENTILES
    )
    return Percentiles(calls=ranks[0][1], p50_ms=p50, p95_ms=p95)
