"""The one decision: which models may serve a call, in which order, and why.

:func:`decide` is pure. The live call, the explain endpoint, the Governance tab, the what-if page and
``manage.py explain`` all call it; a page that wants a hypothetical hands it another policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from routing.core.catalogue import Catalogue, ModelSpec
from routing.core.configuration import ConfigurationSpec, Criteria
from routing.core.eligibility import Rejection, Screen
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.pricing import price_at
from routing.core.ranking import Reading, in_listed_order, rank
from routing.core.requirements import UNLIMITED, Limits, Requirements
from routing.core.signals import NO_FIGURES, Figures, HistoryFigure
from routing.core.tiers import BudgetTier, substitutes, wish_of
from routing.core.vocabulary import (
    CostBasis,
    DecisionState,
    Enforcement,
    ListedOrder,
    Operation,
    RejectionReason,
    Selection,
    SignalName,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model as the decision saw it.

    Attributes:
        model: the model.
        reading: the raw figures in force, whether or not the mode looked at them.
        score: the weighted mean, rounded as compared; ``None`` if refused or if nothing was ranked.
        signals: the values collected, ``None`` for no data; empty if refused or nothing was collected.
        rejection: why it may not serve; ``None`` if it may.
        observed: capabilities for whose lack it would have been refused, were that enforced.
    """

    model: ModelSpec
    reading: Reading
    score: float | None = None
    signals: Mapping[SignalName, float | None] = field(default_factory=dict)
    rejection: Rejection | None = None
    observed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The whole of a decision: eligible candidates in order, refused ones with reasons, and what decided.

    Attributes:
        configuration: identifier of the configuration; empty for an override.
        mode: the policy mode; ``None`` where nothing was ranked (fixed, listed, override).
        order: the listed order; ``None`` for other selections.
        needs: the capabilities the call needs a model to declare.
        history_read: whether call history was looked at.
        history_known: whether history could have been looked at, whatever the policy says.
        basis: the unit in which cost was compared; ``None`` where cost took no part.
        weights: the signals that entered scores, with their weights.
        neutral_for_absent: those of them in which an absence counted as 0.5.
        signals_used: the signals that moved the decision.
        eligible: candidates that may serve, in the order in which a call asks them: what an advisory tier wishes for,
            then the best first.
        refused: candidates that may not, in candidate order.
        unavailable: identifiers the configuration, or a strict tier for it, names that are not in service.
        tiers: the tiers of budgets that were in force.
    """

    configuration: str
    selection: Selection
    criteria: Criteria
    operation: Operation | None
    needs: frozenset[str]
    enforcement: Enforcement
    currency: str
    mode: PolicyMode | None = None
    order: ListedOrder | None = None
    history_read: bool = False
    history_known: bool = False
    basis: CostBasis | None = None
    weights: Mapping[SignalName, float] = field(default_factory=dict)
    neutral_for_absent: frozenset[SignalName] = frozenset()
    signals_used: tuple[SignalName, ...] = ()
    eligible: tuple[Candidate, ...] = ()
    refused: tuple[Candidate, ...] = ()
    unavailable: tuple[str, ...] = ()
    tiers: tuple[BudgetTier, ...] = ()

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Eligible candidates in order, then the refused ones."""
        return self.eligible + self.refused

    @property
    def selected(self) -> Candidate | None:
        """The candidate that goes first, before any preference of a class rule or a session."""
        return self.eligible[0] if self.eligible else None

    @property
    def state(self) -> DecisionState:
        """What a page says about the outcome as a whole."""
        if self.selection in (Selection.FIXED, Selection.OVERRIDE):
            return DecisionState.FIXED
        if not self.refused and not self.eligible:
            return DecisionState.EMPTY_CATALOGUE
        if not self.eligible:
            return DecisionState.ALL_REFUSED
        return DecisionState.LISTED if self.selection is Selection.LISTED else DecisionState.DECIDED

    @property
    def recorded_mode(self) -> str:
        """The mode as rows record it: the policy mode, ``listed:<order>``, or empty for fixed and override."""
        if self.order is not None:
            return f"listed:{self.order.value}"
        return "" if self.mode is None else self.mode.value

    @property
    def rejection_reasons(self) -> tuple[RejectionReason, ...]:
        """The distinct reasons, sorted by name."""
        return tuple(sorted({each.rejection.reason for each in self.refused if each.rejection is not None}))

    @property
    def is_forbidden(self) -> bool:
        """Whether the caller's key is all that stood in the way of every candidate."""
        reasons = {each.rejection.reason for each in self.refused if each.rejection is not None}
        return not self.eligible and reasons == {RejectionReason.NOT_PERMITTED}

    @property
    def is_for_targets_only(self) -> bool:
        """Whether nobody may serve, and a strict tier of a budget is why other candidates may not."""
        reasons = self.rejection_reasons
        return not self.eligible and RejectionReason.BUDGET_TARGET_ONLY in reasons

    def refusals(self, *, allowed_models: frozenset[str] | None = None) -> tuple[str, ...]:
        """One line for every refused candidate with its reason, and for every model that is not in service.

        Whoever may use only some models (``allowed_models``) is told how many others there are, and not their names.
        """
        refused = [
            f"{each.model.route}: {each.rejection.reason.value} ({each.rejection.detail})"
            for each in self.refused
            if each.rejection is not None and _may_know(each.model.identifier, allowed_models)
        ]
        missing = [f"{name}: not in service" for name in self.unavailable if _may_know(name, allowed_models)]
        unnamed = len(self.refused) + len(self.unavailable) - len(refused) - len(missing)
        return (*refused, *missing, *([f"models that the key does not allow: {unnamed}"] if unnamed else []))

    def refusal(self, *, allowed_models: frozenset[str] | None = None) -> str:
        """The sentence for a caller when nobody may serve.

        It names configuration, capability and operation if a candidate was refused for nothing else; every
        candidate with its reason stands in it either way, as far as the caller may know it (see :meth:`refusals`).
        """
        name = self.configuration or "the named model"
        if not self.refused:
            if self.unavailable:
                missing = ", ".join(each for each in self.unavailable if _may_know(each, allowed_models)) or "its model"
                return f"{name}: {missing} is not in service; activate the model and its provider"
            return f"{name}: no model is in service; register a model and activate it and its provider"
        if self.is_forbidden and allowed_models is not None:
            return f"{name}: the key does not allow {'it' if not self.configuration else 'any of its models'}"
        listing = "; ".join(self.refusals(allowed_models=allowed_models))
        if any(_only_for_operation(each) for each in self.refused):
            operation = self.operation.value if self.operation is not None else "this call"
            needs = ", ".join(sorted(self.needs))
            return f"{name}: no model that could serve declares {needs}, which {operation} needs. {listing}"
        return f"{name}: every candidate was refused. {listing}"


