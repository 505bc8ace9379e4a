"""Walks the plan: asks one route after the other until one answers.

A route can be replaced until the caller has seen something, and never afterwards: a stream that comes back from a
route has begun. What a failure means is read from the table of failures.
"""

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from governance.gateway.context import Answer, CallContext, FrameStream, PassedOver, Proceed
from routing.core.calls import CallReply, Frame
from routing.core.failures import CallFailed, Failure, FailureKind, NextRoute, RouteUnusable
from routing.core.plan import RouteSkipped, Skip, Step, final_failure
from routing.core.vocabulary import SkipReason
from routing.providers.dialects.carrying import NotCarried


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Ask the routes of the plan in order; the last failure ends the call if none answers."""
    notes = context.notes
    if notes.plan is None or notes.ruling is None:
        raise RuntimeError("fall_through runs behind decide")
    last: Failure | None = None
    not_carried: Failure | None = None
    tried: list[str] = []  # the route that failed last at the end
    exceeded: list[int] = []
    for step in notes.plan.steps:
        if exceeded and not _is_longer(step, exceeded):
            _pass_over(context, step, SkipReason.CONTEXT_NO_LONGER)
            continue
        try:
            answer = await proceed(replace(context, step=step))
        except NotCarried as refused:
            not_carried = not_carried or refused.failure
            _pass_over(context, step, SkipReason.NOT_CARRIED, refused.failure.message)
            continue
        except RouteUnusable as unusable:
            _pass_over(context, step, SkipReason.UNUSABLE, unusable.failure.message)
            continue
        except RouteSkipped as skipped:
            _pass_over(context, step, skipped.reason, skipped.detail)
            continue
        except CallFailed as failed:
            last = failed.failure
            _count(context, step, last)
            tried.append(f"{step.model.route}: {last.kind.value}: {last.message}")
            if last.rule.next_route is NextRoute.NO:
                break
            if last.rule.next_route is NextRoute.LARGER_CONTEXT:
                exceeded.append(step.model.context_length or 0)
            continue
        notes.served = notes.attempts[-1]
        if isinstance(answer, CallReply):
            _count(context, step, notes.failure)
            return answer
        return _Counted(context, step, answer)
    if last is not None and last.rule.next_route is NextRoute.NO and len(tried) == 1:
        raise CallFailed(last)  # about this request, and about no route
    raise CallFailed(
        final_failure(
            decision=notes.ruling.decision,
            last=last,
            skips=[*notes.plan.skips, *(each.skip for each in notes.passed_over)],
            tried=tried,
            allowed_models=context.limits.allowed_models,
            not_carried=not_carried,
        )
    )


def _pass_over(context: CallContext, step: Step, reason: SkipReason, detail: str = "") -> None:
    """Note that a route is not asked. That is no failure of the route."""
    skip = Skip.of(step.model.route, reason, detail)
    context.notes.passed_over.append(PassedOver(step, datetime.now(UTC), time.monotonic(), skip))


class _Counted:
    """A stream whose end the route's streak hears of."""

    __slots__ = ("_context", "_counted", "_step", "_stream")

    def __init__(self, context: CallContext, step: Step, stream: FrameStream) -> None:
        self._context = context
        self._step = step
        self._stream = stream
        self._counted = False

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._count(self._context.notes.failure)
            raise
        except CallFailed as failed:
            self._count(failed.failure)
            raise

    async def aclose(self) -> None:
        """Let go of the route. One that had finished its answer has served, whether or not the end was read."""
        await self._stream.aclose()
        if self._context.has_whole_answer:
            self._count(self._context.notes.failure)

    def _count(self, failure: Failure | None) -> None:
        if not self._counted:
            self._counted = True
            _count(self._context, self._step, failure)


def _count(context: CallContext, step: Step, failure: Failure | None) -> None:
    """Tell the route's streak how its call ended. A caller that hangs up, or reads no further, says nothing of it."""
    if failure is None:
        context.standing.streaks.served(step.model.identifier)
    elif failure.kind is not FailureKind.CANCELLED:
        context.standing.streaks.failed(step.model.identifier)


def _is_longer(step: Step, exceeded: Sequence[int]) -> bool:
    """Whether a route's context is longer than all that were exceeded. An unknown length is not."""
    length = step.model.context_length
    return length is not None and length > max(exceeded)
