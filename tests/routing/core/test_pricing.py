from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from routing.core.calls import Usage
from routing.core.money import Money
from routing.core.pricing import LongPrompt, Price, Rates, cost, list_price_value, price_at, timeline, upper_bound
from routing.core.vocabulary import ServiceTier
from tests.routing.core.samples import price

SPRING = datetime(2026, 3, 1, tzinfo=UTC)
SUMMER = datetime(2026, 6, 1, tzinfo=UTC)
PLAIN = price("2.50", "10")
CACHED = replace(PLAIN, rates=replace(PLAIN.rates, cached_input=250_000_000, cache_write=3_125_000_000))
LONG = Rates(input=5_000_000_000, output=15_000_000_000)


@pytest.mark.parametrize(
    ("moment", "index"),
    [
        (SPRING - timedelta(microseconds=1), None),
        (SPRING, 0),
        (SUMMER - timedelta(microseconds=1), 0),
        (SUMMER, 1),
        (SUMMER + timedelta(days=900), 1),
    ],
)
def test_a_price_is_in_force_from_its_moment_on(moment: datetime, index: int | None) -> None:
    prices = [price("1", "2", valid_from=SPRING), price("3", "4", valid_from=SUMMER)]
    assert price_at(prices, moment) is (None if index is None else prices[index])


def test_of_two_prices_of_one_moment_the_later_counts() -> None:
    prices = [
        price("1", "2", valid_from=SPRING),
        price("3", "4", valid_from=SPRING),
        price("5", "6", valid_from=SUMMER),
    ]
    assert price_at(prices, SPRING) is prices[1]


def test_without_prices_there_is_none() -> None:
    assert price_at((), SPRING) is None


def test_a_cost_is_summed_over_the_token_classes() -> None:
    usage = Usage(input=1_000, cache_read=4_000, cache_write=2_000, output=500, reasoning=400)
    # 1000 x 2.50 + 4000 x 0.25 + 2000 x 3.125 + 500 x 10, over a million; reasoning is within the output
    assert cost(usage, CACHED) == Money(14_750_000, "USD")


def test_a_class_without_a_rate_of_its_own_costs_the_input_rate() -> None:
    assert PLAIN.rates.read_rate == PLAIN.rates.write_rate == PLAIN.rates.input
    assert cost(Usage(input=0, cache_read=1_000, cache_write=1_000, output=0), PLAIN) == Money(5_000_000, "USD")


def test_a_class_that_is_free_is_free() -> None:
    free_reads = replace(PLAIN, rates=replace(PLAIN.rates, cached_input=0))
    assert cost(Usage(input=0, cache_read=1_000, output=0), free_reads) == Money(0, "USD")


@pytest.mark.parametrize(("tokens", "nanos"), [(0, 0), (1, 1), (2, 1), (3, 2), (5, 3)])
def test_a_cost_is_rounded_half_up_once(tokens: int, nanos: int) -> None:
    half = Price(SPRING, "USD", Rates(input=500_000, output=0))  # half a nano-unit for each token
    assert cost(Usage(input=tokens, output=0), half).nanos == nanos


def test_rounding_waits_for_the_sum() -> None:
    third = Price(SPRING, "USD", Rates(input=400_000, output=400_000))
    assert cost(Usage(input=1, output=1), third).nanos == 1  # 0.4 + 0.4, not 0 + 0


def test_an_explicit_zero_costs_zero() -> None:
    assert cost(Usage(input=900, output=90), price("0", "0")) == Money(0, "USD")


def test_a_cost_is_in_the_currency_of_its_price() -> None:
    assert cost(Usage(input=1_000_000, output=0), price("3", "9", currency="EUR")) == Money(3_000_000_000, "EUR")


@pytest.mark.parametrize(
    ("inclusive", "prompt", "is_long"),
    [(False, 199, False), (False, 200, False), (False, 201, True), (True, 199, False), (True, 200, True)],
)
def test_both_boundaries_of_a_long_prompt(inclusive: bool, prompt: int, is_long: bool) -> None:
    tiered = replace(PLAIN, long_prompt=LongPrompt(threshold=200, rates=LONG, inclusive=inclusive))
    assert tiered.rates_for(prompt) is (LONG if is_long else PLAIN.rates)


