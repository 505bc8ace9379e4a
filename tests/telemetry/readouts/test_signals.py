"""What moved decisions: which calls are counted, under which names, and what is told apart from "none"."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from routing.core.policy import PolicyMode
from routing.core.vocabulary import ListedOrder, SignalName
from telemetry.models import Call
from telemetry.readouts.signals import COLUMNS, SignalCounts, SignalReadout, read_signals
from tests.factories import CallFactory
from tests.routing.core.samples import decided as decided_by
from tests.routing.core.samples import listed, model

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 30, 10, 20, tzinfo=UTC)
SINCE = NOW - timedelta(days=1)


def decided(**changes: Any) -> None:
    CallFactory(**{"started_at": NOW - timedelta(hours=1), "policy_mode": "balanced", **changes})


def read() -> SignalReadout:
    return read_signals(since=SINCE, now=NOW)


def counts(readout: SignalReadout) -> dict[tuple[str, str], SignalCounts]:
    return {(use.configuration, use.operation): use.counts for use in readout.uses}


def test_every_signal_has_a_column() -> None:
    assert set(COLUMNS) == set(SignalName)
    assert {field.name for field in Call._meta.fields if field.name.startswith("routing_signal_")} == set(
        COLUMNS.values()
    )


def test_without_calls_nothing_is_counted() -> None:
    readout = read()
    assert readout.uses == ()
    assert readout.total == SignalCounts(decided=0, moved=dict.fromkeys(COLUMNS, 0), unmoved=0, listed=0)


def test_counted_are_decided_calls_of_the_period_however_they_ended() -> None:
    decided(started_at=SINCE)
    decided(started_at=NOW)
    decided(success=False, failure_kind="transient")
    decided(cache_hit=True)
    decided(fallback_attempts=2, served_configuration="plain-chat")
    decided(started_at=SINCE - timedelta(microseconds=1))
    decided(started_at=NOW + timedelta(microseconds=1))
    decided(policy_mode="")
    assert counts(read()) == {("support-chat", "chat"): SignalCounts(5, dict.fromkeys(COLUMNS, 0), 5, 0)}


@pytest.mark.parametrize("signal", SignalName)
def test_a_signal_is_counted_by_itself(signal: SignalName) -> None:
    decided(**{COLUMNS[signal]: True})
    decided()
    assert read().total == SignalCounts(2, {**dict.fromkeys(COLUMNS, 0), signal: 1}, 1, 0)


def test_several_signals_may_move_one_decision() -> None:
    decided(routing_signal_quality=True, routing_signal_latency=True)
    decided(routing_signal_quality=True)
    total = read().total
    assert (total.decided, total.unmoved) == (2, 0)
    assert {signal: count for signal, count in total.moved.items() if count} == {
        SignalName.QUALITY: 2,
        SignalName.LATENCY: 1,
    }


def test_by_configuration_asked_for_and_operation_the_busiest_first_and_all_modes_in_one() -> None:
    decided(operation="tools", served_configuration="somewhere-else")
    for _ in range(2):
        decided(routing_signal_health=True)
    decided(policy_mode="providerPriority")
    decided(requested="any-chat", policy_mode="economy", routing_signal_cost=True)
    readout = read()
    assert [(use.configuration, use.operation, use.modes) for use in readout.uses] == [
        ("any-chat", "chat", ("economy",)),
        ("support-chat", "chat", ("balanced", "providerPriority")),
        ("support-chat", "tools", ("balanced",)),
    ]
    assert counts(readout)["support-chat", "chat"].unmoved == 1
    assert readout.total.decided == 5


@pytest.mark.parametrize("order", ListedOrder)
def test_the_order_of_a_list_is_no_ranking(order: ListedOrder) -> None:
    mode = decided_by(listed("fast", order=order), model("fast")).recorded_mode
    decided(policy_mode=mode)
    decided()
    total = read().total
    assert (total.decided, total.listed, total.ranked, total.unmoved) == (2, 1, 1, 1)


def test_many_rows_take_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for mode in PolicyMode:
        for number in range(3):
            decided(policy_mode=mode.value, requested=f"configuration-{number}")
    with django_assert_num_queries(1):
        assert read().total.decided == 12
