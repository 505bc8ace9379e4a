"""The protocol endpoints: authenticate, read, run the stack, write. Plain asynchronous Django views.

Each view reads what is in force once and answers the whole call by it.
"""

import logging
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import partial
from types import ModuleType

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from governance.access.directory import Caller
from governance.gateway.authentication import UNKNOWN_KEY, authenticate
from governance.gateway.context import Attempt, CallContext, CallNotes, FrameStream, PassedOver
from governance.gateway.errors import INTERNAL_ERROR, NAME_HEADER, Problem, RequestProblem, problem_of
from governance.gateway.http import EventStream, GatewayRequest
from governance.gateway.protocols import (
    anthropic,
    anthropic_replies,
    openai_chat,
    openai_chat_replies,
    openai_completions,
    openai_embeddings,
    openai_responses,
)
from governance.gateway.protocols.anthropic_replies import AnthropicWriter
from governance.gateway.protocols.base import Head, Writer, untold_in, whole_answer
from governance.gateway.protocols.openai_chat_replies import OpenAIChatWriter
from governance.gateway.protocols.openai_completions_replies import OpenAICompletionsWriter
from governance.gateway.protocols.openai_embeddings_replies import OpenAIEmbeddingsWriter
from governance.gateway.protocols.openai_responses_replies import OpenAIResponsesWriter
from governance.gateway.rates import rate_headers
from governance.gateway.service import InForce, Service, current_service
from governance.gateway.stack import run
from routing.core.calls import CallReply, CallRequest, Frame
from routing.core.failures import CallFailed, Failure, FailureKind
from routing.core.money import Money, MoneyError, parse_nanos
from routing.core.requirements import Limits, measure

logger = logging.getLogger(__name__)

_JSON = "application/json"
_CHAT = OpenAIChatWriter()
_MESSAGES = AnthropicWriter()
_RESPONSES = OpenAIResponsesWriter()
_COMPLETIONS = OpenAICompletionsWriter()
_EMBEDDINGS = OpenAIEmbeddingsWriter()


async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    """``POST /v1/chat/completions``, whole and streamed."""
    return await _answer(request, read=openai_chat.read_request, writer=_CHAT)


async def messages(request: HttpRequest) -> HttpResponseBase:
    """``POST /v1/messages``, whole and streamed."""
    betas = request.headers.get("anthropic-beta", "")
    return await _answer(request, read=partial(anthropic.read_request, betas=betas), writer=_MESSAGES)


async def count_tokens(request: HttpRequest) -> HttpResponseBase:
    """``POST /v1/messages/count_tokens``: an estimate, since which model will answer is decided only when it is asked.

    It is the estimate that decisions are made with. Nothing is sent, and nothing is recorded.
    """
    if request.method != "POST":
        return _not_allowed(request, "POST")
    service, in_force, _ = await _enter(request)
    body = await _gateway_request(request).read_body(limit=in_force.standing.settings.max_body_bytes)
    facts = await service.read(body, lambda body: measure(anthropic.read_request(body, counts_only=True)))
    return HttpResponse(anthropic_replies.write_count(facts.token_estimate), content_type=_JSON)


async def responses(request: HttpRequest) -> HttpResponseBase:
    """``POST /v1/responses``, whole and streamed."""
    return await _answer(request, read=openai_responses.read_request, writer=_RESPONSES)


async def completions(request: HttpRequest) -> HttpResponseBase:
    """``POST /v1/completions``, whole and streamed."""
    return await _answer(request, read=openai_completions.read_request, writer=_COMPLETIONS)


async def embeddings(request: HttpRequest) -> HttpResponseBase:
    """``POST /v1/embeddings``."""
    return await _answer(request, read=openai_embeddings.read_request, writer=_EMBEDDINGS)


async def models(request: HttpRequest) -> HttpResponseBase:
    """``GET /v1/models``: what the key may ask for."""
    if request.method not in ("GET", "HEAD"):
        return _not_allowed(request, "GET")
    _, in_force, caller = await _enter(request)
    return HttpResponse(_dialect(request).write_models(_names(in_force, caller)), content_type=_JSON)


async def model(request: HttpRequest, name: str) -> HttpResponseBase:
    """``GET /v1/models/NAME``: whether the key may ask for it."""
    if request.method not in ("GET", "HEAD"):
        return _not_allowed(request, "GET")
    _, in_force, caller = await _enter(request)
    names = _names(in_force, caller)
    provider, _, named = name.partition("/")
    spec = in_force.standing.snapshot.catalogue.named(provider=provider, model=named)
    listed = name if spec is None else spec.route  # a call may name a model by the provider's id as well
    if listed not in names:
        raise RequestProblem(404, f"there is no {name} that this key may ask for", code="model_not_found")
    return HttpResponse(_dialect(request).write_model(name, names[listed]), content_type=_JSON)


