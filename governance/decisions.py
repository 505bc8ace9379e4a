"""One question: which models may serve this call, in which order. Everything in force, handed to the core.

:class:`Standing` is what is in force at one moment: settings, catalogue, budgets, figures. The live call and every page
that explains one ask :func:`rule` over a standing.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock

from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError

from budgets.crossings import Crossings, look
from budgets.scopes import NO_BUDGETS, BudgetBook, Subject
from budgets.tiers import tiers_for
from governance.access.budgets import budget_poll
from governance.settings_store.store import EffectiveSettings, settings_poll
from routing.circuits import Circuits
from routing.core.catalogue import ModelSpec
from routing.core.configuration import ConfigurationSpec
from routing.core.decision import Decision, decide
from routing.core.plan import Fallback, Plan, Preference, healthiest_first, plan
from routing.core.requirements import UNLIMITED, Limits, Requirements
from routing.core.signals import Figures, HealthFigure, HistoryFigure, HistoryKey, figures_of
from routing.core.transcript import canonical, digest, document
from routing.core.vocabulary import ListedOrder, SkipReason
from routing.snapshots import CatalogueSnapshot, catalogue_poll
from telemetry.health import read_health
from telemetry.history import read_history

logger = logging.getLogger(__name__)

HISTORY_AGE = timedelta(minutes=5)
HEALTH_AGE = timedelta(minutes=1)
LOOK_AGE = timedelta(minutes=1)

NOBODY = Subject(application="", key="", user="", configuration="", provider="")
"""Who asks where nobody does, on a page: what has a budget of its own is not meant."""

_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision, its canonical document and the document's digest."""

    decision: Decision
    document: bytes
    digest: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What is in force at one moment.

    ``since`` is when it was put together, ``fresh_until`` when the next dated price comes into force: rulings are
    remembered for moments between. The memory is the standing's own, so that nothing remembered outlives what it was
    made of.
    """

    settings: EffectiveSettings
    snapshot: CatalogueSnapshot
    figures: Figures
    circuits: Circuits
    since: datetime
    fresh_until: datetime | None
    context_lengths: tuple[int, ...]
    budgets: BudgetBook = NO_BUDGETS
    crossings: Crossings = field(default_factory=Crossings, compare=False)
    remembered: dict[tuple[object, ...], Ruling] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        *,
        settings: EffectiveSettings,
        snapshot: CatalogueSnapshot,
        figures: Figures,
        circuits: Circuits,
        now: datetime,
        budgets: BudgetBook = NO_BUDGETS,
        crossings: Crossings | None = None,
    ) -> "Standing":
        """Put together what is in force. ``crossings`` is the process's own: what it notes later is in force too."""
        models = snapshot.catalogue.models
        coming = [price.valid_from for model in models for price in model.prices if price.valid_from > now]
        lengths = {model.context_length for model in models if model.context_length is not None}
        return cls(
            settings=settings,
            snapshot=snapshot,
            figures=figures,
            circuits=circuits,
            since=now,
            fresh_until=min(coming, default=None),
            context_lengths=tuple(sorted(lengths)),
            budgets=budgets,
            crossings=crossings or Crossings(),
        )

    def health_of(self, model: ModelSpec) -> float | None:
        """The health of the route to a model, from 0 to 1; ``None`` if nothing is known of it."""
        figure = self.figures.health.get(model.identifier)
        return None if figure is None else figure.value


def under(standing: Standing, settings: EffectiveSettings, *, now: datetime) -> Standing:
    """What would be in force under other settings: the same catalogue, and the figures that there would be.

    Figures are read anew, by the rules of a poll, where the settings say which there are: telemetry switched on or
    off, money compared in another currency.
    """
    policy, other = standing.settings.routing, settings.routing
    figures = standing.figures
    if (policy.telemetry, policy.currency) != (other.telemetry, other.currency):
        measured = _Measured()
        measured.refresh(settings, now=now)
        figures = measured.figures_of(standing.snapshot, circuits=standing.circuits)
    return replace(standing, settings=settings, figures=figures, remembered={})


def rule(
    standing: Standing,
    configuration: ConfigurationSpec,
    *,
    requirements: Requirements,
    now: datetime,
    limits: Limits = UNLIMITED,
    who: Subject = NOBODY,
) -> Ruling:
    """Decide within the tiers of budgets that are in force, or find the same decision already made.

    Two calls share a ruling if nothing that ``decide`` looks at differs. Of the estimated prompt that is only which
    context lengths it exceeds; a caller's cost ceiling is compared with the estimate itself, so it is never shared.
    """
    limits = within_tiers(standing, limits, who, configuration.identifier, now=now)
    return _rule(standing, configuration, requirements=requirements, limits=limits, now=now)


