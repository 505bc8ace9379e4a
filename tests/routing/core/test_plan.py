from dataclasses import replace

import pytest

from routing.core.configuration import Criteria
from routing.core.decision import Decision
from routing.core.failures import Failure, FailureKind
from routing.core.plan import PIN, Fallback, Plan, Preference, Skip, final_failure, healthiest_first, plan
from routing.core.requirements import Limits
from routing.core.vocabulary import LABELS, SkipReason
from tests.routing.core.samples import at, criteria, decided, fixed, listed, model

A, B, C, D = (model(name, provider=at(f"kind-{name}")) for name in "abcd")
DECISION = decided(listed("a", "b", "c"), A, B, C, D)
NOTHING = decided(criteria(Criteria(capabilities=("vision",))), A)


def walked(result: Plan) -> list[tuple[str, str]]:
    return [(step.configuration, step.model.identifier) for step in result.steps]


def other(*names: str, identifier: str = "letters-two") -> Decision:
    return decided(replace(listed(*names), identifier=identifier), A, B, C, D)


def test_a_plan_is_the_eligible_candidates_in_order() -> None:
    assert walked(plan(DECISION, limit=9)) == [("letters", "a"), ("letters", "b"), ("letters", "c")]


@pytest.mark.parametrize(("limit", "count"), [(2, 2), (1, 1), (0, 1), (-3, 1)])
def test_the_configuration_s_limit_leaves_at_least_one(limit: int, count: int) -> None:
    assert len(plan(DECISION, limit=limit).steps) == count


def test_a_preference_moves_an_eligible_candidate_to_the_head() -> None:
    result = plan(DECISION, limit=2, preference=Preference("c", PIN))
    assert walked(result) == [("letters", "c"), ("letters", "a")]
    assert result.preference == "pin"


def test_a_class_rule_is_recorded_by_its_name() -> None:
    assert plan(DECISION, limit=3, preference=Preference("b", "long-questions")).preference == "long-questions"


def test_a_shadow_moves_nothing_and_is_marked() -> None:
    result = plan(DECISION, limit=3, preference=Preference("c", "long-questions", shadow=True))
    assert walked(result) == walked(plan(DECISION, limit=3))
    assert result.preference == "long-questions (shadow)"


def test_a_preference_makes_nobody_eligible() -> None:
    partly = decided(criteria(Criteria(adapter_types=("kind-b",))), A, B)
    result = plan(partly, limit=3, preference=Preference("a", PIN))
    assert walked(result) == [("assistant", "b")]
    assert result.preference == ""
    assert plan(DECISION, limit=3, preference=Preference("d", PIN)).preference == ""


def test_fallback_configurations_follow_in_order() -> None:
    fallbacks = [Fallback("letters-two", other("d")), Fallback("letters-three", other("a", identifier="letters-three"))]
    result = plan(DECISION, limit=2, fallbacks=fallbacks)
    assert walked(result) == [("letters", "a"), ("letters", "b"), ("letters-two", "d")]
    assert result.skips == (Skip("prod-kind-a/a", SkipReason.ALREADY_PLANNED, LABELS[SkipReason.ALREADY_PLANNED]),)


def test_fallbacks_may_go_by_health() -> None:
    """Of the route that each asks first; what is not known, or serves nobody, is taken for half well; equals stay."""
    health = {"a": 0.49, "c": None, "d": 0.51}
    first, second, third = (Fallback(name, other(name, "b", identifier=name)) for name in "acd")
    gone = Fallback("gone", skip=SkipReason.CONFIGURATION_MISSING)
    unfit = Fallback("assistant", NOTHING)
    sorted_ = healthiest_first([first, gone, unfit, second, third], health=lambda model: health[model.identifier])
    assert [each.configuration for each in sorted_] == ["d", "gone", "assistant", "c", "a"]


def test_a_fallback_may_reach_what_the_first_had_no_room_for() -> None:
    result = plan(DECISION, limit=1, fallbacks=[Fallback("letters-two", other("b", "c"), limit=9)])
    assert walked(result) == [("letters", "a"), ("letters-two", "b"), ("letters-two", "c")]


