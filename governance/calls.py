"""Calls from Python: the same stack as everybody's, without HTTP.

    answer = run(application="nightly", request={"model": "support-chat", "messages": [...]})
    print(answer.text)

``run`` is for programs, in the name of an application that may run tasks. ``ask`` is what it, the test buttons of the
admin and the execution of submitted calls come to: one request of a caller that is known already.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import orjson

from governance.access.directory import Caller
from governance.gateway import home
from governance.gateway.context import CallContext, Withdrawn
from governance.gateway.errors import RequestProblem
from governance.gateway.protocols import openai_chat, openai_completions, openai_embeddings
from governance.gateway.protocols.base import Head, Writer, whole_answer
from governance.gateway.protocols.openai_chat_replies import OpenAIChatWriter
from governance.gateway.protocols.openai_completions_replies import OpenAICompletionsWriter
from governance.gateway.protocols.openai_embeddings_replies import OpenAIEmbeddingsWriter
from governance.gateway.service import Service
from governance.gateway.stack import run as run_stack
from governance.trace import note
from routing.core.calls import CallReply, CallRequest, Refusal, Text, Usage
from routing.core.conversation import Protocol
from routing.core.failures import CallFailed, Failure, FailureKind, internal_failure
from routing.core.money import Money
from routing.core.requirements import Limits

logger = logging.getLogger(__name__)

SECONDS = 600.0
"""How long a program waits for an answer unless it says otherwise."""


class Wanted(StrEnum):
    """What a program asks for. A request, and the answer's body, are written as at the endpoint of that name."""

    ANSWER = "chat/completions"
    COMPLETION = "completions"
    VECTORS = "embeddings"


