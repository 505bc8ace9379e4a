import pytest

from routing.core.catalogue import ModelSpec
from routing.core.decision import Decision
from routing.core.policy import PolicyMode
from routing.core.ranking import contributions
from routing.core.requirements import Requirements
from routing.core.signals import HealthFigure
from routing.core.vocabulary import CostBasis, ListedOrder, Operation, SignalName
from tests.routing.core.samples import (
    at,
    candidate,
    costs,
    decided,
    figures,
    history,
    latencies,
    listed,
    model,
    order,
    price,
    ranked,
)

FAST, SLOW = model("fast", provider=at("openai")), model("slow", provider=at("anthropic"))
THIRD = model("a-third", provider=at("gemini"))
MEASURED = [PolicyMode.BALANCED, PolicyMode.QUALITY, PolicyMode.ECONOMY]


def steady(successes: int, samples: int = 100, latency: float | None = 1000.0) -> HealthFigure:
    return HealthFigure(samples=samples, successes=successes, mean_latency_ms=latency)


def scores(decision: Decision) -> dict[str, float | None]:
    return {each.model.identifier: each.score for each in decision.eligible}


def values(decision: Decision, name: SignalName) -> dict[str, float | None]:
    return {each.model.identifier: each.signals[name] for each in decision.eligible if name in each.signals}


# --- The worked and pinned figures ------------------------------------------------------------------------------------


def test_the_worked_latencies_in_a_decision() -> None:
    decision = ranked(FAST, SLOW, known=figures(chat=latencies(fast=4259, slow=9094)))
    assert values(decision, SignalName.LATENCY) == {
        "fast": pytest.approx(0.5937, abs=5e-5),
        "slow": pytest.approx(0.4063, abs=5e-5),
    }
    assert scores(decision) == {"fast": 0.593701904, "slow": 0.406298096}  # as compared: nine decimals
    assert decision.signals_used == (SignalName.LATENCY,)


def test_the_worked_costs_in_a_decision() -> None:
    known = figures(chat=costs(fast="0.0067", slow="0.0184"))
    decision = ranked(FAST, SLOW, mode=PolicyMode.ECONOMY, known=known)
    assert decision.basis is CostBasis.CALL_COST
    assert values(decision, SignalName.CALL_COST) == {
        "fast": pytest.approx(0.6237, abs=5e-5),
        "slow": pytest.approx(0.3763, abs=5e-5),
    }


def test_the_faster_of_the_worked_pair_loses_on_a_provider_that_fails_one_in_five() -> None:
    known = figures(chat=latencies(fast=4259, slow=9094), health={"fast": steady(8, 10), "slow": steady(10, 10)})
    decision = ranked(FAST, SLOW, known=known)
    assert order(decision) == ["slow", "fast"]
    assert scores(decision) == {
        "fast": pytest.approx((0.4 * 0.8 + 0.1 * 0.59370) / 0.5, abs=1e-5),
        "slow": pytest.approx((0.4 * 0.96 + 0.1 * 0.40630) / 0.5, abs=1e-5),
    }


def test_thirteen_times_faster_loses_on_a_provider_that_fails_three_in_ten() -> None:
    known = figures(chat=latencies(fast=700, slow=9100), health={"fast": steady(7, 10), "slow": steady(10, 10)})
    assert order(ranked(FAST, SLOW, known=known)) == ["slow", "fast"]


def test_at_equal_health_the_faster_wins() -> None:
    known = figures(chat=latencies(fast=4259, slow=9094), health={"fast": steady(10, 10), "slow": steady(10, 10)})
    assert order(ranked(FAST, SLOW, known=known)) == ["fast", "slow"]


