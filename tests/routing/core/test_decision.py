from dataclasses import replace

import pytest

from routing.core.catalogue import Catalogue
from routing.core.configuration import Criteria, override
from routing.core.decision import decide
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.requirements import Limits, Requirements
from routing.core.signals import Figures
from routing.core.vocabulary import DecisionState, ListedOrder, Operation, Selection
from tests.routing.core.samples import (
    CHAT,
    NOW,
    at,
    candidate,
    criteria,
    decided,
    figures,
    fixed,
    latencies,
    listed,
    model,
    order,
    price,
)

FAST, SLOW = model("fast"), model("slow", provider=at("anthropic"))
TOOLS = Requirements(operation=Operation.TOOLS)
NOBODY = Limits(allowed_models=frozenset())


# --- States -----------------------------------------------------------------------------------------------------------


def test_fixed_names_its_model_or_none() -> None:
    named, none = decided(fixed("fast"), FAST, SLOW), decided(fixed(), FAST)
    assert named.state is none.state is DecisionState.FIXED
    assert order(named) == ["fast"]
    assert none.selected is None
    assert none.unavailable == ()


def test_a_fixed_model_may_be_refused_and_keeps_its_state() -> None:
    decision = decided(fixed("fast"), FAST, limits=NOBODY)
    assert decision.state is DecisionState.FIXED
    assert decision.selected is None
    assert [each.model.identifier for each in decision.refused] == ["fast"]


def test_a_named_model_that_is_not_in_service() -> None:
    decision = decided(fixed("gone"), FAST)
    assert decision.unavailable == ("gone",)
    assert decision.refusal() == "summaries: gone is not in service; activate the model and its provider"


def test_listed_has_an_order_and_no_scores() -> None:
    decision = decided(listed("slow", "gone", "fast"), FAST, SLOW)
    assert decision.state is DecisionState.LISTED
    assert order(decision) == ["slow", "fast"]
    assert decision.unavailable == ("gone",)
    assert decision.mode is None


def test_a_model_listed_twice_is_one_candidate() -> None:
    assert order(decided(listed("slow", "fast", "slow"), FAST, SLOW)) == ["slow", "fast"]


def test_decided_by_criteria() -> None:
    assert decided(criteria(), FAST).state is DecisionState.DECIDED


def test_an_empty_catalogue_is_not_a_refusal_of_everything() -> None:
    empty, refused = decided(criteria()), decided(criteria(), FAST, limits=NOBODY)
    assert empty.state is DecisionState.EMPTY_CATALOGUE
    assert refused.state is DecisionState.ALL_REFUSED
    assert decided(listed("fast"), FAST, limits=NOBODY).state is DecisionState.ALL_REFUSED
    assert decided(listed("gone"), FAST).state is DecisionState.EMPTY_CATALOGUE


def test_an_override_names_one_model() -> None:
    decision = decided(override("slow"), FAST, SLOW)
    assert decision.state is DecisionState.FIXED
    assert decision.selection is Selection.OVERRIDE
    assert decision.configuration == ""
    assert order(decision) == ["slow"]


def test_no_operation_is_told_apart_from_one_that_needs_nothing() -> None:
    without = decided(criteria(), FAST, requirements=Requirements())
    embedding = decided(criteria(), FAST, requirements=Requirements(operation=Operation.EMBED))
    assert without.operation is None
    assert embedding.operation is Operation.EMBED
    assert without.needs == embedding.needs == frozenset()
    assert not without.history_known
    assert embedding.history_known


# --- The recorded mode ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", PolicyMode)
def test_the_recorded_mode_of_a_ranking(mode: PolicyMode) -> None:
    assert decided(criteria(), FAST, policy=RoutingPolicy(mode=mode)).recorded_mode == mode.value


@pytest.mark.parametrize("listed_order", ListedOrder)
def test_the_recorded_mode_of_a_list(listed_order: ListedOrder) -> None:
    decision = decided(listed("fast", order=listed_order), FAST)
    assert decision.recorded_mode == f"listed:{listed_order.value}"


def test_nothing_is_recorded_where_nothing_was_decided() -> None:
    policy = RoutingPolicy(mode=PolicyMode.ECONOMY)
    assert decided(fixed("fast"), FAST, policy=policy).recorded_mode == ""
    assert decided(override("fast"), FAST, policy=policy).recorded_mode == ""


def test_a_configuration_s_own_mode_goes_before_the_installation_s() -> None:
    policy = RoutingPolicy(mode=PolicyMode.ECONOMY)
    own = criteria(mode=PolicyMode.QUALITY)
    assert decided(own, FAST, policy=policy).mode is PolicyMode.QUALITY
    assert decided(criteria(), FAST, policy=policy).mode is PolicyMode.ECONOMY


# --- Whether history is read ------------------------------------------------------------------------------------------

READING = RoutingPolicy(mode=PolicyMode.BALANCED, call_history=True)


@pytest.mark.parametrize(
    ("policy", "requirements", "known", "is_read"),
    [
        (READING, CHAT, figures(), True),  # read without figures is still read
        (replace(READING, call_history=False), CHAT, figures(), False),
        (replace(READING, mode=PolicyMode.PROVIDER_PRIORITY), CHAT, figures(), False),
        (replace(READING, telemetry=False), CHAT, figures(), False),
        (READING, Requirements(), figures(), False),
        (READING, CHAT, Figures(history=None), False),
    ],
    ids=["read", "switched-off", "unmeasured", "no-telemetry", "unasked", "failed"],
)
def test_when_history_is_read(policy: RoutingPolicy, requirements: Requirements, known: Figures, is_read: bool) -> None:
    decision = decided(criteria(), FAST, policy=policy, requirements=requirements, known=known)
    assert decision.history_read is is_read


