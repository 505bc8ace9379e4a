"""How long entries of the ledger are kept: those of windows that ended long enough ago, and old ones of all time, are
removed, and their sums carried over. And how long accounts are: those of windows that ended long before, and have no
entries any more, are removed with everything that was crossed in them.

The one place where entries and accounts go. What is carried over and what is there still add up to the balance, after
every step, so that ``proof`` goes on proving it. Of an account the oldest entries go first and without a gap, so that
the reservations which are there are still seen against what had been committed before them. The balance is not touched.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import router, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from budgets.models import Account, Carryover, Crossing, Entry, EntryKind, Hold

AT_ONCE = 2000
"""Entries that go in one transaction, in which their account is locked."""

PARTS = ("spent", "reserved", "uncertain", "unmeasured")


ACCOUNTS_AT_ONCE = 500
"""Accounts that go in one transaction."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Accounts that went together: how many, and the ids of the crossings that went with them."""

    accounts: int
    crossings: tuple[int, ...]


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


def remove_accounts(*, before: datetime) -> Iterator[Removed]:
    """Remove the accounts of windows that had ended before a moment, some at a time; yields each time what went.

    One stays for as long as it has entries or holds anything, and if anything was crossed in it since that moment. What
    is there afterwards adds up as before: an account, its balance and what was carried over go together.
    """
    last = 0
    while True:
        rows = _removable(before).filter(pk__gt=last).order_by("pk")
        found = list(rows.values_list("pk", flat=True)[:ACCOUNTS_AT_ONCE])
        if not found:
            return
        last = found[-1]
        yield _remove_accounts(found, before=before)


def _removable(before: datetime) -> QuerySet[Account]:
    account = OuterRef("pk")
    kept = (
        Entry.objects.filter(account=account),
        Hold.objects.filter(account=account),
        Crossing.objects.filter(account=account, at__gte=before),
    )
    return Account.objects.filter(*(~Exists(rows) for rows in kept), ends_at__lte=before)


def _remove_accounts(found: Sequence[int], *, before: datetime) -> Removed:
    """Remove those that nobody has booked in meanwhile: they are locked as whoever books in them locks them."""
    with transaction.atomic(using=router.db_for_write(Account)):
        locked = Account.objects.select_for_update().filter(pk__in=found).order_by("pk")
        going = list(_removable(before).filter(pk__in=[each.pk for each in locked]).values_list("pk", flat=True))
        crossings: QuerySet[Crossing] = QuerySet(Crossing).filter(account__in=going)
        ids = tuple(crossings.order_by("pk").values_list("pk", flat=True))
        crossings.delete()
        Account.objects.filter(pk__in=going).delete()
    return Removed(accounts=len(going), crossings=ids)


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