@pytest.mark.parametrize(
    ("mode", "survives", "loses"),
    [(PolicyMode.BALANCED, 10, 11), (PolicyMode.QUALITY, 6, 7), (PolicyMode.ECONOMY, 6, 7)],
)
@pytest.mark.parametrize("with_cost", [False, True], ids=["unpriced", "equal-costs"])
def test_how_many_failures_speed_outweighs(mode: PolicyMode, survives: int, loses: int, with_cost: bool) -> None:
    """Speed is worth a third of the latency weight at most, a failure 0.8 of the health weight: in balanced
    0.0333 ÷ 0.32 is 10.4 failures in a hundred, elsewhere 0.01667 ÷ 0.24 is 6.9."""
    cost = "0.0067" if with_cost else None
    chat = {"fast": history(latency=700, cost=cost), "slow": history(latency=9100, cost=cost)}

    def best(failures: int) -> str:
        health = {"fast": steady(100 - failures), "slow": steady(100)}
        return order(ranked(FAST, SLOW, mode=mode, known=figures(chat=chat, health=health)))[0]

    assert best(survives) == "fast"
    assert best(loses) == "slow"


def test_two_models_of_one_provider_are_told_apart_by_speed() -> None:
    """Their health is one and the same, so nothing else can."""
    one, other = model("fast"), model("slow")
    known = figures(chat=latencies(fast=4259, slow=9094), health={"fast": steady(9, 10), "slow": steady(9, 10)})
    assert order(ranked(one, other, known=known)) == ["fast", "slow"]


# --- Scores -----------------------------------------------------------------------------------------------------------


def test_a_score_is_the_weighted_mean_of_what_counts() -> None:
    subject = model("fast", prices=[price("20", "20")])
    known = figures(quality={"fast": 0.5}, health={"fast": steady(5, 5, 5000.0)})
    decision = ranked(subject, mode=PolicyMode.ECONOMY, call_history=False, known=known)
    assert scores(decision) == {"fast": pytest.approx(0.1 * 0.5 + 0.3 * 0.8 + 0.6 * 0.6)}
    assert decision.weights == {SignalName.QUALITY: 0.1, SignalName.HEALTH: 0.3, SignalName.COST: 0.6}


def test_an_absolute_signal_without_data_is_skipped_with_its_weight() -> None:
    decision = ranked(FAST, mode=PolicyMode.QUALITY, known=figures(health={"fast": steady(10, 10)}))
    assert scores(decision) == {"fast": pytest.approx(0.96)}
    assert values(decision, SignalName.QUALITY) == {"fast": None}


@pytest.mark.parametrize("mode", MEASURED)
def test_without_any_data_a_score_is_neutral(mode: PolicyMode) -> None:
    decision = ranked(FAST, SLOW, mode=mode)
    assert scores(decision) == {"fast": 0.5, "slow": 0.5}
    assert decision.signals_used == ()


def test_a_measured_zero_is_data() -> None:
    decision = ranked(FAST, SLOW, mode=PolicyMode.QUALITY, known=figures(quality={"fast": 0.0}))
    assert order(decision) == ["slow", "fast"]
    assert scores(decision) == {"slow": 0.5, "fast": 0.0}
    assert decision.signals_used == (SignalName.QUALITY,)


def test_no_samples_are_no_health() -> None:
    decision = ranked(FAST, known=figures(health={"fast": HealthFigure(0, 0)}))
    assert values(decision, SignalName.HEALTH) == {"fast": None}
    assert decision.signals_used == ()


def test_scores_that_agree_to_nine_decimals_are_equal() -> None:
    default = model("z", is_default=True)
    known = figures(quality={"fast": 0.8 + 4e-10, "z": 0.8})
    assert order(ranked(FAST, default, mode=PolicyMode.QUALITY, known=known)) == ["z", "fast"]
    known = figures(quality={"fast": 0.8 + 6e-10, "z": 0.8})
    assert order(ranked(FAST, default, mode=PolicyMode.QUALITY, known=known)) == ["fast", "z"]


def test_contributions_lead_to_the_score() -> None:
    chat = {"fast": history(latency=4259, cost="0.0067"), "slow": history(latency=9094, cost="0.0184")}
    known = figures(quality={"fast": 0.8}, health={"slow": steady(9, 10)}, chat=chat)
    decision = ranked(FAST, SLOW, THIRD, mode=PolicyMode.ECONOMY, known=known)
    for each in decision.eligible:
        pairs = contributions(
            each.signals, weights=decision.weights, neutral_for_absent=decision.neutral_for_absent
        ).values()
        mean = sum(weight * value for weight, value in pairs) / sum(weight for weight, _ in pairs)
        assert each.score == pytest.approx(mean, abs=1e-9)


