import pytest

from routing.core.catalogue import Catalogue
from routing.core.money import Money
from routing.core.signals import (
    NEUTRAL,
    HealthFigure,
    HistoryKey,
    figures_of,
    relative_values,
    takes_part,
)
from routing.core.vocabulary import Operation
from tests.routing.core.samples import at, history, model

THIRD, TWO_THIRDS = 1 / 3, 2 / 3


def latency_values(*figures: float | None) -> list[float | None]:
    return relative_values(figures, zero_is_best=False)


def cost_values(*figures: float | None) -> list[float | None]:
    return relative_values(figures, zero_is_best=True)


# --- Health -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "successes", "latency", "value"),
    [
        (5, 5, 0.0, 1.0),
        (10, 9, 200.0, 0.912),
        (20, 19, 800.0, 0.928),
        (4, 0, 1000.0, 0.16),
        (2, 2, 5000.0, 0.8),
        (2, 2, 50_000.0, 0.8),
        (1, 1, -10.0, 1.0),
        (4, 2, None, 0.6),  # nothing was served by the route itself: no penalty
        (1, 0, 5000.0, 0.0),
    ],
)
def test_health_as_a_value(samples: int, successes: int, latency: float | None, value: float) -> None:
    assert HealthFigure(samples, successes, latency).value == pytest.approx(value, abs=1e-12)


def test_no_samples_are_no_health_and_not_a_health_of_zero() -> None:
    assert HealthFigure(0, 0, None).value is None
    assert HealthFigure(0, 0, 10.0).value is None


# --- History ----------------------------------------------------------------------------------------------------------


def test_a_latency_counts_from_five_calls_on() -> None:
    assert history(calls=4, latency=900).latency_ms is None
    assert history(calls=5, latency=900).latency_ms == 900


def test_a_cost_counts_from_five_priced_calls_on() -> None:
    assert history(calls=40, priced=4, cost="0.01").cost_nanos("USD") is None
    assert history(calls=5, priced=5, cost="0.01").cost_nanos("USD") == 10_000_000


def test_calls_and_priced_calls_are_counted_apart() -> None:
    figure = history(calls=9, latency=900, priced=2, cost="0.01")
    assert figure.latency_ms == 900
    assert figure.cost_nanos("USD") is None


def test_a_cost_in_another_currency_is_no_figure() -> None:
    assert history(cost="0.01", currency="EUR").cost_nanos("USD") is None
    assert history(cost="0.01", currency="EUR").cost_nanos("EUR") == 10_000_000


def test_a_measured_zero_is_a_figure() -> None:
    assert history(cost="0").cost_nanos("USD") == 0
    assert history(latency=0).latency_ms == 0


# --- Relative values --------------------------------------------------------------------------------------------------


def test_the_worked_latencies() -> None:
    assert latency_values(4259, 9094) == [pytest.approx(0.5937, abs=5e-5), pytest.approx(0.4063, abs=5e-5)]


def test_the_worked_costs() -> None:
    assert cost_values(6_700_000, 18_400_000) == [pytest.approx(0.6237, abs=5e-5), pytest.approx(0.3763, abs=5e-5)]


def test_two_candidates_stand_evenly_about_the_mean() -> None:
    first, second = latency_values(4259, 9094)
    assert first is not None
    assert second is not None
    assert first + second == pytest.approx(1)


def test_a_thirteenfold_difference_is_clamped() -> None:
    assert latency_values(700, 9100) == [TWO_THIRDS, THIRD]


def test_the_clamp_sets_in_at_a_factor_of_two_from_the_mean() -> None:
    assert latency_values(1000, 4000) == [pytest.approx(TWO_THIRDS), pytest.approx(THIRD)]  # the mean is 2000
    inside = latency_values(1010, 3990)
    assert inside[0] < TWO_THIRDS  # type: ignore[operator]
    assert inside[1] > THIRD  # type: ignore[operator]


