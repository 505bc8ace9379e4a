"""What holds for every decision, not only for the worked ones.

How far "more of a good signal never hurts" goes, since scores are weighted means over what counts:

- Absolute signals (quality, health, list price): improving a figure that is there never lowers the model's rank.
- Relative signals (latency, call cost): lowering a positive figure never lowers the model's own value and never raises
  another's. Its rank never falls either while the signal takes part before and after, or while all candidates have
  the same absolute signals. Otherwise it may: from the moment a signal takes part, it also draws everybody towards
  the middle, and most those of whom least is known.
- A latency falling to exactly zero leaves the mean, so others may gain by it; a cost falling to zero has 1.0.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from math import exp, fsum, log
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from routing.core.calls import Usage
from routing.core.catalogue import Catalogue, ModelSpec
from routing.core.configuration import Criteria
from routing.core.decision import Decision, decide
from routing.core.money import MOST_NANOS, format_nanos, parse_nanos
from routing.core.plan import Fallback, Preference, plan
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.pricing import LongPrompt, Price, Rates, cost, price_at, upper_bound
from routing.core.requirements import Limits, Requirements
from routing.core.scenario import ScenarioError, load_scenario, read_scenario
from routing.core.signals import Figures, HealthFigure, HistoryFigure, relative_values, takes_part
from routing.core.transcript import canonical, document, restore
from routing.core.vocabulary import Capability, Enforcement, ListedOrder, Operation, Reach, SignalName
from tests.routing.core.samples import LAST_YEAR, NOW, at, criteria, history, listed, model, price
from tests.routing.core.test_scenario import EXAMPLE


def for_all(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test over examples; without a deadline, since how long one takes is none of its business."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        return settings(deadline=None, max_examples=60)(given(*strategies)(test))

    return decorate


NAMES = ("a", "b", "c", "d")
MEASURED = st.sampled_from([PolicyMode.BALANCED, PolicyMode.QUALITY, PolicyMode.ECONOMY])
SHARES = st.integers(0, 100).map(lambda percent: percent / 100)
HEALTH = st.builds(
    lambda samples, share, latency: HealthFigure(samples, round(samples * share), latency),
    st.integers(0, 50),
    SHARES,
    st.none() | st.integers(0, 8000).map(float),
)
MILLISECONDS = st.integers(1, 60_000).map(float)
HISTORY = st.builds(
    lambda calls, latency, priced, nanos, currency: history(
        calls=calls, latency=latency, priced=priced, cost=format_nanos(nanos), currency=currency
    ),
    st.integers(0, 12),
    st.none() | st.just(0.0) | MILLISECONDS,
    st.integers(0, 12),
    st.just(0) | st.integers(1, 10**9),
    st.sampled_from(["USD", "USD", "EUR"]),
)
PRICES = st.lists(
    st.builds(
        lambda rate, output, currency, day: Price(LAST_YEAR + timedelta(days=day), currency, Rates(rate, output)),
        st.integers(0, 60 * 10**9),
        st.integers(0, 60 * 10**9),
        st.sampled_from(["USD", "USD", "EUR"]),
        st.integers(0, 900),
    ),
    max_size=2,
).map(lambda prices: tuple(sorted(prices, key=lambda each: each.valid_from)))


@st.composite
def models(draw: st.DrawFn) -> list[ModelSpec]:
    """Up to four models, each at a provider of its own."""
    return [
        model(
            name,
            provider=at(
                f"kind-{name}",
                priority=draw(st.sampled_from([50, 50, 50, 90])),
                reach=draw(st.sampled_from(Reach)),
            ),
            prices=draw(PRICES),
            capabilities=draw(st.sets(st.sampled_from([each.value for each in Capability]), max_size=3)),
            context_length=draw(st.none() | st.integers(1, 2000)),
            is_default=draw(st.booleans()),
            sorting=draw(st.integers(0, 2)),
        )
        for name in NAMES[: draw(st.integers(0, len(NAMES)))]
    ]


def by_name(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(NAMES), values)


FIGURES = st.builds(
    Figures,
    quality=by_name(SHARES),
    health=by_name(HEALTH),
    history=st.none() | st.builds(lambda chat: {Operation.CHAT: chat}, by_name(HISTORY)),
    failures_in_a_row=by_name(st.integers(0, 5)),
)
POLICIES = st.builds(
    RoutingPolicy,
    mode=st.sampled_from(PolicyMode),
    call_history=st.booleans(),
    enforcement=st.sampled_from(Enforcement),
    telemetry=st.booleans(),
)
CRITERIA = st.builds(
    Criteria,
    capabilities=st.sampled_from([(), ("chat",), ("vision",)]),
    min_context_length=st.sampled_from([0, 500]),
    max_cost_input=st.none() | st.integers(0, 60 * 10**9),
    prefer_lowest_cost=st.booleans(),
)
REQUIREMENTS = st.builds(
    Requirements,
    operation=st.sampled_from([Operation.CHAT, Operation.CHAT, Operation.EMBED, None]),
    needs=st.sampled_from([frozenset(), frozenset({"tools"})]),
    prompt_tokens=st.none() | st.integers(0, 2000),
)
LIMITS = st.builds(
    Limits,
    allowed_models=st.none() | st.frozensets(st.sampled_from(NAMES)),
    on_device=st.booleans(),
    budget_targets=st.lists(st.frozensets(st.sampled_from(NAMES)), max_size=2).map(tuple),
)


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    """Decisions of any kind."""
    configuration = draw(
        st.builds(criteria, CRITERIA)
        | st.builds(
            lambda names, order: listed(*names, order=order),
            st.lists(st.sampled_from([*NAMES, "gone"]), max_size=6),
            st.sampled_from(ListedOrder),
        )
    )
    return decide(
        configuration=configuration,
        catalogue=Catalogue.of(draw(models())),
        requirements=draw(REQUIREMENTS),
        policy=draw(POLICIES),
        now=NOW,
        limits=draw(LIMITS),
        figures=draw(FIGURES),
    )


def names_of(decision: Decision) -> list[str]:
    return [each.model.identifier for each in decision.eligible]


def scores_of(decision: Decision) -> dict[str, float]:
    return {each.model.identifier: each.score for each in decision.eligible if each.score is not None}


# --- Every decision ---------------------------------------------------------------------------------------------------


@for_all(decisions())
def test_the_ineligible_never_win(decision: Decision) -> None:
    refused = {each.model.identifier for each in decision.refused}
    assert not refused & set(names_of(decision))
    assert all(each.rejection is not None and each.score is None and not each.signals for each in decision.refused)
    assert all(each.rejection is None for each in decision.eligible)
    assert (decision.selected is None) == (not decision.eligible)


@for_all(decisions())
def test_priority_stands_above_the_score_and_the_score_above_the_rest(decision: Decision) -> None:
    if decision.mode is None:
        return
    keys = [(-each.model.provider.priority, -(each.score or 0.0)) for each in decision.eligible]
    assert keys == sorted(keys)
    assert all(0.0 <= score <= 1.0 for score in scores_of(decision).values())


@for_all(models(), CRITERIA, POLICIES, FIGURES, st.randoms(use_true_random=False))
def test_the_order_of_what_comes_in_does_not_matter(
    specs: list[ModelSpec], asked: Criteria, policy: RoutingPolicy, known: Figures, random: Any
) -> None:
    def run(catalogue: Catalogue, figures: Figures) -> Decision:
        return decide(
            configuration=criteria(asked),
            catalogue=catalogue,
            requirements=Requirements(operation=Operation.CHAT),
            policy=policy,
            now=NOW,
            figures=figures,
        )

    shuffled = random.sample(specs, len(specs))
    turned = Figures(
        quality=dict(reversed(list(known.quality.items()))),
        health=dict(reversed(list(known.health.items()))),
        history=None
        if known.history is None
        else {key: dict(reversed(list(value.items()))) for key, value in known.history.items()},
        failures_in_a_row=known.failures_in_a_row,
    )
    assert run(Catalogue.of(specs), known) == run(Catalogue.of(shuffled), turned)


@for_all(decisions())
def test_documents_lead_back_to_decisions(decision: Decision) -> None:
    content = document(decision)
    read = json.loads(canonical(content))
    assert read == content
    assert document(restore(read)) == content


@for_all(decisions(), st.lists(decisions(), max_size=3), st.integers(-1, 5), st.sampled_from(NAMES), st.booleans())
def test_a_plan_holds_no_refused_model_and_none_twice(
    first: Decision, others: list[Decision], limit: int, preferred: str, shadow: bool
) -> None:
    fallbacks = [Fallback(f"other-{index}", each, limit=2) for index, each in enumerate(others)]
    result = plan(first, limit=limit, preference=Preference(preferred, "pin", shadow), fallbacks=fallbacks)
    planned = [step.model.identifier for step in result.steps]
    assert len(planned) == len(set(planned))
    for step in result.steps:
        found = [each for each in fallbacks if each.configuration == step.configuration]
        decision = found[0].decision if found else first
        assert decision is not None
        assert step.model.identifier in names_of(decision)


# --- More of a good thing ---------------------------------------------------------------------------------------------


@st.composite
def contests(draw: st.DrawFn, *, same_coverage: bool) -> tuple[list[ModelSpec], Figures, PolicyMode]:
    """Rivals of equal priority with positive figures; with or without the same absolute signals for all."""
    rivals = [
        model(
            name,
            provider=at(f"kind-{name}"),
            prices=[] if same_coverage else draw(st.sampled_from([[], [price("1", "4")], [price("20", "30")]])),
        )
        for name in NAMES[: draw(st.integers(2, len(NAMES)))]
    ]
    names = [each.identifier for each in rivals]
    has_quality, has_health = draw(st.booleans()), draw(st.booleans())

    def known(strategy: st.SearchStrategy[Any], present: bool) -> dict[str, Any]:
        return {name: draw(strategy) for name in names if (present if same_coverage else draw(st.booleans()))}

    figure = st.builds(lambda ms, nanos: history(latency=ms, cost=format_nanos(nanos)), MILLISECONDS, COSTS)
    return (
        rivals,
        Figures(
            quality=known(SHARES, has_quality),
            health=known(HEALTH.filter(lambda each: each.samples > 0), has_health),
            history={Operation.CHAT: {name: draw(figure) for name in names if draw(st.booleans())}},
        ),
        draw(MEASURED),
    )


COSTS = st.integers(10**5, 10**9)


def contest(rivals: Sequence[ModelSpec], known: Figures, mode: PolicyMode) -> Decision:
    return decide(
        configuration=criteria(),
        catalogue=Catalogue.of(rivals),
        requirements=Requirements(operation=Operation.CHAT),
        policy=RoutingPolicy(mode=mode, call_history=True),
        now=NOW,
        figures=known,
    )


def rank_of(decision: Decision, name: str) -> int:
    return names_of(decision).index(name)


@for_all(contests(same_coverage=False), st.data())
def test_more_quality_never_hurts(setting: tuple[list[ModelSpec], Figures, PolicyMode], data: st.DataObject) -> None:
    rivals, known, mode = setting
    assume(known.quality)
    name = data.draw(st.sampled_from(sorted(known.quality)))
    more = data.draw(st.floats(known.quality[name], 1.0))
    better = replace(known, quality={**known.quality, name: more})
    assert rank_of(contest(rivals, better, mode), name) <= rank_of(contest(rivals, known, mode), name)


@for_all(contests(same_coverage=False), st.data())
def test_more_health_never_hurts(setting: tuple[list[ModelSpec], Figures, PolicyMode], data: st.DataObject) -> None:
    rivals, known, mode = setting
    assume(known.health)
    name = data.draw(st.sampled_from(sorted(known.health)))
    before = known.health[name]
    after = HealthFigure(
        before.samples,
        data.draw(st.integers(before.successes, before.samples)),
        None if before.mean_latency_ms is None else data.draw(st.floats(0, before.mean_latency_ms)),
    )
    better = replace(known, health={**known.health, name: after})
    assert rank_of(contest(rivals, better, mode), name) <= rank_of(contest(rivals, known, mode), name)


def improved(figure: HistoryFigure, data: st.DataObject, signal: SignalName) -> HistoryFigure:
    if signal is SignalName.LATENCY:
        assert figure.mean_latency_ms is not None
        return replace(figure, mean_latency_ms=data.draw(st.floats(0.5, figure.mean_latency_ms)))
    assert figure.mean_cost is not None
    nanos = data.draw(st.integers(0, figure.mean_cost.nanos))
    return replace(figure, mean_cost=replace(figure.mean_cost, nanos=nanos))


@for_all(st.booleans(), st.data(), st.sampled_from([SignalName.LATENCY, SignalName.CALL_COST]))
def test_being_faster_or_cheaper_never_hurts(equal: bool, data: st.DataObject, signal: SignalName) -> None:
    rivals, known, mode = data.draw(contests(same_coverage=equal))
    assert known.history is not None
    chat = known.history[Operation.CHAT]
    assume(chat)
    name = data.draw(st.sampled_from(sorted(chat)))
    better = replace(known, history={Operation.CHAT: {**chat, name: improved(chat[name], data, signal)}})
    before, after = contest(rivals, known, mode), contest(rivals, better, mode)
    counts = [signal in decision.weights for decision in (before, after)]
    if equal or all(counts) or not any(counts):
        assert rank_of(after, name) <= rank_of(before, name)


def test_where_being_faster_hurts_all_the_same() -> None:
    """From the moment latency takes part it draws everybody towards the middle, and most those of whom least is
    known: here a model with health alone, against one with health and quality."""
    rivals = [model(name, provider=at(f"kind-{name}")) for name in ("a", "b", "c")]
    known = Figures(
        quality={"b": 0.89},
        health={"a": HealthFigure(10, 9, 500.0), "b": HealthFigure(100, 89, 550.0)},
        history={Operation.CHAT: {"a": history(latency=1000), "c": history(latency=1000)}},
    )
    faster = replace(known, history={Operation.CHAT: {"a": history(latency=990), "c": history(latency=1000)}})
    assert names_of(contest(rivals, known, PolicyMode.BALANCED))[:2] == ["a", "b"]
    assert names_of(contest(rivals, faster, PolicyMode.BALANCED))[:2] == ["b", "a"]


@for_all(st.lists(st.none() | MILLISECONDS, min_size=1, max_size=6), st.data())
def test_lowering_a_figure_raises_nobody_else(figures: list[float | None], data: st.DataObject) -> None:
    present = [index for index, figure in enumerate(figures) if figure is not None]
    assume(present)
    at_ = data.draw(st.sampled_from(present))
    lowered = list(figures)
    lowered[at_] = data.draw(st.floats(0.5, figures[at_]))
    before = relative_values(figures, zero_is_best=False)
    after = relative_values(lowered, zero_is_best=False)
    for index in present:
        old, new = before[index], after[index]
        assert old is not None
        assert new is not None
        assert (new >= old - 1e-12) if index == at_ else (new <= old + 1e-12)


@for_all(st.lists(st.integers(0, 10**10), max_size=6), st.data())
def test_a_lower_list_price_never_hurts(rates: list[int], data: st.DataObject) -> None:
    assume(rates)
    rivals = [
        model(f"m{index}", provider=at(f"kind-{index}"), prices=[Price(LAST_YEAR, "USD", Rates(rate, rate))])
        for index, rate in enumerate(rates)
    ]
    lower = data.draw(st.integers(0, rates[0]))
    cheaper = [replace(rivals[0], prices=(Price(LAST_YEAR, "USD", Rates(lower, rates[0])),)), *rivals[1:]]
    before, after = (contest(each, Figures(history={}), PolicyMode.ECONOMY) for each in (rivals, cheaper))
    assert rank_of(after, "m0") <= rank_of(before, "m0")


# --- Relative signals -------------------------------------------------------------------------------------------------


@for_all(st.lists(st.none() | st.just(0.0) | MILLISECONDS, max_size=6), st.sampled_from([1e-3, 0.37, 2.0, 60.0, 1e6]))
def test_relative_values_are_scale_free(figures: list[float | None], factor: float) -> None:
    scaled = [None if figure is None else figure * factor for figure in figures]
    for zero_is_best in (False, True):
        before = relative_values(figures, zero_is_best=zero_is_best)
        after = relative_values(scaled, zero_is_best=zero_is_best)
        for old, new in zip(before, after, strict=True):
            assert (old is None) == (new is None)
            assert old is None or new is None or abs(old - new) < 1e-12


@for_all(st.lists(st.none() | st.just(0.0) | MILLISECONDS, max_size=6))
def test_relative_values_stay_within_their_bounds(figures: list[float | None]) -> None:
    for value in relative_values(figures, zero_is_best=False):
        assert value is None or 1 / 3 <= value <= 2 / 3
    for value, figure in zip(relative_values(figures, zero_is_best=True), figures, strict=True):
        assert value is None or (value == 1.0 if figure == 0 else 1 / 3 <= value <= 2 / 3)


@for_all(contests(same_coverage=False))
def test_one_measured_latency_changes_nobody_s_score(setting: tuple[list[ModelSpec], Figures, PolicyMode]) -> None:
    """Absence neither promotes nor demotes: a sole figure is no comparison."""
    rivals, known, mode = setting
    alone = replace(known, history={Operation.CHAT: {"a": history(latency=700)}})
    none = replace(known, history={Operation.CHAT: {}})
    assert scores_of(contest(rivals, alone, mode)) == scores_of(contest(rivals, none, mode))


@for_all(contests(same_coverage=False))
def test_merely_having_history_neither_promotes_nor_demotes(
    setting: tuple[list[ModelSpec], Figures, PolicyMode],
) -> None:
    """A model that turns out to be exactly as fast as the mean scores as it did without a figure."""
    rivals, known, mode = setting
    assert known.history is not None
    others = {
        name: replace(figure, mean_cost=None) for name, figure in known.history[Operation.CHAT].items() if name != "a"
    }
    assume(others)
    logarithms = [log(figure.mean_latency_ms or 1.0) for figure in others.values()]
    average = history(latency=exp(fsum(logarithms) / len(logarithms)))
    without = contest(rivals, replace(known, history={Operation.CHAT: others}), mode)
    with_it = contest(rivals, replace(known, history={Operation.CHAT: {**others, "a": average}}), mode)
    for name, score in scores_of(without).items():
        assert abs(scores_of(with_it)[name] - score) < 2e-9


@for_all(contests(same_coverage=True))
def test_figures_of_others_do_not_reorder_two_that_have_none(
    setting: tuple[list[ModelSpec], Figures, PolicyMode],
) -> None:
    rivals, known, mode = setting
    assert known.history is not None
    others = {
        name: replace(figure, mean_cost=None)
        for name, figure in known.history[Operation.CHAT].items()
        if name not in ("a", "b")
    }
    before = contest(rivals, replace(known, history={Operation.CHAT: {}}), mode)
    after = contest(rivals, replace(known, history={Operation.CHAT: others}), mode)
    gap = scores_of(before)["a"] - scores_of(before)["b"]
    assume(abs(gap) > 1e-6 or gap == 0)
    order = [name for name in names_of(before) if name in ("a", "b")]
    assert [name for name in names_of(after) if name in ("a", "b")] == order


@for_all(st.lists(st.none() | st.floats(0, 1), max_size=5))
def test_a_signal_takes_part_whatever_the_order(values: list[float | None]) -> None:
    assert takes_part(values) == takes_part(values[::-1])


# --- Money ------------------------------------------------------------------------------------------------------------


@for_all(st.integers(-MOST_NANOS, MOST_NANOS))
def test_amounts_survive_their_spelling(nanos: int) -> None:
    assert parse_nanos(format_nanos(nanos)) == nanos


TOKENS = st.integers(0, 10**7)
RATE = st.integers(0, 10**12)
PLAIN_RATES = st.builds(Rates, input=RATE, output=RATE, cached_input=st.none() | RATE, cache_write=st.none() | RATE)
USAGE = st.builds(Usage, input=TOKENS, output=TOKENS, cache_read=TOKENS, cache_write=TOKENS)


@for_all(USAGE, USAGE, PLAIN_RATES)
def test_more_tokens_never_cost_less(usage: Usage, more: Usage, rates: Rates) -> None:
    priced = Price(NOW, "USD", rates)
    total = Usage(
        input=usage.input + more.input,
        output=usage.output + more.output,
        cache_read=usage.cache_read + more.cache_read,
        cache_write=usage.cache_write + more.cache_write,
    )
    assert 0 <= cost(usage, priced).nanos <= cost(total, priced).nanos


@for_all(USAGE, PLAIN_RATES, PLAIN_RATES, TOKENS, st.booleans())
def test_a_call_never_costs_more_than_its_upper_bound(
    usage: Usage, rates: Rates, long_rates: Rates, threshold: int, inclusive: bool
) -> None:
    priced = Price(NOW, "USD", rates, LongPrompt(threshold, long_rates, inclusive))
    bound = upper_bound(price=priced, prompt_tokens=usage.prompt, max_output=usage.output)
    assert cost(usage, priced).nanos <= bound.nanos


@for_all(st.lists(st.integers(-500, 500), max_size=5), st.integers(-600, 600))
def test_the_price_in_force_is_the_last_that_has_begun(days: list[int], day: int) -> None:
    prices = [price(str(index), "1", valid_from=NOW + timedelta(days=each)) for index, each in enumerate(sorted(days))]
    moment = NOW + timedelta(days=day)
    begun = [each for each in prices if each.valid_from <= moment]
    assert price_at(prices, moment) is (begun[-1] if begun else None)


# --- Scenarios --------------------------------------------------------------------------------------------------------

KEYS = sorted(
    {*EXAMPLE, *EXAMPLE["models"][0], *EXAMPLE["criteria"], "selection", "budget_targets", "region", "samples"}
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["chat", "balanced", "fast"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=12,
)


def read_or_refuse(content: object) -> None:
    """Nothing but a complaint may be raised, and what was read can be decided."""
    try:
        scenario = read_scenario(content)
    except ScenarioError:
        return
    document(scenario.decide())


@for_all(JSON)
def test_any_json_is_a_scenario_or_a_complaint(content: object) -> None:
    read_or_refuse(content)


@for_all(st.data(), JSON)
def test_any_field_of_a_scenario_may_be_anything(data: st.DataObject, value: object) -> None:
    content = json.loads(json.dumps(EXAMPLE))
    place: Any = content
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = value
    read_or_refuse(content)


@for_all(st.text())
def test_any_text_is_a_scenario_or_a_complaint(text: str) -> None:
    with suppress(ScenarioError):
        load_scenario(text)
