"""Whether the ledger adds up: every balance is the sum of its entries, what is held is what is reserved, and no
reservation was admitted beyond its limit. And what it says was charged, for whoever compares it with something else."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.db import connections, router, transaction
from django.db.models import F, Q, Sum

from budgets.models import Account, Carryover, Entry, EntryKind
from budgets.scopes import Scope, scope_of

PARTS = ("spent", "reserved", "uncertain", "unmeasured")


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that does not add up: the account's id, and a sentence."""

    account: int
    what: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was read, and what is wrong with it. ``carried`` are entries that are not kept any more."""

    accounts: int
    entries: int
    carried: int
    flaws: tuple[Flaw, ...]


@dataclass(frozen=True, slots=True)
class Booked:
    """What an account says was charged, in nano-units.

    Attributes:
        account: its id.
        scope: whose spending it is.
        currency: what it counts.
        window: the identity of its window, which begins at ``starts_at`` and ends before ``ends_at``; both are ``None``
            for all time.
        opened_at: when counting began.
        spent: what is settled.
        held: what is reserved for attempts under way, or uncertain.
        late: the part of ``spent`` that was uncertain before: somebody said what it cost, or a process came back.
        fresh: the part of ``spent`` that was settled within a while, by calls that may be under way.
    """

    account: int
    scope: Scope
    currency: str
    window: str
    starts_at: datetime | None
    ends_at: datetime | None
    opened_at: datetime
    spent: int
    held: int
    late: int
    fresh: int


@contextmanager
def one_moment() -> Iterator[None]:
    """Everything read inside is as it is at one moment: calls go on meanwhile (on SQLite they wait). Inside a
    transaction it is what that one sees."""
    connection = connections[router.db_for_read(Account)]
    begins = not connection.in_atomic_block
    with transaction.atomic(using=connection.alias):
        if begins and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def check() -> Verdict:
    """Add everything up, as it is at one moment."""
    with one_moment():
        flaws = [*_unequal_sums(), *_unequal_holds(), *_beyond_limits()]
        carried = Carryover.objects.aggregate(all=Sum("entries"))["all"] or 0
        return Verdict(
            accounts=Account.objects.count(), entries=Entry.objects.count(), carried=carried, flaws=tuple(flaws)
        )


def booked(*, since: datetime) -> Iterator[Booked]:
    """What every account says was charged, those of one window and currency after each other: one query.

    Args:
        since: what was settled from then on is ``fresh``.
    """
    settled = Q(entries__kind=EntryKind.SETTLED)
    sums = Account.objects.annotate(
        carried_late=F("carryover__late"),
        late=Sum("entries__spent", filter=settled & Q(entries__uncertain__lt=0)),
        fresh=Sum("entries__spent", filter=settled & Q(entries__at__gte=since, entries__uncertain=0)),
    )
    for row in sums.order_by("window", "currency", "pk").iterator():
        yield Booked(
            account=row.pk,
            scope=scope_of(row.scope),
            currency=row.currency,
            window=row.window,
            starts_at=row.starts_at,
            ends_at=row.ends_at,
            opened_at=row.opened_at,
            spent=row.spent,
            held=row.reserved + row.uncertain,
            late=(row.late or 0) + (row.carried_late or 0),
            fresh=row.fresh or 0,
        )


def _unequal_sums() -> Iterator[Flaw]:
    sums = Account.objects.annotate(
        **{f"carried_{part}": F(f"carryover__{part}") for part in PARTS},
        **{f"entered_{part}": Sum(f"entries__{part}") for part in PARTS},
    )
    for account in sums.order_by("pk").iterator():
        for part in PARTS:
            carried, entered = (getattr(account, f"{kind}_{part}") or 0 for kind in ("carried", "entered"))
            stands = getattr(account, part)
            if stands != carried + entered:
                besides = f", beside {carried} carried over" if carried else ""
                yield Flaw(account.pk, f"{part} is {stands}, and its entries sum up to {entered}{besides}")
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
    entries, carryovers = Entry._meta.db_table, Carryover._meta.db_table
    statement = (
        'SELECT booked.id, booked.account_id, booked.committed + COALESCE(carried.committed, 0), "limit" FROM ('  # noqa: S608
        'SELECT id, account_id, kind, reserved, "limit", SUM(spent + reserved + uncertain)'
        f" OVER (PARTITION BY account_id ORDER BY id) AS committed FROM {entries}) booked LEFT JOIN ("
        f"SELECT account_id, spent + reserved + uncertain AS committed FROM {carryovers}) carried"
        " ON carried.account_id = booked.account_id WHERE kind = %s AND reserved > 0"
        ' AND booked.committed + COALESCE(carried.committed, 0) > "limit" ORDER BY booked.id'
    )
    with connections[router.db_for_read(Entry)].cursor() as cursor:
        cursor.execute(statement, [EntryKind.RESERVED.value])
        for entry, account, committed, limit in cursor.fetchall():
            yield Flaw(account, f"after entry {entry} there were {committed} committed under a limit of {limit}")
