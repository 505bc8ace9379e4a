"""Hard constraints: which candidates may serve at all, and the first reason why not.

The operator's own criteria come first and what the running call needs comes last, so that
``operationCapabilityMissing`` means "would have served, but not this call". A refused candidate has a reason,
never a score. Which rules bind depends on how the candidates were selected.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from routing.core.catalogue import ModelSpec
from routing.core.configuration import Criteria
from routing.core.money import format_nanos
from routing.core.policy import RoutingPolicy
from routing.core.pricing import Price, upper_bound
from routing.core.requirements import Limits, Requirements
from routing.core.vocabulary import LABELS, DataBoundary, Enforcement, RejectionReason, Selection

_ALWAYS = frozenset(
    {
        RejectionReason.NOT_PERMITTED,
        RejectionReason.BUDGET_TARGET_ONLY,
        RejectionReason.BOUNDARY_NOT_ALLOWED,
        RejectionReason.REACH_NOT_ALLOWED,
        RejectionReason.REGION_NOT_ALLOWED,
        RejectionReason.REQUEST_TOO_LARGE,
        RejectionReason.ABOVE_REQUEST_CEILING,
    }
)

BINDING: Mapping[Selection, frozenset[RejectionReason]] = MappingProxyType(
    {
        Selection.FIXED: _ALWAYS,
        Selection.LISTED: _ALWAYS | {RejectionReason.OPERATION_CAPABILITY_MISSING},
        Selection.OVERRIDE: _ALWAYS | {RejectionReason.OPERATION_CAPABILITY_MISSING},
        Selection.CRITERIA: frozenset(RejectionReason),
    }
)
"""The constraints that bind for each way of selecting candidates."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a candidate may not serve: the reason, and a sentence that names the figures at fault.

    The sentence holds nothing that belongs to one call alone, since decision records are shared by calls.
    """

    reason: RejectionReason
    detail: str


class Screen:
    """The constraints of one decision, prepared once and asked for every candidate."""

    __slots__ = ("_adapters", "_capabilities", "_criteria", "_limits", "_needs", "_observing", "_policy",
                 "_requirements", "_screens_criteria", "_screens_operation", "_targets")  # fmt: skip

    def __init__(
        self,
        *,
        selection: Selection,
        criteria: Criteria,
        requirements: Requirements,
        limits: Limits,
        policy: RoutingPolicy,
    ) -> None:
        binding = BINDING[selection]
        self._criteria = criteria
        self._capabilities = frozenset(wanted.strip() for wanted in criteria.capabilities)
        self._adapters = frozenset(criteria.adapter_types)
        self._requirements = requirements
        self._limits = limits
        self._policy = policy
        self._needs = requirements.capabilities
        self._targets = frozenset.intersection(*limits.budget_targets) if limits.budget_targets else None
        self._observing = policy.enforcement is Enforcement.OBSERVE
        self._screens_criteria = RejectionReason.CAPABILITY_MISSING in binding
        self._screens_operation = RejectionReason.OPERATION_CAPABILITY_MISSING in binding

    def rejection(self, model: ModelSpec, price: Price | None) -> Rejection | None:
        """The first constraint that refuses the model at its price in force, or ``None`` if it may serve."""
        rejection = self._by_permission(model) or self._by_destination(model)
        if rejection is None and self._screens_criteria:
            rejection = self._by_criteria(model, price)
        if rejection is None:
            rejection = self._by_size(model, price)
        if rejection is None and self._screens_operation and not self._observing:
            missing = self.missing_for_call(model)
            if missing:
                rejection = Rejection(
                    RejectionReason.OPERATION_CAPABILITY_MISSING,
                    f"declares {_listed(model.capabilities)}, but the call needs {_listed(missing)}",
                )
        return rejection

    def observed(self, model: ModelSpec) -> tuple[str, ...]:
        """What enforcement would have missed in a model that is only being observed."""
        if not (self._observing and self._screens_operation):
            return ()
        return self.missing_for_call(model)

    def missing_for_call(self, model: ModelSpec) -> tuple[str, ...]:
        """Capabilities the call needs that a model with declared capabilities does not declare, sorted."""
        if not model.capabilities or self._needs <= model.capabilities:
            return ()
        return tuple(sorted(self._needs - model.capabilities))

    def _by_permission(self, model: ModelSpec) -> Rejection | None:
        allowed = self._limits.allowed_models
        if allowed is not None and model.identifier not in allowed:
            return _plain(RejectionReason.NOT_PERMITTED)
        if self._targets is not None and model.identifier not in self._targets:
            return _plain(RejectionReason.BUDGET_TARGET_ONLY)
        return None

    def _by_destination(self, model: ModelSpec) -> Rejection | None:
        provider, limits = model.provider, self._limits
        if limits.internal_only and provider.data_boundary is not DataBoundary.INTERNAL:
            return Rejection(
                RejectionReason.BOUNDARY_NOT_ALLOWED,
                f"the content must stay internal, and the data boundary of {provider.identifier} "
                f"is {provider.data_boundary.value}",
            )
        if limits.on_device and not provider.reach.is_on_device:
            return Rejection(
                RejectionReason.REACH_NOT_ALLOWED,
                f"the data must stay on-device, and {provider.identifier} is reached by {provider.reach.value}",
            )
        if limits.regions is not None and provider.region not in limits.regions:
            return Rejection(
                RejectionReason.REGION_NOT_ALLOWED,
                f"region {provider.region or 'unknown'} is not among {_listed(limits.regions)}",
            )
        return None

    def _by_criteria(self, model: ModelSpec, price: Price | None) -> Rejection | None:
        criteria = self._criteria
        if not self._capabilities <= model.capabilities:
            missing = _listed(self._capabilities - model.capabilities)
            return Rejection(RejectionReason.CAPABILITY_MISSING, f"does not declare {missing}")
        if self._adapters and model.provider.adapter_type not in self._adapters:
            return Rejection(
                RejectionReason.ADAPTER_NOT_ALLOWED,
                f"adapter type {model.provider.adapter_type or 'none'} is not among {_listed(self._adapters)}",
            )
        minimum = criteria.min_context_length
        if minimum > 0 and (model.context_length is None or model.context_length < minimum):
            known = "unknown" if model.context_length is None else str(model.context_length)
            return Rejection(RejectionReason.CONTEXT_TOO_SMALL, f"context length {known}, at least {minimum} wanted")
        ceiling = criteria.max_cost_input
        if ceiling is None or ceiling <= 0 or price is None or price.currency != self._policy.currency:
            return None
        if price.rates.input > ceiling:
            return Rejection(
                RejectionReason.COST_ABOVE_LIMIT,
                f"input price {format_nanos(price.rates.input)} {price.currency} per million tokens, "
                f"at most {format_nanos(ceiling)} wanted",
            )
        return None

    def _by_size(self, model: ModelSpec, price: Price | None) -> Rejection | None:
        prompt = self._requirements.prompt_tokens
        if prompt is not None and model.context_length is not None and prompt > model.context_length:
            return Rejection(
                RejectionReason.REQUEST_TOO_LARGE,
                f"the estimated prompt does not fit the context of {model.context_length} tokens",
            )
        ceiling = self._limits.cost_ceiling
        if ceiling is None:
            return None
        if price is None:
            return Rejection(
                RejectionReason.ABOVE_REQUEST_CEILING, "has no price, so that the caller's ceiling cannot be kept"
            )
        if price.currency != ceiling.currency:
            return Rejection(
                RejectionReason.ABOVE_REQUEST_CEILING,
                f"is priced in {price.currency}, the caller's ceiling is in {ceiling.currency}",
            )
        output = self._requirements.max_output or model.max_output or self._policy.assumed_max_output
        if upper_bound(price=price, prompt_tokens=prompt or 0, max_output=output).nanos > ceiling.nanos:
            return _plain(RejectionReason.ABOVE_REQUEST_CEILING)
        return None


def _plain(reason: RejectionReason) -> Rejection:
    return Rejection(reason, LABELS[reason][0].lower() + LABELS[reason][1:])


def _listed(names: frozenset[str] | tuple[str, ...]) -> str:
    return ", ".join(sorted(names))