# --- Provider priority ------------------------------------------------------------------------------------------------


def test_in_provider_priority_no_signal_is_collected() -> None:
    known = figures(quality={"fast": 0.1}, health={"fast": steady(0, 10)}, chat=latencies(fast=9, slow=1))
    decision = ranked(FAST, SLOW, mode=PolicyMode.PROVIDER_PRIORITY, known=known)
    assert [each.signals for each in decision.eligible] == [{}, {}]
    assert scores(decision) == {"fast": 0.5, "slow": 0.5}
    assert (decision.weights, decision.signals_used, decision.basis) == ({}, (), None)
    assert not decision.history_read


@pytest.mark.parametrize("mode", PolicyMode)
def test_priority_goes_above_the_score(mode: PolicyMode) -> None:
    first = model("first", provider=at("ollama", priority=51))
    known = figures(quality={"first": 0.0, "fast": 1.0}, health={"first": steady(0), "fast": steady(100)})
    assert order(ranked(FAST, first, mode=mode, known=known)) == ["first", "fast"]


# --- Tie-breaks, each stronger than the next --------------------------------------------------------------------------


def tie(identifier: str, *, input: str | None = None, is_default: bool = False, sorting: int = 0) -> ModelSpec:
    prices = [] if input is None else [price(input, "0")]
    return model(identifier, prices=prices, is_default=is_default, sorting=sorting)


def test_a_score_goes_before_cost() -> None:
    known = figures(quality={"a": 0.4, "b": 0.8})
    decision = ranked(
        tie("a", input="1"), tie("b", input="9"), mode=PolicyMode.QUALITY, prefer_lowest_cost=True, known=known
    )
    assert order(decision) == ["b", "a"]


def test_cost_goes_before_the_default_flag_where_it_is_preferred() -> None:
    models = tie("a", input="9", is_default=True), tie("b", input="1")
    assert order(ranked(*models, mode=PolicyMode.QUALITY, prefer_lowest_cost=True)) == ["b", "a"]
    assert order(ranked(*models, mode=PolicyMode.QUALITY)) == ["a", "b"]


def test_the_default_flag_goes_before_sorting() -> None:
    assert order(ranked(tie("a", sorting=1), tie("b", sorting=2, is_default=True))) == ["b", "a"]


def test_sorting_goes_before_names_and_identifiers() -> None:
    assert order(ranked(tie("a", sorting=2), tie("b", sorting=1))) == ["b", "a"]
    assert order(ranked(model("a", name="Z"), model("b", name="Y"))) == ["b", "a"]
    assert order(ranked(model("b", name="Y"), model("a", name="Y"))) == ["a", "b"]


def test_the_list_price_breaks_ties_where_cost_takes_no_part() -> None:
    models = tie("a", input="9"), tie("b", input="1"), tie("c")
    decision = ranked(*models, mode=PolicyMode.PROVIDER_PRIORITY, prefer_lowest_cost=True)
    assert decision.basis is None
    assert order(decision) == ["b", "a", "c"]


def test_measured_costs_break_ties_on_their_basis() -> None:
    models = tie("a", input="1"), tie("b", input="9"), tie("c")
    known = figures(chat=costs(a="0.02", b="0.01"))
    decision = ranked(*models, mode=PolicyMode.QUALITY, prefer_lowest_cost=True, known=known)
    assert decision.basis is CostBasis.CALL_COST
    assert order(decision) == ["b", "a", "c"]


def test_an_explicit_zero_price_is_first_by_cost_and_no_price_is_last() -> None:
    models = tie("a"), tie("b", input="1"), tie("c", input="0")
    assert order(ranked(*models, mode=PolicyMode.QUALITY, prefer_lowest_cost=True)) == ["c", "b", "a"]


