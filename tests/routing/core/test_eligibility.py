from dataclasses import replace

import pytest

from routing.core.catalogue import ModelSpec
from routing.core.configuration import ConfigurationSpec, Criteria, override
from routing.core.eligibility import BINDING, Rejection
from routing.core.money import Money
from routing.core.policy import RoutingPolicy
from routing.core.requirements import Assumed, Limits, Requirements
from routing.core.vocabulary import DataBoundary, Enforcement, Operation, Reach, RejectionReason, Selection, ServiceTier
from tests.routing.core.samples import CHAT, PROD_EAST, candidate, criteria, decided, fixed, listed, model, price

PRICED = model("fast", prices=[price("2.50", "10")])
TOOLS = Requirements(operation=Operation.TOOLS)


def rejection(
    subject: ModelSpec,
    asked: Criteria | None = None,
    *,
    requirements: Requirements = CHAT,
    limits: Limits | None = None,
    policy: RoutingPolicy | None = None,
    configuration: ConfigurationSpec | None = None,
) -> Rejection | None:
    decision = decided(
        configuration or criteria(asked),
        subject,
        requirements=requirements,
        limits=limits or Limits(),
        policy=policy,
    )
    found = candidate(decision, subject.identifier)
    if found.rejection is not None:
        assert found.score is None
        assert found.signals == {}
    return found.rejection


def reason(*arguments: object, **keywords: object) -> str | None:
    found = rejection(*arguments, **keywords)  # type: ignore[arg-type]
    return None if found is None else found.reason.value


# --- One rule after the other -----------------------------------------------------------------------------------------


def test_a_key_allows_models() -> None:
    assert reason(PRICED, limits=Limits(allowed_models=frozenset({"fast"}))) is None
    assert reason(PRICED, limits=Limits(allowed_models=frozenset({"slow"}))) == "notPermitted"
    assert reason(PRICED, limits=Limits(allowed_models=frozenset())) == "notPermitted"


def test_strict_tiers_name_targets() -> None:
    both, one, other = frozenset({"fast", "slow"}), frozenset({"fast"}), frozenset({"slow"})
    assert reason(PRICED, limits=Limits(budget_targets=(both, one))) is None
    assert reason(PRICED, limits=Limits(budget_targets=(other,))) == "budgetTargetOnly"
    # tiers that name different targets leave none
    assert reason(PRICED, limits=Limits(budget_targets=(one, other))) == "budgetTargetOnly"


@pytest.mark.parametrize(
    ("boundary", "expected"),
    [
        (DataBoundary.INTERNAL, None),
        (DataBoundary.EXTERNAL, "boundaryNotAllowed"),
        (DataBoundary.UNKNOWN, "boundaryNotAllowed"),
    ],
)
def test_only_an_attested_boundary_is_internal(boundary: DataBoundary, expected: str | None) -> None:
    subject = model("fast", provider=replace(PROD_EAST, data_boundary=boundary))
    assert reason(subject, limits=Limits(internal_only=True)) == expected
    assert reason(subject) is None


@pytest.mark.parametrize("reach", Reach)
def test_only_self_hosted_is_on_device(reach: Reach) -> None:
    subject = model("fast", provider=replace(PROD_EAST, reach=reach))
    expected = None if reach is Reach.SELF_HOSTED else "reachNotAllowed"
    assert reason(subject, limits=Limits(on_device=True)) == expected
    assert reason(subject) is None


def test_regions() -> None:
    assert reason(PRICED, limits=Limits(regions=frozenset({"eu-1", "eu-2"}))) is None
    found = rejection(PRICED, limits=Limits(regions=frozenset({"us-1", "eu-2"})))
    assert found == Rejection(RejectionReason.REGION_NOT_ALLOWED, "region eu-1 is not among eu-2, us-1")
    nowhere = model("fast", provider=replace(PROD_EAST, region=""))
    assert reason(nowhere, limits=Limits(regions=frozenset({"eu-1"}))) == "regionNotAllowed"


