"""Reserve, settle, release, sweep: what each does to the accounts, and what doing it twice does."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection
from pytest_django import DjangoAssertNumQueries

from budgets.ledger import (
    Claim,
    Outcome,
    OverBudget,
    Reservation,
    close_all,
    release,
    reserve,
    reserve_all,
    settle,
    sweep,
)
from budgets.models import Account, Entry, EntryError, EntryKind, Hold
from budgets.proof import check
from budgets.scopes import Scope
from budgets.statements import Balance
from budgets.windows import WindowKind
from routing.core.money import MOST_NANOS, Money
from tests.budgets.claims import LATER, NOW, ONE, balance, claim, hold, key_of

pytestmark = pytest.mark.django_db

INSTALLATION = key_of(Scope(), window=WindowKind.DAY)


def dollars(nanos: int) -> Money:
    return Money(nanos, "USD")


def flaws() -> list[str]:
    return [each.what for each in check().flaws]


def test_an_attempt_is_held_and_then_booked() -> None:
    attempt, call = uuid4(), uuid4()
    hold(attempt=attempt, call=call)
    assert balance() == (0, ONE, 0, 0)
    assert settle(attempt=attempt, cost=dollars(ONE // 3), now=LATER) is True
    assert balance() == (ONE // 3, 0, 0, 0)
    kinds = [(each.kind, each.call, each.limit, each.is_overrun, each.at) for each in Entry.objects.order_by("pk")]
    assert kinds == [("reserved", call, 10 * ONE, False, NOW), ("settled", call, None, False, LATER)]
    assert not Hold.objects.exists()
    assert flaws() == []


def test_the_account_says_what_it_counts() -> None:
    hold()
    account = Account.objects.get()
    assert (account.scope, account.currency, account.window) == (
        {"application": "helpdesk"}, "USD", "month 2026-11 Europe/Berlin",
    )  # fmt: skip
    assert (account.opened_at, account.starts_at, account.ends_at) == (
        NOW, key_of().window.starts, key_of().window.ends,
    )  # fmt: skip
    assert account.committed == ONE


def test_what_is_exactly_left_is_enough_and_a_nano_more_is_too_much() -> None:
    hold(claim(amount=9 * ONE))
    with pytest.raises(OverBudget) as refused:
        hold(claim(amount=ONE + 1))
    assert (refused.value.claim.budget, refused.value.claim.limit) == ("team", 10 * ONE)
    assert (refused.value.balance.spent, refused.value.balance.reserved, refused.value.balance.uncertain) == (
        0, 9 * ONE, 0,
    )  # fmt: skip
    hold(claim(amount=ONE))
    assert balance() == (0, 10 * ONE, 0, 0)
    assert flaws() == []


def test_all_accounts_hold_it_or_none() -> None:
    tight = claim(INSTALLATION, limit=ONE - 1, budget="installation")
    for claims in ([claim(), tight], [tight, claim()]):
        with pytest.raises(OverBudget) as refused:
            hold(*claims)
        assert refused.value.claim.budget == "installation"
        assert (balance(), balance(INSTALLATION)) == ((0, 0, 0, 0), (0, 0, 0, 0))
    assert not Entry.objects.exists()
    hold(claim(), replace(tight, limit=ONE))
    assert (balance(), balance(INSTALLATION)) == ((0, ONE, 0, 0), (0, ONE, 0, 0))


def test_two_budgets_over_the_same_spending_share_an_account_and_the_stricter_one_binds() -> None:
    hard, soft = claim(limit=2 * ONE, budget="cap"), claim(limit=None, budget="meter")
    hold(soft, hard)
    assert balance() == (0, ONE, 0, 0)
    assert Entry.objects.get().limit == 2 * ONE
    hold(hard, soft)
    with pytest.raises(OverBudget, match="cap"):
        hold(soft, hard)


def test_a_soft_budget_is_booked_and_refuses_nothing() -> None:
    attempt = hold(claim(amount=MOST_NANOS // 2, limit=None))
    settle(attempt=attempt, cost=dollars(5), now=LATER)
    assert balance() == (5, 0, 0, 0)


@pytest.mark.parametrize("limit", [0, ONE])
def test_nothing_is_a_limit_too(limit: int) -> None:
    if limit:
        settle(attempt=hold(claim(limit=limit)), cost=dollars(ONE + 7), now=LATER)  # an overrun: more than the limit
    with pytest.raises(OverBudget):
        hold(claim(amount=1, limit=limit))
    with pytest.raises(OverBudget):
        hold(claim(amount=None, limit=limit))
    hold(claim(amount=0, limit=limit))  # free is free
    assert flaws() == []


def test_a_cost_above_the_bound_is_booked_as_it_is_and_marked() -> None:
    settle(attempt=hold(claim(amount=ONE)), cost=dollars(ONE), now=LATER)
    settle(attempt=hold(claim(amount=ONE)), cost=dollars(ONE + 1), now=LATER)
    overruns = Entry.objects.filter(kind=EntryKind.SETTLED).order_by("pk").values_list("is_overrun", flat=True)
    assert (list(overruns), balance()) == ([False, True], (2 * ONE + 1, 0, 0, 0))


def test_what_was_not_sent_is_given_back() -> None:
    attempt = hold()
    assert release(attempt=attempt, now=LATER) is True
    assert balance() == (0, 0, 0, 0)
    assert settle(attempt=attempt, cost=dollars(5), now=LATER) is False
    assert balance() == (0, 0, 0, 0)


@pytest.mark.parametrize("cost", [None, Money(5, "EUR")])
def test_what_nobody_knows_stays_held(cost: Money | None) -> None:
    attempt = hold()
    assert settle(attempt=attempt, cost=cost, now=LATER) is True
    assert balance() == (0, 0, ONE, 0)
    assert settle(attempt=attempt, cost=cost, now=LATER) is False
    with pytest.raises(OverBudget):
        hold(claim(amount=9 * ONE + 1))
    assert flaws() == []


@pytest.mark.parametrize(("resolve", "spent"), [(settle, 7), (release, 0)])
def test_what_was_uncertain_can_become_known(resolve: object, spent: int) -> None:
    attempt = hold()
    settle(attempt=attempt, cost=None, now=LATER)
    if resolve is settle:
        assert settle(attempt=attempt, cost=dollars(7), now=LATER) is True
    else:
        assert release(attempt=attempt, now=LATER) is True
    assert balance() == (spent, 0, 0, 0)
    assert flaws() == []


def test_doing_it_twice_is_doing_it_once() -> None:
    attempt = hold()
    hold(attempt=attempt)
    assert balance() == (0, ONE, 0, 0)
    assert settle(attempt=attempt, cost=dollars(3), now=LATER) is True
    assert settle(attempt=attempt, cost=dollars(4), now=LATER) is False
    assert release(attempt=attempt, now=LATER) is False
    hold(attempt=attempt)  # delivered late: what is over is not begun again
    assert balance() == (3, 0, 0, 0)
    assert settle(attempt=uuid4(), cost=dollars(3), now=LATER) is False
    assert flaws() == []


def test_what_is_held_is_not_refused_for_want_of_room_beside_itself() -> None:
    attempt = hold(claim(limit=ONE))
    hold(claim(limit=ONE), attempt=attempt)
    one, other = (Reservation(each, uuid4(), [claim(limit=ONE)], NOW, LATER) for each in (attempt, uuid4()))
    assert [each is None for each in reserve_all([one, other])] == [True, False]
    assert balance() == (0, ONE, 0, 0)


def test_what_cannot_be_measured_is_counted() -> None:
    """A route without a price, which the budget allows, beside one that has an account in the right currency."""
    euros = key_of(currency="EUR")
    attempt = hold(claim(), claim(euros, amount=None, limit=ONE, budget="euros"))
    assert (balance(), balance(euros)) == ((0, ONE, 0, 0), (0, 0, 0, 0))
    settle(attempt=attempt, cost=dollars(3), now=LATER)
    assert (balance(), balance(euros)) == ((3, 0, 0, 0), (0, 0, 0, 1))
    assert flaws() == []


def test_what_could_not_be_bounded_is_booked_if_the_provider_says_what_it_charged() -> None:
    settle(attempt=hold(claim(amount=None)), cost=dollars(3), now=LATER)
    assert balance() == (3, 0, 0, 0)
    assert not Entry.objects.filter(is_overrun=True).exists()


def test_what_cannot_be_measured_and_was_not_sent_is_not_counted() -> None:
    release(attempt=hold(claim(amount=None)), now=LATER)
    assert balance() == (0, 0, 0, 0)


def test_orphans_are_swept_and_not_refunded() -> None:
    orphan, alive = hold(), hold(now=NOW + timedelta(minutes=1))
    assert sweep(now=NOW + timedelta(minutes=10)) == 0  # it may just be ending
    assert sweep(now=NOW + timedelta(minutes=10, seconds=1)) == 1
    assert balance() == (0, ONE, ONE, 0)
    assert sweep(now=NOW + timedelta(minutes=10, seconds=1)) == 0
    settle(attempt=alive, cost=dollars(1), now=LATER)
    settle(attempt=orphan, cost=dollars(2), now=LATER)  # it was alive after all
    assert balance() == (3, 0, 0, 0)
    assert flaws() == []


def test_a_settlement_goes_to_the_window_it_was_reserved_in() -> None:
    december = NOW + timedelta(days=2)
    attempt = hold(now=NOW)
    settle(attempt=attempt, cost=dollars(3), now=december)
    assert (balance(), balance(key_of(moment=december))) == ((3, 0, 0, 0), (0, 0, 0, 0))
    hold(claim(key_of(moment=december)), now=december)
    hold(claim(), now=NOW)  # the clock went back
    assert (balance(), balance(key_of(moment=december))) == ((3, ONE, 0, 0), (0, ONE, 0, 0))


def test_a_lowered_limit_refuses_and_a_raised_one_admits() -> None:
    hold(claim(amount=5 * ONE))
    with pytest.raises(OverBudget):
        hold(claim(limit=ONE))
    hold(claim(limit=6 * ONE))
    assert flaws() == []


def test_entries_are_written_once() -> None:
    hold()
    entry = Entry.objects.get()
    entry.spent = 5
    for change in (entry.save, entry.delete, Entry.objects.all().delete, lambda: Entry.objects.update(spent=5)):
        with pytest.raises(EntryError):
            change()


def test_the_statements_of_an_attempt(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """However many budgets apply. Each message to the database lengthens every call."""
    claims = [claim(), claim(INSTALLATION), claim(key_of(Scope(user="agent-17")))]
    hold(*claims)
    savepoint = 2  # of the test's own transaction
    most = savepoint + (2 if connection.vendor == "postgresql" else 4)
    with django_assert_num_queries(most):
        attempt = hold(*claims)
    with django_assert_num_queries(most):
        settle(attempt=attempt, cost=dollars(1), now=LATER)


class TestManyAtATime:
    """What many attempts have to say is said in one transaction, as if they had come one after the other."""

    def reservation(self, *claims: Claim, attempt: UUID | None = None) -> Reservation:
        return Reservation(attempt or uuid4(), uuid4(), claims or (claim(),), NOW, LATER)

    def test_the_first_ones_that_fit_are_admitted(self) -> None:
        wanted = [self.reservation(claim(amount=amount * ONE)) for amount in (4, 7, 5, 1, 1)]
        told = reserve_all(wanted)
        assert [None if each is None else each.balance.reserved for each in told] == [
            None,
            4 * ONE,
            None,
            None,
            10 * ONE,
        ]
        assert balance() == (0, 10 * ONE, 0, 0)
        held = Entry.objects.order_by("pk").values_list("attempt", "reserved")
        assert list(held) == [(wanted[0].attempt, 4 * ONE), (wanted[2].attempt, 5 * ONE), (wanted[3].attempt, ONE)]
        assert flaws() == []

    def test_who_does_not_fit_in_one_account_takes_nothing_of_the_others(self) -> None:
        wanted = [
            self.reservation(claim(INSTALLATION), claim(limit=0)),
            self.reservation(claim(INSTALLATION, limit=ONE)),
        ]
        assert [each is None for each in reserve_all(wanted)] == [False, True]
        assert (balance(), balance(INSTALLATION)) == ((0, 0, 0, 0), (0, ONE, 0, 0))

    def test_each_ends_in_its_own_way(self) -> None:
        held = [hold(claim(), claim(INSTALLATION)) for _ in range(3)]
        stranger = uuid4()
        settled, unknown, released, nothing = close_all(
            [
                Outcome(held[0], LATER, dollars(3)),
                Outcome(held[1], LATER),
                Outcome(held[2], LATER, was_sent=False),
                Outcome(stranger, LATER, dollars(1)),
            ]
        )
        assert [each.is_done for each in (settled, unknown, released, nothing)] == [True, True, True, False]
        assert balance() == balance(INSTALLATION) == (3, 0, ONE, 0)
        identities = {key_of().identity, INSTALLATION.identity}
        assert settled.balances.keys() == released.balances.keys() == identities
        assert settled.balances[key_of().identity] == Balance(3, 2 * ONE, 0)
        assert released.balances[key_of().identity] == Balance(3, 0, ONE)
        assert nothing.balances == {}
        assert flaws() == []

    def test_it_takes_no_more_statements_than_one(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        claims = [claim(), claim(INSTALLATION)]
        hold(*claims)
        most = 2 + (2 if connection.vendor == "postgresql" else 4)
        wanted = [self.reservation(*claims) for _ in range(5)]
        with django_assert_num_queries(most):
            reserve_all(wanted)
        with django_assert_num_queries(most):
            close_all([Outcome(each.attempt, LATER, dollars(1)) for each in wanted])
        assert balance() == (5, ONE, 0, 0)

    @pytest.mark.django_db(transaction=True)
    def test_what_cannot_be_booked_leaves_nothing_behind(self) -> None:
        attempt = hold()
        before = Entry.objects.count()
        with pytest.raises(IntegrityError):
            reserve_all([self.reservation(), self.reservation(attempt=attempt)])
        assert (Entry.objects.count(), balance()) == (before, (0, ONE, 0, 0))
        with pytest.raises(ValueError, match="twice"):
            close_all([Outcome(attempt, LATER, dollars(1)), Outcome(attempt, LATER, dollars(2))])


def test_what_goes_wrong_besides_is_not_taken_for_a_repetition() -> None:
    bad = claim(amount=None)
    with pytest.raises(IntegrityError):
        reserve(attempt=uuid4(), call=None, claims=[bad], now=NOW, expires_at=LATER)  # type: ignore[arg-type]  # that is it


class TestProof:
    def test_a_balance_that_was_moved_by_hand_is_found(self) -> None:
        hold()
        Account.objects.update(spent=7)
        assert flaws() == ["spent is 7, and its entries sum up to 0"]

    def test_a_hold_that_is_gone_is_found(self) -> None:
        hold()
        Hold.objects.all().delete()
        assert flaws() == [f"reserved is {ONE}, and attempts hold 0"]

    def test_less_than_nothing_is_found(self) -> None:
        hold()
        Account.objects.update(uncertain=-1)
        assert "uncertain is -1, which is less than nothing" in flaws()

    def test_a_reservation_beyond_its_limit_is_found(self) -> None:
        hold(claim(limit=3 * ONE))
        entry = Entry.objects.get()
        Entry.objects.bulk_create(
            [
                Entry(
                    account=entry.account, attempt=uuid4(), call=UUID(int=1), kind=EntryKind.RESERVED, spent=0,
                    reserved=2 * ONE + 1, uncertain=0, unmeasured=0, limit=3 * ONE, at=NOW,
                )
            ]
        )  # fmt: skip
        assert f"there were {3 * ONE + 1} committed under a limit of {3 * ONE}" in " ".join(flaws())
