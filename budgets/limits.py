"""Rates and quotas: how many requests and tokens a key, and an application, may use in a minute and on a day.

A call takes one request and the tokens that its prompt is estimated at, of all limits or of none; when it is over, what
it really used is booked. What the model generates is therefore known late: it may bring a count above its limit, and
then whoever comes next waits for it. Counts are kept by the store that is handed in; money is the ledger's business.

A limit that refuses raises :class:`LimitExceeded`, the one exception here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from routing.core.meters import MOST, Charge, Level, Metered, Pace
from routing.core.sharing import SharedStore


class Counted(StrEnum):
    """What is counted."""

    REQUESTS = "requests"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of one thing one holder may use.

    Attributes:
        scope: the kind of holder, such as ``key``, in a word that people read.
        holder: its identifier.
        counted: requests or tokens.
        pace: by the minute or by the day.
        most: how many.
    """

    scope: str
    holder: str
    counted: Counted
    pace: Pace
    most: int

    @property
    def name(self) -> str:
        """What it limits, such as ``requests per minute``."""
        return f"{self.counted.value} per {self.pace.value}"

    def charge(self, amount: int, *, now: datetime) -> Charge:
        """An amount for its count; ``now`` is when the call began, which says whose day it is."""
        key = f"limit:{self.scope}:{self.holder}:{self.counted.value}:{self.pace.value}"
        if self.pace is Pace.DAY:
            key = f"{key}:{now.astimezone(UTC).date()}"
        return Charge(key=key, pace=self.pace, limit=self.most, amount=max(-MOST, min(MOST, amount)))


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a limit stands."""

    limit: Limit
    level: Level


class LimitExceeded(Exception):
    """A call does not fit; nothing was taken. ``wait`` has the seconds until it would, ``None`` if it never will."""

    def __init__(self, refused: Standing, *, asked: int, wait: float | None, standings: tuple[Standing, ...]) -> None:
        limit = refused.limit
        whose = f"this {limit.scope} may use {limit.most:,} {limit.name}"
        if wait is None:
            message = f"{whose}, and the call alone asks for {asked:,}: make it smaller, or have the limit raised"
        else:
            message = f"{whose}: {refused.level.left:,} are left and {asked:,} are asked for; try again in {wait:.0f} s"
        super().__init__(message)
        self.refused = refused
        self.wait = wait
        self.standings = standings


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a call has taken, to be settled when it is over."""

    limits: tuple[Limit, ...]
    tokens: int
    began_at: datetime
    standings: tuple[Standing, ...]


def admit(store: SharedStore, limits: tuple[Limit, ...], *, tokens: int, now: datetime) -> Allowance:
    """Take one request and the estimated tokens of every limit, or of none.

    Raises:
        LimitExceeded: one of them has too little left.
    """
    amounts = [tokens if limit.counted is Counted.TOKENS else 1 for limit in limits]
    metered = store.meter([limit.charge(amount, now=now) for limit, amount in zip(limits, amounts, strict=True)])
    standings = _standings(limits, metered)
    if metered.refused is not None:
        wait = None if metered.wait_ms is None else metered.wait_ms / 1000
        raise LimitExceeded(standings[metered.refused], asked=amounts[metered.refused], wait=wait, standings=standings)
    return Allowance(limits=limits, tokens=tokens, began_at=now, standings=standings)


def settle(store: SharedStore, allowance: Allowance, *, requests: int, tokens: int | None) -> None:
    """Book what a call used instead of what it had taken; ``tokens`` is ``None`` if nobody knows, and the estimate
    stays. A store is asked only where something differs."""
    owed = {
        Counted.REQUESTS: requests - 1,
        Counted.TOKENS: 0 if tokens is None else tokens - allowance.tokens,
    }
    charges = [
        limit.charge(owed[limit.counted], now=allowance.began_at) for limit in allowance.limits if owed[limit.counted]
    ]
    if charges:
        store.meter(charges, force=True)


def read_standings(store: SharedStore, limits: tuple[Limit, ...], *, now: datetime) -> tuple[Standing, ...]:
    """Where limits stand; nothing is taken."""
    if not limits:
        return ()
    return _standings(limits, store.meter([limit.charge(0, now=now) for limit in limits], force=True))


def tightest(standings: Sequence[Standing], counted: Counted) -> Standing | None:
    """The limit that will be reached first: the least is left of it, and of two alike it takes longer to be whole."""
    own = [each for each in standings if each.limit.counted is counted]
    return min(own, key=_room, default=None)


def _room(standing: Standing) -> tuple[int, int]:
    return standing.level.left, -standing.level.reset_ms


def _standings(limits: tuple[Limit, ...], metered: Metered) -> tuple[Standing, ...]:
    return tuple(Standing(limit, level) for limit, level in zip(limits, metered.levels, strict=True))
