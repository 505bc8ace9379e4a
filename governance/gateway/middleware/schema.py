"""Holds whole answers to the JSON schema that was asked for.

An answer that does not fit is no answer: the next route is asked, as after anything that cannot be read. Where the
configuration asks for it the model is told what is wrong and may answer once more, which is a request of its own: an
attempt with its cost, and reserved for and timed like every other. It may be repeated if the first one was not: what a
route is sent for one call is as many requests as the policy says, and one more.

Not looked at: what is streamed (the caller has it before it is whole), answers that the model broke off, in which it
declines, or calls tools, and requests for several answers at once.
"""

from dataclasses import replace

import orjson

from governance.gateway.context import Answer, CallContext, Proceed
from governance.gateway.continuation import go_on
from routing.core.calls import CallReply, CallRequest, StopReason, Text, ToolCallStarted
from routing.core.failures import CallFailed, Failure, FailureKind, OutOfTime, RouteUnusable
from routing.core.json_schema import find_fault
from routing.core.plan import RouteSkipped
from routing.core.requirements import measure, requirements_of

COMPLAINT = (
    "Your answer does not fit the JSON schema that was asked for ({fault}). "
    "Answer again, with nothing but JSON that fits it."
)
_FINISHED = (StopReason.END, StopReason.STOP_TEXT, None)
_NOTHING = "(nothing)"


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Ask the route, and once more if its answer does not fit and the configuration wants that."""
    answer = await proceed(context)
    fault = _fault(context, answer)
    if fault is None:
        return answer
    failure = _reject(context, fault)
    if not _repairs(context) or not isinstance(answer, CallReply):
        raise CallFailed(failure)
    request = go_on(context.request, said=_text(answer).strip() or _NOTHING, answered=COMPLAINT.format(fault=fault))
    again = await _ask_again(_about(context, request), proceed, failure)
    fault = _fault(context, again)
    if fault is not None:
        raise CallFailed(_reject(context, fault))
    return again


async def _ask_again(context: CallContext, proceed: Proceed, failure: Failure) -> Answer:
    """The second answer. Where it cannot be asked for, or is refused for what we added, the first failure stands."""
    try:
        return await proceed(context)
    except (RouteUnusable, RouteSkipped):
        raise CallFailed(failure) from None
    except OutOfTime:
        raise
    except CallFailed as failed:
        if failed.failure.kind in (FailureKind.INVALID_REQUEST, FailureKind.CONTEXT_EXCEEDED):
            raise CallFailed(failure) from failed
        raise


def _about(context: CallContext, request: CallRequest) -> CallContext:
    """The call with another request, measured anew."""
    facts = measure(request)
    return replace(context, request=request, facts=facts, requirements=requirements_of(request, facts))


def _repairs(context: CallContext) -> bool:
    step = context.step
    configuration = None if step is None else context.standing.snapshot.configurations.get(step.configuration)
    return configuration is not None and configuration.repairs_output


def _fault(context: CallContext, answer: Answer) -> str | None:
    """What is wrong with an answer; ``None`` if nothing is, or if it is not looked at."""
    wanted = context.request.structured_output
    if wanted is None or wanted.schema is None or not isinstance(answer, CallReply):
        return None
    is_finished = context.notes.failure is None and answer.stop in _FINISHED
    if (
        not is_finished
        or context.request.choices != 1
        or any(isinstance(each, ToolCallStarted) for each in answer.events)
    ):
        return None
    try:
        document = orjson.loads(_text(answer))
    except orjson.JSONDecodeError:
        return "it is not JSON"
    return find_fault(document, wanted.schema)


def _text(answer: CallReply) -> str:
    return "".join(event.text for event in answer.events if isinstance(event, Text))


def _reject(context: CallContext, fault: str) -> Failure:
    """Note on the attempt that its answer is none."""
    message = f"the answer does not fit the schema that was asked for: {fault}"
    failure = Failure(FailureKind.UNREADABLE, message, code="schema_mismatch")
    context.notes.attempts[-1].failure = failure
    return failure
