"""Walks the plan: asks one route after the other until one answers.

A route can be replaced until the caller has seen something, and never afterwards: a stream that comes back from a
route has begun. What a failure means is read from the table of failures.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from governance.gateway.context import Answer, Attempt, CallContext, PassedOver, Proceed
from governance.gateway.refusals import note_refusals
from routing.core.failures import CallFailed, Failure, NextRoute, OutOfTime, RouteUnusable
from routing.core.plan import RouteSkipped, Skip, Step, final_failure
from routing.core.vocabulary import SkipReason
from routing.providers.dialects.carrying import NotCarried


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Ask the routes of the plan in order; the last failure ends the call if none answers."""
    notes = context.notes
    if notes.plan is None:
        raise RuntimeError("fall_through runs behind decide")
    last: Failure | None = None
    not_carried: Failure | None = None
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
            _pass_over(
                context, step, skipped.reason, skipped.detail, again_in=skipped.again_in, failure=skipped.failure
            )
            continue
        except OutOfTime as spent:
            raise CallFailed(_in_the_end(context, spent.failure, notes.attempts)) from spent
        except CallFailed as failed:
            last = failed.failure
            if last.rule.next_route is NextRoute.NO:
                break
            if last.rule.next_route is NextRoute.LARGER_CONTEXT:
                exceeded.append(step.model.context_length or 0)
            continue
        notes.served = notes.attempts[-1]
        return answer
    if last is not None and last.rule.next_route is NextRoute.NO and len(notes.attempts) == 1:
        raise CallFailed(last)  # about this request, and about no route
    failure = _in_the_end(context, last, notes.attempts[:-1], not_carried=not_carried)
    note_refusals(context, failure)
    raise CallFailed(failure)


def _in_the_end(
    context: CallContext, last: Failure | None, tried: Sequence[Attempt], *, not_carried: Failure | None = None
) -> Failure:
    """What the caller is told: the last failure, and what was tried and passed over besides."""
    notes = context.notes
    if notes.ruling is None or notes.plan is None:
        raise RuntimeError("fall_through runs behind decide")
    return final_failure(
        decision=notes.ruling.decision,
        last=last,
        skips=[*notes.plan.skips, *(each.skip for each in notes.passed_over)],
        tried=[_told(each) for each in tried],
        allowed_models=context.limits.allowed_models,
        not_carried=not_carried,
    )


def _told(attempt: Attempt) -> str:
    """One line about a request that failed."""
    again = "" if attempt.waited is None else f" (again, after {attempt.waited:.3g} s)"
    failure = attempt.failure
    how = "" if failure is None else f": {failure.kind.value}: {failure.message}"
    return f"{attempt.step.model.route}{again}{how}"


def _pass_over(
    context: CallContext,
    step: Step,
    reason: SkipReason,
    detail: str = "",
    *,
    again_in: float | None = None,
    failure: Failure | None = None,
) -> None:
    """Note that a route is not asked. That is no failure of the route."""
    skip = Skip.of(step.model.route, reason, detail, again_in=again_in, failure=failure)
    context.notes.passed_over.append(PassedOver(step, datetime.now(UTC), time.monotonic(), skip))


def _is_longer(step: Step, exceeded: Sequence[int]) -> bool:
    """Whether a route's context is longer than all that were exceeded. An unknown length is not."""
    length = step.model.context_length
    return length is not None and length > max(exceeded)
