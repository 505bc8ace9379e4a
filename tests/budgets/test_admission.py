"""What fits is held by one statement just as it would be by judging each; what is not sure is held by none."""

import asyncio
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from asgiref.sync import sync_to_async
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections, transaction

from budgets import admission as admission_module
from budgets.admission import Admission
from budgets.ledger import Claim, Outcome, Reservation, close_all, reserve_all
from budgets.models import Account, Entry, Hold
from budgets.proof import check
from budgets.scopes import Scope
from routing.core.money import MOST_NANOS, Money
from tests.budgets.claims import LATER, NOW, ONE, balance, claim, hold, key_of
from tests.environment import TestDatabase, chosen_database

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(chosen_database() is not TestDatabase.POSTGRES, reason="PostgreSQL's alone"),
]


@pytest.fixture
async def admission() -> AsyncIterator[Admission]:
    admission = Admission()
    assert admission.is_possible
    yield admission
    await admission.close()


def reservation(*claims: Claim, attempt: UUID | None = None) -> Reservation:
    return Reservation(attempt or uuid4(), uuid4(), claims or (claim(),), NOW, LATER)


def opened(*scopes: Scope, nanos: int = 0) -> None:
    """Accounts that are there, with something spent."""
    for scope in scopes:
        attempt = hold(claim(key_of(scope), limit=None))
        close_all([Outcome(attempt, NOW, Money(nanos, "USD"))])


def rows_of(model: type[Entry] | type[Hold], scope: Scope) -> list[tuple[object, ...]]:
    """What there is of a scope's account, in the order it was written and without the ids of rows."""
    mine = model._default_manager.filter(account__identity=key_of(scope).identity).order_by("pk")
    return list(mine.values_list(*(each.attname for each in model._meta.fields if each.name not in ("id", "account"))))


async def test_what_is_exactly_left_is_enough(admission: Admission) -> None:
    await sync_to_async(opened)(Scope(application="helpdesk"), Scope(), nanos=ONE)
    wide, tight = claim(key_of(Scope()), limit=None), claim(limit=2 * ONE)
    assert await admission.hold_all([reservation(wide, tight)])
    assert not await admission.hold_all([reservation(wide, claim(amount=1, limit=2 * ONE))])
    both = await sync_to_async(lambda: (balance(), balance(key_of(Scope()))))()
    assert both == ((ONE, ONE, 0, 0), (ONE, ONE, 0, 0))


async def test_an_account_that_is_not_open_is_for_others_to_open(admission: Admission) -> None:
    await sync_to_async(opened)(Scope(application="helpdesk"))
    assert not await admission.hold_all([reservation(claim(), claim(key_of(Scope())))])
    assert await sync_to_async(Hold.objects.count)() == 0


async def test_of_one_that_is_held_already_and_another_none_is_held_now(admission: Admission) -> None:
    known = await sync_to_async(hold)()
    assert not await admission.hold_all([reservation(), reservation(attempt=known)])
    assert await sync_to_async(balance)() == (0, ONE, 0, 0)
    assert await admission.hold_all([reservation()])


async def test_more_than_a_column_holds_is_not_asked_and_not_held(admission: Admission) -> None:
    await sync_to_async(opened)(Scope(application="helpdesk"), nanos=10)
    most = claim(amount=MOST_NANOS, limit=None)
    assert not await admission.hold_all([reservation(most)])
    assert not await admission.hold_all([reservation(most), reservation(most)])
    assert await admission.hold_all([reservation(claim(amount=MOST_NANOS - 10, limit=None))])
    assert await sync_to_async(balance)() == (10, MOST_NANOS - 10, 0, 0)


def drawn(draw: random.Random, scopes: list[Scope]) -> list[Claim]:
    """Claims as calls have them: several budgets, two of them in one account now and then, free ones, unpriced ones."""
    amount = draw.choice([0, 0, None, 1, 2, 3])
    chosen = draw.choices(scopes, k=draw.randint(1, 3))
    return [claim(key_of(each), amount=amount, limit=draw.choice([None, 0, 2, 5, 9, 30])) for each in chosen]


