"""What routes did for each operation: each column over its own population, and percentiles by their definition."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from routing.core.money import Money
from routing.core.signals import HistoryKey
from routing.core.vocabulary import Operation
from telemetry.health import read_health
from telemetry.history import read_history
from telemetry.readouts import operations
from telemetry.readouts.operations import MeanCost, OperationReadout, Percentiles, Route, RouteFigures, read_operations
from tests.factories import CallFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 30, 10, 20, tzinfo=UTC)
SINCE = NOW - timedelta(days=7)
FAST = Route(provider="prod-east", model="fast")
HUGE = Route(provider="lab", model="huge")


IDS = {"fast": ("openai", "gpt-x-mini"), "quick": ("openai", "gpt-x-mini"), "huge": ("vllm", "llama-x-400b")}


def route(prefix: str, route: Route) -> dict[str, str]:
    """The columns of a route, with the names by which history knows it."""
    adapter_type, model_id = IDS.get(route.model, ("", ""))
    named = {"provider": route.provider, "model": route.model, "adapter_type": adapter_type, "model_id": model_id}
    return {f"{prefix}_{name}": value for name, value in named.items()}


def called(first: Route = FAST, served: Route | None = None, **changes: Any) -> None:
    """A call sent to a route first, and answered by it or by another one."""
    CallFactory(
        **{
            "started_at": NOW - timedelta(hours=1),
            **route("first", first),
            **route("served", served or first),
            **changes,
        }
    )


def failed(first: Route, kind: str) -> None:
    nobody = Route("", "")
    called(first, nobody, success=False, failure_kind=kind, first_failure_kind=kind, actual_cost_nanos=None)


def read() -> OperationReadout:
    return read_operations(since=SINCE, now=NOW)


def figures(operation: str = "chat") -> dict[Route, RouteFigures]:
    return {each.route: each for each in read().of(operation)}


# --- Populations ----------------------------------------------------------------------------------------------------


def test_without_calls_there_are_no_figures() -> None:
    assert read() == OperationReadout(since=SINCE, figures=(), percentiles_since=None)


def test_only_the_calls_of_the_window_count() -> None:
    for moment in (SINCE, NOW, SINCE - timedelta(microseconds=1), NOW + timedelta(microseconds=1)):
        called(started_at=moment)
    assert figures()[FAST].answered == 2


def test_a_rescue_is_answered_by_the_rescuer_and_a_failed_attempt_of_the_first() -> None:
    called(FAST)
    called(FAST, HUGE, fallback_attempts=1, first_failure_kind="transient", latency_ms=9_000.0)
    found = figures()
    assert (found[FAST].answered, found[FAST].attempts, found[FAST].successes) == (1, 2, 1)
    assert found[FAST].success_rate == 0.5
    huge = found[HUGE]
    assert (huge.answered, huge.self_served, huge.attempts, huge.share) == (1, 0, 0, 0.5)
    assert (huge.mean_ms, huge.percentiles, huge.success_rate, huge.costs) == (None, None, None, ())


def test_a_cache_hit_is_nobodys() -> None:
    called(cache_hit=True)
    assert figures() == {}


@pytest.mark.parametrize(
    ("kind", "attempts"),
    [("transient", 1), ("timeout", 1), ("invalid_request", 0), ("refused", 0), ("cancelled", 0)],
)
def test_what_a_route_is_not_at_fault_for_is_no_attempt(kind: str, attempts: int) -> None:
    failed(FAST, kind)
    assert {route: each.attempts for route, each in figures().items()} == ({FAST: 1} if attempts else {})


def test_a_route_that_only_failed_is_told_with_what_it_has() -> None:
    failed(HUGE, "transient")
    called(FAST)
    huge = figures()[HUGE]
    assert (huge.answered, huge.share, huge.success_rate, huge.mean_ms) == (0, 0.0, 0.0, None)


def test_shares_are_of_one_operation() -> None:
    for _ in range(3):
        called(FAST)
    called(HUGE)
    called(HUGE, operation="tools")
    assert {route: each.share for route, each in figures().items()} == {FAST: 0.75, HUGE: 0.25}
    assert {route: each.share for route, each in figures("tools").items()} == {HUGE: 1.0}
    assert [each.route for each in read().of("chat")] == [FAST, HUGE]


def test_nothing_answered_is_no_share() -> None:
    failed(FAST, "transient")
    assert figures()[FAST].share is None


def test_costs_are_of_exact_usage_and_each_currency_by_itself() -> None:
    called(actual_cost_nanos=10)
    called(actual_cost_nanos=11)
    called(actual_cost_nanos=700, cost_currency="EUR")
    called(actual_cost_nanos=10**9, usage_coverage="estimated")
    called(actual_cost_nanos=None, cost_currency="", usage_coverage="absent")
    assert figures()[FAST].costs == (MeanCost(Money(11, "USD"), 2), MeanCost(Money(700, "EUR"), 1))
    assert figures()[FAST].self_served == 5


def test_free_is_a_cost() -> None:
    called(actual_cost_nanos=0)
    assert figures()[FAST].costs == (MeanCost(Money(0, "USD"), 1),)


def test_two_routes_that_share_their_history_are_told_apart() -> None:
    west = Route(provider="prod-west", model="quick")
    called(FAST, latency_ms=100.0)
    called(west, latency_ms=300.0)
    assert {route: each.mean_ms for route, each in figures().items()} == {FAST: 100.0, west: 300.0}


def test_the_figures_are_those_that_decide() -> None:
    """By the same populations as history and health, seen through one another."""
    called(latency_ms=100.0, actual_cost_nanos=5, started_at=NOW - timedelta(minutes=1))
    called(latency_ms=400.0, actual_cost_nanos=8, started_at=NOW - timedelta(minutes=2))
    called(HUGE, FAST, fallback_attempts=1, latency_ms=9.0, first_failure_kind="timeout")
    history = read_history(now=NOW, currency="USD")[HistoryKey("openai", "gpt-x-mini", Operation.CHAT)]
    fast = figures()[FAST]
    assert (fast.self_served, fast.mean_ms) == (history.calls, history.mean_latency_ms)
    assert fast.costs == (MeanCost(Money(7, "USD"), history.priced_calls),)
    assert history.mean_cost == Money(7, "USD")
    health = read_health(now=NOW)["openai"]
    assert (fast.attempts, fast.successes) == (health.samples, health.successes)


# --- Percentiles ----------------------------------------------------------------------------------------------------


def nearest_rank(values: list[float], percentile: int) -> float:
    """The definition: the least value that at least so many in a hundred do not exceed."""
    return min(each for each in values if sum(other <= each for other in values) * 100 >= percentile * len(values))


@pytest.mark.parametrize("number", [1, 2, 3, 19, 20, 21, 40, 61])
def test_a_percentile_is_a_latency_that_was_measured(number: int) -> None:
    draw = random.Random(number)
    values = [round(draw.expovariate(1 / 900), 3) for _ in range(number)]
    for value in values:
        called(latency_ms=value)
    called(HUGE, latency_ms=1.0)
    called(FAST, fallback_attempts=1, latency_ms=0.5)  # not self-served
    called(FAST, operation="tools", latency_ms=0.5)
    assert figures()[FAST].percentiles == Percentiles(number, nearest_rank(values, 50), nearest_rank(values, 95))
    assert figures()[HUGE].percentiles == Percentiles(1, 1.0, 1.0)


def test_equal_latencies_are_no_trouble() -> None:
    for value in (5.0, 5.0, 5.0, 7.0):
        called(latency_ms=value)
    assert figures()[FAST].percentiles == Percentiles(4, 5.0, 7.0)


def test_percentiles_are_of_the_latest_calls_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "LOOKED_AT", 3)
    for minute, latency in enumerate((10.0, 20.0, 30.0, 4_000.0)):
        called(started_at=NOW - timedelta(minutes=minute), latency_ms=latency)
    readout = read()
    assert readout.percentiles_since == NOW - timedelta(minutes=2)
    assert readout.figures[0].percentiles == Percentiles(3, 20.0, 30.0)
    assert readout.figures[0].mean_ms == 1015.0


# --- Cost -----------------------------------------------------------------------------------------------------------


def test_many_rows_take_four_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(4):
        read()
    for operation in Operation:
        for route in (FAST, HUGE):
            called(route, operation=operation.value)
    with django_assert_num_queries(4):
        assert len(read().figures) == 14
