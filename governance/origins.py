"""Where the answer of a call came from that no model was asked for: by what it was recognised, and whose answer it was.

Read from the call's row alone, by one function, for every surface that shows it. A repetition of a named call is
answered before anything is decided, the response cache behind the decision: that is how rows tell them apart.
"""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from telemetry.models import Call


class Recognition(StrEnum):
    """By what a call was recognised as one that had been answered before."""

    RESPONSE_CACHE = "responseCache"
    IDEMPOTENCY_KEY = "idempotencyKey"


@dataclass(frozen=True, slots=True)
class Origin:
    """The call whose answer was given again, and by what this one was recognised."""

    recognition: Recognition
    call: UUID


def origin_of(call: Call) -> Origin | None:
    """Whose answer a call was given; ``None`` if its answer is its own, or it has none."""
    if call.replay_of is None:
        return None
    return Origin(Recognition.RESPONSE_CACHE if call.policy_mode else Recognition.IDEMPOTENCY_KEY, call.replay_of)
