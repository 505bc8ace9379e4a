"""Holds a call to the rates and quotas of its key and its application: once, before anything is decided.

Who has no limits is asked nothing. What a later refusal makes moot is given back; what was used is booked when the call
is over, a streamed one when its body has closed.
"""

import asyncio
from datetime import timedelta
from functools import partial

from budgets.limits import Allowance, LimitExceeded, admit, settle
from governance.gateway.context import Answer, CallContext, Postponed, Proceed
from governance.gateway.deadline import patience
from governance.gateway.streams import EndedStream
from routing.core.calls import CallReply
from routing.core.failures import CallFailed, Failure, FailureKind

LIMIT_REACHED = "rate_limit_exceeded"
"""The code that clients know."""

_MAY_HAVE_USED = (FailureKind.CANCELLED, FailureKind.TIMEOUT, FailureKind.TRANSIENT, FailureKind.UNREADABLE)
"""How a request ends of which nobody knows what it used."""


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Take what the call is estimated at, and book what it used."""
    if not context.caller.limits:
        return await proceed(context)
    allowance = await _take(context)
    context.notes.standings = allowance.standings
    try:
        answer = await proceed(context)
    except BaseException:
        await _settle(context, allowance, is_answered=False)
        raise
    if isinstance(answer, CallReply):
        await _settle(context, allowance, is_answered=True)
        return answer
    return EndedStream(answer, partial(_settle, context, allowance, is_answered=True))


async def _take(context: CallContext) -> Allowance:
    services = context.services
    taking = services.bridge.cross(
        admit,
        services.shared,
        context.caller.limits,
        tokens=context.facts.token_estimate,
        now=context.started_at,
    )
    try:
        async with asyncio.timeout(patience(context)):
            return await services.take(taking, partial(_settle, context, is_answered=False))
    except TimeoutError:
        message = "whether a rate or quota has room for this call cannot be looked up now, so nothing was sent"
        raise CallFailed(Failure(FailureKind.TRANSIENT, message, retry_after=1.0)) from None
    except LimitExceeded as exceeded:
        context.notes.standings = exceeded.standings
        if exceeded.wait is not None and _has_time(context, exceeded.wait):
            raise Postponed(str(exceeded), wait=exceeded.wait) from None
        failure = Failure(FailureKind.RATE_EXCEEDED, str(exceeded), retry_after=exceeded.wait, code=LIMIT_REACHED)
        raise CallFailed(failure) from None


def _has_time(context: CallContext, seconds: float) -> bool:
    """Whether whoever makes the call waits so long."""
    return context.waits_until is not None and context.started_at + timedelta(seconds=seconds) < context.waits_until


async def _settle(context: CallContext, allowance: Allowance, *, is_answered: bool) -> None:
    """To its end: a caller that hangs up has used what it has used."""
    sent = bool(context.notes.attempts)
    tokens = _tokens_used(context) if sent else 0
    services = context.services
    booking = services.bridge.cross(
        settle, services.shared, allowance, requests=1 if sent or is_answered else 0, tokens=tokens
    )
    await services.finish(booking, seconds=patience(context))


def _tokens_used(context: CallContext) -> int | None:
    """Prompt and answer of every request that was sent; ``None`` if nobody knows."""
    attempts = context.notes.attempts
    reported = [each.usage for each in attempts if each.usage is not None]
    if reported:
        return sum(usage.prompt + usage.output for usage in reported)
    last = attempts[-1].failure
    return None if last is None or last.kind in _MAY_HAVE_USED else 0
