"""An explanation in words: every figure with its unit, every absence by its name."""

from dataclasses import replace
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, settings

from governance import explanations, origins
from governance.explanations import SignalStatus, explain
from governance.spelling import ABSENT
from governance.tab.explained import (
    NO_DATA,
    NOT_COLLECTED,
    NOT_READ,
    WORDS,
    ExplanationPage,
    page_of,
    recorded_page,
    spell_value,
)
from routing.core.catalogue import Catalogue
from routing.core.configuration import ConfigurationSpec, Criteria, override
from routing.core.decision import Decision, decide
from routing.core.money import Money
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.requirements import Requirements
from routing.core.signals import Figures, HealthFigure, HistoryFigure
from routing.core.transcript import document
from routing.core.vocabulary import LABELS, Enforcement, ListedOrder, Operation, RejectionReason, Selection
from tests.routing.core.samples import NOW, listed, model, price
from tests.routing.core.samples import criteria as criteria_of
from tests.routing.core.test_properties import decisions

CRITERIA = ConfigurationSpec(identifier="support-chat", selection=Selection.CRITERIA)
BOTH = ("chat", "tools")
MODELS = (
    model("fast", prices=[price("2.50", "10.00")], capabilities=BOTH, name="Fast and small"),
    model("thorough", capabilities=BOTH, name="Slow and thorough"),
    model("blind", capabilities=("chat",)),
)


def decided(*, configuration: ConfigurationSpec = CRITERIA, **policy: Any) -> Decision:
    """A decision about three models: one measured, one without figures, one refused."""
    history = HistoryFigure(calls=12, mean_latency_ms=4259.0, priced_calls=12, mean_cost=Money(6_700_000, "USD"))
    return decide(
        configuration=configuration,
        catalogue=Catalogue.of(MODELS),
        requirements=Requirements(operation=Operation.TOOLS, needs=frozenset({"tools"})),
        policy=RoutingPolicy(**{"mode": PolicyMode.BALANCED, "call_history": True, **policy}),
        now=NOW,
        figures=Figures(
            quality={"fast": 0.8, "blind": 0.9},
            health={"fast": HealthFigure(samples=20, successes=19, mean_latency_ms=800.0)},
            history={
                Operation.TOOLS: {
                    "fast": history,
                    "thorough": replace(history, calls=8, mean_latency_ms=9094.0, mean_cost=None, priced_calls=0),
                }
            },
        ),
    )


def page(**changes: Any) -> ExplanationPage:
    return page_of(explain(decided(**changes)))


def rows_of(table: ExplanationPage) -> dict[str, Any]:
    return {row.route.partition("/")[2]: row for row in table.rows}


def test_every_candidate_has_rank_score_figures_and_values() -> None:
    decision = decided()
    table = recorded_page(document(decision))
    assert table is not None
    rows = rows_of(table)
    assert [row.rank for row in table.rows] == [1, 2, None]
    fast = rows["fast"]
    score = next(each.score for each in decision.eligible if each.model.identifier == "fast")
    assert fast.score == f"{score:.4f}"
    quality, health, price, latency, call_cost = fast.cells
    assert (quality.raw, quality.value) == ("mean score 0.800", "0.8000")
    assert health.raw == "19 of 20 first attempts, mean 800 ms"
    assert price.raw == "2.50 + 10.00 USD per million tokens"
    assert (latency.raw, latency.value) == ("mean 4,259 ms of 12 calls", "0.5937")
    assert latency.counted == "counted as 0.5937, weight 0.1"
    assert call_cost.raw == "mean 0.0067 USD of 12 priced calls"


def test_no_data_is_told_from_zero_and_from_not_collected() -> None:
    thorough = rows_of(page())["thorough"]
    quality, health, price, _, call_cost = thorough.cells
    assert (quality.raw, quality.value) == (NO_DATA, NO_DATA)
    assert (health.raw, health.value) == (NO_DATA, NO_DATA)
    assert price.raw == "unpriced"
    assert (call_cost.raw, call_cost.value) == (NO_DATA, NOT_COLLECTED)
    # In a mode that measures nothing the figures are there all the same, and none was looked at.
    unmeasured = rows_of(page(mode=PolicyMode.PROVIDER_PRIORITY))["fast"]
    assert unmeasured.cells[0].raw == "mean score 0.800"
    assert {cell.value for cell in unmeasured.cells} == {NOT_COLLECTED}


def test_a_refused_candidate_has_a_reason_and_no_score() -> None:
    blind = rows_of(page())["blind"]
    assert (blind.rank, blind.score) == (None, ABSENT)
    assert blind.reason == LABELS[RejectionReason.OPERATION_CAPABILITY_MISSING]
    assert "tools" in blind.detail
    assert blind.cells[0].raw == "mean score 0.900"
    assert {cell.value for cell in blind.cells} == {"not compared"}