def problem_response(problem: Problem, *, writer: Writer = _CHAT, **headers: str) -> HttpResponse:
    """An error in a protocol's envelope; in OpenAI's where nobody knows which the caller speaks."""
    return HttpResponse(
        writer.problem(problem),
        status=problem.status,
        content_type=_JSON,
        headers={**problem.headers, **headers},
    )


def writer_of(request: HttpRequest) -> Writer:
    """How the caller of a request is told of errors: by the path, or by a header that only one protocol has."""
    if request.path_info.startswith("/v1/messages") or "anthropic-version" in request.headers:
        return _MESSAGES
    return _CHAT


def _not_allowed(request: HttpRequest, method: str) -> HttpResponse:
    problem = Problem(405, "invalid_request", f"use {method}", "method_not_allowed")
    return problem_response(problem, writer=writer_of(request), Allow=method)


def _dialect(request: HttpRequest) -> ModuleType:
    """What writes lists of models for the caller of a request."""
    return anthropic_replies if writer_of(request) is _MESSAGES else openai_chat_replies


async def _answer(request: HttpRequest, *, read: Callable[[bytes], CallRequest], writer: Writer) -> HttpResponseBase:
    """One call in a caller's protocol, whole or streamed."""
    if request.method != "POST":
        return _not_allowed(request, "POST")
    service, in_force, caller = await _enter(request)
    body = await _gateway_request(request).read_body(limit=in_force.standing.settings.max_body_bytes)
    context = await service.read(body, lambda body: _context(request, service, in_force, caller, read(body), writer))
    is_over = service.begin_call()
    try:
        answer = await run(context)
    except CallFailed as failed:
        return _failed(request, context, failed.failure, writer)
    except Exception:
        logger.exception("call %s ended in an error of our own", context.call_id)
        return problem_response(INTERNAL_ERROR, writer=writer, **_headers(request, context))
    finally:
        is_over()
    if isinstance(answer, CallReply):
        written = whole_answer(answer, writer=writer, head=Head.of(context))
        headers, untold = _headers(request, context), untold_in(answer, writer=writer)
        if untold:
            headers["x-signalbox-untold"] = ", ".join(untold)
        return HttpResponse(written, content_type=_JSON, headers=headers)
    outgoing = _Outgoing(context, answer, writer, is_over=service.begin_call())
    return EventStream(outgoing, headers=_headers(request, context))


def _failed(request: HttpRequest, context: CallContext, failure: Failure, writer: Writer) -> HttpResponse:
    """What a caller gets of a call that failed before a byte was sent. That a model declines is an answer, where the
    protocol has such answers."""
    if failure.kind is not FailureKind.REFUSED or not writer.has_refusals:
        return problem_response(problem_of(failure), writer=writer, **_headers(request, context))
    stream = context.request.stream
    return HttpResponse(
        writer.refusal(failure.message, head=Head.of(context), stream=stream),
        content_type="text/event-stream; charset=utf-8" if stream else _JSON,
        headers=_headers(request, context),
    )


async def _enter(request: HttpRequest) -> tuple[Service, InForce, Caller]:
    """The service, what is in force, and who is calling; nothing of the body is read for a stranger."""
    service = current_service()
    in_force = service.in_force
    if in_force is None:
        raise RequestProblem(
            503, "Signalbox cannot read its records; is the database there?", code="not_ready", retry_after=1.0
        )
    now = datetime.now(UTC)
    try:
        caller = authenticate(request.headers, directory=in_force.directory, now=now)
    except RequestProblem as refused:
        if refused.problem.code != UNKNOWN_KEY:
            raise
        await service.look_for_keys()  # it may have been issued a moment ago
        in_force = service.in_force or in_force
        caller = authenticate(request.headers, directory=in_force.directory, now=now)
    return service, in_force, caller


def _context(
    request: HttpRequest, service: Service, in_force: InForce, caller: Caller, call: CallRequest, writer: Writer
) -> CallContext:
    return CallContext.begin(
        caller=caller,
        request=call,
        limits=_limits(request, caller, currency=in_force.standing.settings.routing.currency),
        standing=in_force.standing,
        services=service.services,
        user=call.user,
        source=request.headers.get("x-signalbox-source", "") or caller.source,
        name=_name(request),
        written=lambda context, reply: whole_answer(reply, writer=writer, head=Head.of(context)),
    )


def _name(request: HttpRequest) -> str:
    """What the caller calls the call; empty if it has no name."""
    name: str = request.headers.get(NAME_HEADER, "")
    if name and not re.fullmatch(r"[!-~]{1,255}", name):
        raise RequestProblem(
            400, f"{NAME_HEADER}: at most 255 letters, digits and signs, without blanks", parameter=NAME_HEADER
        )
    return name


