"""What a period comes to: exact sums, by hand, with absences kept apart from zeros, at a constant number of queries."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from routing.core.money import Money
from telemetry.models import Call
from telemetry.readouts.periods import Period
from telemetry.readouts.usage import Totals, UsageReadout, read_usage
from tests.factories import CallFactory, UsageDayFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 30, 10, 20, tzinfo=UTC)
TODAY = NOW.date()


def read(period: Period = Period.WEEK, **settings: Any) -> UsageReadout:
    return read_usage(period=period, now=NOW, **settings)


def shown(readout: UsageReadout) -> dict[datetime, int]:
    return {bar.start: bar.totals.requests for bar in readout.bars if bar.totals.requests}


# --- Periods --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("period", "bars", "first", "last"),
    [
        (Period.DAY, 24, datetime(2026, 11, 29, 11, tzinfo=UTC), datetime(2026, 11, 30, 10, tzinfo=UTC)),
        (Period.WEEK, 7, datetime(2026, 11, 24, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC)),
        (Period.MONTH, 30, datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC)),
    ],
)
def test_a_period_has_all_of_its_bars(period: Period, bars: int, first: datetime, last: datetime) -> None:
    readout = read(period)
    assert len(readout.bars) == bars
    assert (readout.bars[0].start, readout.bars[-1].start, readout.since) == (first, last, first)


def test_a_period_is_read_from_a_word() -> None:
    assert [Period.read(text) for text in ("24h", "7d", "30d", "", "90d", "DAY")] == [
        Period.DAY, Period.WEEK, Period.MONTH, Period.WEEK, Period.WEEK, Period.WEEK,
    ]  # fmt: skip


# --- Absence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", list(Period))
def test_nothing_is_no_figure_and_not_zero(period: Period) -> None:
    readout = read(period)
    assert readout.totals == Totals(requests=0, failures=0, tokens=None, costs=(), unpriced=0)
    assert readout.totals.failure_rate is None
    assert (readout.first_token, readout.providers, readout.holds_marked) == (None, (), False)


@pytest.mark.parametrize("period", [Period.DAY, Period.WEEK])
def test_a_call_without_usage_has_neither_tokens_nor_a_cost(period: Period) -> None:
    unknown = dict.fromkeys(
        [f"actual_{each}_tokens" for each in ("input", "cache_read", "cache_write", "output", "reasoning")]
    )
    CallFactory(started_at=NOW, actual_cost_nanos=None, cost_currency="", usage_coverage="absent", **unknown)
    UsageDayFactory(
        day=TODAY, requests=1, currency="", input_tokens=0, output_tokens=0, cost_nanos=0, unpriced_requests=1
    )
    assert read(period).totals == Totals(requests=1, failures=0, tokens=None, costs=(), unpriced=1)


@pytest.mark.parametrize("period", [Period.DAY, Period.WEEK])
def test_a_cost_of_nothing_is_a_cost(period: Period) -> None:
    CallFactory(started_at=NOW, actual_cost_nanos=0)
    UsageDayFactory(day=TODAY, requests=1, cost_nanos=0, input_tokens=1200, output_tokens=340)
    assert read(period).totals == Totals(requests=1, tokens=1540, costs=(Money(0, "USD"),))


# --- Days -----------------------------------------------------------------------------------------------------------


def test_days_are_summed_by_day_provider_and_currency() -> None:
    UsageDayFactory(day=TODAY, requests=4, failures=1, cost_nanos=10, input_tokens=100, output_tokens=7)
    UsageDayFactory(day=TODAY, requests=2, cost_nanos=5, input_tokens=0, cache_read_tokens=30, output_tokens=1)
    UsageDayFactory(day=TODAY, requests=3, cost_nanos=900, currency="EUR", provider="lab", input_tokens=0)
    UsageDayFactory(day=date(2026, 11, 24), requests=5, cost_nanos=1, currency="EUR", provider="lab")
    UsageDayFactory(day=date(2026, 11, 23), requests=50)  # the day before
    UsageDayFactory(day=date(2026, 12, 1), requests=50)  # a clock that is ahead
    readout = read()
    assert shown(readout) == {datetime(2026, 11, 24, tzinfo=UTC): 5, datetime(2026, 11, 30, tzinfo=UTC): 9}
    assert readout.bars[-1].totals.costs == (Money(900, "EUR"), Money(15, "USD"))
    assert readout.bars[-1].totals.tokens == 100 + 7 + 30 + 1 + 1360
    assert readout.totals.costs == (Money(901, "EUR"), Money(15, "USD"))
    assert readout.totals.failure_rate == 1 / 14
    assert [(each.provider, each.totals.requests) for each in readout.providers] == [("lab", 8), ("prod-east", 6)]


def test_a_month_reaches_further_back_than_a_week() -> None:
    UsageDayFactory(day=date(2026, 11, 1), requests=50)
    assert read(Period.WEEK).totals.requests == 0
    assert read(Period.MONTH).totals.requests == 50


def test_marked_rows_are_told_of() -> None:
    UsageDayFactory(day=TODAY, source="demo")
    assert read(mark="demo").holds_marked
    assert not read(mark="web-shop").holds_marked
    assert not read().holds_marked


# --- Hours ----------------------------------------------------------------------------------------------------------


def test_hours_are_summed_from_the_calls_themselves() -> None:
    CallFactory(started_at=NOW - timedelta(minutes=21), actual_cache_read_tokens=60)  # the hour before
    CallFactory(started_at=NOW - timedelta(minutes=20), cost_currency="EUR", served_provider="lab")
    CallFactory(
        started_at=NOW, success=False, failure_kind="timeout", served_provider="", actual_cost_nanos=None,
        cost_currency="", actual_input_tokens=None, actual_output_tokens=None, actual_cache_read_tokens=None,
        actual_cache_write_tokens=None,
    )  # fmt: skip
    CallFactory(started_at=datetime(2026, 11, 29, 11, tzinfo=UTC))
    CallFactory(started_at=datetime(2026, 11, 29, 10, 59, 59, tzinfo=UTC))  # too early
    CallFactory(started_at=NOW + timedelta(seconds=1))  # too late
    readout = read(Period.DAY)
    assert shown(readout) == {
        datetime(2026, 11, 29, 11, tzinfo=UTC): 1,
        datetime(2026, 11, 30, 9, tzinfo=UTC): 1,
        datetime(2026, 11, 30, 10, tzinfo=UTC): 2,
    }
    assert readout.totals.costs == (Money(12_800_000, "USD"), Money(6_400_000, "EUR"))
    assert readout.totals.tokens == 3 * 1540 + 60
    assert (readout.totals.failures, readout.totals.unpriced, readout.totals.failure_rate) == (1, 0, 0.25)
    assert [(each.provider, each.totals.requests) for each in readout.providers] == [
        ("prod-east", 2), ("", 1), ("lab", 1),
    ]  # fmt: skip


def test_an_answer_from_a_cache_lacks_no_price() -> None:
    CallFactory(started_at=NOW, cache_hit=True, actual_cost_nanos=None, cost_currency="")
    assert read(Period.DAY).totals.unpriced == 0


# --- The first token ------------------------------------------------------------------------------------------------


def test_the_first_token_is_the_median_of_what_was_streamed() -> None:
    for milliseconds in (100.0, 300.0, 9_000.0):
        CallFactory(started_at=NOW, streamed=True, first_token_ms=milliseconds)
    CallFactory(started_at=NOW)
    CallFactory(started_at=NOW - timedelta(days=8), streamed=True, first_token_ms=1.0)
    found = read().first_token
    assert found is not None
    assert (found.median_ms, found.calls, found.is_sampled) == (300.0, 3, False)


def test_of_many_calls_the_latest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telemetry.readouts.usage.LOOKED_AT", 2)
    for age, milliseconds in enumerate((10.0, 30.0, 5_000.0)):
        CallFactory(started_at=NOW - timedelta(hours=age), streamed=True, first_token_ms=milliseconds)
    found = read().first_token
    assert found is not None
    assert (found.median_ms, found.calls, found.is_sampled) == (20.0, 2, True)


# --- Cost -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", list(Period))
def test_a_readout_takes_as_many_queries_for_many_rows_as_for_none(
    period: Period, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(3):
        read(period, mark="demo")
    for day in range(5):
        UsageDayFactory.create_batch(3, day=TODAY - timedelta(days=day))
        CallFactory.create_batch(3, started_at=NOW - timedelta(hours=day), first_token_ms=5.0)
    assert Call.objects.count() == 15
    with django_assert_num_queries(3):
        read(period, mark="demo")
