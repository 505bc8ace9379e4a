"""Holds at once what fits: all of some reservations in one statement of PostgreSQL's, said without a thread.

Nearly every reservation fits. Whether these do is asked, and they are held, by one prepared statement, so that their
accounts are locked for no longer than it runs and a call waits for one message (record 0108). Where one of them does
not fit, or an account is not open yet, nothing is held: :func:`budgets.ledger.reserve_all` judges each by itself then,
and says why. It is exact; this is merely sure.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import psycopg
from django.db import (
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    connections,
    router,
)

from budgets.ledger import Reservation
from budgets.models import Account, Entry, EntryKind, Hold
from routing.core.money import MOST_NANOS

ANSWER_SECONDS = 10.0
"""How long a session is waited for. One that takes longer hangs, and is given up for another: its machine may be well,
so that nothing else tells."""

logger = logging.getLogger(__name__)

_ACCOUNTS, _ENTRIES, _HOLDS = (model._meta.db_table for model in (Account, Entry, Hold))

# The accounts are locked in the order of their ids, as everywhere. An account that somebody else has changed meanwhile
# is read again when its lock is there, by PostgreSQL's rules of READ COMMITTED.
_HOLD_IF_ALL_FITS = f"""
WITH need AS (
  SELECT * FROM json_to_recordset(%(needs)s::json) AS need (identity text, amount bigint, room numeric)
), locked AS MATERIALIZED (
  SELECT account.id, account.identity, account.spent, account.reserved, account.uncertain
  FROM {_ACCOUNTS} account WHERE account.identity = ANY(ARRAY(SELECT identity FROM need))
  ORDER BY account.id FOR NO KEY UPDATE
), verdict AS (
  SELECT count(*) = (SELECT count(*) FROM need)
    AND coalesce(bool_and(locked.spent::numeric + locked.reserved + locked.uncertain <= need.room), true) AS fits
  FROM locked JOIN need ON need.identity = locked.identity
), moved AS (
  UPDATE {_ACCOUNTS} account SET reserved = account.reserved + need.amount
  FROM verdict, locked JOIN need ON need.identity = locked.identity
  WHERE verdict.fits AND account.id = locked.id
), claim AS (
  SELECT claim.*, locked.id AS account_id
  FROM verdict, locked JOIN json_to_recordset(%(claims)s::json) AS claim (
    place int, attempt uuid, call uuid, identity text, amount bigint, most bigint, at timestamptz, ends timestamptz
  ) ON claim.identity = locked.identity
  WHERE verdict.fits
), held AS (
  INSERT INTO {_HOLDS} (attempt, call, account_id, amount, is_uncertain, held_at, expires_at)
  SELECT attempt, call, account_id, amount, false, at, ends FROM claim ORDER BY place
), entered AS (
  INSERT INTO {_ENTRIES}
    (attempt, call, account_id, spent, reserved, uncertain, unmeasured, kind, "limit", is_overrun, at)
  SELECT attempt, call, account_id, 0, coalesce(amount, 0), 0, 0, '{EntryKind.RESERVED.value}', most, false, at
  FROM claim ORDER BY place
)
SELECT fits FROM verdict
"""  # noqa: S608  # the names of our own tables; every value is a parameter


class Admission:
    """One connection of one event loop's own, for one question at a time."""

    def __init__(self) -> None:
        self._database = connections[router.db_for_write(Account)]
        self._cursor: psycopg.AsyncCursor[tuple[Any, ...]] | None = None
        self._can_prepare = True

    @property
    def is_possible(self) -> bool:
        """Whether the ledger is in a database that can be asked like this."""
        return self._database.vendor == "postgresql"

    async def hold_all(self, reservations: Sequence[Reservation]) -> bool:
        """Hold all of them, if it is sure that all fit; else none.

        A connection that was lost is opened anew, once: what is held already is not sure to fit a second time. Behind a
        pooler that gives every statement another session nothing is prepared any more; that costs more and is as good.

        Raises:
            django.db.Error: the ledger cannot be reached; whether anything is held nobody knows.
        """
        parameters = _parameters(reservations)
        if parameters is None:
            return False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._ask_twice(parameters)
        except TimeoutError as error:
            await self.close()
            raise OperationalError(f"no answer within {ANSWER_SECONDS:.0f} s") from error

    async def close(self) -> None:
        """Let go of the connection; the next question opens another."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            await cursor.connection.close()

    async def _ask_twice(self, parameters: dict[str, Any]) -> bool:
        try:
            return await self._ask(parameters)
        except ProgrammingError as error:
            if not self._can_prepare:
                raise
            logger.warning(
                "what was prepared is lost (%s): does a pooler change sessions?", type(error.__cause__).__name__
            )
            self._can_prepare = False
            await self.close()
        except (OperationalError, InterfaceError):
            await self.close()
        return await self._ask(parameters)

    async def _ask(self, parameters: dict[str, Any]) -> bool:
        try:
            with self._database.wrap_database_errors:
                cursor = self._cursor
                if cursor is None:
                    cursor = self._cursor = await self._connect()
                await cursor.execute(_HOLD_IF_ALL_FITS, parameters, prepare=self._can_prepare)
                row = await cursor.fetchone()
        except (IntegrityError, DataError):  # one is held already, or is more than a column holds
            return False
        return row is not None and row[0] is True

    async def _connect(self) -> psycopg.AsyncCursor[tuple[Any, ...]]:
        """To where Django's connections go, as they do."""
        options = {
            **self._database.get_connection_params(),
            "cursor_factory": psycopg.AsyncCursor,  # Django's binds in the client, where nothing can be prepared
            "prepare_threshold": 0,
        }
        connection = await psycopg.AsyncConnection.connect(autocommit=True, **options)
        return connection.cursor()


@dataclass(slots=True)
class _Need:
    """What reservations need of one account together: the amount to hold, what must fit, and the tightest limit."""

    amount: int = 0
    fitting: int = 0
    most: int = MOST_NANOS
    is_bound: bool = False


def _parameters(reservations: Sequence[Reservation]) -> dict[str, Any] | None:
    """The statement's parameters; ``None`` if the sums do not fit into a column, so that it must not be asked.

    That all claims together fit under the tightest limit of them is more than that each fits behind those before it.
    What costs nothing always fits; of what cannot be measured one nano-unit must fit.
    """
    needs: dict[str, _Need] = {}
    claims: list[dict[str, Any]] = []
    for each in reservations:
        for claim in each.claims:
            need = needs.setdefault(claim.account.identity, _Need())
            if claim.amount != 0:
                need.is_bound = True
                need.most = min(need.most, MOST_NANOS if claim.limit is None else claim.limit)
        for identity, claim in each.by_account().items():
            need = needs[identity]
            need.amount += claim.amount or 0
            need.fitting += 1 if claim.amount is None else claim.amount
            claims.append(
                {
                    "place": len(claims),
                    "attempt": each.attempt,
                    "call": each.call,
                    "identity": identity,
                    "amount": claim.amount,
                    "most": claim.limit,
                    "at": each.now,
                    "ends": each.expires_at,
                }
            )
    if any(need.fitting > MOST_NANOS for need in needs.values()):
        return None
    rooms = [
        {"identity": identity, "amount": need.amount, "room": need.most - need.fitting if need.is_bound else None}
        for identity, need in needs.items()
    ]
    return {"needs": orjson.dumps(rooms).decode(), "claims": orjson.dumps(claims).decode()}