def test_capabilities_must_be_declared() -> None:
    subject = model("fast", capabilities=["chat", "vision"])
    assert reason(subject, Criteria(capabilities=("chat", " vision "))) is None
    found = rejection(subject, Criteria(capabilities=("chat", "tools", "reasoning")))
    assert found == Rejection(RejectionReason.CAPABILITY_MISSING, "does not declare reasoning, tools")
    assert reason(model("fast", capabilities=[]), Criteria(capabilities=("chat",))) == "capabilityMissing"


def test_adapter_types() -> None:
    assert reason(PRICED, Criteria(adapter_types=("anthropic", "openai"))) is None
    # the provider's identifier is no adapter type
    found = rejection(PRICED, Criteria(adapter_types=("prod-east", "anthropic")))
    assert found == Rejection(
        RejectionReason.ADAPTER_NOT_ALLOWED, "adapter type openai is not among anthropic, prod-east"
    )


@pytest.mark.parametrize(
    ("length", "minimum", "expected"),
    [
        (16_000, 16_000, None),
        (15_999, 16_000, "contextTooSmall"),
        (None, 1, "contextTooSmall"),
        (None, 0, None),
        (8, -5, None),
    ],
)
def test_the_minimum_context(length: int | None, minimum: int, expected: str | None) -> None:
    assert reason(model("fast", context_length=length), Criteria(min_context_length=minimum)) == expected


@pytest.mark.parametrize(
    ("ceiling", "expected"),
    [(None, None), (0, None), (-1, None), (2_500_000_000, None), (2_499_999_999, "costAboveLimit")],
)
def test_the_ceiling_is_on_the_input_price(ceiling: int | None, expected: str | None) -> None:
    assert reason(PRICED, Criteria(max_cost_input=ceiling)) == expected


def test_what_has_no_figure_passes_the_ceiling() -> None:
    tight = Criteria(max_cost_input=1)
    assert reason(model("fast"), tight) is None
    assert reason(model("fast", prices=[price("9", "9", currency="EUR")]), tight) is None
    assert reason(model("fast", prices=[price("9", "9", currency="EUR")]), tight, policy=RoutingPolicy(currency="EUR"))


@pytest.mark.parametrize(
    ("length", "prompt", "expected"),
    [(1000, 1000, None), (1000, 1001, "requestTooLarge"), (None, 10**9, None), (1000, None, None)],
)
def test_the_prompt_must_fit_a_known_context(length: int | None, prompt: int | None, expected: str | None) -> None:
    requirements = replace(CHAT, prompt_tokens=prompt)
    assert reason(model("fast", context_length=length), requirements=requirements) == expected


def ceiling(nanos: int, currency: str = "USD") -> Limits:
    return Limits(cost_ceiling=Money(nanos, currency))


def test_the_caller_s_ceiling_is_compared_with_the_upper_bound() -> None:
    requirements = replace(CHAT, prompt_tokens=1_000, max_output=500)  # 2.5 + 5 thousandths
    assert reason(PRICED, requirements=requirements, limits=ceiling(7_500_000)) is None
    assert reason(PRICED, requirements=requirements, limits=ceiling(7_499_999)) == "aboveRequestCeiling"


def test_a_dearer_class_that_is_asked_for_is_bounded_too() -> None:
    (standard,) = PRICED.prices
    asking = replace(CHAT, prompt_tokens=1_000, max_output=500)
    priority = ServiceTier.PRIORITY
    dear = replace(PRICED, prices=(replace(standard, tiers=((priority, price("5", "20")),)),))
    cheap = replace(PRICED, prices=(replace(standard, tiers=((priority, price("1", "1")),)),))
    for subject, tier, nanos in (
        (dear, ServiceTier.STANDARD, 7_500_000),
        (dear, priority, 15_000_000),
        (cheap, priority, 7_500_000),  # the standard class may be served in its place
    ):
        requirements = replace(asking, service_tier=tier)
        assert reason(subject, requirements=requirements, limits=ceiling(nanos)) is None
        assert reason(subject, requirements=requirements, limits=ceiling(nanos - 1)) == "aboveRequestCeiling"