def within_tiers(standing: Standing, limits: Limits, who: Subject, *configurations: str, now: datetime) -> Limits:
    """Limits with the tiers of budgets that are in force for who asks for configurations; an empty name is a model that
    is named directly. Free of charge where no budget has tiers."""
    if not standing.budgets.has_tiers:
        return limits
    subjects = [replace(who, configuration=each) for each in configurations]
    return replace(limits, tiers=tiers_for(standing.budgets, subjects, standing.crossings, moment=now))


def _rule(
    standing: Standing,
    configuration: ConfigurationSpec,
    *,
    requirements: Requirements,
    limits: Limits,
    now: datetime,
) -> Ruling:
    key = _memory_key(standing, configuration, requirements, limits, now)
    known = None if key is None else standing.remembered.get(key)  # in one step: pages ask from other threads
    if known is not None:
        return known
    decision = decide(
        configuration=configuration,
        catalogue=standing.snapshot.catalogue,
        requirements=requirements,
        limits=limits,
        policy=standing.settings.routing,
        figures=standing.figures,
        now=now,
    )
    content = canonical(document(decision))
    ruling = Ruling(decision=decision, document=content, digest=digest(content))
    if key is not None:
        if len(standing.remembered) >= _REMEMBERED:
            standing.remembered.clear()
        standing.remembered[key] = ruling
    return ruling


def lay_out(
    standing: Standing,
    configuration: ConfigurationSpec,
    ruling: Ruling,
    *,
    requirements: Requirements,
    now: datetime,
    limits: Limits = UNLIMITED,
    may_ask_for: Callable[[str], bool],
    preference: Preference | None = None,
    who: Subject = NOBODY,
) -> Plan:
    """The routes of a call: the ruling's candidates, then the fallback configurations, each on its own terms, and all
    within the tiers of budgets for the configuration asked for."""
    fallbacks: Sequence[Fallback] = [
        _fallback(
            standing,
            name,
            requirements=requirements,
            now=now,
            limits=within_tiers(standing, limits, who, configuration.identifier, name, now=now),
            may_ask_for=may_ask_for,
        )
        for name in configuration.fallbacks
    ]
    if standing.settings.reorders_fallbacks:
        fallbacks = healthiest_first(fallbacks, health=standing.health_of)
    return plan(
        ruling.decision,
        limit=configuration.plan_limit,
        preference=preference,
        fallbacks=fallbacks,
        allowed_models=limits.allowed_models,
    )


class StandingPoll:
    """Keeps a standing up to date for one process. :meth:`refresh` reads the database; ``current`` never does.

    Any thread may refresh; who comes second waits for the first and then looks for itself.
    """

    def __init__(self, *, circuits: Circuits) -> None:
        self._settings = settings_poll()
        self._catalogue = catalogue_poll()
        self._budgets = budget_poll()
        self._crossings = Crossings()
        self._looked: tuple[BudgetBook, datetime] | None = None
        self._measured = _Measured()
        self._circuits = circuits
        self._standing: Standing | None = None
        self._refreshing = Lock()

    @property
    def current(self) -> Standing | None:
        """What is in force, or ``None`` while nothing could be read yet."""
        return self._standing

    def refresh(self, *, now: datetime | None = None) -> Standing:
        """Read what has changed: two version reads, figures where they have grown old. Gives what is in force then.

        Raises:
            django.db.Error: settings or catalogue cannot be read; the last standing stays in force.
        """
        with self._refreshing:
            return self._refresh(now or datetime.now(UTC))

    def look_for_crossings(self, *, now: datetime | None = None) -> None:
        """Note what accounts have crossed and nobody has noted: where budgets were edited, and once a minute.

        Raises:
            django.db.Error: it cannot be read; the next look finds it.
        """
        now, book = now or datetime.now(UTC), self._budgets.current
        with self._refreshing:
            if self._looked is not None and self._looked[0] is book and not _is_old(self._looked[1], LOOK_AGE, now):
                return
            look(book.budgets, self._crossings, now=now)
            self._looked = book, now

    def forget_figures(self) -> None:
        """Read history and health anew at the next refresh."""
        with self._refreshing:
            self._measured = _Measured()

    def _refresh(self, now: datetime) -> Standing:
        self._settings.refresh()
        self._catalogue.refresh()
        self._budgets.refresh()
        self._read_crossings(now)
        settings, snapshot = self._settings.current, self._catalogue.current
        measured = self._measured.refresh(settings, now=now)
        standing = self._standing
        # What stands is compared, and not what has just moved: a read that failed half way must not hide the rest.
        if (
            standing is not None
            and not measured
            and standing.settings is settings
            and standing.snapshot is snapshot
            and standing.budgets is self._budgets.current
            and (standing.fresh_until is None or now < standing.fresh_until)
        ):
            return standing
        self._standing = standing = Standing.of(
            settings=settings,
            snapshot=snapshot,
            figures=self._measured.figures_of(snapshot, circuits=self._circuits),
            circuits=self._circuits,
            now=now,
            budgets=self._budgets.current,
            crossings=self._crossings,
        )
        return standing

    def _read_crossings(self, now: datetime) -> None:
        """Where it cannot be read what is crossed, what is known stays in force; before it was ever read, those are
        refused whom strict tiers are meant for, and nobody else."""
        if not self._budgets.current.has_thresholds:
            return
        try:
            self._crossings.read(now=now)
        except DatabaseFault:
            logger.warning("crossings of budgets cannot be read; the known ones stay in force", exc_info=True)


