"""Periods to choose from, each ending now."""

from datetime import UTC, datetime, time, timedelta
from enum import StrEnum

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


class Period(StrEnum):
    """What can be looked at."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def label(self) -> str:
        """The period in words."""
        return {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}[self.value]

    @property
    def is_hourly(self) -> bool:
        """Whether its bars are hours; days otherwise."""
        return self is Period.DAY

    @classmethod
    def read(cls, text: str) -> "Period":
        """The period that a word names; seven days for any other word."""
        return cls(text) if text in set(cls) else cls.WEEK

    def starts(self, now: datetime) -> tuple[datetime, ...]:
        """When each of its bars begins, the last of them holding ``now``. Days are UTC days."""
        now = now.astimezone(UTC)
        if self.is_hourly:
            last, step, bars = now.replace(minute=0, second=0, microsecond=0), _HOUR, 24
        else:
            last, step, bars = datetime.combine(now.date(), time(), UTC), _DAY, int(self.value.removesuffix("d"))
        return tuple(last - step * index for index in reversed(range(bars)))