def test_a_fallback_s_limit_counts_the_routes_it_adds() -> None:
    result = plan(DECISION, limit=2, fallbacks=[Fallback("letters-two", other("a", "b", "c", "d"), limit=1)])
    assert walked(result) == [("letters", "a"), ("letters", "b"), ("letters-two", "c")]


@pytest.mark.parametrize(
    "reason",
    [SkipReason.CONFIGURATION_MISSING, SkipReason.CONFIGURATION_INACTIVE, SkipReason.CONFIGURATION_FORBIDDEN],
)
def test_a_fallback_that_cannot_be_used_is_recorded_and_no_failure(reason: SkipReason) -> None:
    result = plan(DECISION, limit=1, fallbacks=[Fallback("gone", skip=reason), Fallback("letters-two", other("d"))])
    assert walked(result) == [("letters", "a"), ("letters-two", "d")]
    assert result.skips == (Skip("gone", reason, LABELS[reason]),)


def test_a_fallback_without_anybody_eligible_says_why() -> None:
    result = plan(DECISION, limit=1, fallbacks=[Fallback("assistant", NOTHING)])
    assert [(skip.name, skip.reason) for skip in result.skips] == [("assistant", SkipReason.NOTHING_ELIGIBLE)]
    assert "prod-kind-a/a: capabilityMissing (does not declare vision)" in result.skips[0].detail


def test_fallbacks_serve_where_the_configuration_asked_for_has_nobody() -> None:
    result = plan(NOTHING, limit=3, fallbacks=[Fallback("letters-two", other("d"))])
    assert walked(result) == [("letters-two", "d")]


def test_an_empty_plan() -> None:
    assert plan(decided(fixed()), limit=3) == Plan(())


# --- When nothing answered --------------------------------------------------------------------------------------------

LAST = Failure(FailureKind.RATE_LIMITED, "prod-kind-b/b: slow down", retry_after=3.0, code="rate_limit")
RESTING = Skip("prod-kind-a/a", SkipReason.RESTING, "resting for 12 s after 3 failures")
BUSY = Skip.of("prod-kind-b/b", SkipReason.SATURATED)
DEAR = Skip.of("prod-kind-c/c", SkipReason.NOT_AFFORDABLE)
UNUSABLE = Skip.of("prod-kind-b/b", SkipReason.UNUSABLE, "provider prod-kind-b: its key does not open")
UNKNOWN = Skip.of("prod-kind-a/a", SkipReason.UNKNOWN_TO_PROVIDER)
PARTLY = decided(criteria(Criteria(adapter_types=("kind-b",))), A, B)
REFUSED_A = "prod-kind-a/a: adapterNotAllowed (adapter type kind-a is not among kind-b)"


def test_the_last_provider_error_goes_before_everything() -> None:
    failure = final_failure(
        decision=PARTLY,
        last=LAST,
        skips=[RESTING, DEAR],
        tried=["prod-kind-d/d: gone"],
    )
    assert (failure.kind, failure.retry_after, failure.code) == (FailureKind.RATE_LIMITED, 3.0, "rate_limit")
    assert failure.message == (
        "prod-kind-b/b: slow down (not answered either: prod-kind-d/d: gone; "
        f"prod-kind-a/a: resting for 12 s after 3 failures; prod-kind-c/c: {DEAR.detail}; {REFUSED_A})"
    )


def test_a_sole_provider_error_is_left_as_it_is() -> None:
    assert final_failure(decision=DECISION, last=LAST, skips=[]) == LAST


