"""What calls have to say to the ledger is said together, and nobody goes wrong for another's sake."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from budgets.admission import Admission
from budgets.ledger import Claim, Closed, Outcome, OverBudget, Reservation, close_all, reserve_all
from budgets.models import Entry
from budgets.proof import check
from governance.gateway import bookkeeper as module
from governance.gateway.bookkeeper import Bookkeeper
from governance.gateway.bridge import Bridge
from routing.core.money import Money
from tests.budgets.claims import LATER, NOW, ONE, balance, claim, hold

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    bridge = Bridge()
    yield bridge
    bridge.close()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was said in one transaction each: the word, and of how many attempts."""
    told: list[tuple[str, int]] = []

    def reserving(words: Sequence[Reservation]) -> list[OverBudget | None]:
        told.append(("reserve", len(words)))
        return reserve_all(words)

    def closing(words: Sequence[Outcome]) -> list[Closed]:
        told.append(("close", len(words)))
        return close_all(words)

    async def holding(admission: Admission, words: Sequence[Reservation]) -> bool:
        if is_held := await hold_all(admission, words):
            told.append(("reserve", len(words)))
        return is_held

    hold_all = Admission.hold_all
    monkeypatch.setattr(Admission, "hold_all", holding)
    monkeypatch.setattr(module, "reserve_all", reserving)
    monkeypatch.setattr(module, "close_all", closing)
    return told


@pytest.fixture
def each_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where nothing can be held without a thread."""
    monkeypatch.setattr(Admission, "is_possible", False)


@pytest.fixture
async def keeper(bridge: Bridge) -> AsyncIterator[Bookkeeper]:
    keeper = Bookkeeper(bridge)
    yield keeper
    await keeper.stop()


def reservation(*claims: Claim, attempt: UUID | None = None) -> Reservation:
    return Reservation(attempt or uuid4(), uuid4(), claims or (claim(),), NOW, LATER)


def settled(attempt: UUID, nanos: int = 1) -> Outcome:
    return Outcome(attempt, LATER, Money(nanos, "USD"))


async def test_what_comes_while_one_is_under_way_goes_together(
    bridge: Bridge, keeper: Bookkeeper, said: list[tuple[str, int]]
) -> None:
    wanted = [reservation(claim(limit=None)) for _ in range(20)]
    first = asyncio.create_task(keeper.reserve(wanted[0]))
    await asyncio.sleep(0.001)
    await asyncio.gather(first, *(keeper.reserve(each) for each in wanted[1:]))
    assert said[0] == ("reserve", 1)
    assert len(said) <= 3
    assert sum(number for _, number in said) == 20
    said.clear()
    closed = await asyncio.gather(*(keeper.close(settled(each.attempt)) for each in wanted))
    assert said == [("close", 20)]
    assert all(each.is_done for each in closed)
    assert await bridge.cross(balance) == (20, 0, 0, 0)


async def test_each_is_told_what_became_of_its_own(bridge: Bridge, keeper: Bookkeeper) -> None:
    asked = [reservation(claim(amount=amount * ONE)) for amount in (6, 5, 4)]
    told = await asyncio.gather(*(keeper.reserve(each) for each in asked), return_exceptions=True)
    assert [type(each) for each in told] == [type(None), OverBudget, type(None)]


async def test_one_that_was_reserved_before_takes_nobody_along(bridge: Bridge, keeper: Bookkeeper) -> None:
    known = await bridge.cross(hold)
    asked = [reservation(), reservation(attempt=known), reservation()]
    await asyncio.gather(*(keeper.reserve(each) for each in asked))
    assert await bridge.cross(balance) == (0, 3 * ONE, 0, 0)
    assert (await bridge.cross(check)).flaws == ()


async def test_one_that_cannot_be_booked_takes_nobody_along(bridge: Bridge, keeper: Bookkeeper) -> None:
    """More than a column holds: PostgreSQL says so itself, and for SQLite it is Python that does."""
    wanted = [reservation() for _ in range(3)]
    await asyncio.gather(*(keeper.reserve(each) for each in wanted))
    ended = [settled(each.attempt, nanos) for each, nanos in zip(wanted, (1, 2**63, 3), strict=True)]
    told = await asyncio.gather(*(keeper.close(each) for each in ended), return_exceptions=True)
    assert [isinstance(each, Exception) for each in told] == [False, True, False]
    assert await bridge.cross(balance) == (4, ONE, 0, 0)
    assert (await bridge.cross(check)).flaws == ()


async def test_what_has_ended_makes_room_before_anything_is_refused(bridge: Bridge, keeper: Bookkeeper) -> None:
    """A caller that had its answer and asks again is not refused because its first call is not booked yet."""
    first, second = reservation(claim(limit=ONE)), reservation(claim(limit=ONE + 1))
    await keeper.reserve(first)
    closing = keeper.close(settled(first.attempt))
    await keeper.reserve(second)
    assert (await closing).is_done
    assert await bridge.cross(balance) == (1, ONE, 0, 0)


async def test_it_is_refused_at_once_where_nothing_is_under_way(
    bridge: Bridge, keeper: Bookkeeper, said: list[tuple[str, int]]
) -> None:
    with pytest.raises(OverBudget):
        await keeper.reserve(reservation(claim(limit=ONE - 1)))
    assert said == [("reserve", 1)]


@pytest.mark.usefixtures("each_is_judged")
async def test_a_connection_that_was_lost_is_opened_anew(
    bridge: Bridge, keeper: Bookkeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was started again: what is said is said once more, on a connection of its own."""
    faults = iter([OperationalError("the connection is lost")])

    def losing(words: Sequence[Reservation]) -> Any:
        told = reserve_all(words)  # it was booked, and nobody heard of it
        if (fault := next(faults, None)) is not None:
            raise fault
        return told

    monkeypatch.setattr(module, "reserve_all", losing)
    # There is room for three and for no more: what is held is not refused beside itself.
    await asyncio.gather(*(keeper.reserve(reservation(claim(limit=3 * ONE))) for _ in range(3)))
    assert await bridge.cross(balance) == (0, 3 * ONE, 0, 0)
    assert await bridge.cross(Entry.objects.count) == 3


