"""A decision explained: the figures are the decision's own, and every absence is told from every other."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

from governance.explanations import (
    SIGNALS,
    BasisReason,
    ExplainedCandidate,
    ExplainedSignal,
    Explanation,
    HistoryUse,
    Lead,
    ListPrice,
    MeanCost,
    MeanLatency,
    MeanScore,
    OpenNeed,
    Shortfall,
    SignalStatus,
    explain,
)
from routing.core.configuration import override
from routing.core.decision import Decision
from routing.core.money import Money
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.ranking import SCORE_DECIMALS
from routing.core.requirements import Limits, Requirements
from routing.core.signals import MIN_CALLS, HealthFigure
from routing.core.transcript import canonical, document, restore
from routing.core.vocabulary import (
    Capability,
    CostBasis,
    DecisionState,
    Enforcement,
    ListedOrder,
    Operation,
    RejectionReason,
    SignalName,
)
from tests.routing.core import samples
from tests.routing.core.samples import at, candidate, figures, history, listed, model, price, ranked
from tests.routing.core.test_properties import decisions

FAST, THOROUGH = model("fast", provider=at("openai")), model("thorough", provider=at("custom"))
DEMO = figures(
    quality={"fast": 0.8},
    health={"fast": HealthFigure(20, 19, 800.0)},
    chat={"fast": history(latency=4259.0, cost="0.0067"), "thorough": history(latency=9094.0, cost="0.0184")},
)


def of(explanation: Explanation, identifier: str) -> ExplainedCandidate:
    return next(each for each in explanation.candidates if each.model.identifier == identifier)


def signals(explanation: Explanation, identifier: str) -> dict[SignalName, ExplainedSignal]:
    return {each.name: each for each in of(explanation, identifier).signals}


# --- Figures ----------------------------------------------------------------------------------------------------------


def test_raw_figures_stay_figures() -> None:
    priced = replace(FAST, prices=(price("2.50", "10.00"),))
    explanation = explain(ranked(priced, THOROUGH, mode=PolicyMode.ECONOMY, known=DEMO))
    found = signals(explanation, "fast")
    assert [found[name].raw for name in SIGNALS] == [
        MeanScore(0.8),
        HealthFigure(20, 19, 800.0),
        ListPrice(Money(2_500_000_000, "USD"), Money(10_000_000_000, "USD"), None),
        MeanLatency(4259.0, 10, None),
        MeanCost(Money(6_700_000, "USD"), 10, None),
    ]
    assert found[SignalName.LATENCY].value == pytest.approx(0.5937, abs=1e-4)
    assert signals(explanation, "thorough")[SignalName.LATENCY].value == pytest.approx(0.4063, abs=1e-4)
    assert found[SignalName.CALL_COST].counted == pytest.approx(0.6237, abs=1e-4)
    assert (found[SignalName.CALL_COST].weight, found[SignalName.LATENCY].weight) == (0.6, 0.05)
    assert explanation.selected == of(explanation, "fast")


@settings(max_examples=300, deadline=None)
@given(decisions())
def test_counted_values_make_the_score(decision: Decision) -> None:
    for each in explain(decision).candidates:
        counted = [signal for signal in each.signals if signal.counted is not None]
        assert all(signal.weight is not None for signal in counted)
        if each.score is None:
            assert not counted
            continue
        weight = sum(signal.weight or 0.0 for signal in counted)
        total = sum((signal.weight or 0.0) * (signal.counted or 0.0) for signal in counted)
        assert each.score == pytest.approx(total / weight if weight else 0.5, abs=10**-SCORE_DECIMALS)


@settings(max_examples=300, deadline=None)
@given(decisions())
def test_a_record_explains_as_the_decision_did(decision: Decision) -> None:
    """What a call's page shows later is what a question would have shown then."""

    def without_models(explanation: Explanation) -> tuple[Any, ...]:
        each = [replace(found, model=FAST) for found in explanation.candidates]
        return (replace(explanation, candidates=()), each)

    recorded = explain(restore(json.loads(canonical(document(decision)))))
    assert without_models(recorded) == without_models(explain(decision))


