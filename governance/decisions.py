"""One question: which models may serve this call, in which order. Everything in force, handed to the core.

:class:`Standing` is what is in force at one moment: settings, catalogue, budgets, figures. The live call and every page
that explains one ask :func:`rule` over a standing. How a process comes by one is in ``governance.standing_poll``.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from budgets.crossings import Crossings
from budgets.scopes import NO_BUDGETS, BudgetBook, Subject
from budgets.tiers import tiers_for
from governance.settings_store.store import EffectiveSettings
from routing.circuits import Circuits
from routing.core.catalogue import ModelSpec
from routing.core.configuration import ConfigurationSpec
from routing.core.decision import Decision, decide
from routing.core.plan import Fallback, Plan, Preference, healthiest_first, plan
from routing.core.requirements import UNLIMITED, Limits, Requirements
from routing.core.signals import Figures
from routing.core.transcript import canonical, digest, document
from routing.core.vocabulary import ListedOrder, SkipReason
from routing.snapshots import CatalogueSnapshot

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


def decide_once(
    standing: Standing,
    configuration: ConfigurationSpec,
    *,
    requirements: Requirements,
    now: datetime,
    limits: Limits = UNLIMITED,
    who: Subject = NOBODY,
) -> Decision:
    """The decision of :func:`rule` alone, for whoever asks for many: neither remembered nor written down, which is most
    of the time that a ruling takes."""
    limits = within_tiers(standing, limits, who, configuration.identifier, now=now)
    return _decide(standing, configuration, requirements=requirements, limits=limits, now=now)


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
    decision = _decide(standing, configuration, requirements=requirements, limits=limits, now=now)
    content = canonical(document(decision))
    ruling = Ruling(decision=decision, document=content, digest=digest(content))
    if key is not None:
        if len(standing.remembered) >= _REMEMBERED:
            standing.remembered.clear()
        standing.remembered[key] = ruling
    return ruling


def _decide(
    standing: Standing,
    configuration: ConfigurationSpec,
    *,
    requirements: Requirements,
    limits: Limits,
    now: datetime,
) -> Decision:
    return decide(
        configuration=configuration,
        catalogue=standing.snapshot.catalogue,
        requirements=requirements,
        limits=limits,
        policy=standing.settings.routing,
        figures=standing.figures,
        now=now,
    )


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
