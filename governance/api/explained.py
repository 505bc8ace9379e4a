"""A decision explained, as programs read it.

Whoever is logged in reads everything. A virtual key is told of the models it may use alone, and of nothing that other
applications' calls have measured: what becomes of each candidate, by which rule, and what is published, but neither
scores nor the figures of health, latency and cost of calls.
"""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from governance.access.directory import Caller
from governance.api.serializers import StrictSerializer
from governance.explanations import (
    BasisReason,
    ExplainedCandidate,
    ExplainedSignal,
    Explanation,
    HistoryUse,
    Lead,
    ListPrice,
    MeanCost,
    MeanLatency,
    MeanScore,
    OpenNeed,
    RawFigure,
    SignalStatus,
)
from routing.core.policy import PolicyMode
from routing.core.signals import HealthFigure
from routing.core.tiers import BudgetTier
from routing.core.vocabulary import (
    CostBasis,
    DecisionState,
    ListedOrder,
    Operation,
    RejectionReason,
    Selection,
    SignalName,
)

Document = dict[str, Any]

MEASURED = frozenset({SignalName.HEALTH, SignalName.LATENCY, SignalName.CALL_COST})
"""Signals that are made of everybody's calls."""


def _word(words: Any, *, null: bool = False, help_text: str = "") -> serializers.ChoiceField:
    return serializers.ChoiceField([each.value for each in words], allow_null=null, help_text=help_text)


class SignalSerializer(StrictSerializer):
    """One signal of one candidate."""

    name = _word(SignalName)
    status = _word(SignalStatus, help_text="What became of it.")
    raw = serializers.DictField(allow_null=True, help_text="What was measured, in figures; null if nothing was.")
    value = serializers.FloatField(allow_null=True, help_text="What it is worth between 0 and 1; null for no data.")
    counted = serializers.FloatField(allow_null=True, help_text="The value that entered the score.")
    weight = serializers.FloatField(allow_null=True, help_text="The weight with which it entered.")


class RejectionSerializer(StrictSerializer):
    """Why a candidate may not serve."""

    reason = _word(RejectionReason)
    detail = serializers.CharField()


class CandidateSerializer(StrictSerializer):
    """One candidate."""

    rank = serializers.IntegerField(allow_null=True, help_text="From 1 for the one that goes first; null if refused.")
    route = serializers.CharField(help_text="provider/model")
    model_id = serializers.CharField(help_text="The id sent to the provider.")
    score = serializers.FloatField(allow_null=True)
    leads_by = _word(Lead, null=True, help_text="What puts it before the next one.")
    rejection = RejectionSerializer(allow_null=True)
    lacking = serializers.ListField(
        child=serializers.CharField(), help_text="Of the open needs, those for which a request would not get it."
    )
    failures_in_a_row = serializers.IntegerField(allow_null=True)
    signals = SignalSerializer(many=True)


class TierInForceSerializer(StrictSerializer):
    """A tier of a budget that is in force."""

    budget = serializers.CharField()
    threshold = serializers.IntegerField(help_text="The per cent of the limit from which on it is in force.")
    percent = serializers.IntegerField(
        allow_null=True, help_text="What was used up when it was crossed; null if that cannot be read just now."
    )
    targets = serializers.ListField(child=serializers.CharField(), help_text="The models that are to serve.")
    is_strict = serializers.BooleanField(help_text="Whether no other may; else one of them goes first if it may serve.")


class ExplanationSerializer(StrictSerializer):
    """A decision explained."""

    configuration = serializers.CharField(help_text="Empty where the caller named a model.")
    state = _word(DecisionState)
    selection = _word(Selection)
    mode = _word(PolicyMode, null=True)
    order = _word(ListedOrder, null=True)
    operation = _word(Operation, null=True)
    needs = serializers.ListField(child=serializers.CharField())
    currency = serializers.CharField()
    history = _word(HistoryUse, help_text="Whether call history was read, or why not.")
    basis = _word(CostBasis, null=True, help_text="The unit in which cost was compared.")
    basis_reason = _word(BasisReason)
    weights = serializers.DictField(child=serializers.FloatField())
    signals_used = serializers.ListField(child=serializers.CharField(), help_text="Signals that moved the decision.")
    candidates = CandidateSerializer(many=True, help_text="The eligible in order, then the refused.")
    others = serializers.IntegerField(help_text="Candidates that are not told of: the key does not allow them.")
    unavailable = serializers.ListField(
        child=serializers.CharField(), help_text="What the configuration names and is not in service."
    )
    tiers = TierInForceSerializer(many=True, help_text="Tiers of budgets that are in force.")
    open_needs = serializers.ListField(
        child=serializers.CharField(), help_text=f"What a question cannot know: {', '.join(OpenNeed)}."
    )
    refusal = serializers.CharField(help_text="What a caller would be told; empty if somebody may serve.")


