"""What the ledger says to the database.

Written out, since it is said twice for every request to a provider and making statements costs more than running them
(record 0081). Names come from the models alone; every value is a parameter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from budgets.models import Account, Entry, EntryKind, Hold
from budgets.transactions import Session, Statement

_ACCOUNTS, _ENTRIES, _HOLDS = (model._meta.db_table for model in (Account, Entry, Hold))


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


@dataclass(frozen=True, slots=True)
class NewHold:
    """A hold to be."""

    attempt: UUID
    call: UUID
    account: int
    amount: int | None
    held_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Held:
    """A hold as it was locked, with the currency of its account, and the name and the balance that this one has."""

    pk: int
    attempt: UUID
    call: UUID
    account: int
    amount: int | None
    is_uncertain: bool
    currency: str
    identity: str
    balance: Balance


@dataclass(frozen=True, slots=True)
class Move:
    """One entry to be: by how much an account changes."""

    attempt: UUID
    call: UUID
    at: datetime
    account: int
    kind: EntryKind
    spent: int = 0
    reserved: int = 0
    uncertain: int = 0
    unmeasured: int = 0
    limit: int | None = None
    is_overrun: bool = False

    def moved(self, balance: Balance) -> Balance:
        """A balance after it."""
        return Balance(balance.spent + self.spent, balance.reserved + self.reserved, balance.uncertain + self.uncertain)


def lock_accounts(session: Session, identities: Sequence[str]) -> dict[str, tuple[int, Balance]]:
    """Those of the accounts that are there, locked in the order of their ids."""
    statement = (
        f"SELECT identity, id, spent, reserved, uncertain FROM {_ACCOUNTS}"  # noqa: S608
        f" WHERE identity IN ({_places(len(identities))}) ORDER BY id{_for_update(session.connection)}"
    )
    rows = session.read((statement, [*identities]))
    return {identity: (pk, Balance(*amounts)) for identity, pk, *amounts in rows}


def lock_holds(session: Session, attempts: Sequence[UUID]) -> list[Held]:
    """The holds of attempts with their accounts, both locked, in the order of the accounts' ids. Of two who ask at a
    time the second one sees what the first has left."""
    connection = session.connection
    statement = (
        "SELECT hold.id, hold.attempt, hold.call, hold.account_id, hold.amount, hold.is_uncertain,"  # noqa: S608
        " account.currency, account.identity, account.spent, account.reserved, account.uncertain"
        # Locked in this order: whoever has an account waits for none of its holds.
        f" FROM {_ACCOUNTS} account JOIN {_HOLDS} hold ON account.id = hold.account_id"
        f" WHERE hold.attempt IN ({_places(len(attempts))}) ORDER BY hold.account_id, hold.id{_for_update(connection)}"
    )
    rows = session.read((statement, [_id(connection, attempt) for attempt in attempts]))
    return [
        Held(
            pk=pk,
            attempt=_uuid(attempt),
            call=_uuid(call),
            account=account,
            amount=amount,
            is_uncertain=bool(is_uncertain),
            currency=currency,
            identity=identity,
            balance=Balance(*amounts),
        )
        for pk, attempt, call, account, amount, is_uncertain, currency, identity, *amounts in rows
    ]


def insert_holds(connection: BaseDatabaseWrapper, holds: Sequence[NewHold]) -> Statement:
    """Hold."""
    columns = "attempt, call, account_id, amount, is_uncertain, held_at, expires_at"
    rows = [
        (
            _id(connection, each.attempt),
            _id(connection, each.call),
            each.account,
            each.amount,
            False,
            _moment(connection, each.held_at),
            _moment(connection, each.expires_at),
        )
        for each in holds
    ]
    return _insert(_HOLDS, columns, rows)


def delete_holds(pks: Sequence[int]) -> Statement:
    """Hold no longer."""
    return f"DELETE FROM {_HOLDS} WHERE id IN ({_places(len(pks))})", [*pks]  # noqa: S608


def mark_uncertain(pks: Sequence[int]) -> Statement:
    """Hold until somebody knows more."""
    return f"UPDATE {_HOLDS} SET is_uncertain = %s WHERE id IN ({_places(len(pks))})", [True, *pks]  # noqa: S608


def book(connection: BaseDatabaseWrapper, moves: Sequence[Move]) -> list[Statement]:
    """Entries, in the order of the moves, and the balances moved by just as much. The accounts are locked."""
    return [_move_balances(moves), _insert_entries(connection, moves)]


def _move_balances(moves: Sequence[Move]) -> Statement:
    sums: dict[int, list[int]] = {}
    for each in moves:
        parts = sums.setdefault(each.account, [0, 0, 0, 0])
        for at, amount in enumerate((each.spent, each.reserved, each.uncertain, each.unmeasured)):
            parts[at] += amount
    assignments = ", ".join(
        f"{part} = {_ACCOUNTS}.{part} + change.{part}" for part in ("spent", "reserved", "uncertain", "unmeasured")
    )
    rows = [(account, *parts) for account, parts in sums.items()]
    statement = (
        f"WITH change (id, spent, reserved, uncertain, unmeasured) AS (VALUES {_rows(rows)})"  # noqa: S608
        f" UPDATE {_ACCOUNTS} SET {assignments} FROM change WHERE {_ACCOUNTS}.id = change.id"
    )
    return statement, [value for row in rows for value in row]


def _insert_entries(connection: BaseDatabaseWrapper, moves: Sequence[Move]) -> Statement:
    columns = 'attempt, call, account_id, spent, reserved, uncertain, unmeasured, kind, "limit", is_overrun, at'
    rows = [
        (
            _id(connection, each.attempt),
            _id(connection, each.call),
            each.account,
            each.spent,
            each.reserved,
            each.uncertain,
            each.unmeasured,
            each.kind.value,
            each.limit,
            each.is_overrun,
            _moment(connection, each.at),
        )
        for each in moves
    ]
    return _insert(_ENTRIES, columns, rows)


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


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def _moment(connection: BaseDatabaseWrapper, value: datetime) -> Any:
    return Entry._meta.get_field("at").get_db_prep_value(value, connection)
