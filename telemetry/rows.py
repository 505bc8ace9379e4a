"""A record of a call as rows: made to fit its columns, and written by plain statements.

The mapper is left out on the way in, since making an object of every row and compiling every statement costs more than
the database does. Names come from the models alone; every value is a parameter.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections, models, router

from telemetry.models import Attempt, Call, DecisionRecord
from telemetry.records import AttemptRecord, CallRecord, TokenCounts, fitting_text

logger = logging.getLogger(__name__)

MAX_COST_NANOS = 10**15
"""The most a call may have cost: a million units of a currency. More is a fault in a price or a report, and a few of
them would fill the column in which a day is summed."""

_MAX_INTEGER = 2**31 - 1


def fit(record: CallRecord) -> CallRecord:
    """The record as columns can hold it, and its attempts: texts from outside cut, and figures that cannot be true left
    out.

    A figure is never cut: what is not known is ``None``.
    """
    tokens, cost_nanos = _credible(record, record.tokens, record.cost_nanos)
    return replace(
        record,
        requested=fitting_text(record.requested, 300),
        user=fitting_text(record.user, 128),
        source=fitting_text(record.source, 64),
        error_class=fitting_text(record.error_class, 100),
        response_model=fitting_text(record.response_model, 150),
        requested_tier=fitting_text(record.requested_tier, 20),
        served_tier=fitting_text(record.served_tier, 20),
        tokens=tokens,
        coverage="absent" if tokens is None else record.coverage,
        cost_nanos=cost_nanos,
        cost_currency=record.cost_currency if cost_nanos == record.cost_nanos else "",
        attempts=tuple(_fit_attempt(record, each) for each in record.attempts),
    )


def _fit_attempt(record: CallRecord, attempt: AttemptRecord) -> AttemptRecord:
    tokens, cost_nanos = _credible(record, attempt.tokens, attempt.cost_nanos)
    return replace(
        attempt,
        error_code=fitting_text(attempt.error_code, 100),
        tokens=tokens,
        cost_nanos=cost_nanos,
        cost_currency="" if cost_nanos is None else attempt.cost_currency,
        is_charged_besides=attempt.is_charged_besides and cost_nanos is not None,
    )


def write_decisions(decisions: Mapping[str, bytes]) -> None:
    """Store decision documents under their digests; those that are there stay. In one order, so that two writers never
    wait for each other crosswise."""
    DecisionRecord.objects.bulk_create(
        [DecisionRecord(digest=digest, document=json.loads(content)) for digest, content in sorted(decisions.items())],
        ignore_conflicts=True,
    )


def write_calls(records: Sequence[CallRecord]) -> None:
    """Insert calls and the attempts behind them. The records have to fit (:func:`fit`)."""
    _insert(Call, [_call(record) for record in records])
    _insert(Attempt, [row for record in records for row in _attempts(record)])


def _insert(model: type[models.Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, each a mapping of every column to its value, all in the same order."""
    if not rows:
        return
    connection = connections[router.db_for_write(model)]
    columns = ", ".join(f'"{name}"' for name in rows[0])
    places = ", ".join(["%s"] * len(rows[0]))
    statement = f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES ({places})'  # noqa: S608
    with connection.cursor() as cursor:
        cursor.executemany(statement, [[_adapted(value, connection) for value in row.values()] for row in rows])


def _adapted(value: Any, connection: Any) -> Any:
    """A value as the database's driver takes it."""
    if isinstance(value, UUID):
        return value if connection.features.has_native_uuid_field else value.hex
    return connection.ops.adapt_datetimefield_value(value) if isinstance(value, datetime) else value


def _credible(
    record: CallRecord, tokens: TokenCounts | None, cost_nanos: int | None
) -> tuple[TokenCounts | None, int | None]:
    """Tokens and cost, without what cannot be true."""
    if tokens is not None and not tokens.are_credible:
        logger.warning("call %s: its token counts cannot be true and are left out", record.call_id)
        return None, None
    if cost_nanos is not None and cost_nanos > MAX_COST_NANOS:
        logger.warning("call %s: its cost cannot be true and is left out; look at the price", record.call_id)
        return tokens, None
    return tokens, cost_nanos


