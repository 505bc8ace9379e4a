"""A decision as a document: versioned JSON for records, pages and programs, and its digest.

A record is stored once per distinct content, since thousands of calls within a minute share it. So the document
holds only what calls share; the estimate, the pin and the key of one call live on the call's row. For every
candidate, refused ones included, it keeps the raw figures in force at that moment; the keys of ``signals`` say
which of them the mode looked at. What each was worth in the score follows from ``signals``, ``weights`` and
``neutral_for_absent`` (``ranking.contributions``), and is not written down a second time.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

from routing.core.catalogue import ModelSpec, ProviderSpec
from routing.core.configuration import Criteria
from routing.core.decision import Candidate, Decision
from routing.core.eligibility import Rejection
from routing.core.money import Money, format_nanos, parse_nanos
from routing.core.policy import PolicyMode
from routing.core.pricing import Price, Rates
from routing.core.ranking import Reading
from routing.core.signals import HealthFigure, HistoryFigure
from routing.core.tiers import BudgetTier
from routing.core.vocabulary import (
    CostBasis,
    DataBoundary,
    Enforcement,
    ListedOrder,
    Operation,
    Reach,
    RejectionReason,
    Selection,
    SignalName,
)

VERSION = 1

_SPELLING = {name: name.value for name in SignalName}  # plain texts, looked up faster than an enum's value
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


class TranscriptError(ValueError):
    """A document that is no decision document of a version this installation reads."""


def document(decision: Decision) -> dict[str, Any]:
    """The decision as plain JSON values. Money is a decimal text, a ratio a number, an absence ``null``."""
    return {
        "version": VERSION,
        "configuration": decision.configuration,
        "selection": decision.selection.value,
        "state": decision.state.value,
        "mode": None if decision.mode is None else decision.mode.value,
        "order": None if decision.order is None else decision.order.value,
        "operation": None if decision.operation is None else decision.operation.value,
        "needs": sorted(decision.needs),
        "enforcement": decision.enforcement.value,
        "currency": decision.currency,
        "criteria": _criteria(decision),
        "history_read": decision.history_read,
        "history_known": decision.history_known,
        "basis": None if decision.basis is None else decision.basis.value,
        "weights": {name.value: weight for name, weight in decision.weights.items()},
        "neutral_for_absent": sorted(name.value for name in decision.neutral_for_absent),
        "signals_used": [name.value for name in decision.signals_used],
        "selected": None if decision.selected is None else decision.selected.model.identifier,
        "unavailable": list(decision.unavailable),
        "candidates": [_candidate(each) for each in decision.candidates],
        **({"tiers": [_tier(each) for each in decision.tiers]} if decision.tiers else {}),
    }


def canonical(content: Mapping[str, Any]) -> bytes:
    """A document's one spelling: sorted keys, no blanks, UTF-8."""
    return _ENCODER.encode(content).encode()


def digest(content: bytes) -> str:
    """The name of a canonical document: SHA-256 in hexadecimal."""
    return sha256(content).hexdigest()


def outline(decision: Decision) -> dict[str, Any]:
    """The short form that ``manage.py explain --json`` prints and scenarios are checked against."""
    return {
        "selected": None if decision.selected is None else decision.selected.model.identifier,
        "order": [each.model.identifier for each in decision.eligible],
        "state": decision.state.value,
        "mode": decision.recorded_mode,
        "basis": None if decision.basis is None else decision.basis.value,
        "signals_used": [name.value for name in decision.signals_used],
        "candidates": [_outlined(each) for each in decision.candidates],
    }


