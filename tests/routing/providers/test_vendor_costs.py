"""What answers cost, from the vendor's own figures: each a case that some system of this kind got wrong."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from routing.core.calls import Coverage, Usage, UsageReported
from routing.core.money import Money
from routing.core.pricing import LongPrompt, Price, Rates, cost
from routing.core.vocabulary import ServiceTier
from routing.providers.base import Endpoint
from routing.providers.dialects import anthropic_replies, openai_chat_replies

ENDPOINT = Endpoint(provider="prod-east", adapter_type="openai", base_url="https://api.example.com/v1")
START = datetime(2026, 1, 1, tzinfo=UTC)


def price(rates: str, *, long: LongPrompt | None = None) -> Price:
    """Dollars per million tokens: input, output, read from the cache, written to it."""
    figures = [int(float(each) * 10**9) for each in rates.split()]
    return Price(START, "USD", Rates(*figures), long)


def messages_usage(**block: Any) -> Usage:
    reported = anthropic_replies.read_usage(block)
    assert reported is not None
    return reported.usage


def chat_usage(**block: Any) -> Usage:
    usage = openai_chat_replies.read_usage(block)
    assert usage is not None
    return usage


def test_tokens_written_to_the_cache_are_not_input_as_well() -> None:
    usage = messages_usage(
        input_tokens=3, cache_creation_input_tokens=12304, cache_read_input_tokens=0, output_tokens=550
    )
    assert cost(usage, price("3 15 0.3 3.75")) == Money(54_399_000, "USD")


def test_the_rate_of_writing_takes_the_place_of_the_input_rate() -> None:
    usage = chat_usage(prompt_tokens=1000, completion_tokens=0, prompt_tokens_details={"cache_write_tokens": 1000})
    assert cost(usage, price("3 15 0.3 3.75")) == Money(3_750_000, "USD")


def test_tokens_read_from_the_cache_have_their_own_rate() -> None:
    usage = chat_usage(prompt_tokens=27147, completion_tokens=351, prompt_tokens_details={"cached_tokens": 27146})
    assert cost(usage, price("1.4 4.4 0.26")) == Money(8_603_760, "USD")


def test_a_total_is_never_added_to_its_parts() -> None:
    usage = chat_usage(prompt_tokens=17903, completion_tokens=1, prompt_tokens_details={"cached_tokens": 17817})
    assert (usage.input, usage.cache_read, usage.prompt) == (86, 17817, 17903)


@pytest.mark.parametrize(
    ("prompt", "inclusive", "is_long"),
    [(272_000, False, False), (272_001, False, True), (200_000, True, True), (199_999, True, False)],
)
def test_each_vendors_threshold_is_a_part_of_the_price(prompt: int, inclusive: bool, is_long: bool) -> None:
    threshold = 200_000 if inclusive else 272_000
    dear = price("1 2", long=LongPrompt(threshold, price("2 3").rates, inclusive))
    usage = chat_usage(prompt_tokens=prompt, completion_tokens=0)
    assert cost(usage, dear).nanos == prompt * (2000 if is_long else 1000)


def test_reasoning_is_not_added_to_the_output_it_is_a_part_of() -> None:
    usage = messages_usage(input_tokens=51, output_tokens=136, output_tokens_details={"thinking_tokens": 31})
    assert usage.prompt + usage.output == 187


@pytest.mark.parametrize(
    ("served", "nanos"),
    [("default", 2_550), ("priority", 4_250), ("flex", 1_275), (None, 2_550), ("something-new", 2_550)],
)
def test_the_class_that_was_served_is_charged_whatever_was_asked_for(served: str | None, nanos: int) -> None:
    document = {
        "id": "c-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
        "service_tier": served,
    }
    reply = openai_chat_replies.read_reply(orjson.dumps(document), endpoint=ENDPOINT)
    (reported,) = [event for event in reply.events if isinstance(event, UsageReported)]
    tiers = ((ServiceTier.PRIORITY, price("0.25 1")), (ServiceTier.FLEX, price("0.075 0.3")))
    mini = replace(price("0.15 0.6"), tiers=tiers)
    assert cost(reported.usage, mini.of(ServiceTier.named(reported.service_tier))) == Money(nanos, "USD")


def test_what_is_kept_for_an_hour_is_told_apart() -> None:
    usage = messages_usage(
        input_tokens=10,
        cache_creation_input_tokens=3000,
        cache_creation={"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000},
        output_tokens=0,
    )
    assert (usage.cache_write, usage.cache_write_hour, usage.prompt) == (3000, 2000, 3010)
    assert cost(usage, price("3 15 0.3 3.75 6")).nanos == 10 * 3_000 + 1000 * 3_750 + 2000 * 6_000


@pytest.mark.parametrize(
    ("block", "tier"),
    [
        ({"service_tier": "standard"}, ServiceTier.STANDARD),
        ({"service_tier": "batch"}, ServiceTier.BATCH),
        ({"service_tier": "priority"}, ServiceTier.PRIORITY),
        ({"service_tier": "standard", "speed": "fast"}, ServiceTier.FAST),
        ({"service_tier": "standard", "speed": "standard"}, ServiceTier.STANDARD),
    ],
)
def test_anthropics_speed_is_sold_as_a_class(block: Any, tier: ServiceTier) -> None:
    reported = anthropic_replies.read_usage({"input_tokens": 1, "output_tokens": 1, **block})
    assert reported is not None
    assert ServiceTier.named(reported.service_tier) is tier


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"cost": 0.000001979964, "cost_details": {"upstream_inference_cost": 0.000001979964}}, 1980),
        ({"cost": 0.000001979964}, 1980),
        ({"cost": 0.0001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.002}}, 2_100_000),
        ({"cost": 0.002, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.002}}, 2_000_000),
        ({"cost": 0}, 0),
        ({}, None),
        ({"cost": None}, None),
        ({"cost": -1}, None),
        ({"cost": "0.1"}, None),
        ({"cost": True}, None),
    ],
    ids=["twice", "once", "own-key", "own-key-all", "free", "unsaid", "null", "negative", "text", "flag"],
)
def test_what_an_aggregator_charges_is_taken_and_never_added_twice(block: Any, expected: int | None) -> None:
    found = openai_chat_replies.read_cost(block)
    assert found == (None if expected is None else Money(expected, "USD"))


def test_figures_that_cannot_be_true_credit_nobody() -> None:
    usage = chat_usage(prompt_tokens=-5, completion_tokens=10)
    assert (usage.input, usage.coverage) == (0, Coverage.PARTIAL)
