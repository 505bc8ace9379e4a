"""The only place where a rate becomes a cost.

Rates are whole nano-units of a currency per million tokens. A cost is summed exactly over the token classes
and rounded half up to the nano-unit once, at the end; an upper bound is rounded up.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from routing.core.calls import Usage
from routing.core.money import Money, round_half_up
from routing.core.vocabulary import ServiceTier

PER = 1_000_000
"""Rates are per this many tokens."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Nano-units per million tokens. ``None`` for a cached or written class means that it has no rate of its
    own and costs the input rate: never a discount. What is kept for an hour costs the rate of what is written, if it
    has none of its own."""

    input: int
    output: int
    cached_input: int | None = None
    cache_write: int | None = None
    cache_write_hour: int | None = None

    @property
    def read_rate(self) -> int:
        """The rate of prompt tokens read from the provider's cache."""
        return self.input if self.cached_input is None else self.cached_input

    @property
    def write_rate(self) -> int:
        """The rate of prompt tokens written to the provider's cache."""
        return self.input if self.cache_write is None else self.cache_write

    @property
    def hour_rate(self) -> int:
        """The rate of prompt tokens written to the provider's cache for an hour."""
        return self.write_rate if self.cache_write_hour is None else self.cache_write_hour


@dataclass(frozen=True, slots=True)
class LongPrompt:
    """Other rates for the whole request once its prompt passes a threshold.

    Vendors differ on whether the threshold itself is still normal, so the boundary is part of the price:
    ``inclusive`` means that a prompt of exactly ``threshold`` tokens is already long.
    """

    threshold: int
    rates: Rates
    inclusive: bool = False

    def applies_to(self, prompt_tokens: int) -> bool:
        """Whether a prompt of this size is long."""
        return prompt_tokens > self.threshold or (self.inclusive and prompt_tokens == self.threshold)


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs from ``valid_from`` on. An explicit rate of 0 is free; no price at all is unpriced.

    ``tiers`` holds the prices of classes of service other than the standard one, as they are in force then.
    """

    valid_from: datetime
    currency: str
    rates: Rates
    long_prompt: LongPrompt | None = None
    tiers: tuple[tuple[ServiceTier, "Price"], ...] = ()

    def of(self, tier: ServiceTier) -> "Price":
        """The price of a class of service; the standard one where it has none of its own."""
        return next((price for each, price in self.tiers if each is tier), self)

    def rates_for(self, prompt_tokens: int) -> Rates:
        """The rates that apply to a request whose whole prompt has this many tokens."""
        if self.long_prompt is not None and self.long_prompt.applies_to(prompt_tokens):
            return self.long_prompt.rates
        return self.rates

    @property
    def list_nanos(self) -> int:
        """Input plus output rate, in nano-units per million tokens: the figure price lists are compared by."""
        return self.rates.input + self.rates.output


def price_at(prices: Sequence[Price], moment: datetime) -> Price | None:
    """The price in force at a moment, or ``None`` while there is none.

    ``prices`` are in ascending order of ``valid_from``; of two with the same moment the later one counts.
    """
    if not prices:
        return None
    if prices[-1].valid_from <= moment:  # nearly always: nothing is announced for later
        return prices[-1]
    index = bisect_right(prices, moment, key=_valid_from)
    return prices[index - 1] if index else None


def timeline(prices: Sequence[Price], tiers: Mapping[ServiceTier, Sequence[Price]]) -> tuple[Price, ...]:
    """A model's dated prices, each with those of other classes of service that are in force at the same time.

    All are in ascending order of ``valid_from``. A class is priced beside the standard one: what is in force of it
    before there is a standard price counts from that one's moment on.
    """
    if not tiers:
        return tuple(prices)
    moments = sorted({each.valid_from for each in (*prices, *(price for row in tiers.values() for price in row))})
    joined: list[Price] = []
    for moment in moments:
        standard = price_at(prices, moment)
        if standard is not None:
            beside = ((tier, price_at(row, moment)) for tier, row in tiers.items())
            in_force = tuple((tier, price) for tier, price in beside if price is not None)
            joined.append(replace(standard, valid_from=moment, tiers=in_force))
    return tuple(joined)


def cost(usage: Usage, price: Price) -> Money:
    """What an answer cost, from its normalised usage and the price in force when it was asked for, which is that of the
    class of service that was served (:meth:`Price.of`)."""
    rates = price.rates_for(usage.prompt)
    total = (
        usage.input * rates.input
        + usage.cache_read * rates.read_rate
        + (usage.cache_write - usage.cache_write_hour) * rates.write_rate
        + usage.cache_write_hour * rates.hour_rate
        + usage.output * rates.output
    )
    return Money(round_half_up(total, PER), price.currency)


def upper_bound(*, price: Price, prompt_tokens: int, max_output: int) -> Money:
    """The most a call can cost: the estimated prompt at the dearest rate a prompt token can have, and the whole
    output allowance. Rounded up."""
    rates = price.rates_for(prompt_tokens)
    dearest = max(rates.input, rates.read_rate, rates.write_rate, rates.hour_rate)
    total = prompt_tokens * dearest + max_output * rates.output
    return Money(-(-total // PER), price.currency)


@lru_cache(maxsize=4096)
def list_price_value(nanos: int) -> float:
    """The list price as a signal: 1 for free, falling to 0 at 100 units of currency per million tokens."""
    return 1.0 - min(1.0, nanos / 100_000_000_000)


def _valid_from(price: Price) -> datetime:
    return price.valid_from