def restore(content: Mapping[str, Any]) -> Decision:
    """The decision behind a document, so that a page shows a recorded one by the code that shows a fresh one.

    ``document(restore(content)) == content`` for every document of this version; what a document does not hold
    (a price's long-prompt tier, a model's other prices) is not in the restored decision either.

    Raises:
        TranscriptError: the document has another version, or is none.
    """
    if content.get("version") != VERSION:
        raise TranscriptError(f"decision documents of version {content.get('version')!r} cannot be read")
    try:
        return _restored(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TranscriptError(f"not a whole decision document: {error!r}") from error


def _restored(content: Mapping[str, Any]) -> Decision:
    candidates = [_restored_candidate(each) for each in content["candidates"]]
    mode, order, operation, basis = (content[key] for key in ("mode", "order", "operation", "basis"))
    return Decision(
        configuration=content["configuration"],
        selection=Selection(content["selection"]),
        criteria=_restored_criteria(content["criteria"]),
        operation=None if operation is None else Operation(operation),
        needs=frozenset(content["needs"]),
        enforcement=Enforcement(content["enforcement"]),
        currency=content["currency"],
        mode=None if mode is None else PolicyMode(mode),
        order=None if order is None else ListedOrder(order),
        history_read=content["history_read"],
        history_known=content["history_known"],
        basis=None if basis is None else CostBasis(basis),
        weights={SignalName(name): weight for name, weight in content["weights"].items()},
        neutral_for_absent=frozenset(SignalName(name) for name in content["neutral_for_absent"]),
        signals_used=tuple(SignalName(name) for name in content["signals_used"]),
        eligible=tuple(each for each in candidates if each.rejection is None),
        refused=tuple(each for each in candidates if each.rejection is not None),
        unavailable=tuple(content["unavailable"]),
        tiers=tuple(BudgetTier(**{**each, "targets": tuple(each["targets"])}) for each in content.get("tiers", ())),
    )


def _restored_criteria(content: Mapping[str, Any]) -> Criteria:
    ceiling = content["max_cost_input"]
    return Criteria(
        capabilities=tuple(content["capabilities"]),
        adapter_types=tuple(content["adapter_types"]),
        min_context_length=content["min_context_length"],
        max_cost_input=None if ceiling is None else parse_nanos(ceiling),
        prefer_lowest_cost=content["prefer_lowest_cost"],
    )


def _restored_candidate(content: Mapping[str, Any]) -> Candidate:
    reading = _restored_reading(content["figures"])
    model = ModelSpec(
        identifier=content["identifier"],
        model_id=content["model_id"],
        name=content["name"],
        provider=ProviderSpec(
            identifier=content["provider"],
            adapter_type=content["adapter_type"],
            priority=content["provider_priority"],
            reach=Reach(content["reach"]),
            data_boundary=DataBoundary(content["data_boundary"]),
            region=content["region"],
        ),
        capabilities=frozenset(content["capabilities"]),
        context_length=content["context_length"],
        is_default=content["is_default"],
        sorting=content["sorting"],
        prices=() if reading.price is None else (reading.price,),
    )
    reason = content["reason"]
    return Candidate(
        model=model,
        reading=reading,
        score=content["score"],
        signals={SignalName(name): value for name, value in content["signals"].items()},
        rejection=None if reason is None else Rejection(RejectionReason(reason), content["detail"]),
        observed=tuple(content["observed"]),
    )


def _restored_reading(content: Mapping[str, Any]) -> Reading:
    health, history, price = content["health"], content["history"], content["price"]
    return Reading(
        quality=content["quality"],
        health=None if health is None else HealthFigure(**health),
        history=None
        if history is None
        else HistoryFigure(
            calls=history["calls"],
            mean_latency_ms=history["mean_latency_ms"],
            priced_calls=history["priced_calls"],
            mean_cost=None
            if history["mean_cost"] is None
            else Money(parse_nanos(history["mean_cost"]), history["currency"]),
        ),
        price=None
        if price is None
        else Price(
            valid_from=datetime.fromisoformat(price["valid_from"]),
            currency=price["currency"],
            rates=Rates(input=parse_nanos(price["input"]), output=parse_nanos(price["output"])),
        ),
        failures_in_a_row=content["failures_in_a_row"],
    )


def _outlined(candidate: Candidate) -> dict[str, Any]:
    if candidate.rejection is not None:
        return {
            "identifier": candidate.model.identifier,
            "reason": candidate.rejection.reason.value,
            "detail": candidate.rejection.detail,
        }
    return {
        "identifier": candidate.model.identifier,
        "score": candidate.score,
        "signals": {name.value: value for name, value in candidate.signals.items()},
        "reason": None,
        **({"observed": list(candidate.observed)} if candidate.observed else {}),
    }


def _tier(tier: BudgetTier) -> dict[str, Any]:
    return {
        "budget": tier.budget,
        "threshold": tier.threshold,
        "percent": tier.percent,
        "targets": list(tier.targets),
        "is_strict": tier.is_strict,
    }


def _criteria(decision: Decision) -> dict[str, Any]:
    criteria = decision.criteria
    return {
        "capabilities": list(criteria.capabilities),
        "adapter_types": list(criteria.adapter_types),
        "min_context_length": criteria.min_context_length,
        "max_cost_input": None if criteria.max_cost_input is None else format_nanos(criteria.max_cost_input),
        "prefer_lowest_cost": criteria.prefer_lowest_cost,
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    model, provider, rejection = candidate.model, candidate.model.provider, candidate.rejection
    return {
        "identifier": model.identifier,
        "name": model.name,
        "provider": provider.identifier,
        "adapter_type": provider.adapter_type,
        "model_id": model.model_id,
        "provider_priority": provider.priority,
        "is_default": model.is_default,
        "sorting": model.sorting,
        "capabilities": sorted(model.capabilities),
        "context_length": model.context_length,
        "reach": provider.reach.value,
        "data_boundary": provider.data_boundary.value,
        "region": provider.region,
        "score": candidate.score,
        "signals": {_SPELLING[name]: value for name, value in candidate.signals.items()},
        "figures": _figures(candidate.reading),
        "observed": list(candidate.observed),
        "reason": None if rejection is None else rejection.reason.value,
        "detail": "" if rejection is None else rejection.detail,
    }


def _figures(reading: Reading) -> dict[str, Any]:
    health, history, price = reading.health, reading.history, reading.price
    return {
        "quality": reading.quality,
        "health": None
        if health is None
        else {
            "samples": health.samples,
            "successes": health.successes,
            "mean_latency_ms": health.mean_latency_ms,
        },
        "history": None
        if history is None
        else {
            "calls": history.calls,
            "mean_latency_ms": history.mean_latency_ms,
            "priced_calls": history.priced_calls,
            "mean_cost": None if history.mean_cost is None else history.mean_cost.amount,
            "currency": None if history.mean_cost is None else history.mean_cost.currency,
        },
        "price": None if price is None else _price(price),
        "failures_in_a_row": reading.failures_in_a_row,
    }


def _price(price: Price) -> dict[str, Any]:
    return {
        "valid_from": price.valid_from.isoformat(),
        "currency": price.currency,
        "input": format_nanos(price.rates.input),
        "output": format_nanos(price.rates.output),
    }
