"""A decision explained: one value, made by one function, for whatever shows one.

The pages of calls, decision records and configurations, the Governance tab and the REST interface hand a decision to
:func:`explain` and show what comes back, so that they cannot differ. Figures stay figures here (ratios between 0 and 1,
milliseconds, money in whole nano-units, counts) and choices stay members of closed sets; their words for pages are in
``governance.tab.explained``. How a question that nobody has called with is asked is in ``governance.questions``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from routing.core.catalogue import ModelSpec
from routing.core.configuration import Criteria
from routing.core.decision import Candidate, Decision
from routing.core.eligibility import Rejection
from routing.core.money import Money
from routing.core.policy import PolicyMode
from routing.core.ranking import Reading, contributions
from routing.core.signals import MIN_CALLS, HealthFigure
from routing.core.tiers import BudgetTier, wish_of
from routing.core.vocabulary import (
    Capability,
    CostBasis,
    DecisionState,
    Enforcement,
    ListedOrder,
    Operation,
    Selection,
    SignalName,
)

SIGNALS = (
    SignalName.QUALITY,
    SignalName.HEALTH,
    SignalName.COST,
    SignalName.LATENCY,
    SignalName.CALL_COST,
)
"""The signals of every candidate, in this order."""


class SignalStatus(StrEnum):
    """What became of one signal of one candidate."""

    COUNTED = "counted"
    NO_DATA = "noData"
    NO_WEIGHT = "noWeight"
    NOT_COLLECTED = "notCollected"
    NOT_COMPARED = "notCompared"


class HistoryUse(StrEnum):
    """Whether call history was read, or the first reason why not."""

    READ = "read"
    NOTHING_RANKED = "nothingRanked"
    MODE_MEASURES_NOTHING = "modeMeasuresNothing"
    NO_OPERATION = "noOperation"
    UNAVAILABLE = "unavailable"
    SWITCHED_OFF = "switchedOff"


class BasisReason(StrEnum):
    """Why cost was compared in the unit it was compared in, or not at all."""

    NOTHING_RANKED = "nothingRanked"
    MODE_MEASURES_NOTHING = "modeMeasuresNothing"
    COST_TAKES_NO_PART = "costTakesNoPart"
    HISTORY_NOT_READ = "historyNotRead"
    NOBODY_MEASURED = "nobodyMeasured"
    SOMEBODY_MERELY_LISTED = "somebodyMerelyListed"
    ALL_MEASURED = "allMeasured"


class Lead(StrEnum):
    """What puts an eligible candidate before the next one: the first comparison in which they differ."""

    BUDGET_TIER = "budgetTier"
    PRIORITY = "priority"
    SCORE = "score"
    COST = "cost"
    FAILURES = "failures"
    DEFAULT = "default"
    SORTING = "sorting"
    CANDIDATE_ORDER = "candidateOrder"
    LISTED_ORDER = "listedOrder"


class Shortfall(StrEnum):
    """Why a figure that exists is no data."""

    TOO_FEW = "tooFew"
    OTHER_CURRENCY = "otherCurrency"


class OpenNeed(StrEnum):
    """What a request may still need, or be bound by, that cannot be known from a question."""

    OPERATION = "operation"
    TOOLS = "tools"
    VISION = "vision"
    STRUCTURED_OUTPUT = "structured_output"
    REASONING = "reasoning"
    PROMPT_CACHING = "prompt_caching"
    CONTEXT_LENGTH = "contextLength"
    KEY = "key"
    COST_CEILING = "costCeiling"

    @property
    def capability(self) -> Capability | None:
        """The capability a model would have to declare; ``None`` where it is none."""
        return Capability(self.value) if self.value in _CAPABILITIES else None


_CAPABILITIES = frozenset(Capability)


@dataclass(frozen=True, slots=True)
class MeanScore:
    """Quality: the mean score over golden sets, between 0 and 1."""

    score: float


@dataclass(frozen=True, slots=True)
class ListPrice:
    """The published price in force, per million tokens."""

    input: Money
    output: Money
    shortfall: Shortfall | None


@dataclass(frozen=True, slots=True)
class MeanLatency:
    """What calls of this operation took, in milliseconds, over ``calls`` calls."""

    milliseconds: float
    calls: int
    shortfall: Shortfall | None


@dataclass(frozen=True, slots=True)
class MeanCost:
    """What calls of this operation cost, over ``calls`` calls whose usage the provider reported exactly."""

    cost: Money
    calls: int
    shortfall: Shortfall | None


RawFigure = MeanScore | HealthFigure | ListPrice | MeanLatency | MeanCost


@dataclass(frozen=True, slots=True)
class ExplainedSignal:
    """One signal of one candidate.

    Attributes:
        raw: what was measured, whether or not the decision looked at it; ``None`` if nothing was.
        value: what it is worth between 0 and 1; ``None`` for no data, and where it was not collected.
        counted: the value that entered the score; 0.5 where an absence counts as that; ``None`` if none did.
        weight: the weight with which it entered; ``None`` if it did not.
    """

    name: SignalName
    status: SignalStatus
    raw: RawFigure | None
    value: float | None
    counted: float | None
    weight: float | None


@dataclass(frozen=True, slots=True)
class ExplainedCandidate:
    """One candidate.

    Attributes:
        rank: from 1 for the one that goes first; ``None`` if refused.
        score: as compared; ``None`` if refused or nothing was ranked.
        signals: all of :data:`SIGNALS`, in that order.
        failures_in_a_row: failed calls since the last success; ``None`` unless the order is by them.
        rejection: why it may not serve.
        observed: capabilities for whose lack it would have been refused, were that enforced.
        leads_by: what puts it before the next eligible candidate; ``None`` if there is no next one.
        lacking: of the open needs, the capabilities for whose lack a request with them would not get this candidate.
    """

    rank: int | None
    model: ModelSpec
    score: float | None
    signals: tuple[ExplainedSignal, ...]
    failures_in_a_row: int | None
    rejection: Rejection | None
    observed: tuple[str, ...]
    leads_by: Lead | None
    lacking: tuple[Capability, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision explained.

    Attributes:
        configuration: identifier; empty where the caller named a model.
        operation: ``None`` if none was chosen, which is not the same as an operation that needs nothing.
        needs: the capabilities the call needs a model to declare, the operation's own included; sorted.
        basis: the unit in which cost was compared; ``None`` where cost took no part.
        holding_back: routes with a list price and no measured cost, if they kept the decision on list prices.
        weights: the signals that entered scores.
        signals_used: those that moved the decision; without any, priority and ties decided.
        candidates: the eligible in order, then the refused.
        unavailable: identifiers the configuration, or a strict tier for it, names that are not in service.
        tiers: the tiers of budgets that were in force.
        open_needs: what cannot be known from a question; empty for a decision about a call.
        refusal: what a caller would be told; empty if somebody may serve.
    """

    configuration: str
    state: DecisionState
    selection: Selection
    mode: PolicyMode | None
    order: ListedOrder | None
    operation: Operation | None
    needs: tuple[str, ...]
    enforcement: Enforcement
    criteria: Criteria
    currency: str
    history: HistoryUse
    basis: CostBasis | None
    basis_reason: BasisReason
    holding_back: tuple[str, ...]
    weights: Mapping[SignalName, float]
    signals_used: tuple[SignalName, ...]
    candidates: tuple[ExplainedCandidate, ...]
    unavailable: tuple[str, ...]
    tiers: tuple[BudgetTier, ...]
    open_needs: tuple[OpenNeed, ...]
    refusal: str

    @property
    def selected(self) -> ExplainedCandidate | None:
        """The candidate that goes first; ``None`` if nobody may serve."""
        first = self.candidates[0] if self.candidates else None
        return first if first is not None and first.rank is not None else None


