"""Call history: the exact population, the edges of the window, and under which names it is kept."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from routing.core.failures import FailureKind
from routing.core.money import Money
from routing.core.signals import HistoryFigure, HistoryKey
from routing.core.vocabulary import Operation
from telemetry.history import WINDOW, read_history
from tests.factories import CallFactory

NOW = datetime(2026, 11, 30, 8, 0, 0, 250_000, tzinfo=UTC)
AN_HOUR_AGO = NOW - timedelta(hours=1)
KEY = HistoryKey("openai", "gpt-x-mini", Operation.CHAT)

pytestmark = pytest.mark.django_db


def called(**changes: Any) -> None:
    """A call of an hour ago that counts fully, unless something is changed."""
    CallFactory(**{"started_at": AN_HOUR_AGO, **changes})


def history(currency: str = "USD") -> dict[HistoryKey, HistoryFigure]:
    """The history as of now."""
    return read_history(now=NOW, currency=currency)


def test_without_calls_there_is_none() -> None:
    assert history() == {}


def test_the_window_is_seven_days_to_the_microsecond() -> None:
    assert timedelta(days=7) == WINDOW
    for moment, counts in {
        NOW - timedelta(days=7): True,
        NOW - timedelta(days=7, microseconds=1): False,
        NOW - timedelta(days=7, seconds=-1): True,
        NOW: True,
        NOW + timedelta(microseconds=1): False,
        NOW + timedelta(days=1): False,
    }.items():
        called(started_at=moment, served_model_id=f"at {moment.isoformat()}"[:150])
        key = HistoryKey("openai", f"at {moment.isoformat()}", Operation.CHAT)
        assert (key in history()) is counts, moment


@pytest.mark.parametrize(
    ("changes", "counts", "is_priced"),
    [
        ({}, True, True),
        # What the model did not answer itself.
        ({"success": False, "failure_kind": "transient"}, False, False),
        ({"success": False, "failure_kind": "cancelled"}, False, False),
        ({"success": False, "failure_kind": "refused"}, False, False),
        ({"fallback_attempts": 1}, False, False),
        ({"cache_hit": True}, False, False),
        # A repetition at the same route is its own doing.
        ({"retries": 2}, True, True),
        ({"streamed": True, "first_token_ms": 10.0}, True, True),
        # Costs that are none.
        ({"actual_cost_nanos": None, "cost_currency": ""}, True, False),
        ({"usage_coverage": "estimated"}, True, False),
        ({"usage_coverage": "partial"}, True, False),
        ({"usage_coverage": "absent", "actual_cost_nanos": None}, True, False),
        ({"cost_currency": "EUR"}, True, False),
        # Free is a cost.
        ({"actual_cost_nanos": 0}, True, True),
        # Who asked, and how, does not matter; nor whether anything was decided.
        ({"application": "other", "user": "other", "source": "demo", "policy_mode": ""}, True, True),
        ({"served_configuration": "", "requested": "prod-east/fast"}, True, True),
    ],
    ids=range(16),
)
def test_what_is_counted(changes: dict[str, Any], counts: bool, is_priced: bool) -> None:
    called(**changes)
    figures = history()
    assert list(figures) == ([KEY] if counts else [])
    if counts:
        figure = figures[KEY]
        assert (figure.calls, figure.mean_latency_ms) == (1, 812.5)
        assert figure.priced_calls == int(is_priced)
        cost = changes.get("actual_cost_nanos", 6_400_000)
        assert figure.mean_cost == (Money(cost, "USD") if is_priced else None)


@pytest.mark.parametrize("kind", FailureKind)
def test_no_failure_is_history(kind: FailureKind) -> None:
    called(success=False, failure_kind=kind.value, first_failure_kind=kind.value)
    assert history() == {}


def test_means() -> None:
    for latency, cost in ((100.0, 1), (200.0, 2), (600.0, 2)):
        called(latency_ms=latency, actual_cost_nanos=cost)
    called(latency_ms=1100.0, actual_cost_nanos=None)
    called(latency_ms=9000.0, actual_cost_nanos=10**15, cost_currency="EUR")
    figure = history()[KEY]
    assert (figure.calls, figure.priced_calls) == (5, 3)
    assert figure.mean_latency_ms == pytest.approx(2200.0)
    assert figure.mean_cost == Money(2, "USD")  # five thirds of a nano-unit, rounded half up
    assert history("EUR")[KEY].mean_cost == Money(10**15, "EUR")
    assert history("CHF")[KEY].mean_cost is None


def test_half_a_nano_unit_is_rounded_up_and_nothing_is_lost_above_a_float() -> None:
    called(actual_cost_nanos=2**55 + 1)
    called(actual_cost_nanos=2**55)
    assert history()[KEY].mean_cost == Money(2**55 + 1, "USD")


def test_it_is_kept_by_who_served_what() -> None:
    """By adapter type, and neither by the provider's identifier nor by that of the model, nor by who was asked first.

    All of these names are spelled like each other somewhere, so that one taken for another would show."""
    called(
        first_provider="a", first_adapter_type="b", first_model="c", first_model_id="d",
        served_provider="openai", served_adapter_type="custom", served_model="gpt-x-mini", served_model_id="fast",
        latency_ms=10.0,
    )  # fmt: skip
    called(served_provider="custom", served_adapter_type="openai", served_model="fast", served_model_id="gpt-x-mini")
    called(served_provider="prod-west", served_model="other")  # the same kind and id at another provider
    assert {key: (figure.calls, figure.mean_latency_ms) for key, figure in history().items()} == {
        HistoryKey("custom", "fast", Operation.CHAT): (1, 10.0),
        KEY: (2, 812.5),
    }


def test_operations_are_kept_apart() -> None:
    for operation in Operation:
        called(operation=operation.value)
    called(operation="dance")  # written by a version that knew more
    assert set(history()) == {HistoryKey("openai", "gpt-x-mini", operation) for operation in Operation}


def test_it_is_one_statement(django_assert_num_queries: Any) -> None:
    for number in range(10):
        called(served_model_id=f"model-{number}")
    with django_assert_num_queries(1):
        assert len(history()) == 10