def test_what_was_only_observed_is_said() -> None:
    table = page(enforcement=Enforcement.OBSERVE)
    assert rows_of(table)["blind"].observed == "tools"
    assert [row.rank for row in table.rows] == [1, 2, 3]


def test_the_other_ways_to_a_model_are_told_apart() -> None:
    fixed = page(configuration=override("fast"))
    assert fixed.state == "The configuration names its model; nothing was ranked"
    assert ("Configuration", "none: the caller named the model") in fixed.facts
    assert [row.rank for row in fixed.rows] == [1]
    in_list = page(configuration=listed("thorough", "fast", "gone", order=ListedOrder.CHEAPEST))
    assert not in_list.ranked
    assert ("Order", "Cheapest published price first") in in_list.facts
    assert ("Not in service", "gone") in in_list.facts
    assert [row.route for row in in_list.rows] == ["prod-east/fast", "prod-east/thorough"]
    assert {row.score for row in in_list.rows} == {ABSENT}


def test_criteria_are_spelled_out() -> None:
    criteria = Criteria(
        capabilities=("tools",), adapter_types=("openai",), min_context_length=1000, max_cost_input=3_000_000_000
    )
    facts = dict(page(configuration=replace(CRITERIA, criteria=criteria)).facts)
    assert facts["Criteria"] == (
        "capabilities Calls tools; adapter types openai; context of at least 1,000; input price up to 3.00 USD"
    )
    assert facts["Mode"] == "balanced"
    assert facts["Call history"] == "read"


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"version": 0},
        {"version": 99},
        {"version": 1},
        {"version": 1, "candidates": [{}]},
        {"version": 1, "candidates": None},
        {"version": 1, "candidates": "nonsense"},
        {"version": "1"},
    ],
)
def test_a_document_that_cannot_be_read_is_said_to_be_so(content: dict[str, Any]) -> None:
    assert recorded_page(content) is None


def test_every_word_of_an_explanation_has_words() -> None:
    ours = [
        each
        for module in (explanations, origins)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, StrEnum) and each.__module__ == module.__name__
    ]
    assert len(ours) == 7
    assert all(WORDS[member] for enumeration in ours for member in enumeration)


def test_an_absence_says_how_it_counts() -> None:
    absent = rows_of(page(configuration=criteria_of(Criteria(prefer_lowest_cost=True))))["thorough"]
    quality, _, price_cell, _, call_cost = absent.cells
    assert quality.counted == "left out of its score"
    assert (call_cost.value, call_cost.counted) == (NO_DATA, "carries no weight")
    assert price_cell.raw == "unpriced"


def test_what_history_would_give_is_not_the_modes_fault() -> None:
    *others, latency, call_cost = rows_of(page(call_history=False))["fast"].cells
    assert {latency.value, call_cost.value} == {NOT_READ}
    assert NOT_READ not in {cell.value for cell in others}


def test_why_a_cost_basis_is_said() -> None:
    facts = dict(page(configuration=criteria_of(Criteria(prefer_lowest_cost=True))).facts)
    assert facts["Cost compared by"] == (
        "Measured cost of a call: every candidate with any cost figure has a measured one"
    )
    assert dict(page().facts)["Cost compared by"].startswith("nothing: ")
    assert "Cost compared by" not in dict(page(configuration=override("fast")).facts)


def test_no_signal_is_said_to_leave_it_to_priority_and_ties() -> None:
    facts = dict(page(mode=PolicyMode.PROVIDER_PRIORITY).facts)
    assert facts["Signals that moved it"] == "none: priority and ties decided"


@settings(max_examples=200, deadline=None)
@given(decisions())
def test_a_page_shows_the_figures_of_the_explanation(decision: Decision) -> None:
    explanation = explain(decision)
    shown = page_of(explanation)
    assert [row.route for row in shown.rows] == [each.model.route for each in explanation.candidates]
    for row, each in zip(shown.rows, explanation.candidates, strict=True):
        assert row.score == (ABSENT if each.score is None else spell_value(each.score))
        for cell, signal in zip(row.cells, each.signals, strict=True):
            without = (
                {WORDS[signal.status], NOT_READ}
                if signal.status is SignalStatus.NOT_COLLECTED
                else {WORDS[signal.status]}
            )
            assert cell.value in (without if signal.value is None else {spell_value(signal.value)})
            assert (spell_value(signal.counted) in cell.counted) if signal.counted is not None else True
