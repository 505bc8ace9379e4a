"""The ledger's short transactions: something is read and locked, then everything is written at once.

Within them all other calls of the same accounts wait, so on PostgreSQL they take two messages: one that begins and
locks, and one that writes and commits. Django's own take four. Inside of another transaction, where Django has to know
of this one, and on SQLite, where there are no messages, they are Django's.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from django.db import Error as DatabaseFault
from django.db import connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from budgets.models import Account

Statement = tuple[str, list[Any]]


class Session(Protocol):
    """One transaction: read once, then write once or not at all."""

    connection: BaseDatabaseWrapper

    def read(self, statement: Statement) -> list[tuple[Any, ...]]:
        """The rows of a statement, which may lock them."""

    def write(self, statements: Iterable[Statement]) -> None:
        """Run statements whose results nobody reads, on PostgreSQL all in one message. There is nothing after it."""


@contextmanager
def short_transaction(*, durable: bool = False) -> Iterator[Session]:
    """A transaction in this thread's connection to where the ledger is; undone if an exception leaves it.

    Args:
        durable: whether being inside of another transaction is an error.
    """
    connection = connections[router.db_for_write(Account)]
    if connection.vendor != "postgresql" or connection.in_atomic_block or not connection.get_autocommit():
        with transaction.atomic(using=connection.alias, durable=durable):
            yield _Nested(connection)
        return
    session = _TwoMessages(connection)
    try:
        yield session
    except BaseException:
        session.undo()
        raise
    session.end()


class _Nested:
    """Within a transaction of Django's."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection

    def read(self, statement: Statement) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(*statement)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def write(self, statements: Iterable[Statement]) -> None:
        if self.connection.vendor == "postgresql":
            statements = [_joined(statements)]
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(*statement)


class _TwoMessages:
    """A transaction of PostgreSQL that begins with what is read and ends with what is written."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        self._is_open = False

    def read(self, statement: Statement) -> list[tuple[Any, ...]]:
        text, values = statement
        with self.connection.cursor() as cursor:
            self._is_open = True
            cursor.execute(f"BEGIN; {text}", values)
            cursor.nextset()
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def write(self, statements: Iterable[Statement]) -> None:
        text, values = _joined(statements)
        with self.connection.cursor() as cursor:
            cursor.execute(f"{text}; COMMIT", values)
        self._is_open = False

    def end(self) -> None:
        """Let go of what is locked, if nothing was written."""
        if self._is_open:
            with self.connection.cursor() as cursor:
                cursor.execute("COMMIT")

    def undo(self) -> None:
        """As if nothing had been. A connection that cannot even do that is closed, which comes to the same."""
        if not self._is_open:
            return
        try:
            with self.connection.cursor() as cursor:
                cursor.execute("ROLLBACK")
        except DatabaseFault:
            self.connection.close()


def _joined(statements: Iterable[Statement]) -> Statement:
    texts, parameters = zip(*statements, strict=True)
    return "; ".join(texts), [value for each in parameters for value in each]