def explanation_document(explanation: Explanation, *, caller: Caller | None, refusal: str) -> Document:
    """An explanation for whoever asks; ``refusal`` is the sentence that they may be told."""
    told = [each for each in explanation.candidates if _may_know(each.model.identifier, caller)]
    return {
        "configuration": explanation.configuration,
        "state": explanation.state.value,
        "selection": explanation.selection.value,
        "mode": explanation.mode,
        "order": explanation.order,
        "operation": explanation.operation,
        "needs": list(explanation.needs),
        "currency": explanation.currency,
        "history": explanation.history.value,
        "basis": explanation.basis,
        "basis_reason": explanation.basis_reason.value,
        "weights": {name.value: weight for name, weight in explanation.weights.items()},
        "signals_used": [each.value for each in explanation.signals_used],
        "candidates": [_candidate(each, for_key=caller is not None) for each in told],
        "others": len(explanation.candidates) - len(told),
        "unavailable": [each for each in explanation.unavailable if _may_know(each, caller)],
        "tiers": [_tier(each, caller) for each in explanation.tiers],
        "open_needs": [each.value for each in explanation.open_needs],
        "refusal": refusal,
    }


def _tier(tier: BudgetTier, caller: Caller | None) -> Document:
    return {
        "budget": tier.budget,
        "threshold": tier.threshold,
        "percent": tier.percent,
        "targets": [each for each in tier.targets if _may_know(each, caller)],
        "is_strict": tier.is_strict,
    }


def _may_know(model: str, caller: Caller | None) -> bool:
    return caller is None or caller.allowed_models is None or model in caller.allowed_models


def _candidate(candidate: ExplainedCandidate, *, for_key: bool) -> Document:
    rejection = candidate.rejection
    return {
        "rank": candidate.rank,
        "route": candidate.model.route,
        "model_id": candidate.model.model_id,
        "score": None if for_key else candidate.score,
        "leads_by": candidate.leads_by,
        "rejection": None if rejection is None else {"reason": rejection.reason.value, "detail": rejection.detail},
        "lacking": [each.value for each in candidate.lacking],
        "failures_in_a_row": None if for_key else candidate.failures_in_a_row,
        "signals": [_signal(each, withheld=for_key and each.name in MEASURED) for each in candidate.signals],
    }


def _signal(signal: ExplainedSignal, *, withheld: bool) -> Document:
    return {
        "name": signal.name.value,
        "status": signal.status.value,
        "raw": None if withheld else _raw(signal.raw),
        "value": None if withheld else signal.value,
        "counted": None if withheld else signal.counted,
        "weight": signal.weight,
    }


def _raw(raw: RawFigure | None) -> Mapping[str, Any] | None:
    match raw:
        case None:
            return None
        case MeanScore():
            return {"mean_score": raw.score}
        case HealthFigure():
            return {"samples": raw.samples, "successes": raw.successes, "mean_latency_ms": raw.mean_latency_ms}
        case ListPrice():
            prices = {"input_rate": raw.input.amount, "output_rate": raw.output.amount, "currency": raw.input.currency}
            return {**prices, "shortfall": raw.shortfall}
        case MeanLatency():
            return {"mean_latency_ms": raw.milliseconds, "calls": raw.calls, "shortfall": raw.shortfall}
        case MeanCost():
            cost = {"mean_cost": raw.cost.amount, "currency": raw.cost.currency}
            return {**cost, "calls": raw.calls, "shortfall": raw.shortfall}