@pytest.mark.parametrize(
    ("calls", "currency", "shortfall"),
    [
        (MIN_CALLS, "USD", None),
        (MIN_CALLS - 1, "USD", Shortfall.TOO_FEW),
        (MIN_CALLS, "EUR", Shortfall.OTHER_CURRENCY),
        (MIN_CALLS - 1, "EUR", Shortfall.OTHER_CURRENCY),
    ],
)
def test_a_figure_that_does_not_count_says_why(calls: int, currency: str, shortfall: Shortfall | None) -> None:
    known = figures(chat={"fast": history(calls=calls, latency=90.0, cost="0.5", currency=currency)})
    priced = replace(FAST, prices=(price("1", "2", currency=currency),))
    found = signals(explain(ranked(priced, THOROUGH, mode=PolicyMode.ECONOMY, known=known)), "fast")
    assert found[SignalName.CALL_COST].raw == MeanCost(Money(500_000_000, currency), calls, shortfall)
    too_few = Shortfall.TOO_FEW if calls < MIN_CALLS else None
    assert found[SignalName.LATENCY].raw == MeanLatency(90.0, calls, too_few)
    listed_price = found[SignalName.COST].raw
    assert isinstance(listed_price, ListPrice)
    assert listed_price.shortfall is (None if currency == "USD" else Shortfall.OTHER_CURRENCY)
    assert (found[SignalName.CALL_COST].value is None) == (shortfall is not None)


# --- What became of a signal ------------------------------------------------------------------------------------------


def test_an_absence_is_told_from_a_zero_and_from_what_was_not_asked() -> None:
    known = figures(
        quality={"fast": 0.0},
        chat={"fast": history(latency=100.0), "thorough": history(latency=300.0)},
    )
    plain = model("plain", provider=at("vllm"))
    explanation = explain(ranked(FAST, THOROUGH, plain, known=known))
    fast, unknown = signals(explanation, "fast"), signals(explanation, "plain")
    assert (fast[SignalName.QUALITY].value, fast[SignalName.QUALITY].status) == (0.0, SignalStatus.COUNTED)
    assert (unknown[SignalName.QUALITY].counted, unknown[SignalName.QUALITY].status) == (None, SignalStatus.NO_DATA)
    assert (unknown[SignalName.LATENCY].counted, unknown[SignalName.LATENCY].status) == (0.5, SignalStatus.NO_DATA)
    assert unknown[SignalName.LATENCY].weight == 0.1
    assert fast[SignalName.COST].status is SignalStatus.NOT_COLLECTED


def test_a_signal_that_all_share_carries_no_weight() -> None:
    known = figures(chat={"fast": history(latency=100.0), "thorough": history(latency=100.0)})
    latency = signals(explain(ranked(FAST, THOROUGH, known=known)), "fast")[SignalName.LATENCY]
    assert (latency.status, latency.value, latency.counted) == (SignalStatus.NO_WEIGHT, 0.5, None)


def test_a_mode_that_measures_nothing_collects_nothing() -> None:
    explanation = explain(ranked(FAST, THOROUGH, mode=PolicyMode.PROVIDER_PRIORITY, known=DEMO))
    found = signals(explanation, "fast")
    assert {each.status for each in found.values()} == {SignalStatus.NOT_COLLECTED}
    assert found[SignalName.QUALITY].raw == MeanScore(0.8)


def test_nothing_is_compared_where_nothing_is_ranked_or_the_candidate_was_refused() -> None:
    in_list = explain(samples.decided(listed("fast", "thorough"), FAST, THOROUGH, known=DEMO))
    assert {each.status for each in of(in_list, "fast").signals} == {SignalStatus.NOT_COMPARED}
    blind = model("blind", capabilities=("embeddings",))
    refused = of(explain(ranked(FAST, blind, known=figures(quality={"blind": 0.9}))), "blind")
    assert {each.status for each in refused.signals} == {SignalStatus.NOT_COMPARED}
    assert (refused.rank, refused.score) == (None, None)
    assert refused.signals[0].raw == MeanScore(0.9)
    assert refused.rejection is not None
    assert refused.rejection.reason is RejectionReason.OPERATION_CAPABILITY_MISSING


# --- The outcome as a whole -------------------------------------------------------------------------------------------


def test_outcomes_are_told_apart() -> None:
    states = {
        "fixed": samples.decided(samples.fixed("fast"), FAST),
        "override": samples.decided(override("fast"), FAST),
        "fixed without a model": samples.decided(samples.fixed(), FAST),
        "listed": samples.decided(listed("fast"), FAST),
        "ranked": ranked(FAST),
        "empty": ranked(),
        "refused": ranked(model("blind", capabilities=("embeddings",))),
    }
    explained = {name: explain(decision) for name, decision in states.items()}
    assert {name: each.state for name, each in explained.items()} == {
        "fixed": DecisionState.FIXED,
        "override": DecisionState.FIXED,
        "fixed without a model": DecisionState.FIXED,
        "listed": DecisionState.LISTED,
        "ranked": DecisionState.DECIDED,
        "empty": DecisionState.EMPTY_CATALOGUE,
        "refused": DecisionState.ALL_REFUSED,
    }
    nobody = {"fixed without a model", "empty", "refused"}
    assert {name for name, each in explained.items() if each.selected is None} == nobody
    assert {name for name, each in explained.items() if each.refusal} == nobody


