"""Reserve before, settle after: the only place where a balance changes.

An attempt is one request to a provider. :func:`reserve` holds the most it can cost in every account that applies, or in
none; :func:`settle` books what it did cost, :func:`release` gives back what was not needed because nothing was sent,
and what nobody knows stays held as *uncertain*. Doing it twice is doing it once. Accounts are locked in the order of
their ids, so that no two transactions wait for each other crosswise.

What many attempts have to say at a time is said in one short transaction (:func:`reserve_all`, :func:`close_all`): on
an account that all calls share, that is what lets more than a few hundred of them through in a second.

A balance changes by entries alone, which are never changed: ``proof`` sums them up.

    LedgerError
      OverBudget     the attempt does not fit; nothing was held
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError

from budgets.models import Account, Entry, EntryKind, Hold
from budgets.scopes import AccountKey
from budgets.statements import (
    Balance,
    Held,
    Move,
    NewHold,
    book,
    delete_holds,
    insert_holds,
    lock_accounts,
    lock_holds,
    mark_uncertain,
)
from budgets.transactions import short_transaction
from routing.core.money import MOST_NANOS, Money

SWEPT_AT_ONCE = 500
"""Orphans that one sweep looks after; the next one finds the others."""


class LedgerError(Exception):
    """The root of what can go wrong here, besides the database."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What an attempt needs of one account, because of one budget.

    Attributes:
        budget: the identifier of the budget.
        account: where it counts.
        amount: the most the attempt can cost, in nano-units of the account's currency; ``None`` if that cannot be said,
            and the budget lets it go on: then it is counted as unmeasured.
        limit: the budget's hard limit; ``None`` of a soft one, which never makes a reservation fail.
    """

    budget: str
    account: AccountKey
    amount: int | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one attempt wants to hold.

    Attributes:
        attempt: a new id for each attempt; reserving again under the same one changes nothing.
        call: the call it belongs to.
        claims: one for each budget that applies, at least one.
        now: the moment of the entries.
        expires_at: when whoever holds it must have ended; after that it is an orphan.
    """

    attempt: UUID
    call: UUID
    claims: Sequence[Claim]
    now: datetime
    expires_at: datetime

    def by_account(self) -> dict[str, Claim]:
        """What is held in each account, by its identity: of budgets that share one, under the tightest limit."""
        tightest: dict[str, Claim] = {}
        for claim in self.claims:
            known = tightest.get(claim.account.identity)
            if known is None or (claim.limit is not None and (known.limit is None or claim.limit < known.limit)):
                tightest[claim.account.identity] = claim
        return tightest


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one attempt: sent, at a cost that is ``None`` if nobody knows it, or given back."""

    attempt: UUID
    now: datetime
    cost: Money | None = None
    was_sent: bool = True


@dataclass(frozen=True, slots=True)
class Closed:
    """What an outcome came to: whether there was anything left to do, and the balances after it, by the identity of
    each account that it moved."""

    is_done: bool
    balances: Mapping[str, Balance]


class OverBudget(LedgerError):
    """A claim does not fit: the claim that refused, and the balance that it met. Nothing was held in any account."""

    def __init__(self, claim: Claim, balance: Balance) -> None:
        super().__init__(f"{claim.budget} has no room for {claim.amount}")
        self.claim = claim
        self.balance = balance


def reserve(*, attempt: UUID, call: UUID, claims: Sequence[Claim], now: datetime, expires_at: datetime) -> None:
    """Hold what an attempt can cost in all accounts, or in none. What is exactly left is enough.

    Raises:
        OverBudget: it does not fit; the first claim that refused says why.
    """
    (refused,) = reserve_all([Reservation(attempt, call, claims, now, expires_at)])
    if refused is not None:
        raise refused


def reserve_all(reservations: Sequence[Reservation]) -> list[OverBudget | None]:
    """Reserve for attempts one after the other, all in one transaction: what each was refused by, if it was.

    Raises:
        django.db.Error: nothing was held for any of them. Of several, one that was reserved before is an error for all.
    """
    accounts = {claim.account.identity: claim.account for each in reservations for claim in each.claims}
    try:
        told = _try_to_reserve(accounts, reservations)
        if told is None:
            _open(accounts.values(), now=min(each.now for each in reservations))
            told = _try_to_reserve(accounts, reservations)
        if told is None:
            raise RuntimeError("an account that was opened is not there")
    except IntegrityError:
        if len(reservations) > 1 or not Entry.objects.filter(attempt=reservations[0].attempt).exists():
            raise
        return [None]
    return _forgiven(reservations, told)


def settle(*, attempt: UUID, cost: Money | None, now: datetime) -> bool:
    """Book what an attempt cost, and give back the rest; tells whether there was anything left to do.

    Without a cost, and where it is in another currency than the account, the bound stays held as uncertain. A cost
    above the bound is booked as it is and marked as an overrun.
    """
    return close_all([Outcome(attempt, now, cost)])[0].is_done


def release(*, attempt: UUID, now: datetime) -> bool:
    """Give back everything: nothing was sent, or nothing is charged. Tells whether there was anything left to do."""
    return close_all([Outcome(attempt, now, was_sent=False)])[0].is_done


def close_all(outcomes: Sequence[Outcome]) -> list[Closed]:
    """Book what became of attempts, one after the other, all in one transaction.

    Raises:
        ValueError: an attempt is among them twice.
        django.db.Error: nothing was booked of any of them.
    """
    if len({each.attempt for each in outcomes}) < len(outcomes):
        raise ValueError("an attempt cannot end twice at a time")
    with short_transaction() as session:  # whoever resolves an attempt says so in the same transaction
        held: dict[UUID, list[Held]] = {}
        balances: dict[str, Balance] = {}
        for hold in lock_holds(session, [each.attempt for each in outcomes]):
            held.setdefault(hold.attempt, []).append(hold)
            balances[hold.identity] = hold.balance
        moves: list[Move] = []
        gone: list[int] = []
        uncertain: list[int] = []
        told: list[Closed] = []
        for outcome in outcomes:
            moved: dict[str, Balance] = {}
            for hold in held.get(outcome.attempt, ()):
                move = _settled(hold, outcome) if outcome.was_sent else _given_back(hold, outcome)
                if move is None:
                    continue
                moves.append(move)
                (uncertain if move.kind is EntryKind.UNCERTAIN else gone).append(hold.pk)
                balances[hold.identity] = moved[hold.identity] = move.moved(balances[hold.identity])
            told.append(Closed(is_done=bool(moved), balances=moved))
        if moves:
            session.write(
                [
                    *([delete_holds(gone)] if gone else []),
                    *([mark_uncertain(uncertain)] if uncertain else []),
                    *book(session.connection, moves),
                ]
            )
    return told


def sweep(*, now: datetime) -> int:
    """Hold what dead processes have left behind as uncertain; gives the number of attempts. Nothing is refunded."""
    orphans = Hold.objects.filter(is_uncertain=False, expires_at__lt=now)
    attempts = orphans.order_by("expires_at").values_list("attempt", flat=True)[:SWEPT_AT_ONCE]
    return sum(settle(attempt=attempt, cost=None, now=now) for attempt in dict.fromkeys(attempts))


def _try_to_reserve(
    accounts: Mapping[str, AccountKey], reservations: Sequence[Reservation]
) -> list[OverBudget | None] | None:
    """Reserve; ``None``, and nothing done, if an account is not there yet."""
    with short_transaction(durable=True) as session:
        locked = lock_accounts(session, sorted(accounts))
        if len(locked) < len(accounts):
            return None
        ids = {identity: pk for identity, (pk, _) in locked.items()}
        balances = {identity: balance for identity, (_, balance) in locked.items()}
        moves: list[Move] = []
        holds: list[NewHold] = []
        told: list[OverBudget | None] = []
        for each in reservations:
            refused = next((claim for claim in each.claims if not _fits(claim, balances[claim.account.identity])), None)
            if refused is not None:
                told.append(OverBudget(refused, balances[refused.account.identity]))
                continue
            told.append(None)
            for identity, claim in each.by_account().items():
                move = Move(
                    attempt=each.attempt,
                    call=each.call,
                    at=each.now,
                    account=ids[identity],
                    kind=EntryKind.RESERVED,
                    reserved=claim.amount or 0,
                    limit=claim.limit,
                )
                moves.append(move)
                balances[identity] = move.moved(balances[identity])
                holds.append(NewHold(each.attempt, each.call, move.account, claim.amount, each.now, each.expires_at))
        if moves:
            session.write([insert_holds(session.connection, holds), *book(session.connection, moves)])
    return told


def _forgiven(reservations: Sequence[Reservation], told: list[OverBudget | None]) -> list[OverBudget | None]:
    """What holds already is not refused, though it does not fit a second time into what is left beside itself."""
    refused = [each.attempt for each, why in zip(reservations, told, strict=True) if why is not None]
    if not refused:
        return told
    known = set(Entry.objects.filter(attempt__in=refused).values_list("attempt", flat=True))
    return [None if each.attempt in known else why for each, why in zip(reservations, told, strict=True)]


def _fits(claim: Claim, balance: Balance) -> bool:
    """What costs nothing always fits. What cannot be measured fits while anything is left."""
    most = MOST_NANOS if claim.limit is None else claim.limit
    return claim.amount == 0 or balance.committed + (1 if claim.amount is None else claim.amount) <= most


def _settled(hold: Held, outcome: Outcome) -> Move | None:
    """What becomes of a hold whose attempt was sent; ``None`` if nothing does: nobody knows more than before."""
    cost = outcome.cost
    known = cost.nanos if cost is not None and cost.currency == hold.currency else None
    if known is None and hold.amount is not None:
        return None if hold.is_uncertain else _move(hold, outcome, EntryKind.UNCERTAIN, uncertain=hold.amount)
    return _move(
        hold,
        outcome,
        EntryKind.SETTLED,
        spent=known or 0,
        unmeasured=0 if known is not None else 1,
        is_overrun=known is not None and hold.amount is not None and known > hold.amount,
    )


def _given_back(hold: Held, outcome: Outcome) -> Move:
    return _move(hold, outcome, EntryKind.RELEASED)


def _move(
    hold: Held,
    outcome: Outcome,
    kind: EntryKind,
    *,
    spent: int = 0,
    uncertain: int = 0,
    unmeasured: int = 0,
    is_overrun: bool = False,
) -> Move:
    """A hold given up, and what takes its place."""
    amount = hold.amount or 0
    return Move(
        attempt=hold.attempt,
        call=hold.call,
        at=outcome.now,
        account=hold.account,
        kind=kind,
        spent=spent,
        reserved=0 if hold.is_uncertain else -amount,
        uncertain=uncertain - (amount if hold.is_uncertain else 0),
        unmeasured=unmeasured,
        is_overrun=is_overrun,
    )


def _open(accounts: Iterable[AccountKey], *, now: datetime) -> None:
    """Open accounts that are not there. In the order of their identities: whoever opens the same ones waits."""
    rows = [
        Account(
            identity=key.identity,
            scope=key.scope.document,
            currency=key.currency,
            window=key.window.identity,
            starts_at=key.window.starts,
            ends_at=key.window.ends,
            opened_at=now,
        )
        for key in sorted(accounts, key=lambda each: each.identity)
    ]
    Account.objects.bulk_create(rows, ignore_conflicts=True)