# --- Cost: one basis --------------------------------------------------------------------------------------------------

CHEAP, DEAR, UNPRICED = (
    model("cheap", prices=[price("1", "4")]),
    model("dear", prices=[price("10", "40")]),
    model("unpriced"),
)
FREE = model("free", prices=[price("0", "0")])


@pytest.mark.parametrize(
    ("mode", "prefer", "takes_part"),
    [
        (PolicyMode.PROVIDER_PRIORITY, True, False),
        (PolicyMode.BALANCED, False, False),
        (PolicyMode.BALANCED, True, True),
        (PolicyMode.QUALITY, False, False),
        (PolicyMode.QUALITY, True, True),
        (PolicyMode.ECONOMY, False, True),
        (PolicyMode.ECONOMY, True, True),
    ],
)
def test_when_cost_takes_part(mode: PolicyMode, prefer: bool, takes_part: bool) -> None:
    decision = ranked(CHEAP, DEAR, mode=mode, prefer_lowest_cost=prefer)
    assert (decision.basis is not None) is takes_part
    assert (SignalName.COST in decision.eligible[0].signals) is takes_part
    assert (SignalName.CALL_COST in decision.eligible[0].signals) is takes_part


def test_in_quality_the_preference_has_a_basis_and_no_weight() -> None:
    decision = ranked(CHEAP, DEAR, mode=PolicyMode.QUALITY, prefer_lowest_cost=True, call_history=False)
    assert decision.basis is CostBasis.LIST_PRICE
    assert values(decision, SignalName.COST) == {"cheap": 0.95, "dear": 0.5}
    assert SignalName.COST not in decision.weights
    assert decision.signals_used == ()


def test_balanced_weighs_cost_when_it_is_preferred() -> None:
    decision = ranked(CHEAP, DEAR, prefer_lowest_cost=True, call_history=False)
    assert scores(decision) == {"cheap": 0.95, "dear": 0.5}
    assert decision.weights[SignalName.COST] == 0.2


@pytest.mark.parametrize(
    ("models", "measured", "basis"),
    [
        ([CHEAP, DEAR], {"cheap": "0.01", "dear": "0.02"}, CostBasis.CALL_COST),
        ([CHEAP, DEAR], {"cheap": "0.01"}, CostBasis.LIST_PRICE),
        ([CHEAP, UNPRICED], {"cheap": "0.01"}, CostBasis.CALL_COST),
        ([CHEAP, UNPRICED], {"unpriced": "0.01"}, CostBasis.LIST_PRICE),
        ([UNPRICED], {}, CostBasis.LIST_PRICE),
        ([UNPRICED, FAST], {"unpriced": "0.01"}, CostBasis.CALL_COST),
        ([CHEAP, FREE], {"cheap": "0.01"}, CostBasis.LIST_PRICE),
        ([CHEAP, FREE], {"cheap": "0.01", "free": "0"}, CostBasis.CALL_COST),
    ],
    ids=[
        "all-measured", "one-only-listed", "unpriced-blocks-nothing", "priced-without-calls", "no-figure-at-all",
        "measured-without-price", "explicit-zero-without-calls", "explicit-zero-measured",
    ],
)  # fmt: skip
def test_the_one_basis_of_a_decision(models: list[ModelSpec], measured: dict[str, str], basis: CostBasis) -> None:
    decision = ranked(*models, mode=PolicyMode.ECONOMY, known=figures(chat=costs(**measured)))
    assert decision.basis is basis


def test_an_explicit_zero_price_keeps_a_decision_on_list_prices_until_it_has_calls() -> None:
    known = figures(chat=costs(cheap="0.01"))
    decision = ranked(CHEAP, FREE, mode=PolicyMode.ECONOMY, known=known)
    assert order(decision) == ["free", "cheap"]
    assert values(decision, SignalName.COST) == {"free": 1.0, "cheap": 0.95}
    assert values(decision, SignalName.CALL_COST) == {"free": None, "cheap": 0.5}  # shown, not counted
    assert SignalName.CALL_COST not in decision.weights


