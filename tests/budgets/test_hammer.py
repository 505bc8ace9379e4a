"""Many at a time. The balance is the sum of the entries, and no reservation is admitted beyond its limit, whoever is
killed in between."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from threading import Barrier
from typing import IO
from uuid import UUID, uuid4

import pytest
from django.db import connection, connections, transaction
from django.db.models import Sum

from budgets import retention
from budgets.ledger import Outcome, OverBudget, close_all, settle, sweep
from budgets.models import Account, Carryover, Entry, EntryKind, Hold
from budgets.proof import check
from budgets.retention import carry_over
from budgets.scopes import Scope
from budgets.windows import WindowKind
from routing.core.money import Money
from tests.budgets.claims import LATER, ONE, balance, claim, hold, key_of

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = 3
KILLS = 9
MUCH_LATER = datetime(2027, 6, 1, tzinfo=UTC)


def all_at_once(work: Callable[[int], bool], *, threads: int) -> list[bool]:
    """Do something in many threads that begin together, each with a connection of its own."""
    begin = Barrier(threads)

    def one(number: int) -> bool:
        try:
            connections["default"].ensure_connection()
            begin.wait(20)
            return work(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))


def admitted(limit: int, *, amount: int = ONE) -> bool:
    try:
        hold(claim(amount=amount, limit=limit), claim(key_of(Scope()), amount=amount, limit=None, budget="all"))
    except OverBudget:
        return False
    return True


def test_of_twenty_at_a_budget_for_one_exactly_one_is_admitted() -> None:
    """The account is not there yet: all twenty want to open it."""
    assert sum(all_at_once(lambda _: admitted(ONE), threads=20)) == 1
    assert (balance(), balance(key_of(Scope()))) == ((0, ONE, 0, 0), (0, ONE, 0, 0))
    assert check().flaws == ()


def test_accounts_named_in_another_order_do_not_end_in_a_deadlock() -> None:
    accounts = [key_of(Scope(user=name)) for name in ("agent-17", "agent-18", "agent-19")]

    def work(number: int) -> bool:
        draw = random.Random(number)
        for _ in range(5):
            claims = [claim(each, limit=None) for each in draw.sample(accounts, 3)]
            settle(attempt=hold(*claims), cost=Money(1, "USD"), now=LATER)
        return True

    assert all(all_at_once(work, threads=6))
    assert [balance(each) for each in accounts] == [(30, 0, 0, 0)] * 3


def test_a_settlement_that_comes_twice_at_a_time_is_booked_once() -> None:
    attempt = hold()
    booked = all_at_once(lambda n: settle(attempt=attempt, cost=Money(n + 1, "USD"), now=LATER), threads=8)
    assert sum(booked) == 1
    assert balance() == (booked.index(True) + 1, 0, 0, 0)


def test_two_that_end_the_same_attempt_do_not_wait_for_each_other_crosswise() -> None:
    """One books two attempts of an account, the other (a sweep, a person) the second of them; both find it locked."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one lock for all")
    first, second = sorted((hold(), hold()), key=lambda each: Hold.objects.get(attempt=each).pk)

    def ended(*attempts: UUID) -> int:
        try:
            return sum(each.is_done for each in close_all([Outcome(each, LATER, Money(1, "USD")) for each in attempts]))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        with transaction.atomic():
            Account.objects.select_for_update().get()
            both = pool.submit(ended, first, second)
            wait_for_waiting(1)
            one = pool.submit(ended, second)
            wait_for_waiting(2)
        assert both.result(10) + one.result(10) == 2
    assert balance() == (2, 0, 0, 0)


def wait_for_waiting(number: int) -> None:
    """Until so many sessions wait for a lock."""
    until = time.monotonic() + 10
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # else it stays as it was in this transaction
            cursor.execute(
                "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
                " AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
            )
            if cursor.fetchone() == (number,):
                return
            time.sleep(0.01)
    raise AssertionError(f"no {number} sessions wait for a lock")


