"""Reserve before, settle after: the only place where a balance changes.

An attempt is one request to a provider. :func:`reserve` holds the most it can cost in every account that applies, or in
none; :func:`settle` books what it did cost, :func:`release` gives back what was not needed because nothing was sent,
and what nobody knows stays held as *uncertain*. Each is one short transaction of its own, and doing it twice is doing
it once. Accounts are locked in the order of their ids, so that no two transactions wait for each other crosswise.

A balance changes by entries alone (:func:`_book`), which are never changed: ``proof`` sums them up.

    LedgerError
      OverBudget     the attempt does not fit; nothing was held
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from budgets.models import Account, Entry, EntryKind, Hold
from budgets.scopes import AccountKey
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
class Balance:
    """What an account holds, in nano-units."""

    spent: int
    reserved: int
    uncertain: int

    @property
    def committed(self) -> int:
        """Everything that counts against a limit."""
        return self.spent + self.reserved + self.uncertain


class OverBudget(LedgerError):
    """A claim does not fit: the claim that refused, and the balance that it met. Nothing was held in any account."""

    def __init__(self, claim: Claim, balance: Balance) -> None:
        super().__init__(f"{claim.budget} has no room for {claim.amount}")
        self.claim = claim
        self.balance = balance


@dataclass(frozen=True, slots=True)
class _Move:
    """One entry to be: by how much an account changes."""

    account: int
    kind: EntryKind
    spent: int = 0
    reserved: int = 0
    uncertain: int = 0
    unmeasured: int = 0
    limit: int | None = None
    is_overrun: bool = False


def reserve(*, attempt: UUID, call: UUID, claims: Sequence[Claim], now: datetime, expires_at: datetime) -> None:
    """Hold what an attempt can cost in all accounts, or in none. What is exactly left is enough.

    Args:
        attempt: a new id for each attempt; reserving again under the same one changes nothing.
        call: the call it belongs to.
        claims: one for each budget that applies, at least one.
        now: the moment of the entries.
        expires_at: when whoever holds it must have ended; after that it is an orphan.

    Raises:
        OverBudget: it does not fit; the first claim that refused says why.
    """
    accounts = {claim.account.identity: claim.account for claim in claims}
    try:
        if not _try_to_reserve(accounts, attempt=attempt, call=call, claims=claims, now=now, expires_at=expires_at):
            _open(accounts.values(), now=now)
            if not _try_to_reserve(accounts, attempt=attempt, call=call, claims=claims, now=now, expires_at=expires_at):
                raise RuntimeError("an account that was opened is not there")
    except IntegrityError:
        if not Entry.objects.filter(attempt=attempt).exists():
            raise


def settle(*, attempt: UUID, cost: Money | None, now: datetime) -> bool:
    """Book what an attempt cost, and give back the rest; tells whether there was anything left to do.

    Without a cost, and where it is in another currency than the account, the bound stays held as uncertain. A cost
    above the bound is booked as it is and marked as an overrun.
    """
    return _close(attempt, cost=cost, was_sent=True, now=now)


def release(*, attempt: UUID, now: datetime) -> bool:
    """Give back everything: nothing was sent, or nothing is charged. Tells whether there was anything left to do."""
    return _close(attempt, cost=None, was_sent=False, now=now)


def sweep(*, now: datetime) -> int:
    """Hold what dead processes have left behind as uncertain; gives the number of attempts. Nothing is refunded."""
    orphans = Hold.objects.filter(is_uncertain=False, expires_at__lt=now)
    attempts = orphans.order_by("expires_at").values_list("attempt", flat=True)[:SWEPT_AT_ONCE]
    return sum(settle(attempt=attempt, cost=None, now=now) for attempt in dict.fromkeys(attempts))


# --- Transactions ----------------------------------------------------------------------------------------------------

Parameters = list[Any]
Statement = tuple[str, Parameters]

_ACCOUNTS, _ENTRIES, _HOLDS = (model._meta.db_table for model in (Account, Entry, Hold))


def _connection() -> BaseDatabaseWrapper:
    return connections[router.db_for_write(Account)]


def _try_to_reserve(
    accounts: Mapping[str, AccountKey],
    *,
    attempt: UUID,
    call: UUID,
    claims: Sequence[Claim],
    now: datetime,
    expires_at: datetime,
) -> bool:
    """Reserve; ``False``, and nothing done, if an account is not there yet."""
    connection = _connection()
    with transaction.atomic(using=connection.alias, durable=True):
        locked = _lock_accounts(connection, sorted(accounts))
        if len(locked) < len(accounts):
            return False
        moves: dict[int, _Move] = {}
        amounts: dict[int, int | None] = {}
        for claim in claims:
            account, balance = locked[claim.account.identity]
            _refuse_what_does_not_fit(claim, balance)
            amounts[account] = claim.amount
            limits = (claim.limit, moves[account].limit if account in moves else None)
            moves[account] = _Move(
                account=account,
                kind=EntryKind.RESERVED,
                reserved=claim.amount or 0,
                limit=min((each for each in limits if each is not None), default=None),
            )
        _execute(
            connection,
            [
                _insert_holds(connection, amounts, attempt=attempt, call=call, now=now, expires_at=expires_at),
                *_book(connection, list(moves.values()), attempt=attempt, call=call, now=now),
            ],
        )
    return True


def _refuse_what_does_not_fit(claim: Claim, balance: Balance) -> None:
    """What costs nothing always fits. What cannot be measured fits while anything is left."""
    most = MOST_NANOS if claim.limit is None else claim.limit
    if claim.amount == 0:
        return
    if balance.committed + (1 if claim.amount is None else claim.amount) > most:
        raise OverBudget(claim, balance)


def _close(attempt: UUID, *, cost: Money | None, was_sent: bool, now: datetime) -> bool:
    connection = _connection()
    with transaction.atomic(using=connection.alias):  # whoever resolves an attempt says so in the same transaction
        holds = _lock_holds(connection, attempt)
        moves: list[_Move] = []
        closed: list[int] = []
        uncertain: list[int] = []
        for hold in holds:
            move = _outcome(hold, cost) if was_sent else _given_back(hold)
            if move is None:
                continue
            moves.append(move)
            (uncertain if move.kind is EntryKind.UNCERTAIN else closed).append(hold.pk)
        if moves:
            _execute(
                connection,
                [
                    *([_delete_holds(closed)] if closed else []),
                    *([_mark_uncertain(uncertain)] if uncertain else []),
                    *_book(connection, moves, attempt=attempt, call=holds[0].call, now=now),
                ],
            )
    return bool(moves)


@dataclass(frozen=True, slots=True)
class _Held:
    """A hold as it was locked, with its account's currency."""

    pk: int
    account: int
    call: UUID
    amount: int | None
    is_uncertain: bool
    currency: str


