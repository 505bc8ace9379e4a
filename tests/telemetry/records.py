"""Records of calls, as the gateway hands them over. Every two namespaces have different values."""

from datetime import UTC, datetime
from typing import Any

from telemetry.records import (
    AttemptRecord,
    CallRecord,
    DecisionSummary,
    FactsRecord,
    RouteName,
    TokenCounts,
    new_call_id,
)

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
EAST = RouteName(
    configuration="support-chat",
    provider="prod-east",
    adapter_type="openai",
    model="fast",
    model_id="gpt-x-mini",
)
WEST = RouteName(
    configuration="plain-chat",
    provider="prod-west",
    adapter_type="custom",
    model="wise",
    model_id="gpt-x-pro",
)
TOKENS = TokenCounts(input=1000, cache_read=200, cache_write=30, output=340, reasoning=40)
FACTS = FactsRecord(messages=5, turns=4, tools=2, payload_bytes=4000, token_estimate=1250, shape="toolAssisted")
DOCUMENT = b'{"selected":"fast","version":1}'
DECISION = DecisionSummary(
    mode="balanced",
    candidates=3,
    rejection_reasons=("capabilityMissing", "notPermitted"),
    preference="pin",
    signals_used=frozenset({"quality", "callCost"}),
    digest="d" * 64,
    document=DOCUMENT,
)


def record(**changes: Any) -> CallRecord:
    """A call that its first route answered."""
    return CallRecord(
        **{
            "call_id": new_call_id(),
            "started_at": NOON,
            "requested": "support-chat",
            "operation": "chat",
            "application": "helpdesk",
            "key": "5f0c7c0e-9b7e-4a44-a1bd-0f6f3a7b9d21",
            "user": "agent-17",
            "source": "web-shop",
            "streamed": False,
            "first": EAST,
            "served": EAST,
            "success": True,
            "failure_kind": "",
            "first_failure_kind": "",
            "error_class": "",
            "latency_ms": 812.5,
            "requests_sent": 1,
            "tokens": TOKENS,
            "coverage": "exact",
            "cost_nanos": 6_400_000,
            "cost_currency": "USD",
            **changes,
        }
    )


def attempt(index: int, route: RouteName, **changes: Any) -> AttemptRecord:
    """One attempt of a call."""
    return AttemptRecord(**{"index": index, "route": route, "started_at": NOON, "latency_ms": 120.0, **changes})
