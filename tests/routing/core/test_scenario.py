import json
from copy import deepcopy
from typing import Any

import pytest

from routing.core.money import Money
from routing.core.policy import PolicyMode
from routing.core.scenario import Scenario, ScenarioError, differences, load_scenario, read_scenario
from routing.core.vocabulary import DataBoundary, Enforcement, ListedOrder, Operation, Reach, Selection

EXAMPLE: dict[str, Any] = {
    "mode": "balanced",
    "call_history": True,
    "operation": "chat",
    "criteria": {
        "capabilities": [],
        "adapter_types": [],
        "min_context_length": 0,
        "max_cost_input": None,
        "prefer_lowest_cost": False,
        "operation_capability": None,
    },
    "models": [
        {
            "identifier": "fast",
            "adapter_type": "openai",
            "provider_priority": 50,
            "is_default": False,
            "sorting": 0,
            "capabilities": ["chat"],
            "context_length": 128000,
            "price_input": "2.50",
            "price_output": "10.00",
            "quality": 0.8,
            "health": {"samples": 20, "successes": 19, "mean_latency_ms": 800},
            "history": {"calls": 12, "mean_latency_ms": 4259, "priced_calls": 12, "mean_cost_usd": "0.0067"},
        }
    ],
    "expect": {"selected": "fast"},
}


def changed(path: str, value: object) -> dict[str, Any]:
    """The example with one field changed: ``models.0.quality``."""
    content: dict[str, Any] = deepcopy(EXAMPLE)
    place: Any = content
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step)] if step.isdigit() else place[step]
    place[int(last) if last.isdigit() else last] = value
    return content


def one(**top: object) -> Scenario:
    return read_scenario({"models": [{"identifier": "fast", "adapter_type": "openai"}], **top})


def test_the_example() -> None:
    scenario = load_scenario(json.dumps(EXAMPLE))
    decision = scenario.decide()
    assert decision.mode is PolicyMode.BALANCED
    assert decision.history_read
    assert scenario.expect is not None
    assert differences(scenario.expect, decision) == []
    reading = decision.eligible[0].reading
    assert reading.history is not None
    assert reading.history.mean_cost == Money(6_700_000, "USD")
    assert reading.price is not None
    assert reading.price.list_nanos == 12_500_000_000
    assert reading.health is not None
    assert reading.health.value == pytest.approx(0.928)


def test_missing_values_mean_what_they_mean_in_a_record() -> None:
    scenario = one()
    model = scenario.catalogue.models[0]
    assert (model.provider.priority, model.sorting, model.is_default) == (50, 0, False)
    assert (model.capabilities, model.context_length, model.prices) == (frozenset(), None, ())
    assert (model.provider.reach, model.provider.data_boundary) == (Reach.VENDOR_API, DataBoundary.UNKNOWN)
    assert (model.model_id, model.provider.identifier) == ("fast", "openai")
    assert scenario.policy.mode is PolicyMode.PROVIDER_PRIORITY
    assert (scenario.policy.call_history, scenario.policy.telemetry) == (False, True)
    assert (scenario.policy.enforcement, scenario.policy.currency) == (Enforcement.ENFORCE, "USD")
    assert scenario.requirements.operation is None
    assert scenario.configuration.selection is Selection.CRITERIA
    assert scenario.limits.allowed_models is None
    assert scenario.expect is None


def test_zero_is_unknown_for_a_context_and_no_half_of_a_price_is_a_price() -> None:
    content = {"models": [{"identifier": "fast", "context_length": 0, "price_input": "1"}]}
    model = read_scenario(content).catalogue.models[0]
    assert model.context_length is None
    assert model.prices == ()


def test_an_explicit_zero_price_is_a_price() -> None:
    content = {"models": [{"identifier": "fast", "price_input": "0", "price_output": 0}]}
    assert read_scenario(content).catalogue.models[0].prices[0].list_nanos == 0


