"""Hard constraints: which candidates may serve at all, and the first reason why not.

The operator's own criteria come first and what the running call needs comes last, so that
``operationCapabilityMissing`` means "would have served, but not this call". A refused candidate has a reason,
never a score. Which rules bind depends on how the candidates were selected.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from routing.core.catalogue import ModelSpec
from routing.core.configuration import Criteria
from routing.core.money import Money, format_nanos
from routing.core.policy import RoutingPolicy
from routing.core.pricing import Price
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


Constraint = Callable[[ModelSpec, Price | None], str | None]
"""Asked for a model at its price in force: why it may not serve, or ``None`` if it may."""


class Screen:
    """The constraints of one decision, prepared once and asked for every candidate.

    Those that nobody makes in this decision are left out beforehand, so a candidate costs what is really asked.
    """

    __slots__ = ("_constraints", "_needs", "_observing")

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
        screens_operation = RejectionReason.OPERATION_CAPABILITY_MISSING in binding
        self._needs: frozenset[str] = requirements.capabilities if screens_operation else frozenset()
        self._observing = policy.enforcement is Enforcement.OBSERVE
        made: list[tuple[RejectionReason, Constraint]] = [
            *_of_limits(limits),
            *_of_criteria(criteria, policy),
            *_of_size(requirements, limits, policy),
        ]
        if self._needs and not self._observing:
            made.append((RejectionReason.OPERATION_CAPABILITY_MISSING, self._lacks_for_call))
        self._constraints = [each for each in made if each[0] in binding]

    def rejection(self, model: ModelSpec, price: Price | None) -> Rejection | None:
        """The first constraint that refuses the model at its price in force, or ``None`` if it may serve."""
        for reason, constraint in self._constraints:
            detail = constraint(model, price)
            if detail is not None:
                return Rejection(reason, detail)
        return None

    def observed(self, model: ModelSpec) -> tuple[str, ...]:
        """What enforcement would have missed in a model that is only being observed."""
        return self.missing_for_call(model) if self._observing else ()

    def missing_for_call(self, model: ModelSpec) -> tuple[str, ...]:
        """Capabilities the call needs that a model with declared capabilities does not declare, sorted.

        Nothing where the operation does not bind.
        """
        if not model.capabilities or self._needs <= model.capabilities:
            return ()
        return tuple(sorted(self._needs - model.capabilities))

    def _lacks_for_call(self, model: ModelSpec, price: Price | None) -> str | None:
        missing = self.missing_for_call(model)
        if not missing:
            return None
        return f"declares {_listed(model.capabilities)}, but the call needs {_listed(missing)}"


def _of_limits(limits: Limits) -> Iterator[tuple[RejectionReason, Constraint]]:
    """What the key, strict budget tiers and content rules allow."""
    allowed, regions = limits.allowed_models, limits.regions
    named = frozenset.intersection(*limits.budget_targets) if limits.budget_targets else None
    strict = [each for each in limits.tiers if each.is_strict]

    def not_permitted(model: ModelSpec, price: Price | None) -> str | None:
        return None if allowed is None or model.identifier in allowed else _plain(RejectionReason.NOT_PERMITTED)

    def not_a_target(model: ModelSpec, price: Price | None) -> str | None:
        for tier in strict:
            if model.identifier not in tier.targets:
                return tier.told
        is_one = named is None or model.identifier in named
        return None if is_one else _plain(RejectionReason.BUDGET_TARGET_ONLY)

    def not_internal(model: ModelSpec, price: Price | None) -> str | None:
        provider = model.provider
        if provider.data_boundary is DataBoundary.INTERNAL:
            return None
        return (
            f"the content must stay internal, and the data boundary of {provider.identifier} "
            f"is {provider.data_boundary.value}"
        )

    def not_on_device(model: ModelSpec, price: Price | None) -> str | None:
        provider = model.provider
        if provider.reach.is_on_device:
            return None
        return f"the data must stay on-device, and {provider.identifier} is reached by {provider.reach.value}"

    def not_in_region(model: ModelSpec, price: Price | None) -> str | None:
        region = model.provider.region
        if regions is None or region in regions:
            return None
        return f"region {region or 'unknown'} is not among {_listed(regions)}"

    if allowed is not None:
        yield RejectionReason.NOT_PERMITTED, not_permitted
    if strict or named is not None:
        yield RejectionReason.BUDGET_TARGET_ONLY, not_a_target
    if limits.internal_only:
        yield RejectionReason.BOUNDARY_NOT_ALLOWED, not_internal
    if limits.on_device:
        yield RejectionReason.REACH_NOT_ALLOWED, not_on_device
    if regions is not None:
        yield RejectionReason.REGION_NOT_ALLOWED, not_in_region


def _of_criteria(criteria: Criteria, policy: RoutingPolicy) -> Iterator[tuple[RejectionReason, Constraint]]:
    """What the operator's criteria ask of every candidate."""
    capabilities = frozenset(wanted.strip() for wanted in criteria.capabilities)
    adapters = frozenset(criteria.adapter_types)
    minimum, ceiling = criteria.min_context_length, criteria.max_cost_input or 0

    def lacks_capability(model: ModelSpec, price: Price | None) -> str | None:
        if capabilities <= model.capabilities:
            return None
        return f"does not declare {_listed(capabilities - model.capabilities)}"

    def other_adapter(model: ModelSpec, price: Price | None) -> str | None:
        adapter_type = model.provider.adapter_type
        if adapter_type in adapters:
            return None
        return f"adapter type {adapter_type or 'none'} is not among {_listed(adapters)}"

    def too_small(model: ModelSpec, price: Price | None) -> str | None:
        length = model.context_length
        if length is not None and length >= minimum:
            return None
        return f"context length {'unknown' if length is None else length}, at least {minimum} wanted"

    def too_dear(model: ModelSpec, price: Price | None) -> str | None:
        if price is None or price.rates.input <= ceiling or price.currency != policy.currency:
            return None
        return (
            f"input price {format_nanos(price.rates.input)} {price.currency} per million tokens, "
            f"at most {format_nanos(ceiling)} wanted"
        )

    if capabilities:
        yield RejectionReason.CAPABILITY_MISSING, lacks_capability
    if adapters:
        yield RejectionReason.ADAPTER_NOT_ALLOWED, other_adapter
    if minimum > 0:
        yield RejectionReason.CONTEXT_TOO_SMALL, too_small
    if ceiling > 0:
        yield RejectionReason.COST_ABOVE_LIMIT, too_dear