def _outcome(hold: _Held, cost: Money | None) -> _Move | None:
    """What becomes of a hold whose attempt was sent; ``None`` if nothing does: nobody knows more than before."""
    known = cost if cost is not None and cost.currency == hold.currency else None
    if hold.amount is None:
        return _Move(
            account=hold.account,
            kind=EntryKind.SETTLED,
            spent=0 if known is None else known.nanos,
            unmeasured=1 if known is None else 0,
        )
    if known is None:
        if hold.is_uncertain:
            return None
        return _Move(account=hold.account, kind=EntryKind.UNCERTAIN, reserved=-hold.amount, uncertain=hold.amount)
    return _Move(
        account=hold.account,
        kind=EntryKind.SETTLED,
        spent=known.nanos,
        reserved=0 if hold.is_uncertain else -hold.amount,
        uncertain=-hold.amount if hold.is_uncertain else 0,
        is_overrun=known.nanos > hold.amount,
    )


def _given_back(hold: _Held) -> _Move:
    amount = hold.amount or 0
    return _Move(
        account=hold.account,
        kind=EntryKind.RELEASED,
        reserved=0 if hold.is_uncertain else -amount,
        uncertain=-amount if hold.is_uncertain else 0,
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


# --- Statements ------------------------------------------------------------------------------------------------------
# Written out, since they run twice for every request to a provider and making them costs more than running them. Names
# come from the models alone; every value is a parameter.


def _execute(connection: BaseDatabaseWrapper, statements: Iterable[Statement]) -> None:
    """Run statements whose results nobody reads: on PostgreSQL all in one message, so that locks are held for less."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            texts, parameters = zip(*statements, strict=True)
            cursor.execute("; ".join(texts), [value for each in parameters for value in each])
            return
        for text, values in statements:
            cursor.execute(text, values)


def _lock_accounts(connection: BaseDatabaseWrapper, identities: Sequence[str]) -> dict[str, tuple[int, Balance]]:
    statement = (
        f"SELECT identity, id, spent, reserved, uncertain FROM {_ACCOUNTS}"  # noqa: S608
        f" WHERE identity IN ({_places(len(identities))}) ORDER BY id{_for_update(connection)}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, identities)
        return {identity: (pk, Balance(*amounts)) for identity, pk, *amounts in cursor.fetchall()}


def _lock_holds(connection: BaseDatabaseWrapper, attempt: UUID) -> list[_Held]:
    """The holds of an attempt with their accounts, both locked. Of two who ask at a time the second one sees what the
    first has left."""
    statement = (
        "SELECT hold.id, hold.account_id, hold.call, hold.amount, hold.is_uncertain, account.currency"  # noqa: S608
        f" FROM {_HOLDS} hold JOIN {_ACCOUNTS} account ON account.id = hold.account_id"
        f" WHERE hold.attempt = %s ORDER BY hold.account_id{_for_update(connection)}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [_id(connection, attempt)])
        return [
            _Held(pk, account, call if isinstance(call, UUID) else UUID(call), amount, bool(is_uncertain), currency)
            for pk, account, call, amount, is_uncertain, currency in cursor.fetchall()
        ]


def _insert_holds(
    connection: BaseDatabaseWrapper,
    amounts: Mapping[int, int | None],
    *,
    attempt: UUID,
    call: UUID,
    now: datetime,
    expires_at: datetime,
) -> Statement:
    ids = (_id(connection, attempt), _id(connection, call))
    moments = (_moment(connection, now), _moment(connection, expires_at))
    columns = "attempt, call, account_id, amount, is_uncertain, held_at, expires_at"
    rows = [(*ids, account, amount, False, *moments) for account, amount in amounts.items()]
    return _insert(_HOLDS, columns, rows)


def _delete_holds(pks: Sequence[int]) -> Statement:
    return f"DELETE FROM {_HOLDS} WHERE id IN ({_places(len(pks))})", [*pks]  # noqa: S608


def _mark_uncertain(pks: Sequence[int]) -> Statement:
    return f"UPDATE {_HOLDS} SET is_uncertain = %s WHERE id IN ({_places(len(pks))})", [True, *pks]  # noqa: S608


def _book(
    connection: BaseDatabaseWrapper, moves: Sequence[_Move], *, attempt: UUID, call: UUID, now: datetime
) -> list[Statement]:
    """Entries, and the balances moved by just as much. The accounts are locked."""
    changes = [(each.account, each.spent, each.reserved, each.uncertain, each.unmeasured) for each in moves]
    sums = ", ".join(
        f"{part} = {_ACCOUNTS}.{part} + change.{part}" for part in ("spent", "reserved", "uncertain", "unmeasured")
    )
    update = (
        f"WITH change (id, spent, reserved, uncertain, unmeasured) AS (VALUES {_rows(changes)})"  # noqa: S608
        f" UPDATE {_ACCOUNTS} SET {sums} FROM change WHERE {_ACCOUNTS}.id = change.id"
    )
    ids, moment = (_id(connection, attempt), _id(connection, call)), _moment(connection, now)
    entries = [
        (*ids, *change, each.kind.value, each.limit, each.is_overrun, moment)
        for change, each in zip(changes, moves, strict=True)
    ]
    columns = 'attempt, call, account_id, spent, reserved, uncertain, unmeasured, kind, "limit", is_overrun, at'
    return [(update, [value for row in changes for value in row]), _insert(_ENTRIES, columns, entries)]


def _insert(table: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> Statement:
    statement = f"INSERT INTO {table} ({columns}) VALUES {_rows(rows)}"  # noqa: S608
    return statement, [value for row in rows for value in row]


def _places(count: int) -> str:
    return ", ".join(["%s"] * count)


def _rows(rows: Sequence[tuple[Any, ...]]) -> str:
    return ", ".join([f"({_places(len(rows[0]))})"] * len(rows))


def _for_update(connection: BaseDatabaseWrapper) -> str:
    """The words that lock; on SQLite the transaction itself is the lock (``IMMEDIATE``)."""
    return " FOR UPDATE" if connection.features.has_select_for_update else ""


def _id(connection: BaseDatabaseWrapper, value: UUID) -> Any:
    return Entry._meta.get_field("attempt").get_db_prep_value(value, connection)


def _moment(connection: BaseDatabaseWrapper, value: datetime) -> Any:
    return Entry._meta.get_field("at").get_db_prep_value(value, connection)
