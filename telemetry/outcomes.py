"""What became of an answer: whether it was useful, as the caller says or as the calling application observed.

A report is a row of its own and changes nothing else; the latest stands. Whoever reports names no user and says nothing
of the answer. Nothing is decided by it.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from telemetry.models import Call, Outcome

MOST = 20
"""Reports of one call. An application that cannot make up its mind must not fill a table."""


class Judgement(StrEnum):
    """What became of an answer. The first two are somebody's word, the others what was seen to happen."""

    HELPFUL = "helpful"
    NOT_HELPFUL = "notHelpful"
    ACCEPTED_UNCHANGED = "acceptedUnchanged"
    EDITED = "edited"
    DISCARDED = "discarded"


JUDGEMENT_LABELS: Mapping[Judgement, str] = MappingProxyType(
    {
        Judgement.HELPFUL: "Helpful",
        Judgement.NOT_HELPFUL: "Not helpful",
        Judgement.ACCEPTED_UNCHANGED: "Used as it was",
        Judgement.EDITED: "Used after changes",
        Judgement.DISCARDED: "Not used",
    }
)


class TooManyReports(Exception):
    """The call has been reported on as often as it may be."""

    def __init__(self) -> None:
        super().__init__(f"a call is reported on {MOST} times at the most; the latest report stands")


def report(call: Call, judgement: Judgement, *, key: str, now: datetime) -> tuple[Outcome, bool]:
    """Keep a report; gives the row that stands, and whether it is new. To say the same again adds nothing.

    Raises:
        TooManyReports: there is no room for another one.
    """
    earlier = list(Outcome.objects.filter(call=call).order_by("-pk")[:MOST])
    if earlier and earlier[0].judgement == judgement.value:
        return earlier[0], False
    if len(earlier) == MOST:
        raise TooManyReports
    row = Outcome(call=call, judgement=judgement.value, key=key, reported_at=now)
    row.save()
    return row, True