def test_too_few_priced_calls_do_not_change_the_basis() -> None:
    known = figures(chat={"cheap": history(cost="0.01"), "dear": history(calls=40, priced=4, cost="0.02")})
    assert ranked(CHEAP, DEAR, mode=PolicyMode.ECONOMY, known=known).basis is CostBasis.LIST_PRICE


def test_history_that_is_not_read_leaves_list_prices() -> None:
    known = figures(chat=costs(cheap="0.02", dear="0.01"))
    decision = ranked(CHEAP, DEAR, mode=PolicyMode.ECONOMY, call_history=False, known=known)
    assert decision.basis is CostBasis.LIST_PRICE
    assert order(decision) == ["cheap", "dear"]
    assert set(decision.eligible[0].signals) == {SignalName.QUALITY, SignalName.HEALTH, SignalName.COST}


def test_on_measured_costs_the_list_price_is_shown_and_not_used() -> None:
    known = figures(chat=costs(cheap="0.02", dear="0.01"))
    decision = ranked(CHEAP, DEAR, mode=PolicyMode.ECONOMY, known=known)
    assert order(decision) == ["dear", "cheap"]
    assert values(decision, SignalName.COST) == {"cheap": 0.95, "dear": 0.5}
    assert decision.signals_used == (SignalName.CALL_COST,)
    assert decision.weights[SignalName.CALL_COST] == 0.6


def test_a_measured_cost_of_zero_is_best() -> None:
    known = figures(chat=costs(cheap="0.01", dear="0.02", free="0"))
    decision = ranked(CHEAP, DEAR, FREE, mode=PolicyMode.ECONOMY, known=known)
    assert values(decision, SignalName.CALL_COST)["free"] == 1.0
    assert order(decision)[0] == "free"


@pytest.mark.parametrize("basis", CostBasis)
def test_while_history_is_read_an_absent_cost_counts_as_one_half(basis: CostBasis) -> None:
    measured = {"cheap": "0.01"} if basis is CostBasis.LIST_PRICE else {"cheap": "0.01", "dear": "0.02"}
    health = {name: steady(100) for name in ("cheap", "dear", "unpriced")}
    known = figures(health=health, chat=costs(**measured))
    decision = ranked(CHEAP, DEAR, UNPRICED, mode=PolicyMode.ECONOMY, known=known)
    assert decision.basis is basis
    name = SignalName.COST if basis is CostBasis.LIST_PRICE else SignalName.CALL_COST
    assert candidate(decision, "unpriced").signals[name] is None
    assert scores(decision)["unpriced"] == pytest.approx((0.3 * 0.96 + 0.6 * 0.5) / 0.9)
    assert name in decision.neutral_for_absent


def test_while_history_is_not_read_an_absent_cost_is_skipped() -> None:
    health = {name: steady(100) for name in ("cheap", "unpriced")}
    decision = ranked(CHEAP, UNPRICED, mode=PolicyMode.ECONOMY, call_history=False, known=figures(health=health))
    assert scores(decision)["unpriced"] == pytest.approx(0.96)
    assert SignalName.COST not in decision.neutral_for_absent


def test_where_nobody_has_a_cost_it_counts_for_nobody() -> None:
    known = figures(quality={"fast": 0.9})
    decision = ranked(FAST, SLOW, mode=PolicyMode.ECONOMY, known=known)
    assert scores(decision)["fast"] == pytest.approx(0.9)
    assert SignalName.COST not in decision.weights


def test_being_the_fastest_does_not_demote_a_model_without_a_cost() -> None:
    """Were its cost skipped, its own latency would take a larger share of its score than of its rivals'."""
    chat = {"cheap": history(latency=4000, cost="0.01"), "unpriced": history(latency=1000)}
    health = {name: steady(100) for name in ("cheap", "unpriced")}
    decision = ranked(CHEAP, UNPRICED, mode=PolicyMode.ECONOMY, known=figures(health=health, chat=chat))
    assert decision.basis is CostBasis.CALL_COST
    assert order(decision) == ["unpriced", "cheap"]


