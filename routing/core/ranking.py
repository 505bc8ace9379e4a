"""The order of eligible candidates: the weighted mean of their signals, and the tie-breaks.

A provider's priority is an instruction and a score is evidence, so priority is a sort key above the score and
never a term in it. "Candidate" means *eligible* candidate throughout: means and bases know no others.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from routing.core.catalogue import ModelSpec
from routing.core.policy import WEIGHTS, PolicyMode
from routing.core.pricing import Price, list_price_value
from routing.core.signals import NEUTRAL, HealthFigure, HistoryFigure, relative_values, takes_part
from routing.core.vocabulary import CostBasis, ListedOrder, SignalName

SCORE_DECIMALS = 9
"""Scores that agree to this many decimals are equal; a score is stored as it is compared."""

_NO_TIE_BREAK = (0, 0)


@dataclass(frozen=True, slots=True)
class Reading:
    """The raw figures in force for one candidate, whether or not the mode looks at them.

    ``quality`` is a score between 0 and 1; ``price`` the dated price in force; ``history`` the figure of the
    decision's operation. ``failures_in_a_row`` stands here only where the order is by them. ``None`` is no data.
    """

    quality: float | None = None
    health: HealthFigure | None = None
    history: HistoryFigure | None = None
    price: Price | None = None
    failures_in_a_row: int | None = None

    def list_nanos(self, currency: str) -> int | None:
        """Input plus output rate, if there is a price in ``currency``."""
        if self.price is None or self.price.currency != currency:
            return None
        return self.price.list_nanos

    def call_nanos(self, currency: str) -> int | None:
        """The measured mean cost of a call, if it counts and is in ``currency``."""
        return None if self.history is None else self.history.cost_nanos(currency)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The outcome over the candidates given, by their positions.

    Attributes:
        order: positions, best first.
        scores: by position, rounded as compared.
        signals: by position, what was collected; ``None`` is no data.
        basis: the unit in which cost was compared; ``None`` where cost took no part.
        weights: every signal that entered scores, with its weight.
        neutral_for_absent: those of them in which a candidate without data counted as 0.5 instead of being
            skipped.
        signals_used: those of them that anybody had data for.
    """

    order: Sequence[int]
    scores: Sequence[float]
    signals: Sequence[Mapping[SignalName, float | None]]
    basis: CostBasis | None
    weights: Mapping[SignalName, float]
    neutral_for_absent: frozenset[SignalName]
    signals_used: tuple[SignalName, ...]


@dataclass(frozen=True, slots=True)
class _Column:
    """One signal over all candidates: what the page shows, and how it counts."""

    name: SignalName
    values: Sequence[float | None]
    weight: float
    neutral_for_absent: bool = False


def rank(
    candidates: Sequence[tuple[ModelSpec, Reading]],
    *,
    mode: PolicyMode,
    prefer_lowest_cost: bool,
    history_read: bool,
    currency: str,
) -> Ranking:
    """Rank eligible candidates given in candidate order.

    Args:
        candidates: each with the figures in force for it.
        mode: in ``providerPriority`` no signal is collected and every score is neutral.
        prefer_lowest_cost: makes cost take part in every measured mode, and breaks ties by it.
        history_read: whether latency and cost of calls may be looked at.
        currency: money in any other currency is no figure.
    """
    count = len(candidates)
    readings = [reading for _, reading in candidates]
    absent: list[int | None] = [None] * count
    cost_counts = mode is PolicyMode.ECONOMY or (mode.is_measured and prefer_lowest_cost)
    compares_cost = cost_counts or prefer_lowest_cost
    listed = [reading.list_nanos(currency) for reading in readings] if compares_cost else absent
    called = [reading.call_nanos(currency) for reading in readings] if cost_counts and history_read else absent
    basis = _basis(listed, called) if cost_counts else None
    columns = _columns(readings, listed, called, mode=mode, basis=basis, history_read=history_read)
    scores = _scores(columns, count)
    on_basis = called if basis is CostBasis.CALL_COST else listed
    ties = [_unknown_last(nanos) for nanos in on_basis] if prefer_lowest_cost else [_NO_TIE_BREAK] * count
    keys = [
        (-model.provider.priority, -score, tie, not model.is_default, model.sorting)
        for (model, _), score, tie in zip(candidates, scores, ties, strict=True)
    ]
    weighing = [column for column in columns if column.weight > 0]
    return Ranking(
        order=sorted(range(count), key=keys.__getitem__),  # stable: candidate order decides last
        scores=scores,
        signals=_rows(columns, count),
        basis=basis,
        weights={column.name: column.weight for column in weighing},
        neutral_for_absent=frozenset(column.name for column in weighing if column.neutral_for_absent),
        signals_used=tuple(column.name for column in weighing if any(value is not None for value in column.values)),
    )


