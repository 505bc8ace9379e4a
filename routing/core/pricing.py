"""The only place where a rate becomes a cost.

Rates are whole nano-units of a currency per million tokens. A cost is summed exactly over the token classes
and rounded half up to the nano-unit once, at the end; an upper bound is rounded up.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from routing.core.calls import Usage
from routing.core.money import Money, round_half_up

PER = 1_000_000
"""Rates are per this many tokens."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Nano-units per million tokens. ``None`` for a cached or written class means that it has no rate of its
    own and costs the input rate: never a discount."""

    input: int
    output: int
    cached_input: int | None = None
    cache_write: int | None = None

    @property
    def read_rate(self) -> int:
        """The rate of prompt tokens read from the provider's cache."""
        return self.input if self.cached_input is None else self.cached_input

    @property
    def write_rate(self) -> int:
        """The rate of prompt tokens written to the provider's cache."""
        return self.input if self.cache_write is None else self.cache_write


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
    """What a model costs from ``valid_from`` on. An explicit rate of 0 is free; no price at all is unpriced."""

    valid_from: datetime
    currency: str
    rates: Rates
    long_prompt: LongPrompt | None = None

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


def cost(usage: Usage, price: Price) -> Money:
    """What an answer cost, from its normalised usage and the price in force when it was asked for."""
    rates = price.rates_for(usage.prompt)
    total = (
        usage.input * rates.input
        + usage.cache_read * rates.read_rate
        + usage.cache_write * rates.write_rate
        + usage.output * rates.output
    )
    return Money(round_half_up(total, PER), price.currency)


def upper_bound(*, price: Price, prompt_tokens: int, max_output: int) -> Money:
    """The most a call can cost: the estimated prompt at the dearest rate a prompt token can have, and the whole
    output allowance. Rounded up."""
    rates = price.rates_for(prompt_tokens)
    dearest = max(rates.input, rates.read_rate, rates.write_rate)
    total = prompt_tokens * dearest + max_output * rates.output
    return Money(-(-total // PER), price.currency)


@lru_cache(maxsize=4096)
def list_price_value(nanos: int) -> float:
    """The list price as a signal: 1 for free, falling to 0 at 100 units of currency per million tokens."""
    return 1.0 - min(1.0, nanos / 100_000_000_000)


def _valid_from(price: Price) -> datetime:
    return price.valid_from
