"""How far a price moves, rate by rate, and whether a person should look at it first.

A rate that a price does not have is the one that stands in for it: a cached prompt token without a rate of its own
costs the input rate, and a long prompt without a tier costs what a short one does. So a rate that appears is compared
with what was paid before it, not with nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from routing.core.pricing import Price, Rates

MOST_PERCENT = 50
"""A rate that moves by more than this is looked at by a person."""


@dataclass(frozen=True, slots=True)
class RateMove:
    """One rate before and after, in nano-units per million tokens."""

    name: str
    before: int
    after: int

    @property
    def is_suspicious(self) -> bool:
        """Whether it drops to nothing or moves by more than :data:`MOST_PERCENT`. What was free may cost anything."""
        if self.before == 0:
            return False
        return self.after == 0 or abs(self.after - self.before) * 100 > self.before * MOST_PERCENT


def moves_between(before: Price, after: Price) -> tuple[RateMove, ...]:
    """The rates that differ, in the order in which people read prices."""
    old, new = dict(_rates(before)), dict(_rates(after))
    return tuple(RateMove(name, old[name], new[name]) for name in old if old[name] != new[name])


def _rates(price: Price) -> Iterator[tuple[str, int]]:
    yield from _named("", price.rates)
    yield from _named("long ", price.rates if price.long_prompt is None else price.long_prompt.rates)


def _named(prefix: str, rates: Rates) -> Iterator[tuple[str, int]]:
    yield f"{prefix}input", rates.input
    yield f"{prefix}output", rates.output
    yield f"{prefix}cached input", rates.read_rate
    yield f"{prefix}cache write", rates.write_rate
    yield f"{prefix}cache write for an hour", rates.hour_rate
