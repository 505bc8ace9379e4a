"""Lets it be noted that budgets refuse calls, behind the answer and once in a window.

A call is refused when no route of its plan is affordable: one that is answered by a cheaper route, or fails for another
reason, says nothing of its budgets here.
"""

import logging
from datetime import UTC, datetime

from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError

from budgets.refusals import Refusal
from governance.gateway.context import CallContext, Services
from routing.core.failures import Failure, FailureKind

logger = logging.getLogger(__name__)


def note_refusals(context: CallContext, failure: Failure) -> None:
    """Note which budgets had no room for a call that ends with this failure. What was noted before is not again."""
    if failure.kind is not FailureKind.OVER_BUDGET or not context.notes.refusals:
        return
    services = context.services
    taken = services.refusals.take(context.notes.refusals, now=datetime.now(UTC))
    if taken:
        services.owe(_note(services, taken))


async def _note(services: Services, taken: list[Refusal]) -> None:
    try:
        await services.bridge.cross(services.refusals.note, taken)
    except DatabaseFault as error:
        logger.warning("refused calls cannot be noted yet (%s); the next one is", type(error).__name__)