def test_a_failing_read_means_no_history_and_no_failing_decision() -> None:
    assert order(decided(criteria(), FAST, SLOW, policy=READING, known=Figures(history=None)))


def test_history_that_is_off_could_still_be_looked_at() -> None:
    decision = decided(criteria(), FAST, policy=RoutingPolicy(mode=PolicyMode.BALANCED))
    assert decision.history_known
    assert not decision.history_read


def test_raw_figures_are_carried_whether_or_not_they_were_looked_at() -> None:
    known = figures(quality={"fast": 0.7}, chat=latencies(fast=900))
    found = candidate(decided(criteria(), FAST, known=known), "fast")
    assert found.signals == {}
    assert found.reading.quality == 0.7
    assert found.reading.history is not None
    assert found.reading.history.latency_ms == 900


def test_the_price_in_force_is_read() -> None:
    later = price("9", "9", valid_from=NOW.replace(year=2027))
    subject = model("fast", prices=[price("1", "2"), later])
    assert candidate(decided(criteria(), subject), "fast").reading.price is subject.prices[0]


def test_a_hypothetical_changes_nothing() -> None:
    catalogue, known = Catalogue.of([FAST, SLOW]), figures(quality={"slow": 0.9}, chat=latencies(fast=1))

    def run(policy: RoutingPolicy) -> object:
        return decide(
            configuration=criteria(), catalogue=catalogue, requirements=CHAT, policy=policy, now=NOW, figures=known
        )

    real = RoutingPolicy()
    before = run(real)
    assert run(READING) != before
    assert run(real) == before


# --- Texts ------------------------------------------------------------------------------------------------------------


def test_an_empty_catalogue_says_what_to_do() -> None:
    assert decided(criteria()).refusal() == (
        "assistant: no model is in service; register a model and activate it and its provider"
    )


def test_a_refusal_lists_every_candidate_with_its_reason() -> None:
    wanted = Criteria(adapter_types=("anthropic",), min_context_length=500_000)
    assert decided(criteria(wanted), FAST, SLOW, requirements=TOOLS).refusal() == (
        "assistant: every candidate was refused. "
        "prod-east/fast: adapterNotAllowed (adapter type openai is not among anthropic); "
        "prod-anthropic/slow: contextTooSmall (context length 128000, at least 500000 wanted)"
    )


def test_refused_for_the_operation_alone_names_configuration_capability_and_operation() -> None:
    wanted = Criteria(adapter_types=("anthropic",))
    text = decided(criteria(wanted), FAST, SLOW, requirements=TOOLS).refusal()
    assert text == (
        "assistant: no model that could serve declares tools, which tools needs. "
        "prod-east/fast: adapterNotAllowed (adapter type openai is not among anthropic); "
        "prod-anthropic/slow: operationCapabilityMissing (declares chat, but the call needs tools)"
    )


def test_a_list_names_what_is_not_in_service_as_well() -> None:
    text = decided(listed("fast", "gone"), FAST, limits=NOBODY).refusal()
    assert text == (
        "letters: every candidate was refused. "
        "prod-east/fast: notPermitted (the key does not allow this model); gone: not in service"
    )


def test_an_override_has_no_configuration_to_name() -> None:
    text = decided(override("fast"), FAST, limits=NOBODY).refusal()
    assert text.startswith("the named model: every candidate was refused. prod-east/fast: notPermitted")


def test_a_caller_is_told_of_no_model_that_the_key_does_not_allow() -> None:
    wanted = Criteria(adapter_types=("anthropic",))
    only_fast = frozenset({"fast"})
    limits = Limits(allowed_models=only_fast)
    text = decided(criteria(wanted), FAST, SLOW, limits=limits).refusal(allowed_models=only_fast)
    assert text == (
        "assistant: every candidate was refused. "
        "prod-east/fast: adapterNotAllowed (adapter type openai is not among anthropic); "
        "models that the key does not allow: 1"
    )
    text = decided(listed("gone", "fast"), FAST, limits=NOBODY).refusal(allowed_models=frozenset())
    assert text == "letters: the key does not allow any of its models"
    text = decided(listed("gone"), limits=NOBODY).refusal(allowed_models=frozenset())
    assert text.startswith("letters: its model is not in service")
    text = decided(override("fast"), FAST, limits=NOBODY).refusal(allowed_models=frozenset())
    assert text == "the named model: the key does not allow it"


def test_reasons_are_distinct_and_sorted() -> None:
    wanted = Criteria(capabilities=("vision",), max_cost_input=10**9)
    dear = model("dear", capabilities=["vision"], prices=[price("5", "5")])
    decision = decided(criteria(wanted), FAST, SLOW, dear)
    assert [each.value for each in decision.rejection_reasons] == ["capabilityMissing", "costAboveLimit"]


def test_refused_candidates_stand_in_candidate_order_after_the_eligible() -> None:
    wanted = Criteria(adapter_types=("anthropic",))
    first = model("a-first", sorting=2)
    decision = decided(criteria(wanted), first, FAST, SLOW)
    assert [each.model.identifier for each in decision.candidates] == ["slow", "fast", "a-first"]
