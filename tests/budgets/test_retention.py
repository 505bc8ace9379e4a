"""Old entries go, and everything that can be proven of the ledger can be proven as before."""

from datetime import datetime, timedelta
from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.db.models import QuerySet
from pytest_django import DjangoAssertNumQueries

from budgets import retention
from budgets.ledger import OverBudget, release, reserve, settle
from budgets.models import Account, Carryover, Crossing, Entry, Hold
from budgets.proof import booked, check
from budgets.retention import Carried, Removed, carry_over, remove_accounts
from budgets.scopes import AccountKey, Scope
from budgets.windows import WindowKind
from routing.core.money import Money
from tests.budgets.claims import NOW, ONE, balance, claim, hold, key_of

pytestmark = pytest.mark.django_db

OCTOBER = NOW - timedelta(days=40)
CUT = NOW - timedelta(days=25)  # the fifth of November
OLD, ALL_TIME = key_of(moment=OCTOBER), key_of(window=WindowKind.TOTAL)


def dollars(nanos: int) -> Money:
    return Money(nanos, "USD")


def spent(*accounts: AccountKey, at: datetime, cost: int = ONE // 2) -> None:
    settle(attempt=hold(*(claim(each) for each in accounts), now=at), cost=dollars(cost), now=at)


def carried() -> tuple[int, int, int, int, int, int]:
    row = Carryover.objects.get()
    return row.entries, row.spent, row.reserved, row.uncertain, row.unmeasured, row.late


def test_entries_of_windows_that_ended_long_ago_go_and_their_sums_stay() -> None:
    spent(OLD, at=OCTOBER)
    release(attempt=hold(claim(OLD), now=OCTOBER), now=OCTOBER)
    late = hold(claim(OLD), now=OCTOBER)
    for cost in (None, dollars(3)):
        settle(attempt=late, cost=cost, now=OCTOBER)
    settle(attempt=hold(claim(OLD, amount=None), now=OCTOBER), cost=None, now=OCTOBER)
    spent(key_of(), at=NOW)
    before = [balance(OLD), balance()]
    told = [(each.spent, each.late) for each in booked(since=NOW)]
    assert carry_over(before=CUT) == Carried(entries=9, accounts=1)
    assert carried() == (9, ONE // 2 + 3, 0, 0, 1, 3)
    assert Carryover.objects.get().until == OCTOBER
    assert [balance(OLD), balance()] == before
    assert [(each.spent, each.late) for each in booked(since=NOW)] == told
    assert Entry.objects.count() == 2
    verdict = check()
    assert (verdict.flaws, verdict.entries, verdict.carried) == ((), 2, 9)
    assert carry_over(before=CUT) == Carried(entries=0, accounts=0)


def test_a_window_has_ended_when_it_ends() -> None:
    ends = OLD.window.ends
    assert ends is not None
    spent(OLD, at=OCTOBER)
    spent(key_of(), at=ends)
    assert carry_over(before=ends - timedelta(microseconds=1)).entries == 0
    assert carry_over(before=ends).entries == 2
    assert carry_over(before=NOW).entries == 0  # the month is not over, however old its entries are


def test_of_all_time_what_is_old_goes_while_calls_are_made() -> None:
    spent(ALL_TIME, at=OCTOBER)
    spent(ALL_TIME, at=CUT)
    under_way = hold(claim(ALL_TIME), now=NOW)
    assert carry_over(before=CUT) == Carried(entries=2, accounts=1)
    settle(attempt=under_way, cost=dollars(7), now=NOW)
    assert balance(ALL_TIME) == (ONE + 7, 0, 0, 0)
    assert check().flaws == ()


@pytest.mark.parametrize("account", [OLD, ALL_TIME], ids=["ended", "all time"])
@pytest.mark.parametrize("is_uncertain", [False, True])
def test_an_account_that_holds_something_since_then_is_left_as_it_is(account: AccountKey, is_uncertain: bool) -> None:
    spent(account, at=OCTOBER)
    attempt = hold(claim(account), now=OCTOBER)
    if is_uncertain:
        settle(attempt=attempt, cost=None, now=OCTOBER)
    kept = Entry.objects.count()
    assert carry_over(before=CUT) == Carried(entries=0, accounts=0)
    assert Entry.objects.count() == kept
    release(attempt=attempt, now=NOW)
    # What was said today is younger, and goes later.
    assert carry_over(before=CUT) == Carried(entries=kept, accounts=1)
    assert carry_over(before=NOW + timedelta(seconds=1)) == Carried(entries=1, accounts=1)
    assert (check().flaws, Entry.objects.count(), balance(account)) == ((), 0, (ONE // 2, 0, 0, 0))


def test_it_goes_in_steps_and_every_step_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    for _ in range(4):
        spent(OLD, at=OCTOBER)
    account = Account.objects.get().pk
    first = hold(claim(OLD), now=OCTOBER)
    release(attempt=first, now=OCTOBER)
    for left in (7, 4, 1, 0):
        retention._carry_over(account, before=CUT)
        assert Entry.objects.count() == left
        assert check().flaws == ()
    assert carried()[:2] == (10, 2 * ONE)


def test_limits_are_proven_against_what_was_committed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reservation that went beyond its limit is found whether or not the entries before it are still there."""
    spent(ALL_TIME, at=OCTOBER, cost=9 * ONE)
    hold(claim(ALL_TIME, amount=ONE), now=NOW)
    assert check().flaws == ()
    QuerySet(Entry).filter(reserved=ONE, at=NOW).update(limit=10 * ONE - 1)
    before = [each.what for each in check().flaws]
    assert len(before) == 1
    carry_over(before=CUT)
    assert [each.what for each in check().flaws] == before
    with pytest.raises(OverBudget):
        hold(claim(ALL_TIME, amount=ONE), now=NOW)


@pytest.mark.parametrize("part", ["spent", "uncertain", "unmeasured"])
def test_a_sum_that_was_tampered_with_is_found(part: str) -> None:
    spent(OLD, at=OCTOBER)
    carry_over(before=CUT)
    Carryover.objects.update(**{part: 17})
    (flaw,) = check().flaws
    assert flaw.what.startswith(f"{part} is ")
    assert flaw.what.endswith("beside 17 carried over")


def test_whatever_happened_it_adds_up_after_every_cut() -> None:
    draw = Random(8)
    accounts = [OLD, ALL_TIME, key_of(Scope(user="agent-17"), moment=OCTOBER)]
    attempts: list[tuple[UUID, datetime]] = []
    for day in range(40):
        at = OCTOBER + timedelta(days=day)
        for _ in range(3):
            attempt, amount = uuid4(), draw.choice([None, 0, ONE // 10])
            claims = [claim(each, amount=amount, limit=None) for each in draw.sample(accounts, draw.randint(1, 3))]
            reserve(attempt=attempt, call=uuid4(), claims=claims, now=at, expires_at=at + timedelta(minutes=5))
            attempts.append((attempt, at))
        for attempt, began in draw.sample(attempts, 2):
            match draw.randrange(3):
                case 0:
                    settle(attempt=attempt, cost=dollars(draw.randint(0, ONE // 5)), now=began)
                case 1:
                    settle(attempt=attempt, cost=None, now=began)
                case _:
                    release(attempt=attempt, now=began)
        balances = [balance(each) for each in accounts]
        carry_over(before=at - timedelta(days=draw.randint(0, 10)))
        assert check().flaws == ()
        assert [balance(each) for each in accounts] == balances
    for attempt in Hold.objects.values_list("attempt", flat=True).distinct():
        release(attempt=attempt, now=NOW)
    assert carry_over(before=NOW + timedelta(days=60)).entries > 0
    assert (Entry.objects.count(), check().flaws) == (0, ())


def test_looking_for_what_is_old_is_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(5):
        spent(key_of(Scope(user=f"agent-{number}"), moment=OCTOBER), at=OCTOBER)
        spent(key_of(Scope(user=f"agent-{number}")), at=NOW)
    assert carry_over(before=CUT).accounts == 5
    with django_assert_num_queries(1):
        assert carry_over(before=CUT).accounts == 0
    assert connection.in_atomic_block  # the test's own


# --- Accounts -------------------------------------------------------------------------------------------------------

LATE = NOW + timedelta(days=365)


def cross(account: AccountKey, *, at: datetime) -> int:
    row = Crossing(
        account=Account.objects.get(identity=account.identity),
        budget="desk",
        threshold=80,
        limit=1,
        spent=1,
        uncertain=0,
        at=at,
    )
    row.save()
    return row.pk


def removed(*, before: datetime) -> int:
    return sum(each.accounts for each in remove_accounts(before=before))


def test_accounts_of_ended_windows_go_with_everything_once_their_entries_have_gone() -> None:
    ends = OLD.window.ends
    assert ends is not None
    spent(OLD, ALL_TIME, at=OCTOBER)
    spent(key_of(), at=NOW)
    crossed, other = cross(OLD, at=OCTOBER), cross(ALL_TIME, at=OCTOBER)
    assert removed(before=NOW) == 0, "its entries are there"
    carry_over(before=NOW)
    assert removed(before=ends - timedelta(microseconds=1)) == 0, "its window has not ended"
    assert list(remove_accounts(before=ends)) == [Removed(accounts=1, crossings=(crossed,))]
    assert set(Account.objects.values_list("identity", flat=True)) == {ALL_TIME.identity, key_of().identity}
    assert [each.account.identity for each in Carryover.objects.all()] == [ALL_TIME.identity]
    assert [each.pk for each in Crossing.objects.all()] == [other]
    assert removed(before=LATE) == 0, "of all time, and of a window with entries"
    assert (check().flaws, balance(ALL_TIME), balance(OLD)) == ((), (ONE // 2, 0, 0, 0), (0, 0, 0, 0))


def test_an_account_stays_while_anything_is_held_or_was_crossed_lately() -> None:
    attempt = hold(claim(OLD), now=OCTOBER)
    QuerySet(Entry).all().delete()
    assert removed(before=LATE) == 0
    Hold.objects.filter(attempt=attempt).delete()
    cross(OLD, at=LATE)
    assert removed(before=LATE) == 0
    assert removed(before=LATE + timedelta(seconds=1)) == 1


def test_accounts_go_some_at_a_time_and_are_opened_anew(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    monkeypatch.setattr(retention, "ACCOUNTS_AT_ONCE", 2)
    keys = [key_of(Scope(user=f"agent-{number}"), moment=OCTOBER) for number in range(5)]
    spent(*keys, at=OCTOBER)
    carry_over(before=NOW)
    assert [each.accounts for each in remove_accounts(before=NOW)] == [2, 2, 1]
    spent(keys[0], at=OCTOBER)
    assert (balance(keys[0]), check().flaws) == ((ONE // 2, 0, 0, 0), ())


def test_what_was_booked_in_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the lock."""
    spent(OLD, at=OCTOBER)
    carry_over(before=NOW)
    found = [Account.objects.get().pk]
    spent(OLD, at=OCTOBER)
    assert retention._remove_accounts(found, before=LATE) == Removed(accounts=0, crossings=())
    assert (balance(OLD), check().flaws) == ((ONE, 0, 0, 0), ())