def _of_size(
    requirements: Requirements, limits: Limits, policy: RoutingPolicy
) -> Iterator[tuple[RejectionReason, Constraint]]:
    """What the size of this request rules out."""
    prompt, ceiling = requirements.fitting_tokens, limits.cost_ceiling

    def too_large(model: ModelSpec, price: Price | None) -> str | None:
        length = model.context_length
        if prompt is None or length is None or prompt <= length:
            return None
        return f"the estimated prompt does not fit the context of {length} tokens"

    def above(model: ModelSpec, price: Price | None) -> str | None:
        return None if ceiling is None else _above_ceiling(model, price, ceiling, requirements, policy)

    if prompt is not None:
        yield RejectionReason.REQUEST_TOO_LARGE, too_large
    if ceiling is not None:
        yield RejectionReason.ABOVE_REQUEST_CEILING, above


def _above_ceiling(
    model: ModelSpec, price: Price | None, ceiling: Money, requirements: Requirements, policy: RoutingPolicy
) -> str | None:
    """A ceiling is a promise to the caller: what cannot be compared with it is above it."""
    if price is None:
        return "has no price, so that the caller's ceiling cannot be kept"
    for bound in model.upper_bounds(price, requirements, assumed=policy.assumed):
        if bound.currency != ceiling.currency:
            return f"is priced in {bound.currency}, the caller's ceiling is in {ceiling.currency}"
        if bound.nanos > ceiling.nanos:
            return _plain(RejectionReason.ABOVE_REQUEST_CEILING)
    return None


def _plain(reason: RejectionReason) -> str:
    words = LABELS[reason]
    return words[0].lower() + words[1:]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