def _may_know(model: str, allowed_models: frozenset[str] | None) -> bool:
    return allowed_models is None or model in allowed_models


def decide(
    *,
    configuration: ConfigurationSpec,
    catalogue: Catalogue,
    requirements: Requirements,
    policy: RoutingPolicy,
    now: datetime,
    limits: Limits = UNLIMITED,
    figures: Figures = NO_FIGURES,
) -> Decision:
    """Decide which models may serve a call of a configuration, and in which order.

    Args:
        configuration: how candidates are selected; its own policy mode goes before the installation's.
        catalogue: what is in service.
        requirements: what the call needs; without an operation no history is read.
        policy: the settings in force, or hypothetical ones.
        now: the moment whose prices apply.
        limits: what the caller, budgets and content rules allow.
        figures: what has been measured; figures the mode does not look at are carried, never counted.
    """
    models, unavailable = _candidates(configuration, catalogue, limits.tiers)
    screen = Screen(
        selection=configuration.selection,
        criteria=configuration.criteria,
        requirements=requirements,
        limits=limits,
        policy=policy,
    )
    eligible: list[tuple[ModelSpec, Reading]] = []
    refused: list[Candidate] = []
    quality, health, history = figures.quality, figures.health, _history(figures, requirements.operation)
    failures = figures.failures_in_a_row if _orders_by_failures(configuration) else {}
    for model in models:
        identifier, price = model.identifier, price_at(model.prices, now)
        reading = Reading(
            quality.get(identifier), health.get(identifier), history.get(identifier), price, failures.get(identifier)
        )
        rejection = screen.rejection(model, price)
        if rejection is None:
            eligible.append((model, reading))
        else:
            refused.append(Candidate(model, reading, rejection=rejection))
    history_known = policy.telemetry and requirements.operation is not None and figures.history is not None
    outcome = _Outcome(
        configuration=configuration,
        requirements=requirements,
        policy=policy,
        screen=screen,
        eligible=eligible,
        refused=tuple(refused),
        unavailable=unavailable,
        history_known=history_known,
        tiers=limits.tiers,
    )
    ordered = _by_rank(outcome) if configuration.selection is Selection.CRITERIA else _in_order(outcome)
    return _as_wished(ordered) if limits.tiers else ordered


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Who may serve, before anything is ordered."""

    configuration: ConfigurationSpec
    requirements: Requirements
    policy: RoutingPolicy
    screen: Screen
    eligible: Sequence[tuple[ModelSpec, Reading]]
    refused: tuple[Candidate, ...]
    unavailable: tuple[str, ...]
    history_known: bool
    tiers: tuple[BudgetTier, ...]


def _by_rank(outcome: _Outcome) -> Decision:
    configuration, policy = outcome.configuration, outcome.policy
    mode = configuration.policy_mode or policy.mode
    history_read = mode.is_measured and policy.call_history and outcome.history_known
    ranking = rank(
        outcome.eligible,
        mode=mode,
        prefer_lowest_cost=configuration.criteria.prefer_lowest_cost,
        history_read=history_read,
        currency=policy.currency,
    )
    observed = [outcome.screen.observed(model) for model, _ in outcome.eligible]
    return Decision(
        configuration=configuration.identifier,
        selection=configuration.selection,
        criteria=configuration.criteria,
        operation=outcome.requirements.operation,
        needs=outcome.requirements.capabilities,
        enforcement=policy.enforcement,
        currency=policy.currency,
        mode=mode,
        history_read=history_read,
        history_known=outcome.history_known,
        basis=ranking.basis,
        weights=ranking.weights,
        neutral_for_absent=ranking.neutral_for_absent,
        signals_used=ranking.signals_used,
        eligible=tuple(
            Candidate(*outcome.eligible[at], ranking.scores[at], ranking.signals[at], None, observed[at])
            for at in ranking.order
        ),
        refused=outcome.refused,
        unavailable=outcome.unavailable,
        tiers=outcome.tiers,
    )


def _in_order(outcome: _Outcome) -> Decision:
    configuration, policy = outcome.configuration, outcome.policy
    listed = configuration.selection is Selection.LISTED
    ordered = in_listed_order(
        outcome.eligible,
        order=configuration.order,
        currency=policy.currency,
    )
    return Decision(
        configuration=configuration.identifier,
        selection=configuration.selection,
        criteria=configuration.criteria,
        operation=outcome.requirements.operation,
        needs=outcome.requirements.capabilities,
        enforcement=policy.enforcement,
        currency=policy.currency,
        order=configuration.order if listed else None,
        history_known=outcome.history_known,
        eligible=tuple(
            Candidate(model, reading, observed=outcome.screen.observed(model)) for model, reading in ordered
        ),
        refused=outcome.refused,
        unavailable=outcome.unavailable,
        tiers=outcome.tiers,
    )


def _as_wished(decision: Decision) -> Decision:
    """With the model first that an advisory tier wishes for; the order of the others stays."""
    wish = wish_of(decision.tiers, [each.model.identifier for each in decision.eligible])
    if wish is None:
        return decision
    ordered = sorted(decision.eligible, key=lambda each: each.model.identifier != wish[1])
    return replace(decision, eligible=tuple(ordered))


def _candidates(
    configuration: ConfigurationSpec, catalogue: Catalogue, tiers: Sequence[BudgetTier]
) -> tuple[Sequence[ModelSpec], tuple[str, ...]]:
    """The models to consider, in order, and the names that stand for none. A name given twice counts once.

    What tiers of budgets name may serve besides, since they are to serve instead; but whoever names a model gets it, or
    nothing.
    """
    wanted = substitutes(each for each in tiers if each.is_strict) if tiers else ()
    missing = tuple(name for name in wanted if name not in catalogue.by_identifier)
    if configuration.selection is Selection.CRITERIA:
        return catalogue.models, missing
    named = {name: catalogue.by_identifier.get(name) for name in (*configuration.models, *missing)}
    if tiers and configuration.selection is not Selection.OVERRIDE:
        there = (name for name in substitutes(tiers) if name in catalogue.by_identifier)
        named |= {name: catalogue.by_identifier[name] for name in there if name not in named}
    unavailable = tuple(name for name, model in named.items() if model is None)
    return [model for model in named.values() if model is not None], unavailable


def _history(figures: Figures, operation: Operation | None) -> Mapping[str, HistoryFigure]:
    if figures.history is None or operation is None:
        return {}
    return figures.history.get(operation, {})


def _orders_by_failures(configuration: ConfigurationSpec) -> bool:
    return configuration.selection is Selection.LISTED and configuration.order is ListedOrder.HEALTHIEST


def _only_for_operation(candidate: Candidate) -> bool:
    return (
        candidate.rejection is not None and candidate.rejection.reason is RejectionReason.OPERATION_CAPABILITY_MISSING
    )