def test_why_history_was_not_read() -> None:
    def use(**changes: Any) -> HistoryUse:
        return explain(ranked(FAST, known=DEMO, **changes)).history

    assert use() is HistoryUse.READ
    assert use(call_history=False) is HistoryUse.SWITCHED_OFF
    assert use(requirements=Requirements()) is HistoryUse.NO_OPERATION
    assert use(mode=PolicyMode.PROVIDER_PRIORITY) is HistoryUse.MODE_MEASURES_NOTHING
    assert explain(samples.decided(listed("fast"), FAST)).history is HistoryUse.NOTHING_RANKED
    unread = samples.decided(
        samples.criteria(mode=PolicyMode.BALANCED), FAST, policy=RoutingPolicy(call_history=True, telemetry=False)
    )
    assert explain(unread).history is HistoryUse.UNAVAILABLE


def test_no_operation_is_not_an_operation_that_needs_nothing() -> None:
    nothing = explain(ranked(FAST, requirements=Requirements()))
    embed = explain(ranked(FAST, requirements=Requirements(operation=Operation.EMBED)))
    assert (nothing.operation, nothing.needs, nothing.history) == (None, (), HistoryUse.NO_OPERATION)
    assert (embed.operation, embed.needs, embed.history) == (Operation.EMBED, (), HistoryUse.READ)


PRICED = replace(FAST, prices=(price("2", "4"),))
DEAR = replace(THOROUGH, prices=(price("20", "40"),))
MEASURED = {"fast": history(cost="0.01"), "thorough": history(cost="0.02")}


@pytest.mark.parametrize(
    ("mode", "prefers", "history_on", "chat", "basis", "reason", "holding_back"),
    [
        (PolicyMode.PROVIDER_PRIORITY, True, True, MEASURED, None, BasisReason.MODE_MEASURES_NOTHING, ()),
        (PolicyMode.BALANCED, False, True, MEASURED, None, BasisReason.COST_TAKES_NO_PART, ()),
        (PolicyMode.ECONOMY, False, False, MEASURED, CostBasis.LIST_PRICE, BasisReason.HISTORY_NOT_READ, ()),
        (PolicyMode.ECONOMY, False, True, {}, CostBasis.LIST_PRICE, BasisReason.NOBODY_MEASURED, ()),
        (
            PolicyMode.QUALITY,
            True,
            True,
            {"fast": history(cost="0.01")},
            CostBasis.LIST_PRICE,
            BasisReason.SOMEBODY_MERELY_LISTED,
            ("prod-custom/thorough",),
        ),
        (PolicyMode.BALANCED, True, True, MEASURED, CostBasis.CALL_COST, BasisReason.ALL_MEASURED, ()),
    ],
    ids=["nothing measured", "no part", "not read", "nobody", "somebody", "all"],
)
def test_why_this_cost_basis(
    mode: PolicyMode,
    prefers: bool,
    history_on: bool,
    chat: dict[str, Any],
    basis: CostBasis | None,
    reason: BasisReason,
    holding_back: tuple[str, ...],
) -> None:
    explanation = explain(
        ranked(PRICED, DEAR, mode=mode, prefer_lowest_cost=prefers, call_history=history_on, known=figures(chat=chat))
    )
    assert (explanation.basis, explanation.basis_reason, explanation.holding_back) == (basis, reason, holding_back)


@settings(max_examples=300, deadline=None)
@given(decisions())
def test_a_basis_and_its_reason_agree(decision: Decision) -> None:
    explanation = explain(decision)
    of_a_list_price = {
        BasisReason.HISTORY_NOT_READ, BasisReason.NOBODY_MEASURED, BasisReason.SOMEBODY_MERELY_LISTED
    }  # fmt: skip
    assert (explanation.basis is CostBasis.CALL_COST) == (explanation.basis_reason is BasisReason.ALL_MEASURED)
    assert (explanation.basis is CostBasis.LIST_PRICE) == (explanation.basis_reason in of_a_list_price)
    held_back = explanation.basis_reason is BasisReason.SOMEBODY_MERELY_LISTED
    assert bool(explanation.holding_back) == held_back


# --- What leads -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "prefers", "lead"),
    [
        ({"provider": at("openai", priority=60)}, {}, False, Lead.PRIORITY),
        ({"prices": [price("1", "1")]}, {}, True, Lead.COST),
        ({"prices": [price("1", "1")]}, {"prices": [price("1", "2")]}, True, Lead.COST),
        ({"prices": [price("1", "1")]}, {"prices": [price("1", "2")]}, False, Lead.CANDIDATE_ORDER),
        ({"is_default": True}, {}, False, Lead.DEFAULT),
        ({"sorting": 0}, {"sorting": 1}, False, Lead.SORTING),
        ({}, {}, False, Lead.CANDIDATE_ORDER),
    ],
)
def test_what_puts_a_candidate_first(first: dict[str, Any], second: dict[str, Any], prefers: bool, lead: Lead) -> None:
    decision = ranked(
        model("a", **first), model("b", **second), mode=PolicyMode.PROVIDER_PRIORITY, prefer_lowest_cost=prefers
    )
    explanation = explain(decision)
    assert [each.leads_by for each in explanation.candidates] == [lead, None]


