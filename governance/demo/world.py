"""What the calls of the demo's past met: the catalogue, the policy, a bad hour, and the decisions that followed.

Decisions are made by ``governance.decisions`` over the records as they stand, as for every call. The figures they are
given are those of the day: health of each adapter type, and the history that the applications' habits amount to.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from governance.decisions import Standing, lay_out, rule
from governance.demo.draws import usage_of
from governance.demo.habits import CALLS_OF_A_WEEK, HABITS, Habit
from governance.demo.profiles import FAULT_RATE, FAULT_RATES, profile_of
from governance.settings_store.store import EffectiveSettings
from governance.shared_state.memory import MemoryStore
from routing.circuits import Circuits
from routing.core.plan import Plan
from routing.core.pricing import cost, price_at
from routing.core.requirements import Requirements
from routing.core.signals import Figures, HealthFigure, HistoryFigure, HistoryKey, figures_of
from routing.core.vocabulary import OPERATION_CAPABILITY, Capability, Operation
from routing.snapshots import CatalogueSnapshot
from telemetry.records import DecisionSummary

SEED = "signalbox-demo"
"""What every draw of the demo begins with."""

BAD_PROVIDER = "borealis-eu"
BAD_HOUR = 14
"""The hour (UTC) in which the provider failed most calls, on a weekday some five days before the first start."""
BAD_BURST = 4.0
"""How many times more is asked of it in that hour, since people try again."""

_BAD_RATE = 0.75
_BAD_DAYS_AGO = 5
_NOTICED_MINUTE = 40  # of the bad hour: from then on its health is known, and decisions avoid it


@dataclass(frozen=True, slots=True)
class World:
    """The circumstances.

    Attributes:
        snapshot: the catalogue.
        settings: the settings in force.
        keys: the key each application calls with, by application.
        started: when the demo was first started.
    """

    snapshot: CatalogueSnapshot
    settings: EffectiveSettings
    keys: Mapping[str, str]
    started: datetime

    def is_bad(self, provider: str, moment: datetime) -> bool:
        """Whether it was the provider's bad hour."""
        if provider != BAD_PROVIDER or moment.hour != BAD_HOUR:
            return False
        day = (self.started - timedelta(days=_BAD_DAYS_AGO)).astimezone(UTC).date()
        return moment.date() == day - timedelta(days=max(0, day.weekday() - 4))

    def is_known_as_bad(self, provider: str, moment: datetime) -> bool:
        """Whether enough calls had failed for health to show it."""
        return moment.minute >= _NOTICED_MINUTE and self.is_bad(provider, moment)

    def fault_rate(self, provider: str, moment: datetime) -> float:
        """The share of first requests that met a fault of the provider."""
        return _BAD_RATE if self.is_bad(provider, moment) else FAULT_RATES.get(provider, FAULT_RATE)


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision as a call carries it, and the routes it laid out."""

    plan: Plan
    summary: DecisionSummary


@dataclass(slots=True)
class Choices:
    """The decisions of a world. Many calls share one, so each is made once."""

    world: World
    _made: dict[tuple[object, ...], Choice] = field(default_factory=dict)

    def of(self, habit: Habit, moment: datetime) -> Choice | None:
        """The choice for a habit at a moment; ``None`` if its configuration is gone."""
        snapshot = self.world.snapshot
        configuration = snapshot.configurations.get(habit.configuration)
        if configuration is None or not configuration.is_active:
            return None
        prices = [price_at(model.prices, moment) for model in snapshot.catalogue.models]
        in_force = tuple(None if price is None else price.valid_from for price in prices)
        bad = self.world.is_known_as_bad(BAD_PROVIDER, moment)
        key = (habit.configuration, habit.operation, moment.date(), bad, in_force)
        if key not in self._made:
            self._made[key] = self._make(habit, moment)
        return self._made[key]

    def _make(self, habit: Habit, moment: datetime) -> Choice:
        snapshot = self.world.snapshot
        standing = Standing.of(
            settings=self.world.settings,
            snapshot=snapshot,
            figures=_figures(self.world, moment),
            circuits=Circuits(store=MemoryStore()),
            now=moment,
        )
        own = OPERATION_CAPABILITY[habit.operation]
        needs = frozenset[str]() if own is None or own is Capability.CHAT else frozenset({own.value})
        requirements = Requirements(operation=habit.operation, needs=needs)
        configuration = snapshot.configurations[habit.configuration]
        ruling = rule(standing, configuration, requirements=requirements, now=moment)
        laid_out = lay_out(
            standing, configuration, ruling, requirements=requirements, now=moment, may_ask_for=lambda _: True
        )
        return Choice(
            plan=laid_out, summary=DecisionSummary.of(ruling.decision, document=ruling.document, digest=ruling.digest)
        )


def nominal_history(snapshot: CatalogueSnapshot, *, now: datetime) -> dict[HistoryKey, HistoryFigure]:
    """The history that the habits amount to: what a decision of the past would have seen."""
    calls: dict[tuple[str, Operation], float] = {}
    for habit in HABITS:
        key = (habit.usually, habit.operation)
        calls[key] = calls.get(key, 0.0) + habit.per_day * CALLS_OF_A_WEEK
    history: dict[HistoryKey, HistoryFigure] = {}
    for (identifier, operation), count in calls.items():
        model = snapshot.catalogue.by_identifier.get(identifier)
        if model is None:
            continue
        profile, price = profile_of(identifier, operation), price_at(model.prices, now)
        history[HistoryKey(model.provider.adapter_type, model.model_id, operation)] = HistoryFigure(
            calls=round(count),
            mean_latency_ms=profile.latency_ms,
            priced_calls=0 if price is None else round(count),
            mean_cost=None if price is None else cost(usage_of(profile), price),
        )
    return history


def _figures(world: World, moment: datetime) -> Figures:
    snapshot = world.snapshot
    rng = random.Random(f"{SEED}/health/{moment.date().isoformat()}")
    health: dict[str, HealthFigure] = {}
    for adapter_type in sorted({model.provider.adapter_type for model in snapshot.catalogue.models}):
        models = [model for model in snapshot.catalogue.models if model.provider.adapter_type == adapter_type]
        samples, latency = rng.randint(14, 32), rng.uniform(0.9, 1.1)
        successes = samples - rng.choice((0, 0, 0, 1))
        if any(world.is_known_as_bad(model.provider.identifier, moment) for model in models):
            successes = round(samples * (1 - _BAD_RATE))
        mean = profile_of(models[0].identifier, Operation.CHAT).latency_ms * latency
        health[adapter_type] = HealthFigure(samples, successes, round(mean, 1))
    return figures_of(
        snapshot.catalogue,
        quality=snapshot.quality,
        health=health,
        history=nominal_history(snapshot, now=moment),
        failures_in_a_row={},
    )
