"""The time that a whole call may take, waits and all its attempts included.

It ends a call as a time-out whatever routes are left, so that a caller knows when to stop waiting. What an attempt may
take is the smaller of its provider's own limit and what is left.
"""

import time

from governance.gateway.context import CallContext
from routing.core.failures import Failure, FailureKind, OutOfTime

DEADLINE = "deadline"
"""The code of the failure."""

PATIENCE = 5.0
"""How long a call waits for what is our own: a database that answers slowly, or not at all, must not keep it for long.
One that is away says so at once."""


def seconds_left(context: CallContext) -> float:
    """How much of the call's time is left; not positive once it is over."""
    return context.standing.settings.deadline - (time.monotonic() - context.started)


def patience(context: CallContext) -> float:
    """How many seconds the call waits for a look into our own records, or a note in them, from now on."""
    return max(0.0, min(PATIENCE, seconds_left(context)))


def out_of_time(context: CallContext, *, wait: float | None = None, evidence: Failure | None = None) -> OutOfTime:
    """The end of a call whose time is up, or would be after a wait of so many seconds.

    Args:
        context: the call.
        wait: what would have had to be waited before the next attempt, if one would follow.
        evidence: how the route had failed before, if it had.
    """
    passed = time.monotonic() - context.started
    deadline = context.standing.settings.deadline
    message = f"no answer within the {deadline:g} s that a call may take (gateway.deadlineSeconds): {passed:.1f} s"
    message += f" have passed, and the next attempt would be {wait:.3g} s away" if wait is not None else " have passed"
    return OutOfTime(Failure(FailureKind.TIMEOUT, message, code=DEADLINE), evidence=evidence)