def test_whose_output_limit_bounds_a_call() -> None:
    policy = RoutingPolicy(assumed=Assumed(max_output=300))
    limited = replace(PRICED, max_output=200)
    asking = replace(CHAT, max_output=100)
    for subject, requirements, nanos in (
        (limited, asking, 1_000_000),
        (limited, CHAT, 2_000_000),
        (PRICED, CHAT, 3_000_000),
        (limited, replace(CHAT, max_output=0), 0),
    ):
        assert reason(subject, requirements=requirements, limits=ceiling(nanos), policy=policy) is None
        refused = reason(subject, requirements=requirements, limits=ceiling(nanos - 1), policy=policy)
        assert refused == "aboveRequestCeiling"


def test_what_cannot_be_compared_with_a_ceiling_is_above_it() -> None:
    assert rejection(model("fast"), limits=ceiling(10**12)) == Rejection(
        RejectionReason.ABOVE_REQUEST_CEILING, "has no price, so that the caller's ceiling cannot be kept"
    )
    assert rejection(PRICED, limits=ceiling(10**12, "EUR")) == Rejection(
        RejectionReason.ABOVE_REQUEST_CEILING, "is priced in USD, the caller's ceiling is in EUR"
    )
    assert reason(model("fast", prices=[price("0", "0")]), limits=ceiling(0)) is None


def test_what_the_call_needs_must_be_among_what_is_declared() -> None:
    assert rejection(model("fast", capabilities=["vision", "chat"]), requirements=TOOLS) == Rejection(
        RejectionReason.OPERATION_CAPABILITY_MISSING, "declares chat, vision, but the call needs tools"
    )
    assert reason(model("fast", capabilities=["tools"]), requirements=TOOLS) is None
    assert reason(model("fast", capabilities=[]), requirements=TOOLS) is None  # undeclared is not "cannot"


@pytest.mark.parametrize("operation", [Operation.COMPLETE, Operation.EMBED, Operation.STREAM, None])
def test_operations_that_only_select_history(operation: Operation | None) -> None:
    subject = model("fast", capabilities=["reasoning"])
    assert reason(subject, requirements=Requirements(operation=operation)) is None


def test_the_request_demands_besides_its_operation() -> None:
    needs = Requirements(operation=Operation.STREAM, needs=frozenset({"structured_output", "streaming"}))
    found = rejection(model("fast", capabilities=["chat", "streaming"]), requirements=needs)
    assert found is not None
    assert found.detail == "declares chat, streaming, but the call needs structured_output"


# --- Enforcing and observing ------------------------------------------------------------------------------------------


def test_observing_refuses_nothing_and_records_what_enforcement_would_have_refused() -> None:
    observing = RoutingPolicy(enforcement=Enforcement.OBSERVE)
    lacking, able, undeclared = (
        model("a", capabilities=["chat"]),
        model("b", capabilities=["tools"]),
        model("c", capabilities=[]),
    )
    decision = decided(criteria(), lacking, able, undeclared, requirements=TOOLS, policy=observing)
    assert not decision.refused
    assert {each.model.identifier: each.observed for each in decision.eligible} == {
        "a": ("tools",),
        "b": (),
        "c": (),
    }


def test_enforcing_observes_nothing() -> None:
    decision = decided(criteria(), model("b", capabilities=["tools"]), requirements=TOOLS)
    assert decision.eligible[0].observed == ()


def test_observing_leaves_the_other_rules_in_force() -> None:
    observing = RoutingPolicy(enforcement=Enforcement.OBSERVE)
    wanted = Criteria(capabilities=("vision",))
    assert reason(model("fast"), wanted, requirements=TOOLS, policy=observing) == "capabilityMissing"


# --- The order of the rules, and which bind ---------------------------------------------------------------------------

