"""How long entries of the ledger are kept: those of windows that ended long enough ago, and old ones of all time, are
removed, and their sums carried over.

The one place where entries go. What is carried over and what is there still add up to the balance, after every step, so
that ``proof`` goes on proving it. Of an account the oldest entries go first and without a gap, so that the reservations
which are there are still seen against what had been committed before them. The balance is not touched.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import router, transaction
from django.db.models import OuterRef, Q, QuerySet, Subquery

from budgets.models import Account, Carryover, Entry, EntryKind, Hold

AT_ONCE = 2000
"""Entries that go in one transaction, in which their account is locked."""

PARTS = ("spent", "reserved", "uncertain", "unmeasured")


@dataclass(frozen=True, slots=True)
class Carried:
    """How much went: entries, and of how many accounts."""

    entries: int
    accounts: int


def carry_over(*, before: datetime) -> Carried:
    """Remove the entries from before a moment, of accounts whose window had ended by then and of those of all time.

    An account that something is held in since before then is left as it is: whoever says what became of it finds the
    entries that tell what it was.
    """
    ended = Q(ends_at=None) | Q(ends_at__lte=before)
    first = Subquery(Entry.objects.filter(account=OuterRef("pk")).order_by("pk").values("at")[:1])
    rows = Account.objects.filter(ended).annotate(first=first).filter(first__lt=before)
    entries = accounts = 0
    for account in rows.order_by("pk").values_list("pk", flat=True):
        removed = 0
        while step := _carry_over(account, before=before):
            removed += step
            if step < AT_ONCE:
                break
        entries += removed
        accounts += bool(removed)
    return Carried(entries=entries, accounts=accounts)


def _carry_over(account: int, *, before: datetime) -> int:
    """One step, with the account locked as whoever books in it locks it; gives the number of entries that went."""
    with transaction.atomic(using=router.db_for_write(Entry)):
        locked = Account.objects.select_for_update().get(pk=account)
        if Hold.objects.filter(account=account, held_at__lt=before).exists():
            return 0
        going = _oldest(account, before=before)
        if not going:
            return 0
        carryover = Carryover.objects.filter(account=account).first() or Carryover(
            account=locked, entries=0, late=0, until=going[0].at, **dict.fromkeys(PARTS, 0)
        )
        for entry in going:
            for part in PARTS:
                setattr(carryover, part, getattr(carryover, part) + getattr(entry, part))
            if entry.kind == EntryKind.SETTLED and entry.uncertain < 0:
                carryover.late += entry.spent
        carryover.entries += len(going)
        carryover.until = max(carryover.until, *(entry.at for entry in going))
        carryover.save()
        _remove(account, upto=going[-1].pk)
    return len(going)


def _oldest(account: int, *, before: datetime) -> list[Entry]:
    """The first entries of an account, up to the first one that is kept."""
    found: list[Entry] = []
    for entry in Entry.objects.filter(account=account).order_by("pk")[:AT_ONCE]:
        if entry.at >= before:
            break
        found.append(entry)
    return found


def _remove(account: int, *, upto: int) -> None:
    """By a plain query, that knows no refusals."""
    QuerySet(Entry).filter(account=account, pk__lte=upto).delete()