def test_a_score_leads_below_priority_and_above_the_rest() -> None:
    assert of(explain(ranked(FAST, replace(THOROUGH, is_default=True), known=DEMO)), "fast").leads_by is Lead.SCORE


@pytest.mark.parametrize(
    ("order", "lead"),
    [
        (ListedOrder.AS_LISTED, Lead.LISTED_ORDER),
        (ListedOrder.CHEAPEST, Lead.COST),
        (ListedOrder.HEALTHIEST, Lead.FAILURES),
    ],
)
def test_what_leads_in_a_list(order: ListedOrder, lead: Lead) -> None:
    known = figures(failures={"thorough": 2})
    decision = samples.decided(listed("fast", "thorough", order=order), PRICED, DEAR, known=known)
    assert [each.leads_by for each in explain(decision).candidates] == [lead, None]
    equal = samples.decided(listed("thorough", "fast", order=order), FAST, THOROUGH)
    assert explain(equal).candidates[0].leads_by is Lead.LISTED_ORDER


@settings(max_examples=400, deadline=None)
@given(decisions())
def test_what_leads_is_what_the_ranking_compares(decision: Decision) -> None:
    """The comparison that leads favours the one in front, and every comparison before it is a tie."""
    explained = [each for each in explain(decision).candidates if each.rank is not None]
    for first, second in pairwise(explained):
        one, other = (candidate(decision, each.model.identifier) for each in (first, second))

        def cost(each: Any) -> tuple[bool, int]:
            by_call = decision.basis is CostBasis.CALL_COST
            nanos = (each.reading.call_nanos if by_call else each.reading.list_nanos)(decision.currency)
            return (nanos is None, nanos or 0)

        if decision.mode is None:
            assert first.leads_by in {Lead.LISTED_ORDER, Lead.COST, Lead.FAILURES}
            continue
        keys: dict[Lead, list[Any]] = {
            Lead.PRIORITY: [-each.model.provider.priority for each in (one, other)],
            Lead.SCORE: [-(each.score or 0.0) for each in (one, other)],
            Lead.COST: [cost(each) for each in (one, other)] if decision.criteria.prefer_lowest_cost else [0, 0],
            Lead.DEFAULT: [not each.model.is_default for each in (one, other)],
            Lead.SORTING: [each.model.sorting for each in (one, other)],
            Lead.CANDIDATE_ORDER: [0, 1],
        }
        for lead, (left, right) in keys.items():
            if lead is first.leads_by:
                assert left < right
                break
            assert left == right


# --- What is still open -----------------------------------------------------------------------------------------------


def test_what_a_request_may_still_need_names_who_would_drop_out() -> None:
    able = replace(FAST, capabilities=frozenset({"chat", "reasoning"}))
    undeclared = replace(THOROUGH, capabilities=frozenset())
    open_needs = (OpenNeed.REASONING, OpenNeed.STRUCTURED_OUTPUT, OpenNeed.KEY)
    explanation = explain(ranked(able, undeclared), open_needs=open_needs)
    assert explanation.open_needs == open_needs
    assert of(explanation, "fast").lacking == (Capability.STRUCTURED_OUTPUT,)
    assert of(explanation, "thorough").lacking == ()
    fixed = explain(samples.decided(samples.fixed("fast"), able), open_needs=open_needs)
    assert of(fixed, "fast").lacking == ()
    observed = samples.decided(samples.criteria(), able, policy=RoutingPolicy(enforcement=Enforcement.OBSERVE))
    assert of(explain(observed, open_needs=open_needs), "fast").lacking == ()


def test_who_is_named_would_drop_out() -> None:
    able = replace(FAST, capabilities=frozenset({"chat", "reasoning"}))
    for need in (OpenNeed.REASONING, OpenNeed.STRUCTURED_OUTPUT, OpenNeed.VISION, OpenNeed.TOOLS):
        assert need.capability is not None
        asked = explain(ranked(able), open_needs=[need])
        really = ranked(able, requirements=Requirements(Operation.CHAT, needs=frozenset({need.capability})))
        assert bool(of(asked, "fast").lacking) == (not really.eligible)


def test_a_call_has_no_open_needs() -> None:
    decision = samples.decided(samples.criteria(), FAST, limits=Limits(allowed_models=frozenset()))
    explanation = explain(decision)
    assert explanation.open_needs == ()
    assert "notPermitted" in explanation.refusal