def explain(decision: Decision, *, open_needs: Sequence[OpenNeed] = ()) -> Explanation:
    """Explain a decision: one that was made for a call, restored from a record, or made for a question.

    Args:
        decision: what to explain.
        open_needs: for a question, what is not known of the request.
    """
    reason, holding_back = _why_basis(decision)
    followers = (*decision.eligible[1:], None) if decision.eligible else ()
    eligible = [
        _candidate(
            each,
            decision,
            rank=rank,
            leads_by=None if following is None else _lead(each, following, decision),
            open_needs=open_needs,
        )
        for rank, (each, following) in enumerate(zip(decision.eligible, followers, strict=True), start=1)
    ]
    refused = [_candidate(each, decision) for each in decision.refused]
    return Explanation(
        configuration=decision.configuration,
        state=decision.state,
        selection=decision.selection,
        mode=decision.mode,
        order=decision.order,
        operation=decision.operation,
        needs=tuple(sorted(decision.needs)),
        enforcement=decision.enforcement,
        criteria=decision.criteria,
        currency=decision.currency,
        history=_history_use(decision),
        basis=decision.basis,
        basis_reason=reason,
        holding_back=holding_back,
        weights=decision.weights,
        signals_used=decision.signals_used,
        candidates=(*eligible, *refused),
        unavailable=decision.unavailable,
        tiers=decision.tiers,
        open_needs=tuple(open_needs),
        refusal="" if decision.eligible else decision.refusal(),
    )


