"""A decision saved as a scenario: the file that ``manage.py explain`` reads, with the outcome as its expectation.

Written from the decision alone, so that a question, a call of today and a record of last month are saved alike. What a
decision does not hold is what its outcome needs and no more: of the caller's limits, those that refused somebody; of a
prompt's size, the smallest that was too large for those it was too large for. The names of a listed or fixed selection
that were not in service are left out, since a scenario's models are all in service.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from routing.core.configuration import NO_CRITERIA
from routing.core.decision import Candidate, Decision
from routing.core.money import format_nanos
from routing.core.ranking import Reading
from routing.core.scenario import read_scenario
from routing.core.tiers import BudgetTier, substitutes
from routing.core.transcript import outline
from routing.core.vocabulary import OPERATION_CAPABILITY, DataBoundary, Reach, RejectionReason, Selection

_EXPECTED = ("selected", "order", "state", "mode", "basis", "signals_used")


def scenario_of(decision: Decision, *, call_history: bool | None = None, description: str = "") -> dict[str, Any]:
    """A decision as the content of a scenario file.

    A candidate that was above the caller's ceiling is left out, since a scenario has no such ceiling; the description
    says so.

    Args:
        decision: what to save.
        call_history: whether call history was switched on, where that is known; else whether it was read.
        description: words for people.
    """
    saved = [each for each in decision.candidates if not _refused_for(each, RejectionReason.ABOVE_REQUEST_CEILING)]
    left_out = [each.model.route for each in decision.candidates if each not in saved]
    if left_out:
        description = f"{description} Left out, being above the caller's ceiling: {', '.join(left_out)}.".strip()
    asked = _said(
        {
            "description": description,
            "selection": decision.selection.value,
            "order": None if decision.order is None else decision.order.value,
            "mode": None if decision.mode is None else decision.mode.value,
            "call_history": decision.history_read if call_history is None else call_history,
            "telemetry": decision.operation is None or decision.history_known,
            "operation": None if decision.operation is None else decision.operation.value,
            "enforcement": decision.enforcement.value,
            "currency": decision.currency,
            "criteria": _criteria(decision),
        }
    )
    limits = {**_limits(saved, tiers=decision.tiers), **_tiers(decision)}
    content = {**asked, **limits, "models": [_model(each, decision.currency) for each in _fixed_first(saved, decision)]}
    return {**content, "expect": _expectation(content)}


def spell_scenario(content: Mapping[str, Any]) -> str:
    """A scenario as the text of a file."""
    return f"{json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)}\n"


def _expectation(content: Mapping[str, Any]) -> dict[str, Any]:
    """What the file itself leads to."""
    found = outline(read_scenario(content).decide())
    fields = ("identifier", "score", "signals", "reason", "observed")
    candidates = [{key: each[key] for key in fields if key in each} for each in found["candidates"]]
    return {**{key: found[key] for key in _EXPECTED}, "candidates": candidates}


def _criteria(decision: Decision) -> dict[str, Any]:
    criteria = decision.criteria if decision.selection is Selection.CRITERIA else NO_CRITERIA
    own = None if decision.operation is None else OPERATION_CAPABILITY[decision.operation]
    return _said(
        {
            "capabilities": list(criteria.capabilities),
            "adapter_types": list(criteria.adapter_types),
            "min_context_length": criteria.min_context_length,
            "max_cost_input": None if criteria.max_cost_input is None else format_nanos(criteria.max_cost_input),
            "prefer_lowest_cost": criteria.prefer_lowest_cost,
            "operation_capability": sorted(decision.needs - ({own} if own is not None else set())),
        }
    )


def _tiers(decision: Decision) -> dict[str, Any]:
    tiers = [
        _said(
            {
                "budget": each.budget,
                "threshold": each.threshold,
                "percent": each.percent,
                "targets": list(each.targets),
                "strict": each.is_strict,
            }
        )
        for each in decision.tiers
    ]
    return {"budget_tiers": tiers} if tiers else {}


def _fixed_first(saved: Sequence[Candidate], decision: Decision) -> list[Candidate]:
    """Of a fixed selection the model that it names comes first, and is no target of a tier where others are."""
    if decision.selection is not Selection.FIXED:
        return list(saved)
    targets = substitutes(decision.tiers)
    return sorted(saved, key=lambda each: each.model.identifier in targets)


def _limits(saved: Iterable[Candidate], *, tiers: Sequence[BudgetTier]) -> dict[str, Any]:
    """Limits that refuse exactly whom the decision's limits refused, each asked in the order of the reasons."""
    reasons = [(each, None if each.rejection is None else each.rejection.reason) for each in saved]
    order = {reason: place for place, reason in enumerate(RejectionReason)}

    def refused(reason: RejectionReason) -> list[Candidate]:
        return [each for each, found in reasons if found is reason]

    def passed(reason: RejectionReason) -> list[Candidate]:
        """Who was asked for this reason and not refused by it."""
        return [each for each, found in reasons if found is None or order[found] > order[reason]]

    limits: dict[str, Any] = {}
    if refused(RejectionReason.NOT_PERMITTED):
        limits["allowed_models"] = [each.model.identifier for each in passed(RejectionReason.NOT_PERMITTED)]
    if refused(RejectionReason.BUDGET_TARGET_ONLY) and not tiers:
        names = [each.model.identifier for each in passed(RejectionReason.BUDGET_TARGET_ONLY)]
        limits["budget_targets"] = [names]
    if refused(RejectionReason.BOUNDARY_NOT_ALLOWED):
        limits["boundary"] = DataBoundary.INTERNAL.value
    if refused(RejectionReason.REACH_NOT_ALLOWED):
        limits["reach"] = Reach.SELF_HOSTED.value
    if refused(RejectionReason.REGION_NOT_ALLOWED):
        limits["region"] = sorted({each.model.provider.region for each in passed(RejectionReason.REGION_NOT_ALLOWED)})
    too_small = [each.model.context_length or 0 for each in refused(RejectionReason.REQUEST_TOO_LARGE)]
    if too_small:
        limits["estimated_tokens"] = max(too_small) + 1
    return limits


