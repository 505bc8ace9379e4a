"""Whether the ledger adds up: every balance is the sum of its entries, what is held is what is reserved, and no
reservation was admitted beyond its limit."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connections, router, transaction
from django.db.models import Q, Sum

from budgets.models import Account, Entry, EntryKind

PARTS = ("spent", "reserved", "uncertain", "unmeasured")


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that does not add up: the account's id, and a sentence."""

    account: int
    what: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was read, and what is wrong with it."""

    accounts: int
    entries: int
    flaws: tuple[Flaw, ...]


def check() -> Verdict:
    """Add everything up, as it is at one moment: calls go on meanwhile (on SQLite they wait). Inside a transaction it
    is what that one sees."""
    connection = connections[router.db_for_read(Account)]
    begins = not connection.in_atomic_block
    with transaction.atomic(using=connection.alias):
        if begins and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        flaws = [*_unequal_sums(), *_unequal_holds(), *_beyond_limits()]
        return Verdict(accounts=Account.objects.count(), entries=Entry.objects.count(), flaws=tuple(flaws))


def _unequal_sums() -> Iterator[Flaw]:
    sums = Account.objects.annotate(**{f"entered_{part}": Sum(f"entries__{part}") for part in PARTS})
    for account in sums.order_by("pk").iterator():
        for part in PARTS:
            stands, entered = getattr(account, part), getattr(account, f"entered_{part}") or 0
            if stands != entered:
                yield Flaw(account.pk, f"{part} is {stands}, and its entries sum up to {entered}")
            if stands < 0:
                yield Flaw(account.pk, f"{part} is {stands}, which is less than nothing")


def _unequal_holds() -> Iterator[Flaw]:
    sums = Account.objects.annotate(
        held_reserved=Sum("holds__amount", filter=Q(holds__is_uncertain=False)),
        held_uncertain=Sum("holds__amount", filter=Q(holds__is_uncertain=True)),
    )
    for account in sums.order_by("pk").iterator():
        for part in ("reserved", "uncertain"):
            stands, held = getattr(account, part), getattr(account, f"held_{part}") or 0
            if stands != held:
                yield Flaw(account.pk, f"{part} is {stands}, and attempts hold {held}")


def _beyond_limits() -> Iterator[Flaw]:
    """Reservations after which more was committed than the limit they were admitted under."""
    entries = Entry._meta.db_table
    statement = (
        'SELECT id, account_id, committed, "limit" FROM ('  # noqa: S608
        'SELECT id, account_id, kind, reserved, "limit", SUM(spent + reserved + uncertain)'
        f" OVER (PARTITION BY account_id ORDER BY id) AS committed FROM {entries}) booked"
        ' WHERE kind = %s AND reserved > 0 AND committed > "limit" ORDER BY id'
    )
    with connections[router.db_for_read(Entry)].cursor() as cursor:
        cursor.execute(statement, [EntryKind.RESERVED.value])
        for entry, account, committed, limit in cursor.fetchall():
            yield Flaw(account, f"after entry {entry} there were {committed} committed under a limit of {limit}")