def test_a_long_prompt_changes_the_rates_of_the_whole_request() -> None:
    tiered = replace(CACHED, long_prompt=LongPrompt(threshold=200, rates=LONG))
    # the cached part counts towards the threshold, and has no rate of its own in the long tier
    usage = Usage(input=101, cache_read=100, output=10)
    assert cost(usage, tiered) == Money((201 * 5_000_000_000 + 10 * 15_000_000_000) // 1_000_000, "USD")


def test_what_is_kept_for_an_hour_has_its_own_rate_or_that_of_what_is_written() -> None:
    usage = Usage(input=3, output=550, cache_write=12_304, cache_write_hour=304)
    dear = replace(CACHED, rates=replace(CACHED.rates, cache_write_hour=5_000_000_000))
    plain = 3 * 2_500 + 550 * 10_000
    assert cost(usage, dear).nanos == plain + 12_000 * 3_125 + 304 * 5_000
    assert cost(usage, CACHED).nanos == plain + 12_304 * 3_125
    assert cost(usage, PLAIN).nanos == plain + 12_304 * 2_500
    assert upper_bound(price=dear, prompt_tokens=1_000, max_output=0).nanos == 1_000 * 5_000


def test_a_class_of_service_has_its_own_price_or_the_standard_one() -> None:
    flex = price("1.25", "5")
    both = replace(PLAIN, tiers=((ServiceTier.FLEX, flex),))
    assert both.of(ServiceTier.FLEX) is flex
    assert both.of(ServiceTier.STANDARD) is both.of(ServiceTier.PRIORITY) is both


@pytest.mark.parametrize(
    ("word", "tier"),
    [
        ("", ServiceTier.STANDARD),
        ("default", ServiceTier.STANDARD),
        ("standard", ServiceTier.STANDARD),
        ("scale", ServiceTier.STANDARD),
        ("on_demand", ServiceTier.STANDARD),
        ("priority", ServiceTier.PRIORITY),
        ("PRIORITY ", ServiceTier.PRIORITY),
        ("performance", ServiceTier.PRIORITY),
        ("flex", ServiceTier.FLEX),
        ("batch", ServiceTier.BATCH),
        ("fast", ServiceTier.FAST),
        ("ultrafast", ServiceTier.FAST),
    ],
)
def test_what_vendors_call_their_classes(word: str, tier: ServiceTier) -> None:
    assert ServiceTier.named(word) is tier


def test_each_class_is_dated_by_itself() -> None:
    first, second = price("1", "2", valid_from=SPRING), price("3", "4", valid_from=SUMMER)
    autumn = datetime(2026, 9, 1, tzinfo=UTC)
    flex = [price("0.5", "1", valid_from=SPRING - timedelta(days=9)), price("2", "3", valid_from=autumn)]
    joined = timeline([first, second], {ServiceTier.FLEX: flex})
    assert [each.valid_from for each in joined] == [SPRING, SUMMER, autumn]
    assert [each.rates for each in joined] == [first.rates, second.rates, second.rates]
    assert [each.of(ServiceTier.FLEX) for each in joined] == [flex[0], flex[0], flex[1]]


def test_classes_alone_are_no_price() -> None:
    assert timeline([], {ServiceTier.FLEX: [price("1", "2")]}) == ()
    assert timeline([PLAIN], {}) == (PLAIN,)


def test_an_upper_bound_takes_the_dearest_class_and_rounds_up() -> None:
    assert upper_bound(price=CACHED, prompt_tokens=1_000, max_output=500) == Money(8_125_000, "USD")
    tiny = Price(SPRING, "USD", Rates(input=1, output=0))
    assert upper_bound(price=tiny, prompt_tokens=1, max_output=0).nanos == 1
    assert upper_bound(price=tiny, prompt_tokens=0, max_output=9).nanos == 0


def test_an_upper_bound_knows_long_prompts() -> None:
    tiered = replace(PLAIN, long_prompt=LongPrompt(threshold=1_000, rates=LONG, inclusive=True))
    assert upper_bound(price=tiered, prompt_tokens=999, max_output=0).nanos == 999 * 2_500
    assert upper_bound(price=tiered, prompt_tokens=1_000, max_output=0).nanos == 1_000 * 5_000


@pytest.mark.parametrize(
    ("input", "output", "value"),
    [("0", "0", 1.0), ("2.50", "10", 0.875), ("20", "20", 0.6), ("60", "40", 0.0), ("250", "1000", 0.0)],
)
def test_the_list_price_as_a_value(input: str, output: str, value: float) -> None:
    assert list_price_value(price(input, output).list_nanos) == pytest.approx(value, abs=1e-12)