def test_money_is_read_exactly_as_written() -> None:
    text = '{"models": [{"identifier": "fast", "price_input": 0.1, "price_output": 0.000000001}]}'
    rates = load_scenario(text).catalogue.models[0].prices[0].rates
    assert (rates.input, rates.output) == (100_000_000, 1)


def test_everything_that_may_be_said_besides() -> None:
    scenario = read_scenario(
        {
            "description": "All of it",
            "selection": "listed",
            "order": "healthiest",
            "enforcement": "observe",
            "telemetry": False,
            "reach": "self_hosted",
            "boundary": "internal",
            "region": "eu-1",
            "estimated_tokens": 1200,
            "allowed_models": ["fast"],
            "budget_targets": ["fast", "slow"],
            "currency": "EUR",
            "criteria": {"operation_capability": ["tools", "vision"]},
            "models": [
                {
                    "identifier": "fast",
                    "adapter_type": "openai",
                    "provider": "prod-east",
                    "model_id": "gpt-x-mini",
                    "name": "The fast one",
                    "reach": "self_hosted",
                    "data_boundary": "internal",
                    "region": "eu-1",
                    "max_output": 4096,
                    "price_input": "1",
                    "price_output": "2",
                    "price_currency": "GBP",
                    "consecutive_failures": 3,
                    "history": {"priced_calls": 5, "mean_cost": "0.01"},
                },
                {"identifier": "slow", "price_input": "1", "price_output": "2"},
            ],
        }
    )
    assert scenario.configuration.order is ListedOrder.HEALTHIEST
    assert scenario.configuration.models == ("fast", "slow")
    assert scenario.policy.enforcement is Enforcement.OBSERVE
    assert scenario.policy.telemetry is False
    assert (scenario.limits.on_device, scenario.limits.internal_only) == (True, True)
    assert scenario.limits.regions == frozenset({"eu-1"})
    assert scenario.limits.allowed_models == frozenset({"fast"})
    assert scenario.limits.budget_targets == (frozenset({"fast", "slow"}),)
    assert scenario.requirements.prompt_tokens == 1200
    assert scenario.requirements.needs == {"tools", "vision"}
    fast, slow = scenario.catalogue.by_identifier["fast"], scenario.catalogue.by_identifier["slow"]
    assert (fast.provider.identifier, fast.provider.adapter_type, fast.model_id) == (
        "prod-east",
        "openai",
        "gpt-x-mini",
    )
    assert (fast.prices[0].currency, slow.prices[0].currency) == ("GBP", "EUR")
    assert scenario.figures.failures_in_a_row == {"fast": 3, "slow": 0}


def test_a_mean_cost_is_in_dollars_or_in_a_named_currency() -> None:
    def currency(**history: object) -> str:
        scenario = read_scenario(
            {
                "currency": "EUR",
                "operation": "chat",
                "models": [{"identifier": "fast", "history": {"priced_calls": 5, **history}}],
            }
        )
        assert scenario.figures.history is not None
        cost = scenario.figures.history[Operation.CHAT]["fast"].mean_cost
        assert cost is not None
        return cost.currency

    assert currency(mean_cost_usd="0.01") == "USD"
    assert currency(mean_cost="0.01") == "EUR"
    assert currency(mean_cost="0.01", currency="GBP") == "GBP"


@pytest.mark.parametrize(
    ("value", "tiers"),
    [
        ([], ()),
        (["fast"], (frozenset({"fast"}),)),
        ([["fast", "slow"], ["slow"]], (frozenset({"fast", "slow"}), frozenset({"slow"}))),
        ([[]], (frozenset(),)),
    ],
)
def test_budget_targets_are_one_tier_or_several(value: object, tiers: tuple[frozenset[str], ...]) -> None:
    assert one(budget_targets=value).limits.budget_targets == tiers


def test_regions_are_one_or_several() -> None:
    assert one(region="eu-1").limits.regions == frozenset({"eu-1"})
    assert one(region=["eu-1", "eu-2"]).limits.regions == frozenset({"eu-1", "eu-2"})


