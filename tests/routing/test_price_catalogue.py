"""What the price lists say, read from the package itself and from entries made for a test."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from routing.core.pricing import LongPrompt, Rates
from routing.price_catalogue import CatalogueMissing, Listing, PriceCatalogue, is_from_catalogue

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
VENDOR = "https://api.vendor.test/v1"


@dataclass
class Tiered:
    """A rate by the length of the prompt, as the package has it."""

    base: Decimal
    tiers: list[Any]


@dataclass
class Model:
    """A model of the package."""

    id: str
    prices: Any
    price_variants: list[Any] = field(default_factory=list)

    def get_prices(self, moment: datetime) -> Any:
        return self.prices(moment) if callable(self.prices) else self.prices


def tiered(base: str, *tiers: tuple[int, str]) -> Tiered:
    return Tiered(Decimal(base), [SimpleNamespace(start=start, price=Decimal(price)) for start, price in tiers])


def rates(**named: Any) -> SimpleNamespace:
    return SimpleNamespace(**{key: Decimal(rate) if isinstance(rate, str) else rate for key, rate in named.items()})


def find(prices: Any, *, variants: Mapping[str, str] | None = None) -> Listing:
    """What is made of a model that the lists price so."""
    changed = [SimpleNamespace(when=dict(variants or {}), prices=rates(input_mtok="1"))] if variants else []
    model = Model("wise-2", prices, changed)
    vendor = SimpleNamespace(
        id="vendor", api_pattern=r"https://api\.vendor\.test", find_model=lambda model_id, all_providers: model
    )
    catalogue = PriceCatalogue()
    catalogue._vendors = [vendor]
    found = catalogue.find(base_url=VENDOR, model_id="wise-2-latest", now=NOW)
    assert found is not None
    return found


def test_every_rate_that_we_have_is_carried() -> None:
    found = find(
        rates(
            input_mtok="2.5",
            output_mtok="10",
            cache_read_mtok="0.25",
            cache_write_mtok="3.125",
            cache_write_1h_mtok="5",
        )
    )
    assert found.name == "vendor/wise-2"
    assert found.price is not None
    assert (found.price.rates, found.price.currency, found.price.long_prompt) == (
        Rates(2_500_000_000, 10_000_000_000, 250_000_000, 3_125_000_000, 5_000_000_000), "USD", None,
    )  # fmt: skip
    assert (found.problem, found.left_out) == ("", ())


def test_a_long_prompt_pays_other_rates_for_all_of_it() -> None:
    found = find(
        rates(
            input_mtok=tiered("1.25", (200_000, "2.5")),
            output_mtok=tiered("10", (200_000, "15")),
            cache_read_mtok="0.1",
        )
    )
    assert found.price is not None
    assert found.price.long_prompt == LongPrompt(
        threshold=200_000, rates=Rates(2_500_000_000, 15_000_000_000, 100_000_000)
    )


@pytest.mark.parametrize(
    ("prices", "problem"),
    [
        (rates(input_mtok=tiered("1", (32_000, "2"), (128_000, "3")), output_mtok="4"), "more than two prices"),
        (rates(input_mtok=tiered("1", (10, "2")), output_mtok=tiered("1", (20, "2"))), "more than two prices"),
        (rates(input_mtok="1", output_mtok="2", requests_kcount="5"), "more than its tokens (requests)"),
        (rates(audio_hours="0.1"), "not priced by the token"),
        (rates(input_mtok="1", output_image_mtok="40"), "no price for what it generates"),
    ],
    ids=["three steps", "two thresholds", "each request", "by the hour", "pictures"],
)
def test_a_price_that_would_be_too_low_is_none(prices: Any, problem: str) -> None:
    found = find(prices)
    assert found.price is None
    assert problem in found.problem


def test_embeddings_generate_nothing() -> None:
    found = find(rates(input_mtok="0.02"))
    assert found.price is not None
    assert found.price.rates == Rates(20_000_000, 0)


def test_what_costs_only_when_it_is_used_is_named() -> None:
    found = find(
        rates(input_mtok="1", output_mtok="2", web_searches_kcount="10", input_audio_mtok="7"),
        variants={"service_tier": "priority"},
    )
    assert found.price is not None
    assert found.left_out == ("web searches", "input audio tokens", "service tier priority")


def test_of_the_hours_of_a_day_the_dearest_counts() -> None:
    def by_the_hour(moment: datetime) -> Any:
        return rates(input_mtok="1" if moment.hour < 8 else "2", output_mtok="4")

    model = Model("night", [])
    model.get_prices = by_the_hour  # type: ignore[method-assign]
    vendor = SimpleNamespace(id="vendor", api_pattern="https://", find_model=lambda model_id, all_providers: model)
    catalogue = PriceCatalogue()
    catalogue._vendors = [vendor]
    found = catalogue.find(base_url=VENDOR, model_id="night", now=NOW.replace(hour=3))
    assert found is not None
    assert found.price is not None
    assert found.price.rates.input == 2_000_000_000
    assert "dearest" in found.left_out[0]


def test_a_rate_below_a_nano_unit_is_rounded() -> None:
    found = find(rates(input_mtok="0.04166666666666665", output_mtok="0"))
    assert found.price is not None
    assert found.price.rates.input == 41_666_667


def test_the_package_knows_models_by_their_address_and_id() -> None:
    catalogue = PriceCatalogue()
    assert is_from_catalogue(catalogue.label)
    found = catalogue.find(base_url="https://api.anthropic.com/v1", model_id="claude-sonnet-4-5-20250929", now=NOW)
    assert found is not None
    assert found.name == "anthropic/claude-sonnet-4-5"
    assert found.price is not None
    listed = found.price.rates
    assert listed.hour_rate > listed.write_rate > listed.input > listed.read_rate


@pytest.mark.parametrize("address", ["http://localhost:11434/v1", "https://llm.example.com/v1", ""])
def test_another_address_has_prices_of_its_own(address: str) -> None:
    assert PriceCatalogue().find(base_url=address, model_id="gpt-4o-mini", now=NOW) is None


def test_without_the_package_somebody_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(CatalogueMissing, match="genai-prices"):
        PriceCatalogue()


@pytest.mark.parametrize("provenance", ["manual", "demo", "price-list", "genai-prices", ""])
def test_what_somebody_entered_is_not_from_the_lists(provenance: str) -> None:
    assert not is_from_catalogue(provenance)