class _Measured:
    """History and health, each with an age. A failing read is no history and no health, never a failing call."""

    def __init__(self) -> None:
        self.history: Mapping[HistoryKey, HistoryFigure] | None = None
        self.health: Mapping[str, HealthFigure] = {}
        self._history_read: datetime | None = None
        self._health_read: datetime | None = None
        self._currency = ""
        self._telemetry = False

    def refresh(self, settings: EffectiveSettings, *, now: datetime) -> bool:
        """Read what has grown old; tells whether anything was read."""
        policy = settings.routing
        if (policy.currency, policy.telemetry) != (self._currency, self._telemetry):
            self._history_read = self._health_read = None
            self._currency, self._telemetry = policy.currency, policy.telemetry
        read = False
        if _is_old(self._history_read, HISTORY_AGE, now):
            self._history_read, read = now, True
            self.history = self._read_history(now) if policy.telemetry else None
        if _is_old(self._health_read, HEALTH_AGE, now):
            self._health_read, read = now, True
            self.health = self._read_health(now) if policy.telemetry else {}
        return read

    def figures_of(self, snapshot: CatalogueSnapshot, *, circuits: Circuits) -> Figures:
        """What was read, by model."""
        return figures_of(
            snapshot.catalogue,
            quality=snapshot.quality,
            health=self.health,
            history=self.history,
            failures_in_a_row=circuits.counts,
        )

    def _read_history(self, now: datetime) -> Mapping[HistoryKey, HistoryFigure] | None:
        try:
            return read_history(now=now, currency=self._currency)
        except DatabaseFault:
            logger.warning("call history cannot be read; decisions go on without it", exc_info=True)
            return None

    def _read_health(self, now: datetime) -> Mapping[str, HealthFigure]:
        try:
            return read_health(now=now)
        except DatabaseFault:
            logger.warning("health cannot be read; decisions go on without it", exc_info=True)
            return {}


def _is_old(read_at: datetime | None, age: timedelta, now: datetime) -> bool:
    return read_at is None or now - read_at >= age or now < read_at


def _fallback(
    standing: Standing,
    name: str,
    *,
    requirements: Requirements,
    now: datetime,
    limits: Limits,
    may_ask_for: Callable[[str], bool],
) -> Fallback:
    if not may_ask_for(name):  # before anything else: whether there is one is not the key's to know
        return Fallback(name, skip=SkipReason.CONFIGURATION_FORBIDDEN)
    spec = standing.snapshot.configurations.get(name)
    if spec is None:
        return Fallback(name, skip=SkipReason.CONFIGURATION_MISSING)
    if not spec.is_active:
        return Fallback(name, skip=SkipReason.CONFIGURATION_INACTIVE)
    ruling = _rule(standing, spec, requirements=requirements, now=now, limits=limits)
    return Fallback(name, decision=ruling.decision, limit=spec.plan_limit)


def _memory_key(
    standing: Standing,
    configuration: ConfigurationSpec,
    requirements: Requirements,
    limits: Limits,
    now: datetime,
) -> tuple[object, ...] | None:
    fresh_until = standing.fresh_until
    if limits.cost_ceiling is not None or now < standing.since or (fresh_until is not None and now >= fresh_until):
        return None
    prompt = requirements.fitting_tokens
    return (
        configuration.identifier,
        configuration.selection,
        configuration.models,
        configuration.order,
        configuration.criteria,
        configuration.policy_mode,
        requirements.operation,
        requirements.needs,
        None if prompt is None else bisect_left(standing.context_lengths, prompt),
        limits,
        standing.circuits.generation if configuration.order is ListedOrder.HEALTHIEST else None,
    )