def _model(candidate: Candidate, currency: str) -> dict[str, Any]:
    model, provider, reading = candidate.model, candidate.model.provider, candidate.reading
    return _said(
        {
            "identifier": model.identifier,
            "model_id": model.model_id,
            "name": model.name,
            "provider": provider.identifier,
            "adapter_type": provider.adapter_type,
            "provider_priority": provider.priority,
            "is_default": model.is_default,
            "sorting": model.sorting,
            "capabilities": sorted(model.capabilities),
            "context_length": model.context_length,
            "reach": provider.reach.value,
            "data_boundary": provider.data_boundary.value,
            "region": provider.region,
            "consecutive_failures": reading.failures_in_a_row,
            **_figures(reading, currency),
        }
    )


def _figures(reading: Reading, currency: str) -> dict[str, Any]:
    price, health, history = reading.price, reading.health, reading.history
    figures: dict[str, Any] = {"quality": reading.quality}
    if price is not None:
        figures |= {
            "price_input": format_nanos(price.rates.input),
            "price_output": format_nanos(price.rates.output),
            "price_currency": None if price.currency == currency else price.currency,
        }
    if health is not None:
        figures["health"] = _said(
            {
                "samples": health.samples,
                "successes": health.successes,
                "mean_latency_ms": health.mean_latency_ms,
            }
        )
    if history is not None:
        cost = history.mean_cost
        figures["history"] = _said(
            {
                "calls": history.calls,
                "mean_latency_ms": history.mean_latency_ms,
                "priced_calls": history.priced_calls,
                "mean_cost": None if cost is None else cost.amount,
                "currency": None if cost is None or cost.currency == currency else cost.currency,
            }
        )
    return figures


def _said(content: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is absent or empty: a file says what there is."""
    return {key: value for key, value in content.items() if value is not None and value not in ("", [], {})}


def _refused_for(candidate: Candidate, reason: RejectionReason) -> bool:
    return candidate.rejection is not None and candidate.rejection.reason is reason
