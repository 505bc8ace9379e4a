"""What public price lists say a model costs: the optional package ``genai-prices``, read where it is installed.

Its data are large (tens of megabytes once read), so they are read when somebody asks and not when a process starts.
Nothing here asks the network. What a price of ours cannot hold is named: what only costs when it is used (a search, a
picture, a service tier) is left out and said so; what is paid on every call makes a price that would be too low, and
such a model gets none.
"""

import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from importlib.metadata import version
from typing import Any

from routing.core.money import NANOS
from routing.core.pricing import LongPrompt, Price, Rates

PACKAGE = "genai-prices"
CURRENCY = "USD"

_CARRIED = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")
_ON_EVERY_CALL = frozenset({"requests_kcount", "output_reasoning_mtok", "output_citation_mtok"})
_UNITS = (("_mtok", " tokens"), ("_kcount", ""), ("_hours", " by the hour"), ("_kpages", " by the page"))


class CatalogueMissing(Exception):
    """The package is not installed."""

    def __init__(self) -> None:
        super().__init__(
            f"The price lists are not installed: add the package {PACKAGE} to Signalbox's environment "
            "(the extra “prices” in pyproject.toml)."
        )


@dataclass(frozen=True, slots=True)
class Listing:
    """What the lists say of a model.

    Attributes:
        name: under which name they have it, as ``vendor/model``.
        price: what it costs; ``None`` if that cannot be said in our rates.
        problem: why not; empty if it can.
        left_out: what else costs something and is in no rate of ours.
    """

    name: str
    price: Price | None
    problem: str
    left_out: tuple[str, ...]


class PriceCatalogue:
    """The price lists of one version of the package."""

    def __init__(self) -> None:
        """Read them.

        Raises:
            CatalogueMissing: they are not installed.
        """
        if importlib.util.find_spec("genai_prices") is None:
            raise CatalogueMissing
        self._vendors: list[Any] = importlib.import_module("genai_prices.data").providers
        self.label = f"{PACKAGE} {version(PACKAGE)}"

    def find(self, *, base_url: str, model_id: str, now: datetime) -> Listing | None:
        """What a model costs at an address; ``None`` if no list is of that address or has the model."""
        for vendor in self._vendors:
            if re.match(vendor.api_pattern, base_url):
                model = vendor.find_model(model_id, all_providers=self._vendors)
                if model is not None:
                    return _listing(f"{vendor.id}/{model.id}", model, now)
        return None


def is_from_catalogue(provenance: str) -> bool:
    """Whether a price was taken from the lists, of whichever version."""
    return provenance.startswith(f"{PACKAGE} ")


def _listing(name: str, model: Any, now: datetime) -> Listing:
    left_out: list[str] = []
    prices = list(_prices_of_a_day(model, now))
    if len(prices) > 1:
        left_out.append("cheaper at some hours of the day: the dearest counts")
    dearest = max(prices, key=_list_price)
    left_out += [_spelled(key) for key in dearest if key not in _CARRIED and key not in _ON_EVERY_CALL]
    left_out += _variants(model)
    price, problem = _price(dearest, now)
    return Listing(name=name, price=price, problem=problem, left_out=tuple(left_out))


def _prices_of_a_day(model: Any, now: datetime) -> Iterator[Mapping[str, Any]]:
    """The different prices of today: some vendors are cheaper at night."""
    seen: list[Mapping[str, Any]] = []
    for hour in range(24) if isinstance(model.prices, list) else (now.hour,):
        found = model.get_prices(now.replace(hour=hour, minute=0))
        rates = {key: value for key, value in vars(found).items() if value is not None and not key.startswith("_")}
        if rates not in seen:
            seen.append(rates)
            yield rates


def _list_price(rates: Mapping[str, Any]) -> Decimal:
    return sum((_base(rates[key]) for key in ("input_mtok", "output_mtok") if key in rates), Decimal(0))


def _variants(model: Any) -> list[str]:
    """Other prices on other terms, such as a batch or a service tier."""
    terms = {
        f"{key} {value}"
        for variant in model.price_variants or ()
        if any(rate is not None for rate in vars(variant.prices).values())
        for key, value in variant.when.items()
    }
    return [_spelled(each) for each in sorted(terms)]


def _price(found: Mapping[str, Any], now: datetime) -> tuple[Price | None, str]:
    """The rates as a price of ours, or why they are none."""
    paid_always = sorted(_ON_EVERY_CALL & set(found))
    if paid_always:
        return None, f"Every call costs more than its tokens ({', '.join(map(_spelled, paid_always))})."
    if "input_mtok" not in found:
        return None, "It is not priced by the token."
    if "output_mtok" not in found and len(found.keys() - {"input_mtok"}) > 0:
        return None, "The lists have no price for what it generates."
    starts = {tuple(tier.start for tier in rate.tiers) for rate in found.values() if hasattr(rate, "tiers")}
    if len(starts) > 1 or any(len(each) != 1 for each in starts):
        return None, "It has more than two prices by the length of the prompt."
    tier = LongPrompt(threshold=starts.pop()[0], rates=_rates(found, tier=True)) if starts else None
    return Price(valid_from=now, currency=CURRENCY, rates=_rates(found, tier=False), long_prompt=tier), ""


def _rates(found: Mapping[str, Any], *, tier: bool) -> Rates:
    def nanos(key: str) -> int | None:
        rate = found.get(key)
        if rate is None:
            return None
        listed = rate.tiers[0].price if tier and hasattr(rate, "tiers") else _base(rate)
        return int((listed * NANOS).to_integral_value(ROUND_HALF_UP))  # some are thirds of a cent

    return Rates(
        input=nanos("input_mtok") or 0,
        output=nanos("output_mtok") or 0,
        cached_input=nanos("cache_read_mtok"),
        cache_write=nanos("cache_write_mtok"),
        cache_write_hour=nanos("cache_write_1h_mtok"),
    )


def _base(rate: Any) -> Decimal:
    return Decimal(rate.base if hasattr(rate, "tiers") else rate)


def _spelled(key: str) -> str:
    """A name of the lists in words."""
    words, unit = key, ""
    for suffix, meaning in _UNITS:
        if key.endswith(suffix):
            words, unit = key.removesuffix(suffix), meaning
    return f"{words.replace('_', ' ')}{unit}"
