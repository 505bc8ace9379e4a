"""Provider health: which calls are samples, of whom, and for how long."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from routing.core.failures import FAILURES, FailureKind
from routing.core.signals import HealthFigure
from telemetry.health import WINDOW, read_health
from tests.factories import CallFactory

NOW = datetime(2026, 11, 30, 8, 0, 0, 250_000, tzinfo=UTC)
A_MINUTE_AGO = NOW - timedelta(minutes=1)
FAULTS = {
    FailureKind.RATE_LIMITED,
    FailureKind.QUOTA_EXHAUSTED,
    FailureKind.TRANSIENT,
    FailureKind.TIMEOUT,
    FailureKind.AUTH,
    FailureKind.NOT_FOUND,
    FailureKind.UNREADABLE,
}

pytestmark = pytest.mark.django_db


def called(**changes: Any) -> None:
    """A call of a minute ago whose first route answered, unless something is changed."""
    CallFactory(**{"started_at": A_MINUTE_AGO, **changes})


def failed(kind: str, **changes: Any) -> None:
    """A call that its only route failed."""
    called(**{"success": False, "failure_kind": kind, "first_failure_kind": kind, **changes})


def health() -> dict[str, HealthFigure]:
    """Health as of now."""
    return read_health(now=NOW)


def test_without_calls_there_is_none() -> None:
    assert health() == {}


def test_the_window_is_nine_hundred_seconds_to_the_microsecond() -> None:
    assert timedelta(seconds=900) == WINDOW
    for number, (moment, counts) in enumerate(
        {
            NOW - timedelta(seconds=900): True,
            NOW - timedelta(seconds=900, microseconds=1): False,
            NOW - timedelta(seconds=899): True,
            NOW: True,
            NOW + timedelta(microseconds=1): False,
        }.items()
    ):
        called(started_at=moment, first_adapter_type=f"kind-{number}")
        assert (f"kind-{number}" in health()) is counts, moment


@pytest.mark.parametrize("kind", FailureKind)
def test_which_failures_are_samples(kind: FailureKind) -> None:
    assert FAILURES[kind].provider_fault is (kind in FAULTS)
    failed(kind.value)
    assert health() == ({"openai": HealthFigure(samples=1, successes=0)} if kind in FAULTS else {})


def test_a_call_that_was_rescued_is_a_failure_of_the_first_route() -> None:
    called(
        first_failure_kind="transient", fallback_attempts=1, latency_ms=7000.0,
        served_provider="prod-west", served_adapter_type="custom", served_model="wise", served_model_id="gpt-x-pro",
    )  # fmt: skip
    called(latency_ms=100.0)
    assert health() == {"openai": HealthFigure(samples=2, successes=1, mean_latency_ms=100.0)}


def test_a_call_that_was_rescued_from_the_callers_fault_is_no_sample() -> None:
    called(first_failure_kind="context_exceeded", fallback_attempts=1)
    assert health() == {}


def test_latency_is_that_of_calls_the_first_route_served_itself() -> None:
    for latency in (100.0, 300.0):
        called(latency_ms=latency)
    failed("timeout", latency_ms=60_000.0)
    called(cache_hit=True, latency_ms=1.0)
    called(success=False, failure_kind="forbidden", latency_ms=1.0)  # answered, and refused to the caller afterwards
    called(first_failure_kind="rate_limited", fallback_attempts=2, latency_ms=9000.0)
    assert health() == {"openai": HealthFigure(samples=5, successes=3, mean_latency_ms=200.0)}


def test_without_a_call_it_served_there_is_no_latency() -> None:
    failed("transient")
    figure = health()["openai"]
    assert figure.mean_latency_ms is None
    assert figure.value == pytest.approx(0.2)  # no penalty for it


def test_what_was_never_sent_is_no_sample() -> None:
    failed("unsupported", first_adapter_type="", first_provider="")
    called(first_adapter_type="", first_provider="")
    assert health() == {}


def test_it_is_kept_by_the_kind_of_who_was_asked_first() -> None:
    """And neither by the provider's identifier, nor by who served."""
    called(first_provider="custom", first_adapter_type="openai", served_provider="x", served_adapter_type="vllm")
    called(first_provider="openai", first_adapter_type="custom", first_model="openai", first_model_id="openai")
    called(first_provider="prod-west", first_adapter_type="openai")
    assert {kind: figure.samples for kind, figure in health().items()} == {"openai": 2, "custom": 1}


def test_it_is_one_statement(django_assert_num_queries: Any) -> None:
    for number in range(10):
        called(first_adapter_type=f"kind-{number}")
    with django_assert_num_queries(1):
        assert len(health()) == 10
