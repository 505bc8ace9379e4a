"""The ledger's short transactions: as few messages as there can be, and nothing left behind whatever happens."""

from collections.abc import Callable

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from budgets.ledger import OverBudget, settle
from budgets.models import Account
from budgets.transactions import Statement, short_transaction
from routing.core.money import Money
from tests.budgets.claims import LATER, balance, claim, hold

pytestmark = pytest.mark.django_db(transaction=True)

LOCK: Statement = ("SELECT id FROM budgets_account ORDER BY id FOR UPDATE", [])
RENAME: Statement = ("UPDATE budgets_account SET currency = %s", ["EUR"])
BROKEN: Statement = ("SELECT 1 / 0", [])

on_postgresql = pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite's transactions are Django's")


def currency() -> str:
    return Account.objects.get().currency


def change(*statements: Statement, reads: bool = True, before_writing: Callable[[], None] | None = None) -> None:
    with short_transaction() as session:
        if reads:
            session.read(LOCK)
        if before_writing is not None:
            before_writing()
        session.write(statements)


def give_up() -> None:
    raise LookupError


def end_the_connection() -> None:
    """As a server does that is stopped."""
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [connection.connection.info.backend_pid])
    other.close()


@pytest.fixture
def account() -> None:
    hold(claim(amount=0))


@on_postgresql
def test_a_reservation_and_an_outcome_are_two_messages_each(account: None) -> None:
    with CaptureQueriesContext(connection) as messages:
        attempt = hold()
        settle(attempt=attempt, cost=Money(1, "USD"), now=LATER)
    assert len(messages) == 4
    assert balance() == (1, 0, 0, 0)


@on_postgresql
def test_what_is_refused_lets_go_of_what_it_locked(account: None) -> None:
    with pytest.raises(OverBudget):
        hold(claim(limit=0))
    assert connection.connection.info.transaction_status.name == "IDLE"


@on_postgresql
def test_whatever_goes_wrong_is_undone_and_the_connection_serves_on(account: None) -> None:
    with pytest.raises(LookupError):
        change(before_writing=give_up)
    with pytest.raises(DatabaseError):
        change(RENAME, BROKEN)
    assert connection.connection.info.transaction_status.name == "IDLE"
    assert currency() == "USD"
    change(RENAME)
    assert currency() == "EUR"


@on_postgresql
def test_a_connection_that_dies_in_between_leaves_nothing(account: None) -> None:
    with pytest.raises(DatabaseError):
        change(RENAME, before_writing=end_the_connection)
    assert currency() == "USD"


def test_inside_of_another_transaction_it_goes_with_it(account: None) -> None:
    with transaction.atomic():
        change(RENAME, reads=False)
        transaction.set_rollback(True)
    assert currency() == "USD"
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        hold()
    assert balance() == (0, 0, 0, 0)
