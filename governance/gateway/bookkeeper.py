"""Tells the ledger of budgets what calls have to say: what comes together is said together.

While one transaction is under way, what comes meanwhile waits and goes with the next one. So an attempt that begins
alone waits for nobody, and of many on one account none waits for a transaction of each of the others. What fits is held
from the loop itself; what does not, a thread looks at. Nobody waits for an outcome, so outcomes are gathered for a
moment; before anything is refused, what has ended is booked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Generic, TypeVar
from uuid import UUID

from django.db import InterfaceError, OperationalError, close_old_connections

from budgets.admission import Admission
from budgets.ledger import Closed, Outcome, OverBudget, Reservation, close_all, reserve_all
from governance.gateway.bridge import Bridge, BridgeClosedError

GATHER_SECONDS = 0.025
"""How long outcomes are gathered. A process that is killed leaves what it has not booked to be swept as uncertain."""

MOST_AT_ONCE = 100
"""Attempts of one transaction. Their accounts are locked for as long as it takes."""

Word = TypeVar("Word", bound=Reservation | Outcome)
Told = TypeVar("Told")


class Bookkeeper:
    """One process's way to the ledger. Lives on the event loop."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._admission = Admission()
        self._reservations: _Queue[Reservation, None] = _Queue(self._reserve_all)
        self._outcomes: _Queue[Outcome, Closed] = _Queue(self._close_all, gather_seconds=GATHER_SECONDS)

    async def reserve(self, reservation: Reservation) -> None:
        """Hold what an attempt can cost.

        Refused while other attempts hold something, it asks once more when those that have ended are booked, here and
        in the other processes.

        Raises:
            OverBudget: there is no room for it.
            django.db.Error: the ledger cannot be reached; whether it is held nobody knows.
        """
        try:
            await self._reservations.say(reservation)
        except OverBudget as refused:
            if not refused.balance.reserved:
                raise
        else:
            return
        await asyncio.gather(self._outcomes.said(), asyncio.sleep(2 * GATHER_SECONDS))
        await self._reservations.say(reservation)

    def withdraw(self, attempt: UUID) -> bool:
        """Ask nothing more for an attempt, if that comes in time. Whoever waits for it is cancelled.

        While the ledger does not answer, what nobody wants any more would pile up, and be held and given back before
        the first one that is wanted is heard.
        """
        return self._reservations.withdraw(attempt)

    def close(self, outcome: Outcome) -> "asyncio.Future[Closed]":
        """Book what became of an attempt. Fails with ``django.db.Error`` if the ledger cannot be reached; whether it is
        booked nobody knows then."""
        return self._outcomes.say(outcome)

    def flush(self) -> None:
        """Book in this thread what waits to be booked. For a program that ends, when no loop runs any more.

        Raises:
            django.db.Error: the ledger cannot be reached; what was held becomes uncertain.
        """
        outcomes = self._outcomes.give_up()
        told = [
            each
            for first in range(0, len(outcomes), MOST_AT_ONCE)
            for each in _said(close_all, outcomes[first : first + MOST_AT_ONCE])
        ]
        for each in told:
            if isinstance(each, Exception):
                raise each

    async def stop(self) -> None:
        """Say nothing more."""
        await asyncio.gather(self._reservations.stop(), self._outcomes.stop())
        await self._admission.close()

    async def _reserve_all(self, words: Sequence[Reservation]) -> Sequence[Exception | None]:
        if self._admission.is_possible and await self._admission.hold_all(words):
            return [None] * len(words)
        return await self._begin(reserve_all, words)

    async def _close_all(self, words: Sequence[Outcome]) -> Sequence[Closed | Exception]:
        return await self._begin(close_all, words)

    def _begin(
        self, say: Callable[[Sequence[Word]], Sequence[Told | Exception]], words: Sequence[Word]
    ) -> "asyncio.Future[Sequence[Told | Exception]]":
        """Let a thread say it, to its end even when nobody waits any more."""
        return asyncio.shield(self._bridge.begin(partial(_said, say, words)))


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Word, Told]):
    """What is to be said, and who waits for what comes of it."""

    word: Word
    future: "asyncio.Future[Told]"