@pytest.mark.parametrize("seed", range(3))
def test_what_it_holds_is_what_judging_each_would_hold(seed: int) -> None:
    """The same story told to accounts of two families: all held means all admitted, and the same rows."""
    draw, told = random.Random(seed), {True: 0, False: 0}
    names = ("helpdesk", "shop")
    families = [[Scope(application=each), Scope(user=each), Scope(key=each)] for each in names]
    opened(*families[0], *families[1])

    async def ask(wanted: list[Reservation]) -> bool:
        admission = Admission()
        try:
            return await admission.hold_all(wanted)
        finally:
            await admission.close()

    for _ in range(40):
        state, size = draw.getstate(), draw.randint(1, 3)
        stories = []
        for family in families:
            draw.setstate(state)
            draw.randint(1, 3)
            stories.append([reservation(*drawn(draw, family)) for _ in range(size)])
        is_held = asyncio.run(ask(stories[0]))
        told[is_held] += 1
        judged = reserve_all(stories[1])
        if is_held:
            assert judged == [None] * size
        else:
            assert [each is None for each in reserve_all(stories[0])] == [each is None for each in judged]
        if draw.random() < 0.3:
            for story in stories:
                close_all([Outcome(each.attempt, NOW, Money(1, "USD")) for each in story])
    assert min(told.values()) >= 5, "the draw shows both"
    for one, other in zip(*families, strict=True):
        for model in (Entry, Hold):
            unnamed = [[row[2:] for row in rows_of(model, scope)] for scope in (one, other)]
            assert unnamed[0] == unnamed[1]
    assert check().flaws == ()


def test_of_twenty_loops_at_a_budget_for_one_exactly_one_is_admitted() -> None:
    opened(Scope(application="helpdesk"), Scope())

    async def ask() -> bool:
        admission = Admission()
        try:
            return await admission.hold_all([reservation(claim(limit=ONE), claim(key_of(Scope()), limit=None))])
        finally:
            await admission.close()

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(lambda _: asyncio.run(ask()), range(20))) == 1
    assert (balance(), balance(key_of(Scope()))) == ((0, ONE, 0, 0), (0, ONE, 0, 0))


async def test_it_judges_by_what_another_leaves_that_it_waited_for(admission: Admission) -> None:
    """The statement began before the other one was done, so what it saw at first is old."""
    await sync_to_async(opened)(Scope(application="helpdesk"))
    gate, let_go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def change() -> None:
        with transaction.atomic():
            Account.objects.select_for_update().update(uncertain=10 * ONE)
            loop.call_soon_threadsafe(gate.set)
            asyncio.run_coroutine_threadsafe(let_go.wait(), loop).result(10)
        connections.close_all()

    changing = asyncio.create_task(asyncio.to_thread(change))
    await gate.wait()
    asking = asyncio.create_task(admission.hold_all([reservation()]))
    await asyncio.sleep(0.05)
    assert not asking.done()
    let_go.set()
    assert await asking is False
    await changing


async def test_a_connection_that_was_lost_is_opened_anew(admission: Admission) -> None:
    await sync_to_async(opened)(Scope(application="helpdesk"))
    assert await admission.hold_all([reservation()])

    def end_the_others() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE %s",
                ["%WITH need AS%"],
            )
            assert len(cursor.fetchall()) == 1

    await sync_to_async(end_the_others)()
    assert await admission.hold_all([reservation()])
    assert await sync_to_async(balance)() == (0, 2 * ONE, 0, 0)


async def test_a_pooler_that_changes_sessions_is_lived_with(
    admission: Admission, caplog: pytest.LogCaptureFixture
) -> None:
    """What was prepared is not there in the session that a statement is given."""
    await sync_to_async(opened)(Scope(application="helpdesk"))
    for _ in range(3):
        assert await admission.hold_all([reservation()])
        assert admission._cursor is not None
        await admission._cursor.connection.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$", prepare=False)
    assert caplog.text.count("does a pooler change sessions?") == 1
    assert await sync_to_async(balance)() == (0, 3 * ONE, 0, 0)


async def test_a_session_that_hangs_is_given_up_for_another(
    admission: Admission, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its account is locked by somebody who does nothing; the next question finds it free."""
    await sync_to_async(opened)(Scope(application="helpdesk"))
    monkeypatch.setattr(admission_module, "ANSWER_SECONDS", 0.2)
    locked, let_go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def lock() -> None:
        with transaction.atomic():
            Account.objects.select_for_update().get()
            loop.call_soon_threadsafe(locked.set)
            asyncio.run_coroutine_threadsafe(let_go.wait(), loop).result(10)
        connections.close_all()

    locking = asyncio.create_task(asyncio.to_thread(lock))
    await locked.wait()
    with pytest.raises(OperationalError, match="no answer"):
        await admission.hold_all([reservation()])
    let_go.set()
    await locking
    assert await admission.hold_all([reservation()])
    assert await sync_to_async(balance)() == (0, ONE, 0, 0)


async def test_a_ledger_that_is_away_is_told(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> None:
    there = connections[DEFAULT_DB_ALIAS].settings_dict
    monkeypatch.setitem(there, "PORT", "1")
    with pytest.raises(OperationalError):
        await admission.hold_all([reservation()])
