"""Routed calls: the latest decided ones, each with what moved its decision."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from routing.core.money import Money
from routing.core.vocabulary import SignalName
from telemetry.models import Call
from telemetry.readouts.signals import COLUMNS

MOST = 50
"""Calls of one readout. Whoever looks for more has the list of calls."""

_READ = (
    "pk", "started_at", "requested", "operation", "application", "source", "success", "failure_kind", "latency_ms",
    "fallback_attempts", "cache_hit", "replay_of", "served_provider", "served_model", "served_configuration",
    "policy_mode", "candidates", "rejection_reasons", "preference", "decision_id", "actual_cost_nanos", "cost_currency",
    "complexity_score", "context_percent", "facts_shape", "facts_tools", "facts_payload_bytes", "facts_token_estimate",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RequestSize:
    """How big the request was: measured before any choice, but for ``complexity`` and ``context_percent``, which
    depend on the model that served. ``None`` is "not measured"."""

    shape: str
    tools: int | None
    payload_bytes: int | None
    token_estimate: int | None
    complexity: int | None
    context_percent: int | None


@dataclass(frozen=True, slots=True)
class RoutedCall:
    """A decided call.

    Attributes:
        replay_of: the call whose answer it was given; ``None`` if a model was asked.
        provider, model: who served it; empty if nobody did.
        served_configuration: whose route served; the one asked for unless a fallback configuration rescued the call.
        mode: the mode as recorded, ``listed:`` and an order where the configuration lists its models.
        signals: those that moved the decision; none means that priority, ties or the list's order decided.
        rejection_reasons: the distinct reasons for which candidates were refused.
        digest: of the decision's record; empty where it was not kept.
    """

    call_id: UUID
    started_at: datetime
    configuration: str
    operation: str
    application: str
    source: str
    success: bool
    failure_kind: str
    latency_ms: float
    fallback_attempts: int
    cache_hit: bool
    replay_of: UUID | None
    provider: str
    model: str
    served_configuration: str
    mode: str
    candidates: int | None
    rejection_reasons: tuple[str, ...]
    preference: str
    digest: str
    cost: Money | None
    size: RequestSize
    signals: tuple[SignalName, ...]


def read_routed_calls(
    *, since: datetime, now: datetime, configuration: str = "", operation: str = "", most: int = MOST
) -> tuple[RoutedCall, ...]:
    """The latest decided calls between two moments, at most ``most``; of one configuration asked for and of one
    operation where they are named: one query. Undecided calls are left out before the limit."""
    calls = Call.objects.between(since, now).decided()
    if configuration:
        calls = calls.filter(requested=configuration)
    if operation:
        calls = calls.filter(operation=operation)
    rows = calls.order_by("-started_at", "-pk").only(*_READ, *COLUMNS.values())[:most]
    return tuple(_routed(call) for call in rows)


def _routed(call: Call) -> RoutedCall:
    nanos = call.actual_cost_nanos
    return RoutedCall(
        call_id=call.pk,
        started_at=call.started_at,
        configuration=call.requested,
        operation=call.operation,
        application=call.application,
        source=call.source,
        success=call.success,
        failure_kind=call.failure_kind,
        latency_ms=call.latency_ms,
        fallback_attempts=call.fallback_attempts,
        cache_hit=call.cache_hit,
        replay_of=call.replay_of,
        provider=call.served_provider,
        model=call.served_model,
        served_configuration=call.served_configuration,
        mode=call.policy_mode,
        candidates=call.candidates,
        rejection_reasons=tuple(each for each in call.rejection_reasons.split(",") if each),
        preference=call.preference,
        digest=call.decision_id or "",
        cost=None if nanos is None else Money(nanos, call.cost_currency),
        size=RequestSize(
            shape=call.facts_shape,
            tools=call.facts_tools,
            payload_bytes=call.facts_payload_bytes,
            token_estimate=call.facts_token_estimate,
            complexity=call.complexity_score,
            context_percent=call.context_percent,
        ),
        signals=tuple(signal for signal, column in COLUMNS.items() if getattr(call, column)),
    )