class _Queue(Generic[Word, Told]):
    """Words of one kind. One transaction at a time says those that have come."""

    def __init__(
        self, say: Callable[[Sequence[Word]], Awaitable[Sequence[Told | Exception]]], *, gather_seconds: float = 0.0
    ) -> None:
        self._say = say
        self._gather_seconds = gather_seconds
        self._waiting: dict[UUID, _Waiting[Word, Told]] = {}
        self._saying: asyncio.Task[None] | None = None
        self._latest: asyncio.Future[Told] | None = None

    async def said(self) -> None:
        """Wait until what has come so far is said, whatever came of it."""
        if self._latest is not None:
            await asyncio.wait([self._latest])

    def say(self, word: Word) -> "asyncio.Future[Told]":
        """Wait for a word's turn, and for what comes of it. Of an attempt that waits already the first word counts."""
        if (waiting := self._waiting.get(word.attempt)) is not None:
            return waiting.future
        self._latest = future = asyncio.get_running_loop().create_future()
        self._waiting[word.attempt] = _Waiting(word, future)
        if self._saying is None:
            # In a context of its own: what it logs does not belong to the call that happened to come first.
            self._saying = asyncio.create_task(self._say_all(), context=Context())
        return future

    def withdraw(self, attempt: UUID) -> bool:
        """Say a word no more, if it waits still."""
        waiting = self._waiting.pop(attempt, None)
        return waiting is not None and waiting.future.cancel()

    def give_up(self) -> list[Word]:
        """Whatever waits; it is somebody else's business from now on."""
        waiting, self._waiting = self._waiting, {}
        return [each.word for each in waiting.values()]

    async def stop(self) -> None:
        """End, whatever waits."""
        if self._saying is not None:
            self._saying.cancel()
            await asyncio.wait([self._saying])

    async def _say_all(self) -> None:
        try:
            while self._waiting:
                if self._gather_seconds:
                    await asyncio.sleep(self._gather_seconds)
                taken = dict(islice(self._waiting.items(), MOST_AT_ONCE))
                for attempt in taken:
                    del self._waiting[attempt]
                try:
                    await self._say_these([*taken.values()])
                except BridgeClosedError:  # the program ends: `flush` says what waits
                    self._waiting = taken | self._waiting
                    return
        finally:
            self._saying = None

    async def _say_these(self, taken: Sequence[_Waiting[Word, Told]]) -> None:
        """Say words, and tell those who wait for what comes of them."""
        results: Sequence[Told | Exception]
        try:
            results = await self._say([each.word for each in taken])
        except asyncio.CancelledError:
            for each in taken:
                each.future.cancel()
            raise
        except BridgeClosedError:
            raise
        except Exception as error:  # noqa: BLE001  # told to whom it concerns, and to nobody else
            results = [error] * len(taken)
        for each, result in zip(taken, results, strict=True):
            if each.future.done():  # whoever asked has left
                continue
            if isinstance(result, Exception):
                each.future.set_exception(result)
            else:
                each.future.set_result(result)


def _said(
    say: Callable[[Sequence[Word]], Sequence[Told | Exception]], words: Sequence[Word]
) -> Sequence[Told | Exception]:
    """Say words together; if they cannot be said together, each by itself, so that none goes wrong for another's sake.

    A connection that was lost is opened anew, once: everything that is said to the ledger can be said twice.
    """
    try:
        return _said_once_more(say, words)
    except (OperationalError, InterfaceError) as error:
        return [error] * len(words)
    except Exception as error:  # noqa: BLE001  # told to whom it concerns, and to nobody else
        if len(words) == 1:
            return [error]
        return [told for word in words for told in _said(say, [word])]


def _said_once_more(
    say: Callable[[Sequence[Word]], Sequence[Told | Exception]], words: Sequence[Word]
) -> Sequence[Told | Exception]:
    try:
        return say(words)
    except (OperationalError, InterfaceError):
        close_old_connections()
        return say(words)
