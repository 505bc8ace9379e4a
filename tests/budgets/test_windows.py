"""Windows follow each other without a gap and without an overlap, whatever the clocks of a zone do."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.windows import ALL_TIME, Window, WindowKind, window_at

CALENDAR = [WindowKind.DAY, WindowKind.WEEK, WindowKind.MONTH]

# Zones whose clocks change by night, at midnight (so that a day begins at one o'clock), by half an hour, never, and one
# that went without a whole day.
ZONES = [
    "Europe/Berlin", "America/New_York", "America/Havana", "Africa/Cairo", "America/Sao_Paulo", "Asia/Beirut",
    "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "UTC",
]  # fmt: skip

# Two changes of the clocks of each zone, and the ends of months between them, are in these years.
moments = st.datetimes(
    min_value=datetime(2011, 1, 1), max_value=datetime(2028, 12, 31), timezones=st.just(UTC), allow_imaginary=False
)


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


@given(kind=st.sampled_from(CALENDAR), zone=st.sampled_from(ZONES), moment=moments)
def test_a_moment_is_in_exactly_its_own_window(kind: WindowKind, zone: str, moment: datetime) -> None:
    window = window_at(kind, zone=zone, moment=moment)
    assert window.starts is not None
    assert window.ends is not None
    assert window.holds(moment)
    before = window_at(kind, zone=zone, moment=window.starts - timedelta(microseconds=1))
    after = window_at(kind, zone=zone, moment=window.ends)
    assert (before.ends, after.starts) == (window.starts, window.ends)
    assert not before.holds(moment)
    assert not after.holds(moment)
    assert len({before.identity, window.identity, after.identity}) == 3


@given(kind=st.sampled_from(CALENDAR), zone=st.sampled_from(ZONES), moment=moments, other=moments)
def test_an_identity_is_that_of_one_window(kind: WindowKind, zone: str, moment: datetime, other: datetime) -> None:
    one, two = window_at(kind, zone=zone, moment=moment), window_at(kind, zone=zone, moment=other)
    assert (one.identity == two.identity) == (one == two) == one.holds(other)


@pytest.mark.parametrize("kind", CALENDAR)
@pytest.mark.parametrize("zone", ZONES)
def test_windows_follow_each_other_through_years(kind: WindowKind, zone: str) -> None:
    """One after the other over three years, two changes of the clocks in each, none missing and none twice."""
    seen: list[Window] = []
    moment, last = datetime(2025, 12, 1, tzinfo=UTC), datetime(2028, 2, 1, tzinfo=UTC)
    while moment < last:
        window = window_at(kind, zone=zone, moment=moment)
        assert window.starts is not None
        assert window.ends is not None
        assert not seen or seen[-1].ends == window.starts
        assert window.starts < window.ends
        seen.append(window)
        moment = window.ends
    assert len({each.identity for each in seen}) == len(seen)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-28", 24), ("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)]
)
def test_a_day_is_as_long_as_its_clocks_make_it(day: str, hours: int) -> None:
    window = window_at(WindowKind.DAY, zone="Europe/Berlin", moment=at(f"{day}T12:00", "Europe/Berlin"))
    assert window.starts is not None
    assert window.ends is not None
    assert window.ends - window.starts == timedelta(hours=hours)


def test_a_day_that_begins_at_one_oclock_begins_when_the_clocks_change() -> None:
    """In Cairo the clocks go from midnight to one: there is no 2026-04-24 00:00."""
    window = window_at(WindowKind.DAY, zone="Africa/Cairo", moment=at("2026-04-24T12:00", "Africa/Cairo"))
    assert window.starts == at("2026-04-23T22:00")
    assert window.ends is not None
    assert window.ends - window.starts == timedelta(hours=23)


@pytest.mark.parametrize(
    ("kind", "moment", "zone", "name", "starts", "ends"),
    [
        ("day", "2026-11-30T23:30", "Europe/Berlin", "2026-12-01", "2026-11-30T23:00", "2026-12-01T23:00"),
        ("week", "2027-01-02T00:00", "UTC", "2026-W53", "2026-12-28T00:00", "2027-01-04T00:00"),
        ("month", "2028-02-29T12:00", "UTC", "2028-02", "2028-02-01T00:00", "2028-03-01T00:00"),
        ("month", "2026-12-31T12:00", "UTC", "2026-12", "2026-12-01T00:00", "2027-01-01T00:00"),
        ("month", "2026-07-31T15:30", "Asia/Tokyo", "2026-08", "2026-07-31T15:00", "2026-08-31T15:00"),
    ],
)  # fmt: skip
def test_windows_of_the_calendar(kind: str, moment: str, zone: str, name: str, starts: str, ends: str) -> None:
    window = window_at(WindowKind(kind), zone=zone, moment=at(moment))
    assert (window.identity, window.starts, window.ends) == (f"{kind} {name} {zone}", at(starts), at(ends))


def test_all_time_is_one_window_everywhere() -> None:
    assert window_at(WindowKind.TOTAL, zone="Asia/Tokyo", moment=at("2026-11-30T12:00")) == ALL_TIME
    assert ALL_TIME.holds(at("1999-01-01T00:00"))


def test_a_zone_that_is_none_is_no_window() -> None:
    with pytest.raises(ZoneInfoNotFoundError):
        window_at(WindowKind.DAY, zone="Europe/Nowhere", moment=at("2026-11-30T12:00"))