def in_listed_order(
    candidates: Sequence[tuple[ModelSpec, Reading]],
    *,
    order: ListedOrder,
    currency: str,
) -> list[tuple[ModelSpec, Reading]]:
    """Order listed candidates: as listed, by published price (unpriced last), or by failures in a row. Stable."""
    if order is ListedOrder.CHEAPEST:
        return sorted(candidates, key=lambda each: _unknown_last(each[1].list_nanos(currency)))
    if order is ListedOrder.HEALTHIEST:
        return sorted(candidates, key=lambda each: each[1].failures_in_a_row or 0)
    return list(candidates)


def contributions(
    signals: Mapping[SignalName, float | None],
    *,
    weights: Mapping[SignalName, float],
    neutral_for_absent: Collection[SignalName],
) -> dict[SignalName, tuple[float, float]]:
    """The (weight, counted value) pairs behind a score: it is their weighted mean, or 0.5 if there are none."""
    counted: dict[SignalName, tuple[float, float]] = {}
    for name, weight in weights.items():
        value = signals.get(name)
        if value is None and name in neutral_for_absent:
            value = NEUTRAL
        if value is not None:
            counted[name] = (weight, value)
    return counted


def _basis(listed: Sequence[int | None], called: Sequence[int | None]) -> CostBasis:
    """``callCost`` when every candidate with any cost figure has a measured one and at least one has it."""
    merely_listed = any(call is None and price is not None for price, call in zip(listed, called, strict=True))
    measured = any(call is not None for call in called)
    return CostBasis.CALL_COST if measured and not merely_listed else CostBasis.LIST_PRICE


def _columns(
    readings: Sequence[Reading],
    listed: Sequence[int | None],
    called: Sequence[int | None],
    *,
    mode: PolicyMode,
    basis: CostBasis | None,
    history_read: bool,
) -> list[_Column]:
    if not mode.is_measured:
        return []
    weights = WEIGHTS[mode]
    columns = [
        _Column(SignalName.QUALITY, [reading.quality for reading in readings], weights.quality),
        _Column(
            SignalName.HEALTH,
            [None if reading.health is None else reading.health.value for reading in readings],
            weights.health,
        ),
    ]
    if basis is not None:
        prices = [None if nanos is None else list_price_value(nanos) for nanos in listed]
        by_price = basis is CostBasis.LIST_PRICE and any(price is not None for price in prices)
        columns.append(
            _Column(SignalName.COST, prices, weights.cost if by_price else 0.0, neutral_for_absent=history_read)
        )
    if history_read:
        latencies = [None if reading.history is None else reading.history.latency_ms for reading in readings]
        columns.append(_relative(SignalName.LATENCY, latencies, weights.latency, zero_is_best=False))
        if basis is not None:
            weight = weights.cost if basis is CostBasis.CALL_COST else 0.0
            columns.append(_relative(SignalName.CALL_COST, called, weight, zero_is_best=True))
    return columns


def _rows(columns: Sequence[_Column], count: int) -> list[Mapping[SignalName, float | None]]:
    """The columns turned round: for each candidate its values by name."""
    if not columns:
        return [{} for _ in range(count)]
    names = [column.name for column in columns]
    return [
        dict(zip(names, values, strict=True)) for values in zip(*(column.values for column in columns), strict=True)
    ]


def _relative(name: SignalName, figures: Sequence[float | None], weight: float, *, zero_is_best: bool) -> _Column:
    values = relative_values(figures, zero_is_best=zero_is_best)
    return _Column(name, values, weight if takes_part(values) else 0.0, neutral_for_absent=True)


def _scores(columns: Sequence[_Column], count: int) -> list[float]:
    sums, totals = [0.0] * count, [0.0] * count
    for column in columns:
        weight = column.weight
        if weight <= 0:
            continue
        for index, value in enumerate(column.values):
            if value is None:
                if not column.neutral_for_absent:
                    continue
                value = NEUTRAL
            sums[index] += weight * value
            totals[index] += weight
    return [
        round(total / weight, SCORE_DECIMALS) if weight > 0 else NEUTRAL
        for total, weight in zip(sums, totals, strict=True)
    ]


def _unknown_last(nanos: int | None) -> tuple[int, int]:
    return (1, 0) if nanos is None else (0, nanos)