def test_one_capability_or_several() -> None:
    assert one(criteria={"operation_capability": "tools"}).requirements.needs == {"tools"}
    assert one(criteria={"operation_capability": None}).requirements.needs == frozenset()


@pytest.mark.parametrize("selection", ["fixed", "override"])
def test_a_fixed_selection_names_its_one_model(selection: str) -> None:
    scenario = one(selection=selection)
    assert scenario.configuration.models == ("fast",)
    assert scenario.decide().selected is not None
    none = read_scenario({"selection": selection, "models": []})
    assert none.decide().selected is None
    with pytest.raises(ScenarioError, match=f"models: a selection of {selection} names one model, not 2"):
        read_scenario({"selection": selection, "models": [{"identifier": "a"}, {"identifier": "b"}]})


def test_without_telemetry_no_history_is_read() -> None:
    assert not read_scenario(changed("telemetry", False)).decide().history_read


def test_history_without_figures_is_read_all_the_same() -> None:
    assert one(mode="balanced", operation="chat", call_history=True).decide().history_read


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("modle", "balanced", "modle: unknown key"),
        ("mode", "cheapest", "mode: one of providerPriority, balanced, quality, economy is needed, not 'cheapest'"),
        ("mode", "Balanced", "mode: one of"),
        ("operation", "translate", "operation: one of chat, complete"),
        ("call_history", 1, "call_history: true or false is needed, not 1"),
        ("criteria.maxCostInput", "1", "criteria.maxCostInput: unknown key"),
        ("criteria.min_context_length", -1, "criteria.min_context_length: a whole number from 0 is needed, not -1"),
        ("criteria.capabilities", "chat", "criteria.capabilities: a list of names is needed, not 'chat'"),
        ("criteria.max_cost_input", "1,50", "criteria.max_cost_input: '1,50' is not a decimal number"),
        ("models", {}, "models: a list is needed, not {}"),
        ("models.0", "fast", "models[0]: an object is needed, not 'fast'"),
        ("models.0.identifier", None, "models[0].identifier: every model needs an identifier"),
        ("models.0.identifier", 3, "models[0].identifier: a text is needed, not 3"),
        ("models.0.cost", 3, "models[0].cost: unknown key"),
        ("models.0.provider_priority", 101, "models[0].provider_priority: a whole number from 0 to 100 is needed"),
        ("models.0.price_input", -1, "models[0].price_input: an amount from 0 is needed, not -1"),
        ("models.0.price_input", "0.00000000001", "models[0].price_input: '0.00000000001' has more than nine"),
        ("models.0.quality", 80, "models[0].quality: a number from 0 to 1 is needed, not 80"),
        ("models.0.quality", float("nan"), "models[0].quality: a number from 0 to 1 is needed, not nan"),
        ("models.0.quality", True, "models[0].quality: a number from 0 to 1 is needed, not True"),
        ("models.0.reach", "moon", "models[0].reach: one of vendor_api"),
        ("models.0.health.success", 1, "models[0].health.success: unknown key"),
        ("models.0.health.successes", 21, "models[0].health.successes: a whole number from 0 to 20"),
        ("models.0.health.mean_latency_ms", "800", "models[0].health.mean_latency_ms: a number from 0 is needed"),
        ("models.0.history.calls", 1.5, "models[0].history.calls: a whole number from 0 is needed, not 1.5"),
        ("models.0.history.mean_cost", "1", "models[0].history.mean_cost: mean_cost_usd says it already"),
        ("reach", "vendor_api", "reach: 'self_hosted' (nothing else can be demanded) is needed, not 'vendor_api'"),
        ("boundary", "external", "boundary: 'internal' (nothing else can be demanded) is needed"),
        ("region", 3, "region: a list of names is needed, not 3"),
        ("budget_targets", [["fast"], "slow"], "budget_targets: a list of names is needed"),
        ("budget_targets", [["fast"], [3]], "budget_targets.1: a list of names is needed, not [3]"),
        ("allowed_models", "fast", "allowed_models: a list of names is needed, not 'fast'"),
        ("description", 3, "description: a text is needed, not 3"),
        ("expect", [], "expect: an object is needed, not []"),
        ("expect.selcted", "fast", "expect.selcted: unknown key"),
        ("expect.candidates", [{"identifier": "slow"}], "expect.candidates[0].identifier: the identifier of a model"),
        ("expect.candidates", [{"identifier": "fast", "rank": 1}], "expect.candidates[0].rank: unknown key"),
        (
            "expect.candidates",
            [{"identifier": "fast", "signals": {"speed": 1}}],
            "expect.candidates[0].signals.speed: unknown key",
        ),
    ],
)
def test_a_malformed_scenario_names_the_field(path: str, value: object, complaint: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_scenario(changed(path, value))
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize("content", [None, [], "x", 3, {}])
def test_what_is_no_scenario_at_all(content: object) -> None:
    with pytest.raises(ScenarioError):
        read_scenario(content)


def test_two_models_of_one_name() -> None:
    with pytest.raises(ScenarioError, match=r"^models\[1\].identifier: 'fast' is the name of two models$"):
        read_scenario({"models": [{"identifier": "fast"}, {"identifier": "fast"}]})


def test_a_key_written_twice() -> None:
    with pytest.raises(ScenarioError, match="mode: written twice"):
        load_scenario('{"mode": "balanced", "mode": "quality", "models": []}')


# --- Expectations -----------------------------------------------------------------------------------------------------


def unmet(**expect: object) -> list[str]:
    scenario = read_scenario(changed("expect", expect))
    assert scenario.expect is not None
    return differences(scenario.expect, scenario.decide())


def test_what_holds_makes_no_difference() -> None:
    assert (
        unmet(
            selected="fast",
            order=["fast"],
            state="decided",
            mode="balanced",
            basis=None,
            signals_used=["quality", "health"],
            candidates=[
                {
                    "identifier": "fast",
                    "score": 0.864,
                    "reason": None,
                    "signals": {"quality": 0.8, "health": 0.928, "latency": 0.5, "cost": None},
                }
            ],
        )
        == []
    )


def test_numbers_agree_within_a_ten_thousandth() -> None:
    assert unmet(candidates=[{"identifier": "fast", "score": 0.86395}]) == []
    assert unmet(candidates=[{"identifier": "fast", "score": 0.8638}]) == [
        "candidates[fast].score: expected 0.8638, got 0.864"
    ]


def test_differences_read_well() -> None:
    assert unmet(
        selected="slow",
        order=["slow", "fast"],
        basis="callCost",
        candidates=[{"identifier": "fast", "reason": "notPermitted", "signals": {"health": None}}],
    ) == [
        "selected: expected 'slow', got 'fast'",
        "order: expected ['slow', 'fast'], got ['fast']",
        "basis: expected 'callCost', got None",
        "candidates[fast].reason: expected 'notPermitted', got None",
        "candidates[fast].signals.health: expected None, got 0.928",
    ]


def test_a_refused_candidate_is_expected_by_its_reason() -> None:
    content = changed("allowed_models", [])
    content["expect"] = {
        "selected": None,
        "state": "allRefused",
        "candidates": [{"identifier": "fast", "reason": "notPermitted", "score": None}],
    }
    scenario = read_scenario(content)
    assert scenario.expect is not None
    assert differences(scenario.expect, scenario.decide()) == []


def test_expected_numbers_may_be_written_exactly() -> None:
    text = json.dumps(changed("expect", {"candidates": [{"identifier": "fast", "score": 0.864}]}))
    scenario = load_scenario(text)
    assert scenario.expect is not None
    assert differences(scenario.expect, scenario.decide()) == []