def test_money_in_another_currency_is_no_figure() -> None:
    euro = model("euro", prices=[price("0.01", "0.01", currency="EUR")])
    chat = {"euro": history(cost="0.0001", currency="EUR"), "cheap": history(cost="0.01")}
    decision = ranked(euro, CHEAP, mode=PolicyMode.ECONOMY, prefer_lowest_cost=True, known=figures(chat=chat))
    assert decision.basis is CostBasis.CALL_COST  # of those with a figure all are measured
    assert values(decision, SignalName.COST) == {"euro": None, "cheap": 0.95}
    assert values(decision, SignalName.CALL_COST) == {"euro": None, "cheap": 0.5}
    assert order(decision) == ["cheap", "euro"]  # equal scores, and unknown comes last
    assert candidate(decision, "euro").reading.price is euro.prices[0]


def test_the_routing_currency_decides_which_money_counts() -> None:
    euro = model("euro", prices=[price("20", "20", currency="EUR")])
    decision = ranked(euro, CHEAP, mode=PolicyMode.ECONOMY, call_history=False, currency="EUR")
    assert values(decision, SignalName.COST) == {"euro": pytest.approx(0.6), "cheap": None}


def test_only_eligible_candidates_decide_the_basis() -> None:
    deaf = model("deaf", prices=[price("1", "1")], capabilities=["embeddings"])
    known = figures(chat=costs(cheap="0.01", dear="0.02"))
    decision = ranked(CHEAP, DEAR, deaf, mode=PolicyMode.ECONOMY, known=known)
    assert [each.model.identifier for each in decision.refused] == ["deaf"]
    assert decision.basis is CostBasis.CALL_COST


# --- Relative signals: absence, and taking part -----------------------------------------------------------------------


def test_a_sole_measured_candidate_stands_like_the_others() -> None:
    known = figures(health={"fast": steady(95), "slow": steady(95)}, chat=latencies(fast=10))
    decision = ranked(FAST, SLOW, known=known)
    assert values(decision, SignalName.LATENCY) == {"fast": 0.5, "slow": None}
    assert scores(decision)["fast"] == scores(decision)["slow"] == pytest.approx(0.92)
    assert SignalName.LATENCY not in decision.weights
    assert decision.signals_used == (SignalName.HEALTH,)


def test_nobody_outranks_the_one_that_has_been_serving_by_having_no_history() -> None:
    known = figures(
        health={name: steady(95) for name in ("fast", "slow", "a-third")}, chat=latencies(fast=2000, slow=2000)
    )
    decision = ranked(FAST, SLOW, THIRD, known=known)
    assert scores(decision) == pytest.approx(dict.fromkeys(("fast", "slow", "a-third"), 0.92))


def test_a_candidate_without_a_figure_counts_as_one_half_between_the_measured() -> None:
    health = {name: steady(95) for name in ("fast", "slow", "a-third")}
    decision = ranked(FAST, SLOW, THIRD, known=figures(health=health, chat=latencies(fast=1000, slow=9000)))
    assert order(decision) == ["fast", "a-third", "slow"]
    assert values(decision, SignalName.LATENCY)["a-third"] is None
    assert scores(decision)["a-third"] == pytest.approx((0.4 * 0.92 + 0.1 * 0.5) / 0.5)


@pytest.mark.parametrize("chat", [{}, latencies(**{"a-third": 1}), latencies(**{"a-third": 90_000})])
def test_a_third_candidate_s_figure_does_not_reorder_two_that_have_none(chat: dict[str, object]) -> None:
    """They carry different absolute signals, so a common 0.5 with weight would move them unequally."""
    known = figures(
        quality={"slow": 0.79},
        health={"fast": steady(80, 100, 5000.0), "slow": steady(100, 100, 5000.0)},
        chat=chat,  # type: ignore[arg-type]
    )
    decision = ranked(FAST, SLOW, THIRD, known=known)
    without = ranked(FAST, SLOW, THIRD, call_history=False, known=known)
    assert scores(decision) == scores(without)


