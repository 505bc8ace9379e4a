"""Repeats a request at the same route, on the policy's terms and within the call's deadline.

All waiting of a call happens here. The route's circuit, which lies above, hears of the last failure
alone; of an earlier one if the provider states a wait that is longer than any of our own. A route that
is asked for another answer as well (a repair) has no further repetitions for it: one call, one count.
"""

from asyncio import sleep
from dataclasses import replace
from itertools import count
from random import random

from governance.gateway.context import Answer, CallContext, Proceed
from governance.gateway.deadline import out_of_time, seconds_left
from routing.core.failures import CallFailed, Failure, OutOfTime, RouteUnusable
from routing.core.plan import RouteSkipped
from routing.core.retry import wait_before


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Ask the route until it answers, or until its failure is one that is not repeated."""
    failed: CallFailed | None = None
    for attempt in count(1 + _repetitions(context)):
        if seconds_left(context) <= 0:
            raise out_of_time(context, evidence=_evidence(failed))
        try:
            return await proceed(context)
        except (RouteUnusable, OutOfTime):
            raise
        except RouteSkipped:
            if failed is None:
                raise
            raise failed from None  # it cannot be asked again just now; that it failed stands
        except CallFailed as again:
            failed = again
        wait = _wait_before(attempt + 1, context, failed.failure)
        if wait is None:
            raise failed
        if wait >= seconds_left(context):
            raise out_of_time(context, wait=wait, evidence=failed.evidence) from failed
        if wait > context.standing.settings.retry.longest_wait and context.route_failed is not None:
            context.route_failed(failed.evidence)  # a wait that long is the provider's own: others need not find it out
        await sleep(wait)
        context = replace(context, waited=wait)
    raise AssertionError("a count has no end")


def _repetitions(context: CallContext) -> int:
    """How often the call has repeated a request at this route so far."""
    return sum(each.waited is not None and each.step == context.step for each in context.notes.attempts)


def _wait_before(attempt: int, context: CallContext, failure: Failure) -> float | None:
    step = context.step
    configuration = None if step is None else context.standing.snapshot.configurations.get(step.configuration)
    return wait_before(
        attempt,
        failure=failure,
        policy=context.standing.settings.retry,
        repeats_timeouts=configuration is not None and configuration.repeats_timeouts,
        lot=random(),  # noqa: S311 (it spreads callers out; nobody gains by guessing it)
    )


def _evidence(failed: CallFailed | None) -> Failure | None:
    return None if failed is None else failed.evidence