def _history_use(decision: Decision) -> HistoryUse:
    if decision.history_read:
        return HistoryUse.READ
    if decision.mode is None:
        return HistoryUse.NOTHING_RANKED
    if not decision.mode.is_measured:
        return HistoryUse.MODE_MEASURES_NOTHING
    if decision.operation is None:
        return HistoryUse.NO_OPERATION
    return HistoryUse.SWITCHED_OFF if decision.history_known else HistoryUse.UNAVAILABLE


def _why_basis(decision: Decision) -> tuple[BasisReason, tuple[str, ...]]:
    """Why this basis, and who held a measured one back."""
    if decision.mode is None:
        return BasisReason.NOTHING_RANKED, ()
    if not decision.mode.is_measured:
        return BasisReason.MODE_MEASURES_NOTHING, ()
    if decision.basis is None:
        return BasisReason.COST_TAKES_NO_PART, ()
    if not decision.history_read:
        return BasisReason.HISTORY_NOT_READ, ()
    if decision.basis is CostBasis.CALL_COST:
        return BasisReason.ALL_MEASURED, ()
    currency = decision.currency
    if all(each.reading.call_nanos(currency) is None for each in decision.eligible):
        return BasisReason.NOBODY_MEASURED, ()
    listed = tuple(
        each.model.route
        for each in decision.eligible
        if each.reading.call_nanos(currency) is None and each.reading.list_nanos(currency) is not None
    )
    return BasisReason.SOMEBODY_MERELY_LISTED, listed


def _candidate(
    candidate: Candidate,
    decision: Decision,
    *,
    rank: int | None = None,
    leads_by: Lead | None = None,
    open_needs: Sequence[OpenNeed] = (),
) -> ExplainedCandidate:
    counted = contributions(candidate.signals, weights=decision.weights, neutral_for_absent=decision.neutral_for_absent)
    return ExplainedCandidate(
        rank=rank,
        model=candidate.model,
        score=candidate.score,
        signals=tuple(_signal(name, candidate, decision, counted.get(name)) for name in SIGNALS),
        failures_in_a_row=candidate.reading.failures_in_a_row,
        rejection=candidate.rejection,
        observed=candidate.observed,
        leads_by=leads_by,
        lacking=_lacking(candidate.model, decision, open_needs),
    )


def _signal(
    name: SignalName, candidate: Candidate, decision: Decision, contribution: tuple[float, float] | None
) -> ExplainedSignal:
    value = candidate.signals.get(name)
    compared = candidate.rejection is None and decision.mode is not None
    weight, counted = contribution if compared and contribution is not None else (None, None)
    if not compared:
        status = SignalStatus.NOT_COMPARED
    elif name not in candidate.signals:
        status = SignalStatus.NOT_COLLECTED
    elif value is None:
        status = SignalStatus.NO_DATA
    else:
        status = SignalStatus.NO_WEIGHT if weight is None else SignalStatus.COUNTED
    return ExplainedSignal(
        name=name,
        status=status,
        raw=_raw(name, candidate.reading, decision.currency),
        value=value,
        counted=counted,
        weight=weight,
    )


