"""A decision saved as a scenario: the file gives the same decision, and expects it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from routing.core.configuration import Criteria, override
from routing.core.decision import Decision
from routing.core.money import Money
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.requirements import Limits, Requirements
from routing.core.scenario import differences, load_scenario
from routing.core.scenario_file import scenario_of, spell_scenario
from routing.core.transcript import canonical, document, outline, restore
from routing.core.vocabulary import DataBoundary, ListedOrder, Operation, Reach, RejectionReason
from tests.routing.core.samples import (
    CHAT,
    at,
    costs,
    criteria,
    decided,
    figures,
    fixed,
    history,
    listed,
    model,
    price,
    ranked,
)
from tests.routing.core.test_properties import decisions


def outcome(decision: Decision) -> dict[str, Any]:
    """What comes out, without the sentences: a region that let somebody pass is not in a decision."""
    found = outline(decision)
    for each in found["candidates"]:
        each.pop("detail", None)
    return found


def saved(decision: Decision) -> Decision:
    """The decision of the file that was saved of one. The file expects what it leads to."""
    scenario = load_scenario(spell_scenario(scenario_of(decision)))
    again = scenario.decide()
    assert scenario.expect is not None
    assert differences(scenario.expect, again) == []
    return again


@settings(max_examples=500, deadline=None)
@given(decisions())
def test_a_saved_decision_is_decided_again(decision: Decision) -> None:
    assert outcome(saved(decision)) == outcome(decision)


@settings(max_examples=200, deadline=None)
@given(decisions())
def test_a_record_is_saved_as_the_decision_is(decision: Decision) -> None:
    recorded = restore(json.loads(canonical(document(decision))))
    assert scenario_of(recorded) == scenario_of(decision)


FAST, WISE = model("fast", provider=at("openai", region="")), model("wise", provider=at("custom", region="eu-2"))
OURS = model("ours", provider=at("vllm", reach=Reach.SELF_HOSTED, data_boundary=DataBoundary.INTERNAL))


@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits(allowed_models=frozenset()),
        Limits(allowed_models=frozenset({"wise"})),
        Limits(budget_targets=(frozenset({"fast"}), frozenset({"wise"}))),
        Limits(allowed_models=frozenset({"wise", "ours"}), budget_targets=(frozenset({"ours"}),)),
        Limits(internal_only=True),
        Limits(on_device=True),
        Limits(regions=frozenset()),
        Limits(regions=frozenset({"eu-2", "us-9"})),
        Limits(regions=frozenset({""})),
        Limits(internal_only=True, on_device=True, regions=frozenset({"nowhere"})),
    ],
)
@pytest.mark.parametrize("selection", [criteria(), listed("wise", "fast", "gone", "ours"), fixed("wise"), fixed()])
def test_limits_refuse_again_whom_they_refused(limits: Limits, selection: Any) -> None:
    decision = decided(selection, FAST, WISE, OURS, limits=limits)
    assert outcome(saved(decision)) == outcome(decision)


def test_a_prompt_is_too_large_for_the_same_models() -> None:
    small, large = replace(FAST, context_length=1000), replace(WISE, context_length=9000)
    for tokens in (999, 1000, 1001, 9000, 9001):
        decision = decided(criteria(), small, large, requirements=replace(CHAT, prompt_tokens=tokens))
        assert outcome(saved(decision)) == outcome(decision)


def test_a_ceiling_of_the_caller_is_said_to_be_left_out() -> None:
    dear = replace(WISE, prices=(price("90", "90"),))
    decision = decided(criteria(), dear, replace(FAST, prices=(price("0", "0"),)), limits=Limits(
        cost_ceiling=Money(1, "USD")
    ))  # fmt: skip
    assert decision.rejection_reasons == (RejectionReason.ABOVE_REQUEST_CEILING,)
    content = scenario_of(decision, description="A call.")
    assert content["description"] == "A call. Left out, being above the caller's ceiling: prod-custom/wise."
    assert [each["identifier"] for each in content["models"]] == ["fast"]


def test_money_keeps_its_currency_and_every_digit() -> None:
    known = figures(
        quality={"fast": 1 / 3},
        chat={
            "fast": history(latency=1234.5678901234567, cost="0.000000001"),
            "wise": history(cost="7", currency="EUR"),
        },
    )
    priced = replace(FAST, prices=(price("0.000000001", "2"),))
    foreign = replace(WISE, prices=(price("3", "4", currency="EUR"),))
    for currency in ("USD", "EUR"):
        decision = ranked(priced, foreign, mode=PolicyMode.ECONOMY, currency=currency, known=known)
        assert outcome(saved(decision)) == outcome(decision)


@pytest.mark.parametrize("order", ListedOrder)
def test_a_list_keeps_its_order(order: ListedOrder) -> None:
    known = figures(failures={"wise": 3, "fast": 1}, chat=costs(fast="1"))
    decision = decided(listed("wise", "ours", "fast", "wise", order=order), FAST, WISE, OURS, known=known)
    assert outcome(saved(decision)) == outcome(decision)


def test_history_that_could_not_be_read_is_not_read_again() -> None:
    decision = decided(
        criteria(Criteria(prefer_lowest_cost=True), mode=PolicyMode.BALANCED),
        FAST,
        WISE,
        policy=RoutingPolicy(call_history=True, telemetry=False),
    )
    assert not saved(decision).history_known
    assert outcome(saved(decision)) == outcome(decision)


def test_the_switch_is_kept_where_it_is_known() -> None:
    decision = ranked(FAST, mode=PolicyMode.PROVIDER_PRIORITY)
    assert not decision.history_read
    assert scenario_of(decision)["call_history"] is False
    assert scenario_of(decision, call_history=True)["call_history"] is True


def test_a_model_that_a_caller_named_is_saved_as_such() -> None:
    asked = Requirements(operation=Operation.TOOLS, needs=frozenset({"tools", "vision"}))
    decision = decided(override("fast"), FAST, requirements=asked)
    content = scenario_of(decision)
    assert content["selection"] == "override"
    assert content["criteria"] == {
        "min_context_length": 0, "prefer_lowest_cost": False, "operation_capability": ["vision"]
    }  # fmt: skip
    assert outcome(saved(decision)) == outcome(decision)
