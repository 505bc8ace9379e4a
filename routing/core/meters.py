"""Counts with a limit: how much of a rate or a quota is used, what one more would come to, and how long to wait for it.

A count by the minute drains steadily, at its limit a minute, and holds at most one minute's worth: a token bucket,
told by what is used instead of what is left, so that a limit that is changed counts at once. A count by the day never
drains; the day is a part of its key. What was booked too low may bring a count above its limit: whoever comes next
waits for it.

Everything is a whole number. Amounts are held in sixty-thousandths: a limit of *n* a minute then drains *n* a
millisecond.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

FINE = 60_000
"""Units in one request or token."""

DAY_MS = 24 * 3600 * 1000
MOST = 2_000_000_000
"""The largest limit and amount: its units stay below 2**53, which is what a store's numbers hold exactly."""


class Pace(StrEnum):
    """How a count comes down again."""

    MINUTE = "minute"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Charge:
    """An amount for one count. A negative amount is given back; a count never falls below nothing.

    Attributes:
        key: the count's name in the store; that of a day has the day in it.
        pace: how it comes down.
        limit: how much may be used at once, and so in a minute or on a day.
        amount: requests or tokens.
    """

    key: str
    pace: Pace
    limit: int
    amount: int


@dataclass(frozen=True, slots=True)
class Level:
    """Where a count stands.

    Attributes:
        limit: the most.
        left: whole requests or tokens that may be used now.
        reset_ms: when nothing is used any more, milliseconds from now.
    """

    limit: int
    left: int
    reset_ms: int


@dataclass(frozen=True, slots=True)
class Metered:
    """What became of some charges: all of them were booked, or none.

    Attributes:
        levels: where each count stands now, in the order of the charges.
        refused: the index of the charge that did not fit, of several the one that has to wait longest; ``None`` if all
            were booked.
        wait_ms: how long until it would fit; ``None`` if it fits, or never will.
    """

    levels: tuple[Level, ...]
    refused: int | None = None
    wait_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """What a store keeps of one count: units used, and when that was so, in milliseconds of the store's clock."""

    used: int
    at_ms: int

    @classmethod
    def read(cls, text: str) -> "Count":
        """From what :meth:`spell` wrote."""
        used, _, at = text.partition(":")
        return cls(int(used), int(at))

    def spell(self) -> str:
        """As a store keeps it."""
        return f"{self.used}:{self.at_ms}"


def meter(
    charges: Sequence[Charge], counts: Sequence[Count | None], *, now_ms: int, force: bool
) -> tuple[Metered, list[Count]]:
    """Book charges on counts, all or none; gives what became of them and what the counts are from now on.

    ``force`` books what is known to have been used, whether or not it fits.
    """
    used = [_used(charge, count, now_ms) for charge, count in zip(charges, counts, strict=True)]
    refused, wait_ms = (None, None) if force else _refused(charges, used, now_ms)
    if refused is None:
        used = [max(0, each + charge.amount * FINE) for each, charge in zip(used, charges, strict=True)]
    levels = levels_of(charges, used, now_ms=now_ms)
    return Metered(levels, refused, wait_ms), [Count(each, now_ms) for each in used]


def levels_of(charges: Sequence[Charge], used: Sequence[int], *, now_ms: int) -> tuple[Level, ...]:
    """Where counts stand of which so many units are used."""
    return tuple(
        Level(
            limit=charge.limit,
            left=max(0, charge.limit * FINE - units) // FINE,
            reset_ms=_until_midnight(now_ms) if charge.pace is Pace.DAY else -(-units // charge.limit),
        )
        for charge, units in zip(charges, used, strict=True)
    )


def keep_seconds(charge: Charge, used: int) -> float:
    """How long a count has to be kept: until nothing of it is used, or its day is over everywhere."""
    return 2 * DAY_MS / 1000 if charge.pace is Pace.DAY else used / charge.limit / 1000 + 1


def _used(charge: Charge, count: Count | None, now_ms: int) -> int:
    if count is None:
        return 0
    if charge.pace is Pace.DAY:
        return count.used
    return max(0, count.used - max(0, now_ms - count.at_ms) * charge.limit)  # a clock set back drains nothing


def _refused(charges: Sequence[Charge], used: Sequence[int], now_ms: int) -> tuple[int | None, int | None]:
    """Which charge does not fit, and for how long; a wait that never ends is the longest."""
    worst: int | None = None
    longest: int | None = -1
    for index, (charge, units) in enumerate(zip(charges, used, strict=True)):
        over = units + charge.amount * FINE - charge.limit * FINE
        if charge.amount <= 0 or over <= 0:
            continue
        wait = _wait(charge, over, now_ms)
        if longest is not None and (wait is None or wait > longest):
            worst, longest = index, wait
    return (None, None) if worst is None else (worst, longest)


def _wait(charge: Charge, over: int, now_ms: int) -> int | None:
    if charge.amount > charge.limit:
        return None
    return _until_midnight(now_ms) if charge.pace is Pace.DAY else -(-over // charge.limit)


def _until_midnight(now_ms: int) -> int:
    return DAY_MS - now_ms % DAY_MS