def test_a_sole_figure_stands_at_exactly_one_half() -> None:
    for figure in (0.1, 3.3, 4259, 9094, 1e-7, 12345.678):
        assert latency_values(None, figure, None) == [None, NEUTRAL, None]
        assert cost_values(figure) == [NEUTRAL]


def test_equal_figures_stand_at_exactly_one_half() -> None:
    assert latency_values(4259, 4259, 4259) == [NEUTRAL] * 3


def test_a_cost_of_zero_is_best_and_does_not_move_the_mean() -> None:
    assert cost_values(0, 6_700_000, 18_400_000) == [1.0, *cost_values(6_700_000, 18_400_000)]
    assert cost_values(0, 0) == [1.0, 1.0]
    assert cost_values(0) == [1.0]


def test_a_latency_of_zero_is_only_fast() -> None:
    assert latency_values(0, 4259, 9094) == [TWO_THIRDS, *latency_values(4259, 9094)]
    assert latency_values(0, 0) == [NEUTRAL, NEUTRAL]


def test_an_absence_stays_absent() -> None:
    assert latency_values() == []
    assert latency_values(None, None) == [None, None]


@pytest.mark.parametrize(
    ("values", "says_something"),
    [
        ([], False),
        ([None, None], False),
        ([0.5, None], False),
        ([0.5], False),
        ([0.6], False),
        ([0.6, None], True),
        ([1.0, None], True),
        ([0.4, 0.6], True),
        ([1.0, 1.0], False),
        ([0.5, 0.5 + 4e-13], False),  # equal to twelve decimals
        ([0.5, 0.5 + 6e-13], True),
    ],
)
def test_a_relative_signal_takes_part_where_two_counted_values_differ(
    values: list[float | None], says_something: bool
) -> None:
    assert takes_part(values) is says_something


# --- Handing figures to models ----------------------------------------------------------------------------------------


def test_health_is_shared_by_adapter_type_and_history_by_model_id_besides() -> None:
    east, west = at("openai", identifier="prod-east"), at("openai", identifier="prod-west")
    mini, twin = model("fast", provider=east), model("fast-west", provider=west)
    twin = type(twin)(**{name: getattr(twin, name) for name in twin.__slots__} | {"model_id": mini.model_id})
    large, other = model("large", provider=east), model("other", provider=at("anthropic"))
    health = HealthFigure(10, 10, 100.0)
    chat, tools = history(latency=900), history(latency=1900)
    figures = figures_of(
        Catalogue.of([mini, twin, large, other]),
        quality={"fast": 0.8},
        health={"openai": health, "prod-east": HealthFigure(1, 0, None)},
        history={
            HistoryKey("openai", "gpt-x-fast", Operation.CHAT): chat,
            HistoryKey("openai", "gpt-x-fast", Operation.TOOLS): tools,
            HistoryKey("anthropic", "gpt-x-fast", Operation.CHAT): history(latency=1),
            HistoryKey("openai", "gone", Operation.CHAT): history(latency=2),
        },
        failures_in_a_row={"fast": 3},
    )
    assert figures.health == {"fast": health, "fast-west": health, "large": health}
    assert figures.history is not None
    assert figures.history[Operation.CHAT] == {"fast": chat, "fast-west": chat}
    assert figures.history[Operation.TOOLS] == {"fast": tools, "fast-west": tools}
    assert figures.history[Operation.EMBED] == {}
    assert figures.quality == {"fast": 0.8}
    assert figures.failures_in_a_row == {"fast": 3}


def test_history_that_could_not_be_read_stays_unread() -> None:
    figures = figures_of(Catalogue.of([model("fast")]), quality={}, health={}, history=None, failures_in_a_row={})
    assert figures.history is None


def test_money_of_a_figure_keeps_its_currency() -> None:
    assert history(cost="0.0067").mean_cost == Money(6_700_000, "USD")
