"""The periods that a budget counts by: calendar days, weeks and months of a named time zone, or all time.

A window is computed from the calendar alone, so its identity is the same in every process, after every restart, and
for every budget that counts by it. Windows of one kind follow each other without a gap and without an overlap: each
begins at the first instant of its first day, whatever the clocks of the zone do there.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo


class WindowKind(StrEnum):
    """What a budget counts by."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    TOTAL = "total"


@dataclass(frozen=True, slots=True)
class Window:
    """One period: from ``starts`` on, and before ``ends``. Both are ``None`` for all time.

    ``identity`` tells it from every other one, such as ``month 2026-11 Europe/Berlin``; a week has the number of
    ISO 8601 and begins on Monday.
    """

    kind: WindowKind
    identity: str
    starts: datetime | None
    ends: datetime | None

    def holds(self, moment: datetime) -> bool:
        """Whether a moment is in it."""
        return self.starts is None or self.ends is None or self.starts <= moment < self.ends


ALL_TIME = Window(kind=WindowKind.TOTAL, identity="total", starts=None, ends=None)


def window_at(kind: WindowKind, *, zone: str, moment: datetime) -> Window:
    """The window that a moment is in.

    Raises:
        ZoneInfoNotFoundError: there is no such time zone.
    """
    if kind is WindowKind.TOTAL:
        return ALL_TIME
    return _window(kind, zone, moment.astimezone(ZoneInfo(zone)).date())


@lru_cache(maxsize=1024)
def _window(kind: WindowKind, zone: str, day: date) -> Window:
    """The window of a day. Asked with the same few days again and again, for every call."""
    match kind:
        case WindowKind.DAY:
            first, after, name = day, day + timedelta(days=1), day.isoformat()
        case WindowKind.WEEK:
            first = day - timedelta(days=day.weekday())
            after = first + timedelta(days=7)
            year, week, _ = day.isocalendar()
            name = f"{year}-W{week:02d}"
        case _:
            first = day.replace(day=1)
            after = (first + timedelta(days=31)).replace(day=1)
            name = f"{first:%Y-%m}"
    return Window(kind=kind, identity=f"{kind} {name} {zone}", starts=_begin(first, zone), ends=_begin(after, zone))


def _begin(day: date, zone: str) -> datetime:
    """The first instant of a day.

    Where the clocks skip midnight, ``fold=0`` reads it by the offset before the change, which is the instant of the
    change; where midnight comes twice, it is the first one.
    """
    return datetime.combine(day, time(), tzinfo=ZoneInfo(zone)).astimezone(UTC)
