"""Writes what happened, and never breaks a call doing so.

A call that has ended is appended to a queue in memory and written at once by whoever flushes: under load many calls
share one transaction, on a quiet machine each has its own. While the database is away calls go on; their records
wait, up to a stated number, and are written when it is back.
"""

import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from django.db import InterfaceError, InternalError, OperationalError, transaction

from telemetry.models import Attempt, Call, DecisionRecord
from telemetry.records import CallRecord, fitting_text
from telemetry.usage import add_usage

logger = logging.getLogger(__name__)

CAPACITY = 20_000
"""Records that may wait. Beyond it the oldest are lost, counted and reported."""

BATCH = 200
"""Records written in one transaction at the most."""

_KNOWN_DIGESTS = 2048
_AWAY = (OperationalError, InterfaceError, InternalError)  # the last: a server that became a read-only standby
_MAX_INTEGER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A record in the queue; ``usage_only`` where telemetry is switched off."""

    record: CallRecord
    usage_only: bool


class Recorder:
    """The queue of one process. Appending may be done from any thread; one flush runs at a time.

    ``on_append`` is called after every append, so that a writer can be woken.
    """

    def __init__(self, *, capacity: int = CAPACITY, on_append: Callable[[], None] | None = None) -> None:
        self._on_append = on_append
        self._queue: deque[_Waiting] = deque()
        self._capacity = capacity
        self._lock = Lock()
        self._flushing = Lock()
        self._known: set[str] = set()
        self.lost = 0

    @property
    def waiting(self) -> int:
        """Records not written yet."""
        return len(self._queue)

    def append(self, record: CallRecord, *, telemetry: bool = True) -> None:
        """Queue a call that has ended. Without ``telemetry`` only its usage is counted."""
        with self._lock:
            self._queue.append(_Waiting(record, usage_only=not telemetry))
            self._shed()
        if self._on_append is not None:
            self._on_append()

    def flush(self) -> int:
        """Write everything that waits; gives the number of records written.

        Raises:
            OperationalError, InterfaceError, InternalError: the database is away or read-only. What was not written
                still waits.
        """
        written = 0
        with self._flushing:
            while batch := self._take():
                try:
                    self._write(batch)
                    written += len(batch)
                except _AWAY:
                    self._put_back(batch)
                    raise
                except Exception:
                    # Whatever the fault: one of the records is to blame, or a decision that somebody has removed.
                    logger.warning("%d records are written one by one", len(batch), exc_info=True)
                    self._known.clear()
                    written += self._write_singly(batch)
        return written

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
        """One record that cannot be written must not cost its neighbours theirs."""
        written = 0
        for index, waiting in enumerate(batch):
            try:
                self._write([waiting])
                written += 1
            except _AWAY:
                self._put_back(batch[index:])
                raise
            except Exception:
                self.lost += 1
                logger.exception("the record of call %s cannot be written", waiting.record.call_id)
        return written

    def _write(self, batch: Sequence[_Waiting]) -> None:
        records = [clean(waiting.record) for waiting in batch]
        full = [record for record, waiting in zip(records, batch, strict=True) if not waiting.usage_only]
        decisions = {
            record.decision.digest: record.decision.document
            for record in full
            if record.decision is not None and record.decision.digest not in self._known
        }
        with transaction.atomic():
            if decisions:
                DecisionRecord.objects.bulk_create(
                    [
                        DecisionRecord(digest=digest, document=json.loads(content))
                        for digest, content in sorted(decisions.items())  # two writers never wait crosswise
                    ],
                    ignore_conflicts=True,
                )
            Call.objects.bulk_create([_call(record) for record in full])
            Attempt.objects.bulk_create([row for record in full for row in _attempts(record)])
            add_usage(records)
        if len(self._known) > _KNOWN_DIGESTS:
            self._known.clear()
        self._known.update(decisions)


def clean(record: CallRecord) -> CallRecord:
    """The record with every text that came from outside cut to what a column holds, without NUL characters."""
    return replace(
        record,
        requested=fitting_text(record.requested, 300),
        user=fitting_text(record.user, 128),
        source=fitting_text(record.source, 64),
        error_class=fitting_text(record.error_class, 100),
        response_model=fitting_text(record.response_model, 150),
    )


def _count(value: int | None) -> int | None:
    return None if value is None else max(0, min(value, _MAX_INTEGER))


def _call(record: CallRecord) -> Call:
    first, served, decision, facts, tokens = (
        record.first, record.served, record.decision, record.facts, record.tokens,
    )  # fmt: skip
    used = frozenset[str]() if decision is None else decision.signals_used
    return Call(
        id=record.call_id,
        started_at=record.started_at,
        requested=record.requested,
        operation=record.operation,
        streamed=record.streamed,
        application=record.application,
        key=record.key,
        user=record.user,
        source=record.source,
        first_provider=first.provider,
        first_adapter_type=first.adapter_type,
        first_model=first.model,
        first_model_id=first.model_id,
        first_failure_kind=record.first_failure_kind,
        served_configuration=served.configuration,
        served_provider=served.provider,
        served_adapter_type=served.adapter_type,
        served_model=served.model,
        served_model_id=served.model_id,
        response_model=record.response_model,
        success=record.success,
        failure_kind=record.failure_kind,
        error_class=record.error_class,
        latency_ms=record.latency_ms,
        first_token_ms=record.first_token_ms,
        cache_hit=record.cache_hit,
        fallback_attempts=record.fallback_attempts,
        retries=record.retries,
        requests_sent=record.requests_sent,
        policy_mode="" if decision is None else decision.mode,
        candidates=None if decision is None else decision.candidates,
        rejection_reasons="" if decision is None else ",".join(decision.rejection_reasons),
        preference="" if decision is None else decision.preference,
        routing_signal_quality="quality" in used,
        routing_signal_health="health" in used,
        routing_signal_cost="cost" in used,
        routing_signal_latency="latency" in used,
        routing_signal_call_cost="callCost" in used,
        decision_id=None if decision is None else decision.digest,
        facts_messages=None if facts is None else _count(facts.messages),
        facts_turns=None if facts is None else _count(facts.turns),
        facts_tools=None if facts is None else _count(facts.tools),
        facts_payload_bytes=None if facts is None else _count(facts.payload_bytes),
        facts_token_estimate=None if facts is None else _count(facts.token_estimate),
        facts_shape="" if facts is None else facts.shape,
        complexity_score=record.complexity_score,
        context_percent=_count(record.context_percent),
        actual_input_tokens=None if tokens is None else _count(tokens.input),
        actual_cache_read_tokens=None if tokens is None else _count(tokens.cache_read),
        actual_cache_write_tokens=None if tokens is None else _count(tokens.cache_write),
        actual_output_tokens=None if tokens is None else _count(tokens.output),
        actual_reasoning_tokens=None if tokens is None else _count(tokens.reasoning),
        usage_coverage=record.coverage,
        actual_cost_nanos=record.cost_nanos,
        cost_currency=record.cost_currency,
    )


def _attempts(record: CallRecord) -> list[Attempt]:
    """The attempts of a call that needed more than one, and what was passed over; a single attempt is the call."""
    if len(record.attempts) < 2 and not any(each.skip_reason for each in record.attempts):
        return []
    return [
        Attempt(
            call_id=record.call_id,
            index=each.index,
            configuration=each.route.configuration,
            provider=each.route.provider,
            adapter_type=each.route.adapter_type,
            model=each.route.model,
            model_id=each.route.model_id,
            started_at=each.started_at,
            waited_ms=each.waited_ms,
            latency_ms=each.latency_ms,
            failure_kind=each.failure_kind,
            error_code=fitting_text(each.error_code, 100),
            skip_reason=each.skip_reason,
            output_tokens=None if each.tokens is None else _count(each.tokens.output),
            cost_nanos=each.cost_nanos,
            cost_currency=each.cost_currency,
        )
        for each in record.attempts
    ]