def _raw(name: SignalName, reading: Reading, currency: str) -> RawFigure | None:
    history, price = reading.history, reading.price
    match name:
        case SignalName.QUALITY:
            return None if reading.quality is None else MeanScore(reading.quality)
        case SignalName.HEALTH:
            return reading.health
        case SignalName.COST:
            if price is None:
                return None
            return ListPrice(
                input=Money(price.rates.input, price.currency),
                output=Money(price.rates.output, price.currency),
                shortfall=None if price.currency == currency else Shortfall.OTHER_CURRENCY,
            )
        case SignalName.LATENCY:
            if history is None or history.mean_latency_ms is None:
                return None
            return MeanLatency(history.mean_latency_ms, history.calls, _too_few(history.calls))
    if history is None or history.mean_cost is None:
        return None
    other = None if history.mean_cost.currency == currency else Shortfall.OTHER_CURRENCY
    return MeanCost(history.mean_cost, history.priced_calls, other or _too_few(history.priced_calls))


def _too_few(calls: int) -> Shortfall | None:
    return Shortfall.TOO_FEW if calls < MIN_CALLS else None


def _lacking(model: ModelSpec, decision: Decision, open_needs: Sequence[OpenNeed]) -> tuple[Capability, ...]:
    """What a request might ask of a model that declares capabilities, and not this one. A fixed model is not asked."""
    if not model.capabilities or decision.selection is Selection.FIXED or decision.enforcement is Enforcement.OBSERVE:
        return ()
    wanted = (need.capability for need in open_needs)
    return tuple(each for each in wanted if each is not None and each not in model.capabilities)


def _lead(first: Candidate, second: Candidate, decision: Decision) -> Lead:
    """What puts one candidate before another: the wish of a tier, then the comparisons of ``routing.core.ranking`` in
    their order."""
    if first is decision.selected and _is_wished(first, decision):
        return Lead.BUDGET_TIER
    if decision.selection is not Selection.CRITERIA:
        return _listed_lead(first, second, decision)
    one, other = first.model, second.model
    comparisons = (
        (Lead.PRIORITY, one.provider.priority, other.provider.priority),
        (Lead.SCORE, first.score, second.score),
        (Lead.COST, _tie_cost(first, decision), _tie_cost(second, decision)),
        (Lead.DEFAULT, one.is_default, other.is_default),
        (Lead.SORTING, one.sorting, other.sorting),
    )
    return next((lead for lead, left, right in comparisons if left != right), Lead.CANDIDATE_ORDER)


def _is_wished(first: Candidate, decision: Decision) -> bool:
    wish = wish_of(decision.tiers, [each.model.identifier for each in decision.eligible])
    return wish is not None and wish[1] == first.model.identifier


def _listed_lead(first: Candidate, second: Candidate, decision: Decision) -> Lead:
    prices = [each.reading.list_nanos(decision.currency) for each in (first, second)]
    if decision.order is ListedOrder.CHEAPEST and prices[0] != prices[1]:
        return Lead.COST
    failures = [each.reading.failures_in_a_row or 0 for each in (first, second)]
    if decision.order is ListedOrder.HEALTHIEST and failures[0] != failures[1]:
        return Lead.FAILURES
    return Lead.LISTED_ORDER


def _tie_cost(candidate: Candidate, decision: Decision) -> int | None:
    """The cost that breaks ties, in nano-units: on the decision's basis, or by list price where cost takes no part."""
    if not decision.criteria.prefer_lowest_cost:
        return None
    reading, currency = candidate.reading, decision.currency
    return reading.call_nanos(currency) if decision.basis is CostBasis.CALL_COST else reading.list_nanos(currency)
