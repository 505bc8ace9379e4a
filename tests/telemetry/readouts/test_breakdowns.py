"""Usage by one dimension, over days of a zone."""

import csv
from datetime import UTC, date, datetime, time, timedelta
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from telemetry.models import DAYS_OF_HOURS, UsageDay, UsageHour
from telemetry.readouts import breakdowns
from telemetry.readouts.breakdowns import Dimension, Share, Span, SpanError, read_breakdown
from telemetry.readouts.tables import write_csv
from telemetry.usage import KEY_FIELDS, SUM_FIELDS, add_usage, remove_old_hours
from tests.factories import UsageDayFactory, UsageHourFactory
from tests.telemetry.records import record

TODAY = date(2026, 11, 30)


def span(first: date, last: date, zone: str = "UTC", *, today: date = TODAY) -> Span:
    return Span.of(first=first, last=last, zone=zone, today=today)


@given(
    first=st.dates(date(2026, 1, 1), date(2027, 12, 31)),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Pacific/Auckland"]),
)
def test_days_of_a_zone_meet_without_gap_or_overlap(first: date, zone: str) -> None:
    day = span(first, first, zone, today=first)
    after = span(first + timedelta(days=1), first + timedelta(days=1), zone, today=first)
    assert day.end == after.start
    assert day.end - day.start in (timedelta(hours=hours) for hours in (23, 24, 25))
    assert len(day.hours) == (day.end - day.start) // timedelta(hours=1)
    assert {each.date() for each in day.hours} == {first}


@pytest.mark.parametrize(("day", "hours"), [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 7, 1), 24)])
def test_a_day_on_which_clocks_change_has_its_own_number_of_hours(day: date, hours: int) -> None:
    assert len(span(day, day, "Europe/Berlin", today=day).hours) == hours


@pytest.mark.parametrize(
    ("first", "last", "zone", "field"),
    [
        (TODAY, TODAY - timedelta(days=1), "UTC", "since"),
        (TODAY - timedelta(days=366), TODAY, "UTC", "since"),
        (TODAY - timedelta(days=DAYS_OF_HOURS + 1), TODAY, "Europe/Berlin", "since"),
        (TODAY, TODAY, "Asia/Kolkata", "zone"),
        (TODAY, TODAY, "Australia/Adelaide", "zone"),
        (TODAY, TODAY, "../etc/passwd", "zone"),
        (TODAY, TODAY, "", "zone"),
    ],
)  # fmt: skip
def test_days_that_cannot_be_told_of(first: date, last: date, zone: str, field: str) -> None:
    with pytest.raises(SpanError) as refused:
        span(first, last, zone)
    assert refused.value.field == field


@pytest.mark.django_db
def test_a_call_is_in_its_day_and_its_hour_with_the_same_sums() -> None:
    late = datetime(2026, 11, 29, 23, 59, 59, 999, tzinfo=UTC)
    add_usage([record(started_at=late), record(started_at=late), record(started_at=late + timedelta(seconds=1))])
    days = {row.day: row for row in UsageDay.objects.all()}
    hours = {row.hour: row for row in UsageHour.objects.all()}
    assert set(days) == {date(2026, 11, 29), date(2026, 11, 30)}
    assert set(hours) == {datetime(2026, 11, 29, 23, tzinfo=UTC), datetime(2026, 11, 30, 0, tzinfo=UTC)}
    for hour, row in hours.items():
        day = days[hour.date()]
        assert {name: getattr(row, name) for name in (*KEY_FIELDS, *SUM_FIELDS)} == {
            name: getattr(day, name) for name in (*KEY_FIELDS, *SUM_FIELDS)
        }
    assert days[date(2026, 11, 29)].requests == 2


@pytest.mark.django_db
@pytest.mark.parametrize("by", [each for each in Dimension if not each.is_time])
def test_days_and_hours_break_down_alike(by: Dimension) -> None:
    start = datetime(2026, 11, 29, tzinfo=UTC)
    add_usage(
        record(started_at=start + timedelta(hours=hour), user=f"agent-{hour % 3}", source=f"program-{hour % 2}")
        for hour in range(24)
    )
    day = span(start.date(), start.date())
    by_hours = Span(start.date(), start.date(), ZoneInfo("Etc/UTC"))  # the same days by another name
    assert not by_hours.is_utc
    first, second = read_breakdown(by=by, span=day), read_breakdown(by=by, span=by_hours)
    assert first.shares == second.shares
    assert first.total == second.total
    assert first.total.requests == 24


@pytest.mark.django_db
def test_usage_is_in_the_day_of_the_zone() -> None:
    UsageHourFactory(hour=datetime(2026, 11, 29, 22, tzinfo=UTC), requests=1)
    UsageHourFactory(hour=datetime(2026, 11, 29, 23, tzinfo=UTC), requests=10)
    UsageHourFactory(hour=datetime(2026, 11, 30, 22, tzinfo=UTC), requests=100)
    UsageHourFactory(hour=datetime(2026, 11, 30, 23, tzinfo=UTC), requests=1000)
    berlin = span(TODAY, TODAY, "Europe/Berlin")
    assert read_breakdown(by=Dimension.DAY, span=berlin).total.requests == 110
    days = read_breakdown(by=Dimension.DAY, span=span(TODAY - timedelta(days=1), TODAY, "Europe/Berlin"))
    assert [(share.value, share.requests) for share in days.shares] == [("2026-11-29", 1), ("2026-11-30", 110)]