def _count(value: int | None) -> int | None:
    """A size of the request, which is bounded by what a body may have, as its column can hold it."""
    return None if value is None else min(value, _MAX_INTEGER)


def _call(record: CallRecord) -> dict[str, Any]:
    first, served, decision, facts, tokens = (
        record.first, record.served, record.decision, record.facts, record.tokens,
    )  # fmt: skip
    used = frozenset[str]() if decision is None else decision.signals_used
    return {
        "id": record.call_id,
        "started_at": record.started_at,
        "requested": record.requested,
        "operation": record.operation,
        "streamed": record.streamed,
        "application": record.application,
        "key": record.key,
        "user": record.user,
        "source": record.source,
        "first_provider": first.provider,
        "first_adapter_type": first.adapter_type,
        "first_model": first.model,
        "first_model_id": first.model_id,
        "first_failure_kind": record.first_failure_kind,
        "served_configuration": served.configuration,
        "served_provider": served.provider,
        "served_adapter_type": served.adapter_type,
        "served_model": served.model,
        "served_model_id": served.model_id,
        "response_model": record.response_model,
        "requested_tier": record.requested_tier,
        "served_tier": record.served_tier,
        "success": record.success,
        "failure_kind": record.failure_kind,
        "error_class": record.error_class,
        "latency_ms": record.latency_ms,
        "first_token_ms": record.first_token_ms,
        "cache_hit": record.cache_hit,
        "replay_of": record.replay_of,
        "fallback_attempts": record.fallback_attempts,
        "retries": record.retries,
        "requests_sent": record.requests_sent,
        "policy_mode": "" if decision is None else decision.mode,
        "candidates": None if decision is None else decision.candidates,
        "rejection_reasons": "" if decision is None else ",".join(decision.rejection_reasons),
        "preference": "" if decision is None else decision.preference,
        "routing_signal_quality": "quality" in used,
        "routing_signal_health": "health" in used,
        "routing_signal_cost": "cost" in used,
        "routing_signal_latency": "latency" in used,
        "routing_signal_call_cost": "callCost" in used,
        "decision_id": None if decision is None else decision.digest,
        "facts_messages": None if facts is None else _count(facts.messages),
        "facts_turns": None if facts is None else _count(facts.turns),
        "facts_tools": None if facts is None else _count(facts.tools),
        "facts_payload_bytes": None if facts is None else _count(facts.payload_bytes),
        "facts_token_estimate": None if facts is None else _count(facts.token_estimate),
        "facts_shape": "" if facts is None else facts.shape,
        "complexity_score": record.complexity_score,
        "context_percent": _count(record.context_percent),
        "actual_input_tokens": None if tokens is None else tokens.input,
        "actual_cache_read_tokens": None if tokens is None else tokens.cache_read,
        "actual_cache_write_tokens": None if tokens is None else tokens.cache_write,
        "actual_output_tokens": None if tokens is None else tokens.output,
        "actual_reasoning_tokens": None if tokens is None else tokens.reasoning,
        "usage_coverage": record.coverage,
        "actual_cost_nanos": record.cost_nanos,
        "cost_currency": record.cost_currency,
    }


def _attempts(record: CallRecord) -> list[dict[str, Any]]:
    """The attempts of a call that needed more than one, and what was passed over; a single attempt is the call."""
    if len(record.attempts) < 2 and not any(each.skip_reason for each in record.attempts):
        return []
    return [_attempt(record, each) for each in record.attempts]


def _attempt(record: CallRecord, attempt: AttemptRecord) -> dict[str, Any]:
    route, tokens = attempt.route, attempt.tokens
    return {
        "call_id": record.call_id,
        "index": attempt.index,
        "configuration": route.configuration,
        "provider": route.provider,
        "adapter_type": route.adapter_type,
        "model": route.model,
        "model_id": route.model_id,
        "started_at": attempt.started_at,
        "waited_ms": attempt.waited_ms,
        "latency_ms": attempt.latency_ms,
        "failure_kind": attempt.failure_kind,
        "error_code": attempt.error_code,
        "skip_reason": attempt.skip_reason,
        "output_tokens": None if tokens is None else tokens.output,
        "cost_nanos": attempt.cost_nanos,
        "cost_currency": attempt.cost_currency,
    }