class Hammer:
    """One process, and what it said before it was killed."""

    def __init__(self, seed: int) -> None:
        names = ("ENGINE", "NAME", "HOST", "PORT", "USER", "PASSWORD", "OPTIONS")
        database = {name: str(value) if name == "NAME" else value for name, value in connection.settings_dict.items()}
        asked = {"database": {name: database[name] for name in names}, "seed": seed}
        self._said: IO[bytes] = TemporaryFile()  # noqa: SIM115  # closed when it was read
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.budgets.hammer"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=self._said,
        )
        if self.process.stdin is None:
            raise AssertionError("the process has no input")
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def said(self) -> list[tuple[str, UUID, int]]:
        self._said.seek(0)
        lines = self._said.read().decode().splitlines(keepends=True)
        self._said.close()
        words = [line.split() for line in lines if line.endswith("\n")]
        return [(what, UUID(attempt), int(amount)) for what, attempt, amount in words]


def test_whoever_is_killed_whenever_the_ledger_adds_up() -> None:
    draw = random.Random(20261130)
    running = [Hammer(seed) for seed in range(PROCESSES)]
    killed: list[Hammer] = []
    try:
        wait_for_entries(50)
        for number in range(KILLS):
            wait_for_entries(Entry.objects.count() + draw.randrange(30, 120))
            victim = running.pop(draw.randrange(PROCESSES))
            victim.kill()
            killed.append(victim)
            assert victim.process.returncode == -9, "it did not go on until it was killed"
            running.append(Hammer(1000 + number))
    finally:
        for each in running:
            each.kill()
    assert all(each.process.returncode == -9 for each in running)
    said = [line for each in (*killed, *running) for line in each.said()]
    assert check().flaws == ()
    assert_nothing_said_is_lost(said)
    assert Hold.objects.filter(is_uncertain=False).exists(), "nobody was killed between reserving and settling"

    before = Account.objects.aggregate(Sum("spent"), Sum("reserved"), Sum("uncertain"))
    while sweep(now=MUCH_LATER):
        pass
    after = Account.objects.aggregate(Sum("spent"), Sum("reserved"), Sum("uncertain"))
    assert after == {
        "spent__sum": before["spent__sum"],
        "reserved__sum": 0,
        "uncertain__sum": before["uncertain__sum"] + before["reserved__sum"],
    }
    assert check().flaws == ()


def assert_nothing_said_is_lost(said: list[tuple[str, UUID, int]]) -> None:
    """Every booking that a process was told of is there, with its amount; nothing was booked twice."""
    assert not [line for line in said if line[0] == "twice"]
    settled = {attempt: cost for what, attempt, cost in said if what == "settled"}
    assert len(settled) > 20
    booked = dict(Entry.objects.filter(kind=EntryKind.SETTLED).values_list("attempt", "spent"))
    assert {attempt: booked[attempt] for attempt in settled} == settled
    reserved = set(Entry.objects.filter(kind=EntryKind.RESERVED).values_list("attempt", flat=True))
    assert {attempt for what, attempt, _ in said if what == "reserved"} <= reserved
    assert Entry.objects.filter(is_overrun=True).exists()
    some = list(settled)[:20]
    assert not any(settle(attempt=attempt, cost=Money(7, "USD"), now=MUCH_LATER) for attempt in some)
    assert uuid4() not in booked


def wait_for_entries(count: int) -> None:
    until = time.monotonic() + 30
    while Entry.objects.count() < count:
        assert time.monotonic() < until, f"no {count} entries in time"
        time.sleep(0.02)


def test_what_is_old_is_carried_over_while_others_book(monkeypatch: pytest.MonkeyPatch) -> None:
    """In steps of a few entries, by two at a time, in an account that four others reserve and settle in."""
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    account = key_of(window=WindowKind.TOTAL)
    each = 6
    for _ in range(10):
        settle(attempt=hold(claim(account, limit=None)), cost=Money(7, "USD"), now=LATER)

    def work(number: int) -> bool:
        for _ in range(each):
            if number < 2:
                carry_over(before=MUCH_LATER)
            else:
                settle(attempt=hold(claim(account, limit=None)), cost=Money(7, "USD"), now=LATER)
        return True

    assert all(all_at_once(work, threads=6))
    assert balance(account) == (7 * (10 + 4 * each), 0, 0, 0)
    assert check().flaws == ()
    carry_over(before=MUCH_LATER)
    assert (Entry.objects.count(), Carryover.objects.get().entries) == (0, 2 * (10 + 4 * each))
    assert check().flaws == ()
