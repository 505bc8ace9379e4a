"""What the demo's applications habitually ask, and when: the rhythm of its thirty days.

Hours are UTC. The same habits drive the seeded history and the generator of new calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from governance.demo.cast import DEEP, SUPPORT_CHAT, SWIFT
from routing.core.vocabulary import Operation


@dataclass(frozen=True, slots=True)
class Habit:
    """One application asking one configuration for one operation.

    Attributes:
        per_day: calls on a weekday.
        usually: the model that serves it while nothing is wrong.
        hours: relative weight of each hour of the day.
        weekend: calls on a day of the weekend, relative to a weekday.
        users: how many users the application names with its calls.
        live: relative weight among the calls of the generator; 0 for none. Whole chat calls to the two models of
            ``support-chat`` are left to the visitor, so that their figures stay put.
    """

    application: str
    configuration: str
    operation: Operation
    per_day: float
    usually: str
    hours: Sequence[float]
    weekend: float = 0.3
    users: int = 0
    live: float = 0.0

    def expected(self, hour: datetime) -> float:
        """Calls to expect in the hour that begins at this moment."""
        share = self.hours[hour.hour] / sum(self.hours)
        return self.per_day * share * (self.weekend if hour.weekday() >= 5 else 1.0)


_OFFICE = (1, 1, 1, 1, 1, 2, 4, 8, 14, 18, 19, 17, 13, 16, 18, 17, 14, 10, 7, 5, 4, 3, 2, 1)
_ROUND_THE_CLOCK = (6, 5, 4, 4, 4, 5, 7, 9, 12, 14, 14, 13, 12, 13, 14, 14, 13, 12, 12, 12, 11, 10, 9, 7)
_NIGHT = (4, 26, 40, 22, 6, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3)

HABITS = (
    Habit("help-desk", SUPPORT_CHAT, Operation.CHAT, 64, DEEP, _ROUND_THE_CLOCK, weekend=0.55, users=9),
    Habit("help-desk", SUPPORT_CHAT, Operation.STREAM, 50, DEEP, _ROUND_THE_CLOCK, weekend=0.55, users=9, live=2),
    Habit("help-desk", "support-drafts", Operation.CHAT, 56, SWIFT, _OFFICE, users=6),
    Habit("help-desk", "support-drafts", Operation.TOOLS, 18, SWIFT, _OFFICE, users=6),
    Habit("help-desk", "support-drafts", Operation.STREAM, 16, SWIFT, _OFFICE, users=6, live=2),
    Habit("dev-tools", "code-review", Operation.TOOLS, 38, "borealis-coder", _OFFICE, weekend=0.12, users=5, live=2),
    Habit(
        "dev-tools", "code-review", Operation.STREAM_TOOLS, 24, "borealis-coder", _OFFICE,
        weekend=0.12, users=5, live=2,
    ),
    Habit("dev-tools", "code-review", Operation.CHAT, 12, "borealis-coder", _OFFICE, weekend=0.12, users=5, live=1),
    Habit("back-office", "batch-summaries", Operation.CHAT, 58, "dynamo-spark", _NIGHT, weekend=0.7, live=4),
    Habit("back-office", "private-notes", Operation.CHAT, 16, "cellar-steady", _OFFICE, users=4, live=2),
    Habit("back-office", "private-notes", Operation.STREAM, 10, "cellar-steady", _OFFICE, users=4, live=1),
    Habit("media-shelf", "image-captions", Operation.VISION, 18, "dynamo-lens", _ROUND_THE_CLOCK, weekend=0.8, live=1),
)  # fmt: skip

CALLS_OF_A_WEEK = 5.6
"""Weekdays that a week is worth, the weekend included: per-day figures times this are a week's, roughly."""