_READERS: Mapping[Wanted, Callable[[bytes], CallRequest]] = MappingProxyType(
    {
        Wanted.ANSWER: openai_chat.read_request,
        Wanted.COMPLETION: openai_completions.read_request,
        Wanted.VECTORS: openai_embeddings.read_request,
    }
)
_WRITERS: Mapping[Protocol, Writer] = MappingProxyType(
    {writer.protocol: writer for writer in (OpenAIChatWriter(), OpenAICompletionsWriter(), OpenAIEmbeddingsWriter())}
)


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What is said about a call beside its request. Each can only tighten what the caller may do anyway.

    Attributes:
        user: the end user, for attribution; without one the request's own word for it.
        source: the calling feature; without one that of the key or the application.
        on_device: only models on our own machines may serve it.
        max_cost_nanos: the most it may cost, in nano-units of the installation's currency; ``None`` for no limit.
    """

    user: str = ""
    source: str = ""
    on_device: bool = False
    max_cost_nanos: int | None = None


NO_OPTIONS = CallOptions()


@dataclass(frozen=True, slots=True)
class Answer:
    """An answered call. Figures that nobody reported are ``None``.

    Attributes:
        call_id: the call's id; its row and the decision behind it bear it.
        body: the answer as a caller of the endpoint gets it.
        text: what the model wrote, in one piece; empty where vectors were asked for.
        route: ``provider/model`` that served; empty where the refusal of a provider is the answer.
        response_model: the model that the provider says answered.
        latency_ms: from the call's beginning to the whole answer.
        usage: tokens, as the provider reported them.
        cost: what they cost at the price in force.
        attempts: requests that were sent.
        refusal: that the model declined, and why; ``None`` if it did not.
    """

    call_id: UUID
    body: bytes = field(repr=False)
    text: str = field(repr=False)
    route: str
    response_model: str
    latency_ms: float
    usage: Usage | None
    cost: Money | None
    attempts: int
    refusal: Failure | None

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return orjson.loads(self.body)


class Unanswered(CallFailed):
    """A call that ended without an answer. Like every failed call it has an id and a row."""

    def __init__(self, failure: Failure, *, call_id: UUID, attempts: int) -> None:
        super().__init__(failure)
        self.call_id = call_id
        self.attempts = attempts


def run(
    *,
    application: str,
    request: Mapping[str, Any],
    wanted: Wanted = Wanted.ANSWER,
    options: CallOptions = NO_OPTIONS,
    seconds: float = SECONDS,
) -> Answer:
    """Make a call in an application's name, and wait for the answer.

    Args:
        application: the identifier of an application that may run tasks.
        request: what would be posted to the endpoint, without ``stream``.
        wanted: which endpoint that is.
        options: user, source and limits.
        seconds: how long to wait.

    Raises:
        CallFailed: there is no answer; its ``failure`` says why. An :class:`Unanswered` has an id besides.
        CalledFromTheWrongPlace: inside a transaction, or on an event loop.
    """
    try:
        call = read(wanted, orjson.dumps(request))
    except RequestProblem as refused:
        problem = refused.problem
        failure = Failure(FailureKind.INVALID_REQUEST, problem.message, code=problem.code, parameter=problem.parameter)
        raise CallFailed(failure) from None

    async def ask_as_application(service: Service) -> Answer:
        caller = find_caller(service, application=application, key="")
        return await ask(service, call, caller=caller, options=options)

    return home.wait(ask_as_application, seconds=seconds)


def read(wanted: Wanted, body: bytes) -> CallRequest:
    """The canonical call of a body that would be posted to an endpoint. Raises ``RequestProblem``."""
    return _READERS[wanted](body)


async def ask(
    service: Service,
    request: CallRequest,
    *,
    caller: Caller,
    options: CallOptions = NO_OPTIONS,
    call_id: UUID | None = None,
    before_sending: Callable[[], Awaitable[None]] | None = None,
    waits_until: datetime | None = None,
) -> Answer:
    """Run one request through the stack, on the service's own loop.

    Args:
        service: the gateway of this process.
        request: the call; not streamed.
        caller: in whose name.
        options: user, source and limits.
        call_id: the id that the call shall have; a new one if not said.
        before_sending: awaited before each request to a provider; what it raises keeps the request from being sent.
        waits_until: until when the call would rather wait for its limits than be refused.

    Raises:
        Unanswered: the call failed.
        CallFailed: there was no call: nothing could be read of what is in force, or the request is streamed.
        Withdrawn: ``before_sending`` says that the call is somebody else's.
        Postponed: a limit is reached, and will not be before ``waits_until``.
    """
    if request.stream:
        raise CallFailed(
            Failure(FailureKind.INVALID_REQUEST, "stream: only /v1/ answers in a stream", parameter="stream")
        )
    in_force = service.in_force
    if in_force is None:
        raise CallFailed(Failure(FailureKind.TRANSIENT, "Signalbox cannot read its records; is the database there?"))
    currency = in_force.standing.settings.routing.currency
    context = CallContext.begin(
        caller=caller,
        request=request,
        limits=Limits(
            allowed_models=caller.allowed_models,
            on_device=options.on_device,
            cost_ceiling=None if options.max_cost_nanos is None else Money(options.max_cost_nanos, currency),
        ),
        standing=in_force.standing,
        services=service.services,
        user=options.user or request.user,
        source=options.source or caller.source,
        call_id=call_id,
        before_sending=before_sending,
        waits_until=waits_until,
    )
    note(call=str(context.call_id), application=caller.application)
    is_over = service.begin_call()
    try:
        answer = await run_stack(context)
    except CallFailed as failed:
        return _unanswered(context, failed.failure)
    except Withdrawn:
        raise
    except Exception as error:
        logger.exception("a call ended in an error of our own")
        raise Unanswered(
            internal_failure(error), call_id=context.call_id, attempts=len(context.notes.attempts)
        ) from None
    finally:
        is_over()
    if not isinstance(answer, CallReply):
        raise TypeError("a call that is not streamed was answered by a stream")
    text = "".join(each.text for each in answer.events if isinstance(each, Text | Refusal))
    body = whole_answer(answer, writer=_writer(request), head=Head.of(context))
    return _answer(context, body=body, text=text, refusal=context.notes.failure)


def find_caller(service: Service, *, application: str, key: str) -> Caller:
    """Who calls: by the id of a key, or without one by an application that may run tasks.

    Raises:
        CallFailed: the key, or the application, may not, or no longer, call.
    """
    in_force = service.in_force
    if in_force is None:
        raise CallFailed(Failure(FailureKind.TRANSIENT, "Signalbox cannot read its records; is the database there?"))
    caller = in_force.directory.find(application=application, key=key, now=datetime.now(UTC))
    if caller is not None:
        return caller
    message = f"the application {application} may not call without a key; its page says whether it may run tasks"
    if key:
        message = f"the key of the application {application} was revoked or has expired"
    raise CallFailed(Failure(FailureKind.FORBIDDEN, message, code="caller_not_allowed"))


def _writer(request: CallRequest) -> Writer:
    """What writes the answer: the protocol that the request was written in."""
    if request.original is None:
        raise ValueError("a request without an original has no protocol to be answered in")
    return _WRITERS[request.original.protocol]


def _unanswered(context: CallContext, failure: Failure) -> Answer:
    """What a failed call comes to. That a model declines is an answer, as it is on the wire."""
    writer = _writer(context.request)
    if failure.kind is not FailureKind.REFUSED or not writer.has_refusals:
        raise Unanswered(failure, call_id=context.call_id, attempts=len(context.notes.attempts)) from None
    body = writer.refusal(failure.message, head=Head.of(context), stream=False)
    return _answer(context, body=body, text="", refusal=failure)


def _answer(context: CallContext, *, body: bytes, text: str, refusal: Failure | None) -> Answer:
    notes = context.notes
    served = notes.served
    ended = time.monotonic() if served is None or served.ended is None else served.ended
    return Answer(
        call_id=context.call_id,
        body=body,
        text=text,
        route="" if served is None else served.step.model.route,
        response_model="" if served is None else served.response_model,
        latency_ms=(ended - context.started) * 1000,
        usage=None if served is None else served.usage,
        cost=None if served is None else served.cost,
        attempts=len(notes.attempts),
        refusal=refusal,
    )