def _limits(request: HttpRequest, caller: Caller, *, currency: str) -> Limits:
    """What the key allows, tightened by headers. A header can never loosen anything."""
    on_device = request.headers.get("x-signalbox-on-device", "").strip().lower()
    if on_device not in ("", "true", "false"):
        raise RequestProblem(400, "x-signalbox-on-device: true or false is needed", parameter="x-signalbox-on-device")
    ceiling = request.headers.get("x-signalbox-max-cost", "").strip()
    try:
        nanos = parse_nanos(ceiling) if ceiling else None
    except MoneyError as error:
        raise RequestProblem(400, f"x-signalbox-max-cost: {error}", parameter="x-signalbox-max-cost") from None
    if nanos is not None and nanos < 0:
        raise RequestProblem(
            400, "x-signalbox-max-cost: an amount cannot be negative", parameter="x-signalbox-max-cost"
        )
    return Limits(
        allowed_models=caller.allowed_models,
        on_device=on_device == "true",
        cost_ceiling=None if nanos is None else Money(nanos, currency),
    )


def _headers(request: HttpRequest, context: CallContext) -> dict[str, str]:
    """What a caller learns beside the answer. A stream's cost is in its usage frame, since it comes last."""
    notes = context.notes
    headers = {
        "x-signalbox-call": str(context.call_id),
        "x-signalbox-attempts": str(len(notes.attempts)),
        "x-signalbox-decision": f"{request.META['SCRIPT_NAME']}/admin/telemetry/call/{context.call_id}/change/",
    }
    if notes.served is not None:
        headers["x-signalbox-route"] = notes.served.step.model.route
        if not context.request.stream and notes.served.cost is not None:
            headers["x-signalbox-cost"] = str(notes.served.cost)
    if notes.standings:
        anthropic = writer_of(request) is _MESSAGES
        headers |= rate_headers(notes.standings, now=datetime.now(UTC), anthropic=anthropic)
    if notes.replay_of is not None:
        headers["x-signalbox-replay-of"] = str(notes.replay_of)
    if notes.cache is not None:
        headers["x-signalbox-cache"] = notes.cache.value
    left = _fell_through(notes)
    if left:
        headers["x-signalbox-fell-through"] = ", ".join(left)
    return headers


def _fell_through(notes: CallNotes) -> list[str]:
    """The routes that were left for another one, or passed over, each with the reason.

    Not among them: the one that served, or whose failure is what the caller is told.
    """
    last = notes.served or (notes.attempts[-1] if notes.attempts else None)
    left = [each for each in notes.walked if each is not last]
    return [f"{each.step.model.route} ({_why_left(each)})" for each in left]


def _why_left(each: Attempt | PassedOver) -> str:
    if isinstance(each, PassedOver):
        return each.skip.reason.value
    return "" if each.failure is None else each.failure.kind.value


class _Outgoing:
    """A stream's bytes for the caller. What goes wrong after the first of them is told in a frame, the last one."""

    def __init__(
        self, context: CallContext, stream: FrameStream, writer: Writer, *, is_over: Callable[[], None]
    ) -> None:
        self._context = context
        self._stream = stream
        self._is_over = is_over
        self._writer = writer
        self._head = Head.of(context)
        notes = context.notes
        served = notes.served
        own = notes.replay_of is not None or (served is not None and served.protocol is writer.protocol)
        self._anew = None if own else writer.stream(self._head)
        self._over = self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._next()
        if self._context.notes.told is not None:
            self._context.notes.told += piece
        return piece

    async def _next(self) -> bytes:
        if self._over:
            raise StopAsyncIteration
        try:
            while True:
                piece = self._written(await self._stream.__anext__())
                if piece:
                    return piece
        except StopAsyncIteration:
            self._over = True
            if self._anew is None:
                raise
            return self._anew.end(self._cost)
        except CallFailed as failed:
            self._over = True
            return self._writer.problem_frame(problem_of(failed.failure))
        except Exception:
            self._over = True
            logger.exception("a stream ended in an error of our own")
            return self._writer.problem_frame(INTERNAL_ERROR)

    def _written(self, frame: Frame) -> bytes:
        """A frame for the caller; empty where there is nothing to say."""
        if self._anew is not None:
            return self._anew.write(frame.events)
        return b"" if frame.hidden else self._writer.frame(frame, head=self._head, cost=self._cost)

    @property
    def _cost(self) -> Money | None:
        served = self._context.notes.served
        return None if served is None else served.cost

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                await self._stream.aclose()
            finally:
                self._is_over()


def _names(in_force: InForce, caller: Caller) -> dict[str, int]:
    """Configurations, and models where the key may name them."""
    snapshot = in_force.standing.snapshot
    names = {name: 0 for name, spec in snapshot.configurations.items() if spec.is_active and caller.may_ask_for(name)}
    if caller.may_name_models:
        names |= {
            each.route: 0
            for each in snapshot.catalogue.models
            if caller.allowed_models is None or each.identifier in caller.allowed_models
        }
    return names


def _gateway_request(request: HttpRequest) -> GatewayRequest:
    if not isinstance(request, GatewayRequest):
        raise TypeError("the protocol endpoints are served by governance.gateway.handler")
    return request
