"""Routed calls: which are told, in which order, and all that is told of each."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from routing.core.money import Money
from routing.core.vocabulary import SignalName
from telemetry.models import Call
from telemetry.readouts.decisions import MOST, RequestSize, RoutedCall, read_routed_calls
from tests.factories import CallFactory, DecisionRecordFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 30, 10, 20, tzinfo=UTC)
SINCE = NOW - timedelta(days=7)


def routed(minutes: int = 1, **changes: Any) -> Call:
    call: Call = CallFactory(started_at=NOW - timedelta(minutes=minutes), **changes)
    return call


def read(**filters: Any) -> tuple[RoutedCall, ...]:
    return read_routed_calls(since=SINCE, now=NOW, **filters)


def test_all_of_a_call_is_told() -> None:
    record = DecisionRecordFactory()
    call = routed(
        decision=record, policy_mode="economy", candidates=4, rejection_reasons="capabilityMissing,notPermitted",
        preference="pin", routing_signal_health=True, routing_signal_call_cost=True, fallback_attempts=1,
        served_configuration="plain-chat", served_provider="lab", served_model="huge", actual_cost_nanos=0,
        facts_shape="multi_turn", facts_tools=0, facts_payload_bytes=900, facts_token_estimate=225,
        complexity_score=31, context_percent=None,
    )  # fmt: skip
    assert read() == (
        RoutedCall(
            call_id=call.pk,
            started_at=NOW - timedelta(minutes=1),
            configuration="support-chat",
            operation="chat",
            application="helpdesk",
            source="web-shop",
            success=True,
            failure_kind="",
            latency_ms=812.5,
            fallback_attempts=1,
            cache_hit=False,
            replay_of=None,
            provider="lab",
            model="huge",
            served_configuration="plain-chat",
            mode="economy",
            candidates=4,
            rejection_reasons=("capabilityMissing", "notPermitted"),
            preference="pin",
            digest=record.digest,
            cost=Money(0, "USD"),
            size=RequestSize("multi_turn", 0, 900, 225, 31, None),
            signals=(SignalName.HEALTH, SignalName.CALL_COST),
        ),
    )


def test_what_is_not_known_is_nothing_and_not_zero() -> None:
    routed(actual_cost_nanos=None, cost_currency="")
    (call,) = read()
    assert (call.cost, call.digest, call.rejection_reasons, call.signals) == (None, "", (), ())
    assert call.size == RequestSize("", None, None, None, None, None)


def test_the_latest_come_first_and_what_was_not_decided_takes_no_place() -> None:
    told = [routed(minute).pk for minute in (1, 3, 5)]
    for minute in (2, 4):
        routed(minute, policy_mode="")
    routed(8 * 24 * 60)
    routed(-1)
    assert [call.call_id for call in read()] == told
    assert [call.call_id for call in read(most=2)] == told[:2]


def test_of_one_configuration_and_one_operation() -> None:
    routed(requested="any-chat", served_configuration="support-chat")
    routed(operation="tools")
    both = routed(requested="any-chat", operation="tools")
    assert len(read(configuration="any-chat")) == len(read(operation="tools")) == 2
    assert [call.call_id for call in read(configuration="any-chat", operation="tools")] == [both.pk]
    assert read(configuration="unheard-of") == ()


def test_there_is_a_most_and_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(MOST + 3):
        routed(number, decision=DecisionRecordFactory() if number % 2 else None)
    with django_assert_num_queries(1):
        assert len(read()) == MOST