@pytest.mark.usefixtures("each_is_judged")
async def test_a_ledger_that_is_away_is_told_to_all_and_the_next_ones_are_tried(
    bridge: Bridge, keeper: Bookkeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(words: object) -> Any:
        raise OperationalError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(module, "reserve_all", away)
        told = await asyncio.gather(*(keeper.reserve(reservation()) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in told] == [OperationalError] * 3
    await keeper.reserve(reservation())
    assert await bridge.cross(balance) == (0, ONE, 0, 0)


async def test_what_is_said_twice_while_it_waits_is_one_word(bridge: Bridge, keeper: Bookkeeper) -> None:
    attempt = await bridge.cross(hold)
    first, second = keeper.close(settled(attempt, 7)), keeper.close(settled(attempt, 8))
    assert (await first).is_done
    assert (await second).is_done
    assert await bridge.cross(balance) == (7, 0, 0, 0)


async def test_whoever_leaves_does_not_stop_the_others(bridge: Bridge, keeper: Bookkeeper) -> None:
    leaving, staying = (asyncio.create_task(keeper.reserve(reservation())) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    assert await bridge.cross(balance) == (0, 2 * ONE, 0, 0)


@pytest.mark.usefixtures("each_is_judged")
async def test_what_is_withdrawn_in_time_is_never_held(
    bridge: Bridge, keeper: Bookkeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that did not answer for long does not begin with what nobody wants any more."""
    answers = threading.Event()

    def slow(words: Sequence[Reservation]) -> Any:
        answers.wait(10)
        return reserve_all(words)

    monkeypatch.setattr(module, "reserve_all", slow)
    wanted = [reservation() for _ in range(250)]
    asking = [asyncio.create_task(keeper.reserve(wanted[0]))]
    await asyncio.sleep(0.01)
    asking += [asyncio.create_task(keeper.reserve(each)) for each in wanted[1:]]
    await asyncio.sleep(0.01)
    in_time = [keeper.withdraw(each.attempt) for each in wanted[:-1]]
    answers.set()
    told = await asyncio.gather(*asking, return_exceptions=True)
    assert in_time == [False] + [True] * 248
    assert [isinstance(each, asyncio.CancelledError) for each in told] == [*in_time, False]
    held = await bridge.cross(lambda: {*Entry.objects.values_list("attempt", flat=True)})
    assert held == {wanted[0].attempt, wanted[-1].attempt}
    assert keeper.withdraw(wanted[0].attempt) is False


def test_what_a_closed_pool_does_not_take_waits_for_the_end() -> None:
    """A program that ends shuts its pools first; by then outcomes may be on their way."""
    attempts = [hold(claim(limit=None)) for _ in range(module.MOST_AT_ONCE + 1)]

    async def end() -> Bookkeeper:
        bridge = Bridge()
        keeper = Bookkeeper(bridge)
        for each in attempts[:-1]:
            keeper.close(settled(each))
        bridge.close()
        await asyncio.sleep(2 * module.GATHER_SECONDS)
        keeper.close(settled(attempts[-1]))
        await asyncio.sleep(2 * module.GATHER_SECONDS)
        return keeper

    keeper = asyncio.run(end())
    assert balance()[0] == 0
    keeper.flush()
    assert balance() == (len(attempts), 0, 0, 0)
