"""Gives a call that its caller named the answer that it had before, so that it is made once however often it comes.

Twins wait for the one that came first. A stream is given again as it was, all at once.
"""

import asyncio
import logging

import orjson
from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError

from governance.gateway import kept_answers
from governance.gateway.context import Answer, CallContext, Proceed
from governance.gateway.deadline import out_of_time, seconds_left
from governance.gateway.errors import NAME_BUSY, NAME_HEADER, NAME_TAKEN
from governance.models import ContentKind
from governance.replays import Claim, Kept, OtherRequest
from governance.safekeeping import mark
from routing.core.failures import CallFailed, Failure, FailureKind
from routing.vault import VaultError

SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_WAITED = 60.0
"""How long a twin waits for the call that came first, if its own deadline is later."""

logger = logging.getLogger(__name__)


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Answer with what the same call was answered before, or make it and keep what comes of it."""
    original = context.request.original
    if not context.name or original is None:
        return await proceed(context)
    found = await _claim(context)
    if isinstance(found, Kept):
        answer = kept_answers.give_again(context, found)
        if answer is None:
            raise _refused(
                NAME_BUSY, f"{NAME_HEADER}: the answer to this name was too long to be kept, and cannot be given again"
            )
        return answer
    kept = context.standing.settings.submissions.content_kept
    return await kept_answers.make(context, proceed, found, kind=ContentKind.REPLAY, kept=kept)


async def _claim(context: CallContext) -> Claim | Kept:
    """The name, or what became of the call that has it; waits while that is under way."""
    deadline = asyncio.get_running_loop().time() + SECONDS_WAITED
    key, request = mark(context.caller.key.encode(), context.name.encode()), _asked(context)
    while True:
        try:
            found = await kept_answers.take(
                context, key=key, request=request, kept=context.standing.settings.submissions.content_kept
            )
        except OtherRequest:
            message = f"{NAME_HEADER}: a request before had this name, and asked for something else; give it another"
            raise _refused(NAME_TAKEN, message) from None
        except (DatabaseFault, TimeoutError, VaultError) as error:
            logger.warning("what was asked under a name cannot be looked up (%s)", type(error).__name__)
            raise CallFailed(
                Failure(
                    FailureKind.TRANSIENT,
                    f"whether this call was made before cannot be looked up now, so nothing was sent ({NAME_HEADER})",
                    retry_after=1.0,
                )
            ) from error
        if found is not None:
            return found
        if asyncio.get_running_loop().time() >= deadline:
            raise _refused(NAME_BUSY, f"{NAME_HEADER}: the call of this name is still under way; ask again later")
        if seconds_left(context) <= SECONDS_BETWEEN_LOOKS:
            raise CallFailed(out_of_time(context, wait=SECONDS_BETWEEN_LOOKS).failure)
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


def _asked(context: CallContext) -> str:
    """The mark of what is asked: the body, and every header that has a say."""
    original, limits = context.request.original, context.limits
    if original is None:
        raise RuntimeError("a call that was not written in a protocol has no name")
    says = (original.protocol.value, original.betas, str(limits.on_device), str(limits.cost_ceiling))
    body = orjson.dumps(original.document) if original.body is None else original.body
    return mark(body, *(each.encode() for each in says))


def _refused(code: str, message: str) -> CallFailed:
    return CallFailed(Failure(FailureKind.INVALID_REQUEST, message, code=code, parameter=NAME_HEADER))
