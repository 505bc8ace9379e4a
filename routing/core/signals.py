"""What has been measured about models, and how a measurement becomes a value between 0 and 1.

Absolute signals (quality, health, list price) stand on their own; a candidate without data is skipped.
Relative signals (latency, cost of a call) compare the candidates of one decision; a candidate without data
counts as :data:`NEUTRAL`. How values are weighed is in ``ranking``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, fsum, log
from typing import NamedTuple

from routing.core.catalogue import Catalogue
from routing.core.money import Money
from routing.core.vocabulary import Operation

NEUTRAL = 0.5
"""The value of an absence: it neither promotes nor demotes."""

MIN_CALLS = 5
"""Calls before a mean latency counts, and priced calls before a mean cost counts."""

SLOWEST_MS = 5000.0
"""A provider's mean latency from which on its health loses the whole latency part."""

HEALTH_SUCCESS_WEIGHT = 0.8
HEALTH_LATENCY_WEIGHT = 0.2

_MOST, _LEAST = 2.0, 0.5  # a figure counts as at most twice and at least half the mean of its rivals
_AT_LEAST, _AT_MOST = 1.0 / (1.0 + _MOST), 1.0 / (1.0 + _LEAST)  # the values there: a third and two thirds
_DECIMALS = 12  # relative values that agree to this many decimals do not differ


@dataclass(frozen=True, slots=True)
class HealthFigure:
    """First attempts of an adapter type in the health window.

    ``mean_latency_ms`` is over calls the first route served itself; ``None`` if there were none.
    """

    samples: int
    successes: int
    mean_latency_ms: float | None = None

    @property
    def value(self) -> float | None:
        """0.8 times the success rate plus 0.2 times how far the mean latency stays below five seconds.

        ``None`` without samples. Without a latency there is no penalty; a negative one counts as zero.
        """
        if self.samples <= 0:
            return None
        return _health_value(self.samples, self.successes, self.mean_latency_ms)


@dataclass(frozen=True, slots=True)
class HistoryFigure:
    """What calls of one operation to one model took and cost in the history window.

    ``mean_latency_ms`` covers the whole call. ``mean_cost`` is over ``priced_calls`` only: successful calls
    whose usage the provider reported exactly.
    """

    calls: int
    mean_latency_ms: float | None = None
    priced_calls: int = 0
    mean_cost: Money | None = None

    @property
    def latency_ms(self) -> float | None:
        """The mean latency once enough calls stand behind it."""
        return self.mean_latency_ms if self.calls >= MIN_CALLS else None

    def cost_nanos(self, currency: str) -> int | None:
        """The mean cost once enough priced calls stand behind it, if it is in ``currency``."""
        if self.priced_calls < MIN_CALLS or self.mean_cost is None or self.mean_cost.currency != currency:
            return None
        return self.mean_cost.nanos


class HistoryKey(NamedTuple):
    """What call history is kept by: the serving adapter type, the id sent to the provider, the operation."""

    adapter_type: str
    model_id: str
    operation: Operation


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything measured, by model identifier, as read for one decision.

    Attributes:
        quality: mean golden-set score.
        health: health of the model's adapter type.
        history: by operation; ``None`` when the read failed or never happened, which is no history.
        failures_in_a_row: failed calls since the last success.
    """

    quality: Mapping[str, float] = field(default_factory=dict)
    health: Mapping[str, HealthFigure] = field(default_factory=dict)
    history: Mapping[Operation, Mapping[str, HistoryFigure]] | None = None
    failures_in_a_row: Mapping[str, int] = field(default_factory=dict)


NO_FIGURES = Figures()


def figures_of(
    catalogue: Catalogue,
    *,
    quality: Mapping[str, float],
    health: Mapping[str, HealthFigure],
    history: Mapping[HistoryKey, HistoryFigure] | None,
    failures_in_a_row: Mapping[str, int],
) -> Figures:
    """Hand every model of a catalogue its figures.

    Health is known by adapter type and history by :class:`HistoryKey`, the names under which calls are
    recorded, so providers of one adapter type share one health and, per model id, one history.

    Args:
        catalogue: the models in service.
        quality: by model identifier.
        health: by adapter type.
        history: by history key; ``None`` when it could not be read.
        failures_in_a_row: by model identifier.
    """
    by_operation: dict[Operation, dict[str, HistoryFigure]] | None = None
    if history is not None:
        sharing: dict[tuple[str, str], list[str]] = {}
        for model in catalogue.models:
            sharing.setdefault((model.provider.adapter_type, model.model_id), []).append(model.identifier)
        by_operation = {operation: {} for operation in Operation}
        for (adapter_type, model_id, operation), figure in history.items():
            for identifier in sharing.get((adapter_type, model_id), ()):
                by_operation[operation][identifier] = figure
    return Figures(
        quality=quality,
        health={
            model.identifier: health[model.provider.adapter_type]
            for model in catalogue.models
            if model.provider.adapter_type in health
        },
        history=by_operation,
        failures_in_a_row=failures_in_a_row,
    )


def relative_values(figures: Sequence[float | None], *, zero_is_best: bool) -> list[float | None]:
    """Values of figures of which less is better, relative to the geometric mean of the positive ones.

    With r the figure over the mean, clamped to a factor of two either way, the value is 1 / (1 + r): 0.5 at the
    mean, between 1/3 and 2/3. A figure of zero has 1.0 where ``zero_is_best`` (a cost), else it is merely at the
    bound (a latency below a millisecond). An absent figure stays absent.
    """
    mean = _geometric_mean([figure for figure in figures if figure is not None and figure > 0])
    values: list[float | None] = []
    for figure in figures:
        if figure is None:
            values.append(None)
        elif figure <= 0 and zero_is_best:
            values.append(1.0)
        elif mean is None:
            values.append(NEUTRAL)
        else:
            ratio = figure / mean
            values.append(_AT_MOST if ratio <= _LEAST else _AT_LEAST if ratio >= _MOST else 1.0 / (1.0 + ratio))
    return values


def takes_part(values: Sequence[float | None]) -> bool:
    """Whether a relative signal says anything: two candidates' counted values differ, as rounded."""
    counted = [NEUTRAL if value is None else value for value in values]
    return bool(counted) and round(min(counted), _DECIMALS) != round(max(counted), _DECIMALS)


def _geometric_mean(figures: Sequence[float]) -> float | None:
    """The mean, kept between the figures, so that rounding never puts a sole figure off its own mean."""
    if not figures:
        return None
    mean = exp(fsum(map(log, figures)) / len(figures))
    return min(max(mean, min(figures)), max(figures))


@lru_cache(maxsize=1024)  # a few figures, asked for by every candidate of every decision within a minute
def _health_value(samples: int, successes: int, mean_latency_ms: float | None) -> float:
    latency = 0.0 if mean_latency_ms is None else max(0.0, mean_latency_ms)
    speed = 1.0 - min(1.0, latency / SLOWEST_MS)
    return HEALTH_SUCCESS_WEIGHT * (successes / samples) + HEALTH_LATENCY_WEIGHT * speed