def test_a_latency_of_zero_is_only_fast_and_a_cost_of_zero_is_best() -> None:
    zero = ranked(FAST, SLOW, mode=PolicyMode.ECONOMY, known=figures(chat=latencies(fast=0, slow=9000)))
    assert values(zero, SignalName.LATENCY) == {"fast": pytest.approx(2 / 3), "slow": 0.5}
    both = ranked(FAST, SLOW, known=figures(chat=latencies(fast=0, slow=0)))
    assert values(both, SignalName.LATENCY) == {"fast": 0.5, "slow": 0.5}
    assert both.signals_used == ()


def test_a_sole_measured_cost_of_zero_takes_part() -> None:
    known = figures(chat=costs(unpriced="0"))
    decision = ranked(UNPRICED, FAST, mode=PolicyMode.ECONOMY, known=known)
    assert decision.basis is CostBasis.CALL_COST
    assert order(decision) == ["unpriced", "fast"]
    assert decision.signals_used == (SignalName.CALL_COST,)


def test_means_know_eligible_candidates_only() -> None:
    deaf = model("deaf", capabilities=["embeddings"])
    known = figures(chat=latencies(fast=4259, slow=9094, deaf=1))
    decision = ranked(FAST, SLOW, deaf, known=known)
    assert values(decision, SignalName.LATENCY)["fast"] == pytest.approx(0.5937, abs=5e-5)


# --- Whether history is read ------------------------------------------------------------------------------------------


def test_history_is_kept_by_operation() -> None:
    known = figures(chat=latencies(fast=100, slow=900))
    decision = ranked(FAST, SLOW, requirements=Requirements(operation=Operation.STREAM), known=known)
    assert decision.history_read  # read without figures is still read
    assert values(decision, SignalName.LATENCY) == {"fast": None, "slow": None}


def test_without_an_operation_history_is_not_read() -> None:
    known = figures(chat=latencies(fast=100, slow=900))
    decision = ranked(FAST, SLOW, requirements=Requirements(), known=known)
    assert not decision.history_read
    assert not decision.history_known
    assert SignalName.LATENCY not in decision.eligible[0].signals


# --- Listed orders ----------------------------------------------------------------------------------------------------


def test_as_listed() -> None:
    assert order(decided(listed("slow", "fast"), FAST, SLOW)) == ["slow", "fast"]


def test_cheapest_goes_by_published_rates_and_is_stable() -> None:
    names = ("unpriced", "dear", "cheap", "as-cheap", "free", "euro")
    models = [
        UNPRICED,
        DEAR,
        CHEAP,
        model("as-cheap", prices=[price("4", "1")]),
        FREE,
        model("euro", prices=[price("0", "0", currency="EUR")]),
    ]
    decision = decided(listed(*names, order=ListedOrder.CHEAPEST), *models)
    assert order(decision) == ["free", "cheap", "as-cheap", "dear", "unpriced", "euro"]


def test_healthiest_goes_by_failures_in_a_row_and_is_stable() -> None:
    known = figures(failures={"fast": 2, "slow": 1})
    names = ("fast", "slow", "a-third", "cheap")
    decision = decided(listed(*names, order=ListedOrder.HEALTHIEST), FAST, SLOW, THIRD, CHEAP, known=known)
    assert order(decision) == ["a-third", "cheap", "slow", "fast"]
    assert candidate(decision, "fast").reading.failures_in_a_row == 2


def test_failures_in_a_row_stand_only_where_they_order() -> None:
    known = figures(failures={"fast": 2})
    assert candidate(decided(listed("fast"), FAST, known=known), "fast").reading.failures_in_a_row is None
    assert candidate(ranked(FAST, known=known), "fast").reading.failures_in_a_row is None


def test_listed_candidates_have_no_scores_and_no_signals() -> None:
    known = figures(quality={"fast": 0.9}, chat=latencies(fast=1, slow=2))
    decision = decided(listed("slow", "fast", order=ListedOrder.CHEAPEST), FAST, SLOW, known=known)
    assert [each.score for each in decision.eligible] == [None, None]
    assert [each.signals for each in decision.eligible] == [{}, {}]