@pytest.mark.parametrize(
    ("skips", "kind"),
    [
        ([RESTING, DEAR, UNKNOWN], FailureKind.OVER_BUDGET),
        ([DEAR], FailureKind.OVER_BUDGET),
        ([RESTING, UNKNOWN], FailureKind.TRANSIENT),
        ([BUSY], FailureKind.TRANSIENT),
        ([BUSY, UNUSABLE], FailureKind.TRANSIENT),
        ([UNUSABLE, UNKNOWN], FailureKind.INTERNAL),
        ([UNKNOWN], FailureKind.UNSUPPORTED),
        ([], FailureKind.UNSUPPORTED),
    ],
    ids=["money-before-rest", "money", "resting", "busy", "rest-before-unusable", "unusable", "unknown", "nothing"],
)
def test_which_failure_it_is_without_a_provider_error(skips: list[Skip], kind: FailureKind) -> None:
    failure = final_failure(decision=PARTLY, last=None, skips=skips)
    assert failure.kind is kind
    assert failure.message.endswith(REFUSED_A)
    for skip in skips:
        assert f"{skip.name}: {skip.detail}" in failure.message


def test_a_field_that_no_route_carries_is_named() -> None:
    skip = Skip.of("prod-kind-b/b", SkipReason.NOT_CARRIED, "logit_bias cannot be carried")
    refused = Failure(FailureKind.UNSUPPORTED, skip.detail, code="unsupported_conversion", parameter="logit_bias")
    failure = final_failure(decision=PARTLY, last=None, skips=[skip], not_carried=refused)
    assert (failure.kind, failure.code, failure.parameter) == (refused.kind, refused.code, "logit_bias")
    assert "prod-kind-b/b: logit_bias cannot be carried" in failure.message
    assert final_failure(decision=PARTLY, last=None, skips=[skip, BUSY], not_carried=refused).code == ""


ONLY_B = frozenset({"b"})


@pytest.mark.parametrize("last", [None, LAST], ids=["nothing sent", "sent"])
def test_a_key_learns_nothing_of_what_it_may_not_use(last: Failure | None) -> None:
    """Neither of models nor of configurations; how many they are is told."""
    forbidden = Skip.of("secret-letters", SkipReason.CONFIGURATION_FORBIDDEN)
    failure = final_failure(decision=PARTLY, last=last, skips=[BUSY, forbidden, forbidden], allowed_models=ONLY_B)
    assert "kind-a" not in failure.message
    assert "secret-letters" not in failure.message
    assert "prod-kind-b/b" in failure.message
    assert "fallback configurations that the key does not allow: 2" in failure.message
    assert "models that the key does not allow: 1" in failure.message


def test_the_words_of_a_skip_name_no_model_that_the_key_does_not_allow() -> None:
    fallbacks = [Fallback("assistant", NOTHING)]
    named = plan(DECISION, limit=1, fallbacks=fallbacks).skips[0].detail
    unnamed = plan(DECISION, limit=1, fallbacks=fallbacks, allowed_models=ONLY_B).skips[0].detail
    hidden = [each.model.route for each in NOTHING.refused if each.model.identifier not in ONLY_B]
    assert hidden
    assert all(route in named and route not in unnamed for route in hidden)


def test_only_the_key_in_the_way_is_forbidden() -> None:
    nobody = decided(criteria(), A, B, limits=Limits(allowed_models=frozenset()))
    failure = final_failure(decision=nobody, last=None, skips=[], allowed_models=frozenset())
    assert failure.kind is FailureKind.FORBIDDEN
    assert failure.message == f"{nobody.configuration}: the key does not allow any of its models"
    # One of them was refused for another reason as well: then it is not the key alone.
    partly = decided(criteria(Criteria(adapter_types=("kind-c",))), A, B, limits=Limits(allowed_models=ONLY_B))
    failure = final_failure(decision=partly, last=None, skips=[], allowed_models=ONLY_B)
    assert failure.kind is FailureKind.UNSUPPORTED
    assert "prod-kind-a" not in failure.message


def test_nobody_eligible_is_told_as_a_refusal_once() -> None:
    skip = Skip.of("gone", SkipReason.CONFIGURATION_MISSING)
    failure = final_failure(decision=NOTHING, last=None, skips=[skip])
    assert failure.kind is FailureKind.UNSUPPORTED
    assert failure.message == f"{NOTHING.refusal()}. gone: The fallback configuration does not exist"
    assert failure.message.count("capabilityMissing") == 1
