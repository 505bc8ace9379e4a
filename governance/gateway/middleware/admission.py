"""Holds a call to the rates and quotas of its key and its application: once, before anything is decided.

Who has no limits is asked nothing. What a later refusal makes moot is given back; what was used is booked when the call
is over, a streamed one when its body has closed.
"""

import asyncio
from collections.abc import AsyncIterator

from budgets.limits import Allowance, LimitExceeded, admit, settle
from governance.gateway.context import Answer, CallContext, FrameStream, Proceed
from routing.core.calls import CallReply, Frame
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
    return _LimitedStream(context, answer, allowance)


async def _take(context: CallContext) -> Allowance:
    services = context.services
    taking = asyncio.ensure_future(
        services.bridge.cross(
            admit,
            services.shared,
            context.caller.limits,
            tokens=context.facts.token_estimate,
            now=context.started_at,
        )
    )
    try:
        return await asyncio.shield(taking)
    except LimitExceeded as exceeded:
        context.notes.standings = exceeded.standings
        failure = Failure(FailureKind.RATE_EXCEEDED, str(exceeded), retry_after=exceeded.wait, code=LIMIT_REACHED)
        raise CallFailed(failure) from None
    except asyncio.CancelledError:
        taking.add_done_callback(lambda done: _give_back(context, done))
        raise


def _give_back(context: CallContext, taking: "asyncio.Future[Allowance]") -> None:
    """The caller left while the call was being admitted: nothing came of what was taken."""
    if not taking.cancelled() and taking.exception() is None:
        giving = asyncio.ensure_future(_settle(context, taking.result(), is_answered=False))
        _GIVING.add(giving)
        giving.add_done_callback(_GIVING.discard)


_GIVING: set["asyncio.Future[None]"] = set()
"""What nobody waits for, so that it is not thrown away half done."""


async def _settle(context: CallContext, allowance: Allowance, *, is_answered: bool) -> None:
    """Shielded: a caller that hangs up has used what it has used."""
    sent = bool(context.notes.attempts)
    tokens = _tokens_used(context) if sent else 0
    services = context.services
    booking = services.bridge.cross(
        settle, services.shared, allowance, requests=1 if sent or is_answered else 0, tokens=tokens
    )
    await asyncio.shield(asyncio.ensure_future(booking))


def _tokens_used(context: CallContext) -> int | None:
    """Prompt and answer of every request that was sent; ``None`` if nobody knows."""
    attempts = context.notes.attempts
    reported = [each.usage for each in attempts if each.usage is not None]
    if reported:
        return sum(usage.prompt + usage.output for usage in reported)
    last = attempts[-1].failure
    return None if last is None or last.kind in _MAY_HAVE_USED else 0


class _LimitedStream:
    """A stream that is booked once, at its end, however it comes."""

    __slots__ = ("_allowance", "_context", "_is_settled", "_stream")

    def __init__(self, context: CallContext, stream: FrameStream, allowance: Allowance) -> None:
        self._context = context
        self._stream = stream
        self._allowance = allowance
        self._is_settled = False

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        try:
            return await self._stream.__anext__()
        except BaseException:  # its end as well
            await self._settle()
            raise

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            await self._settle()

    async def _settle(self) -> None:
        if not self._is_settled:
            self._is_settled = True
            await _settle(self._context, self._allowance, is_answered=True)