@pytest.mark.django_db
def test_an_hour_that_there_is_twice_is_told_twice() -> None:
    for hour in (0, 1):
        UsageHourFactory(hour=datetime(2026, 10, 25, hour, tzinfo=UTC), requests=1)
    day = date(2026, 10, 25)
    found = read_breakdown(by=Dimension.HOUR, span=span(day, day, "Europe/Berlin", today=day))
    assert [share.value for share in found.shares] == ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00"]


@pytest.mark.django_db
def test_hours_grow_old_and_days_do_not() -> None:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    old = now - timedelta(days=DAYS_OF_HOURS + 2, hours=1)
    UsageHourFactory(hour=old)
    UsageHourFactory(hour=now - timedelta(days=DAYS_OF_HOURS))
    UsageDayFactory(day=old.date())
    assert remove_old_hours(now=now) == 1
    assert (UsageHour.objects.count(), UsageDay.objects.count()) == (1, 1)


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_what_can_be_told_is_whole(zone: str) -> None:
    """The first day of which there are hours, asked for in the last minute of the last one."""
    now = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
    first = now.date() - timedelta(days=DAYS_OF_HOURS)
    asked = span(first, first, zone, today=now.date())
    for hour in asked.hours:
        UsageHourFactory(hour=hour.astimezone(UTC), requests=1)
    remove_old_hours(now=now)
    asked.check_pace(Dimension.HOUR)
    assert read_breakdown(by=Dimension.HOUR, span=asked).total.requests == 24


def test_hours_that_are_not_kept_are_not_told_as_none() -> None:
    """Of UTC as of every zone; its days are there for good."""
    day = TODAY - timedelta(days=DAYS_OF_HOURS + 1)
    asked = span(day, day)
    asked.check_pace(Dimension.DAY)
    with pytest.raises(SpanError, match=r"Hours are kept since 2026-\d\d-\d\d; of what was before there are days."):
        asked.check_pace(Dimension.HOUR)


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_no_more_values_are_read_than_are_told(
    zone: str, django_assert_num_queries: DjangoAssertNumQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many users those with the most requests, in all their currencies; the total is that of all."""
    hour = datetime.combine(TODAY, time(12), UTC)
    for number in range(30):
        for currency in ("USD", "EUR"):
            used = {"user": f"agent-{number:02}", "requests": number + 1, "currency": currency, "cost_nanos": 1}
            UsageDayFactory(day=TODAY, **used)
            UsageHourFactory(hour=hour, **used)
    read: list[str] = []
    original = breakdowns._share

    def counted(value: str, rows: list[dict[str, Any]]) -> Share:
        read.append(value)
        return original(value, rows)

    monkeypatch.setattr(breakdowns, "_share", counted)
    with django_assert_num_queries(2):
        found = read_breakdown(by=Dimension.USER, span=span(TODAY, TODAY, zone), most=3)
    assert [each.value for each in found.shares] == ["agent-29", "agent-28", "agent-27"]
    assert [each.nanos for each in found.shares[0].costs] == [1, 1]
    assert (found.is_cut, found.total.requests) == (True, 2 * sum(range(31)))
    assert [each.nanos for each in found.total.costs] == [30, 30]
    assert len(read) == 3 + 1 + 1  # one more than is told, by which it is seen that there are more; and the total


@pytest.mark.django_db
@pytest.mark.parametrize("beginning", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_a_table_has_no_formulas(beginning: str) -> None:
    """A user's name is whatever a caller sent."""
    UsageDayFactory(day=TODAY, user=f"{beginning}cmd|' /C calc'!A0")
    _, row = csv.reader(StringIO(write_csv(read_breakdown(by=Dimension.USER, span=span(TODAY, TODAY))), newline=""))
    assert row[0] == f"'{beginning}cmd|' /C calc'!A0"


@pytest.mark.django_db
def test_a_table_can_be_summed() -> None:
    UsageDayFactory(day=TODAY, model="wise", requests=1, cost_nanos=3, currency="USD")
    UsageDayFactory(day=TODAY, model="wise", requests=2, cost_nanos=2_000_000_000, currency="EUR")
    UsageDayFactory(day=TODAY, model="fast", requests=3, cost_nanos=0, currency="", input_tokens=0, output_tokens=0)
    lines = write_csv(read_breakdown(by=Dimension.MODEL, span=span(TODAY, TODAY))).split("\r\n")
    assert lines[1:] == [
        "fast,3,0,0,,,,,,,",
        "wise,3,0,0,9600,0,0,2720,0,2,EUR",
        "wise,,,,,,,,,0.000000003,USD",
        "",
    ]