# For each reason, in order: what makes it hold for `model("fast")` at `prod-east`.
HINDRANCES: dict[RejectionReason, dict[str, object]] = {
    RejectionReason.NOT_PERMITTED: {"allowed_models": frozenset({"slow"})},
    RejectionReason.BUDGET_TARGET_ONLY: {"budget_targets": (frozenset({"slow"}),)},
    RejectionReason.BOUNDARY_NOT_ALLOWED: {"internal_only": True},
    RejectionReason.REACH_NOT_ALLOWED: {"on_device": True},
    RejectionReason.REGION_NOT_ALLOWED: {"regions": frozenset({"us-1"})},
    RejectionReason.CAPABILITY_MISSING: {"capabilities": ("reasoning",)},
    RejectionReason.ADAPTER_NOT_ALLOWED: {"adapter_types": ("anthropic",)},
    RejectionReason.CONTEXT_TOO_SMALL: {"min_context_length": 10**6},
    RejectionReason.COST_ABOVE_LIMIT: {"max_cost_input": 1},
    RejectionReason.REQUEST_TOO_LARGE: {"prompt_tokens": 10**6},
    RejectionReason.ABOVE_REQUEST_CEILING: {"cost_ceiling": Money(1, "USD")},
    RejectionReason.OPERATION_CAPABILITY_MISSING: {"operation": Operation.TOOLS},
}


def refused_with(configuration: ConfigurationSpec, reasons: list[RejectionReason]) -> RejectionReason | None:
    """The reason given when all of these would refuse."""
    made = {key: value for each in reasons for key, value in HINDRANCES[each].items()}
    of = {name: {key: made[key] for key in spec.__slots__ if key in made}
          for name, spec in (("limits", Limits), ("criteria", Criteria), ("needs", Requirements))}  # fmt: skip
    decision = decided(
        replace(configuration, criteria=Criteria(**of["criteria"])),  # type: ignore[arg-type]
        PRICED,
        requirements=replace(CHAT, **of["needs"]),  # type: ignore[arg-type]
        limits=Limits(**of["limits"]),  # type: ignore[arg-type]
    )
    found = decision.candidates[0].rejection
    return None if found is None else found.reason


@pytest.mark.parametrize("first", RejectionReason)
def test_the_first_constraint_that_refuses_is_the_reason(first: RejectionReason) -> None:
    reasons = list(RejectionReason)
    assert refused_with(criteria(), reasons[reasons.index(first) :]) is first


CONFIGURATIONS = {
    Selection.FIXED: fixed("fast"),
    Selection.LISTED: listed("fast"),
    Selection.CRITERIA: criteria(),
    Selection.OVERRIDE: override("fast"),
}
CRITERIA_ONLY = {
    RejectionReason.CAPABILITY_MISSING,
    RejectionReason.ADAPTER_NOT_ALLOWED,
    RejectionReason.CONTEXT_TOO_SMALL,
    RejectionReason.COST_ABOVE_LIMIT,
}


@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize("hindrance", RejectionReason)
def test_which_constraints_bind_for_which_selection(selection: Selection, hindrance: RejectionReason) -> None:
    binds = not (selection is not Selection.CRITERIA and hindrance in CRITERIA_ONLY) and not (
        selection is Selection.FIXED and hindrance is RejectionReason.OPERATION_CAPABILITY_MISSING
    )
    assert refused_with(CONFIGURATIONS[selection], [hindrance]) is (hindrance if binds else None)
    assert (hindrance in BINDING[selection]) is binds


def test_a_fixed_model_is_not_observed_either() -> None:
    decision = decided(fixed("fast"), PRICED, requirements=TOOLS, policy=RoutingPolicy(enforcement=Enforcement.OBSERVE))
    assert decision.eligible[0].observed == ()


def test_details_hold_nothing_that_belongs_to_one_call() -> None:
    sizes = [rejection(PRICED, requirements=replace(CHAT, prompt_tokens=tokens)) for tokens in (200_000, 300_000)]
    assert sizes[0] == sizes[1]
    ceilings = [rejection(PRICED, limits=ceiling(nanos)) for nanos in (1, 2)]
    assert ceilings[0] == ceilings[1]
