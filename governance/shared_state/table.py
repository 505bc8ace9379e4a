"""The store in a table of the database, for installations without Redis."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError
from django.db import connection, transaction

from governance.models import SharedState
from routing.core.meters import Charge, Count, Metered, keep_seconds, meter
from routing.core.sharing import StoreAway

_KEYS_OF_A_QUERY = 500

# One statement, so that of two who add the same key one finds it taken. Both databases know this form.
_KEEP = """
INSERT INTO {table} ({key}, {value}, {expires_at}) VALUES (%s, %s, %s)
ON CONFLICT ({key}) DO UPDATE SET {value} = excluded.{value}, {expires_at} = excluded.{expires_at}
"""
_WHERE_EXPIRED = " WHERE {table}.{expires_at} <= %s"


class TableStore:
    """A :class:`~routing.core.sharing.SharedStore` of rows that are changed by conditional statements alone.

    Ends are counted by the clocks of whoever asks: machines whose clocks differ by a second see a value a second longer
    or shorter.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    def read(self, keys: Sequence[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        with _answering():
            for start in range(0, len(keys), _KEYS_OF_A_QUERY):
                some = keys[start : start + _KEYS_OF_A_QUERY]
                living = SharedState.objects.filter(key__in=some, expires_at__gt=self._now())
                found.update(living.values_list("key", "value"))
        return found

    def put(self, key: str, value: str, *, seconds: float) -> None:
        self._keep(key, value, seconds, statement=_KEEP)

    def add(self, key: str, value: str, *, seconds: float) -> bool:
        return self._keep(key, value, seconds, self._now(), statement=_KEEP + _WHERE_EXPIRED)

    def swap(self, key: str, value: str, *, expected: str | None, seconds: float) -> bool:
        if expected is None:
            return self.add(key, value, seconds=seconds)
        with _answering():
            there = SharedState.objects.filter(key=key, value=expected, expires_at__gt=self._now())
            return bool(there.update(value=value, expires_at=self._end(seconds)))

    def remove(self, key: str, *, expected: str) -> bool:
        with _answering():
            there = SharedState.objects.filter(key=key, value=expected, expires_at__gt=self._now())
            removed, _ = there.delete()
            return bool(removed)

    def meter(self, charges: Sequence[Charge], *, force: bool = False) -> Metered:
        """In a transaction that locks the counts' rows, in the order of their keys."""
        with _answering(), transaction.atomic():
            rows = self._locked(charges)
            counts = [Count.read(row.value) if row.value and row.expires_at > self._now() else None for row in rows]
            metered, booked = meter(charges, counts, now_ms=int(self._clock() * 1000), force=force)
            if metered.refused is None:
                for row, charge, count in zip(rows, charges, booked, strict=True):
                    row.value, row.expires_at = count.spell(), self._end(keep_seconds(charge, count.used))
                SharedState.objects.bulk_update(rows, ["value", "expires_at"])
            return metered

    def _locked(self, charges: Sequence[Charge]) -> list[SharedState]:
        """The rows of the counts, which nobody else changes until the transaction ends. One that was not there is, and
        expired."""
        keys = sorted(charge.key for charge in charges)
        rows = SharedState.objects.select_for_update().filter(key__in=keys).order_by("key")
        found = {row.key: row for row in rows}
        while len(found) < len(keys):  # one that somebody else has made may be expired, and swept before it is locked
            missing = [SharedState(key=key, value="", expires_at=self._now()) for key in keys if key not in found]
            SharedState.objects.bulk_create(missing, ignore_conflicts=True)
            found = {row.key: row for row in rows.all()}
        return [found[charge.key] for charge in charges]

    def _keep(self, key: str, value: str, seconds: float, *moments: datetime, statement: str) -> bool:
        columns = {name: connection.ops.quote_name(name) for name in ("key", "value", "expires_at")}
        names = columns | {"table": connection.ops.quote_name(SharedState._meta.db_table)}
        adapted = [connection.ops.adapt_datetimefield_value(each) for each in (self._end(seconds), *moments)]
        with _answering(), connection.cursor() as cursor:
            cursor.execute(statement.format_map(names), [key, value, *adapted])
            return bool(cursor.rowcount)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def _end(self, seconds: float) -> datetime:
        return self._now() + timedelta(seconds=seconds)


def remove_expired(*, now: datetime) -> int:
    """Remove the rows whose time is over; gives how many went."""
    removed, _ = SharedState.objects.filter(expires_at__lte=now).delete()
    return removed


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except DatabaseFault as error:
        raise StoreAway(f"{type(error).__name__}: {error}") from error
