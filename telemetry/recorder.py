"""Writes what happened, and never breaks a call doing so.

A call that has ended is appended to a queue in memory and written at once by whoever flushes: under load many calls
share one transaction, on a quiet machine each has its own. While the database is away calls go on; their records
wait, up to a stated number, and are written when it is back. How a record becomes rows is the business of ``rows``.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from django.db import InterfaceError, InternalError, OperationalError, connections, router, transaction

from telemetry.models import Call
from telemetry.records import CallRecord
from telemetry.rows import fit, write_calls, write_decisions
from telemetry.usage import add_usage

logger = logging.getLogger(__name__)

CAPACITY = 20_000
"""Records that may wait. Beyond it the oldest are lost, counted and reported."""

BATCH = 200
"""Records written in one transaction at the most."""

MOST_REFUSALS = 3
"""How often the database may refuse a record while it takes others; then the record is lost, counted and reported."""

_KNOWN_DIGESTS = 2048
_AWAY = (OperationalError, InterfaceError, InternalError)  # the last: a server that became a read-only standby


@dataclass(slots=True)
class _Waiting:
    """A record in the queue: ``rows`` and ``usage`` tell which of its parts are to be written (with telemetry switched
    off only its usage is)."""

    record: CallRecord
    rows: bool = True
    usage: bool = True
    refusals: int = 0


class Recorder:
    """The queue of one process. Appending may be done from any thread; one flush runs at a time.

    ``on_append`` is called after every append, so that a writer can be woken. ``lost`` counts the records of which
    something was not written and never will be.
    """

    def __init__(self, *, capacity: int = CAPACITY, on_append: Callable[[], None] | None = None) -> None:
        self._on_append = on_append
        self._queue: deque[_Waiting] = deque()
        self._capacity = capacity
        self._lock = Lock()
        self._flushing = Lock()
        self._known: set[str] = set()
        self._until: float | None = None
        self.lost = 0

    @property
    def waiting(self) -> int:
        """Records not written yet."""
        return len(self._queue)

    def append(self, record: CallRecord, *, telemetry: bool = True) -> None:
        """Queue a call that has ended. Without ``telemetry`` only its usage is counted."""
        with self._lock:
            self._queue.append(_Waiting(record, rows=telemetry))
            self._shed()
        if self._on_append is not None:
            self._on_append()

    def flush(self, *, seconds: float | None = None) -> int:
        """Write everything that waits; gives the number of records written.

        Args:
            seconds: how long that may take, for a process that ends. What is not written then still waits.

        Raises:
            OperationalError, InterfaceError, InternalError: the database is away or read-only. What was not written
                still waits.
            TimeoutError: another flush has not come to its end within the time.
        """
        if not self._flushing.acquire(timeout=-1 if seconds is None else seconds):
            raise TimeoutError("records of calls are being written and the database does not answer")
        try:
            self._until = None if seconds is None else time.monotonic() + seconds
            return self._write_queue()
        finally:
            self._flushing.release()

    def _write_queue(self) -> int:
        written = 0
        while self._has_time() and (batch := self._take()):
            try:
                self._write(batch)
                written += len(batch)
            except Exception as error:
                # The database is away, or one of the records is to blame, or a decision that somebody has removed.
                if isinstance(error, _AWAY) and (len(batch) == 1 or not _is_there()):
                    self._put_back(batch)
                    raise
                self._known.clear()
                logger.warning("%d records are written one by one", len(batch), exc_info=True)
                written += self._write_singly(batch)
        return written

    def _has_time(self) -> bool:
        return self._until is None or time.monotonic() < self._until

    def _take(self) -> list[_Waiting]:
        with self._lock:
            return [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]

    def _put_back(self, batch: Sequence[_Waiting]) -> None:
        with self._lock:
            self._queue.extendleft(reversed(batch))
            self._shed()

    def _shed(self) -> None:
        while len(self._queue) > self._capacity:
            self._queue.popleft()
            self.lost += 1
            if self.lost == 1 or self.lost % 1000 == 0:
                logger.error("%d records of calls were lost: the database is away for too long", self.lost)

    def _write_singly(self, batch: Sequence[_Waiting]) -> int:
        """One record that cannot be written must not cost its neighbours theirs.

        One that the database refuses as if it were away, and takes others behind it, is at fault itself: it is given up
        when that has happened too often. If nothing can be written the database is taken to be away after all.
        """
        todo, refused = deque(batch), list[_Waiting]()
        written = passed = 0  # how many of the refused had others taken behind them
        while todo:
            waiting = todo.popleft()
            try:
                self._write([waiting])
            except _AWAY:
                refused.append(waiting)
                if not self._has_time() or not _is_there() or (written == 0 and not todo):
                    self._put_back([*refused, *todo])
                    raise
            except Exception:
                logger.exception("the record of call %s cannot be written", waiting.record.call_id)
                written += self._write_in_parts(waiting)
            else:
                written += 1
                passed = len(refused)
        for waiting in refused[:passed]:
            waiting.refusals += 1
        given_up = [waiting for waiting in refused if waiting.refusals >= MOST_REFUSALS]
        for waiting in given_up:
            self.lost += 1
            logger.error("the record of call %s is refused by the database and given up", waiting.record.call_id)
        self._put_back([waiting for waiting in refused if waiting not in given_up])
        return written

    def _write_in_parts(self, waiting: _Waiting) -> bool:
        """Write what can be written of a record that fails as a whole; tells whether that is anything."""
        self.lost += 1
        if not (waiting.rows and waiting.usage):
            return False
        taken = False
        for part in (replace(waiting, usage=False), replace(waiting, rows=False)):
            try:
                self._write([part])
                taken = True
            except _AWAY:
                self._put_back([part])
            except Exception:
                missing = "rows" if part.rows else "part of its day's usage"
                logger.exception("the record of call %s: the %s cannot be written", waiting.record.call_id, missing)
        return taken

    def _write(self, batch: Sequence[_Waiting]) -> None:
        records = [(fit(waiting.record), waiting) for waiting in batch]
        full = [record for record, waiting in records if waiting.rows]
        decisions = {
            record.decision.digest: record.decision.document
            for record in full
            if record.decision is not None and record.decision.digest not in self._known
        }
        with transaction.atomic():
            self._limit_statements()
            if decisions:
                write_decisions(decisions)
            write_calls(full)
            add_usage(record for record, waiting in records if waiting.usage)
        if len(self._known) > _KNOWN_DIGESTS:
            self._known.clear()
        self._known.update(decisions)

    def _limit_statements(self) -> None:
        """A process that ends does not wait longer than it may for a table that somebody has locked."""
        connection = connections[router.db_for_write(Call)]
        if self._until is None or connection.vendor != "postgresql":
            return
        left = max(1, round((self._until - time.monotonic()) * 1000))
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(left)])


def _is_there() -> bool:
    """Whether the database answers at all."""
    connection = connections[router.db_for_write(Call)]
    try:
        connection.close_if_unusable_or_obsolete()
        connection.ensure_connection()
        return connection.is_usable()
    except _AWAY:
        return False
