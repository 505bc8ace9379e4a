"""The ASGI application: which endpoint a request is for, what its route orders, and the answer to it.

Reading requests, composing answers and keeping counts are done by the other modules; here they meet.
"""

import asyncio
import hmac
import itertools
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from governance.demo.simulator.answers import compose, embed
from governance.demo.simulator.behaviours import FailureKind, FailureTarget
from governance.demo.simulator.book import BehaviourBook
from governance.demo.simulator.control import PREFIX as CONTROL_PREFIX
from governance.demo.simulator.control import Control
from governance.demo.simulator.delivery import Call, send_stream, send_whole, suffer
from governance.demo.simulator.exchange import TEXT, CallerGone, Exchange, Receive, Scope, Send
from governance.demo.simulator.problems import (
    RequestProblem,
    unauthorized,
    unknown_model,
    unknown_url,
    wrong_method,
)
from governance.demo.simulator.records import RequestLog, Statistics
from governance.demo.simulator.requests import (
    TextRequest,
    read_chat,
    read_completion,
    read_document,
    read_embeddings,
    read_model,
)
from governance.demo.simulator.wire import (
    Stamp,
    chat_body,
    chat_frames,
    completion_body,
    completion_frames,
    embeddings_body,
    model_body,
    models_body,
)

DEFAULT_PROVIDER = "default"

_ROUTE = re.compile(r"(?:/([A-Za-z0-9][A-Za-z0-9._-]*))?/v1/(.+)", re.DOTALL)
_MODELS = "models"
_MODEL_PREFIX = "models/"
_EMBEDDINGS = "embeddings"
_DOWN = "down"


@dataclass(frozen=True, slots=True)
class _TextOperation:
    """An operation that answers with text: how it is read and how it is written."""

    read: Callable[[Mapping[str, Any]], TextRequest]
    body: Callable[..., bytes]
    frames: Callable[..., list[bytes]]
    id_prefix: str


_TEXT_OPERATIONS = {
    "chat/completions": _TextOperation(read_chat, chat_body, chat_frames, "chatcmpl-sim"),
    "completions": _TextOperation(read_completion, completion_body, completion_frames, "cmpl-sim"),
}


class Simulator:
    """The application; one instance is one set of simulated providers with its own behaviours and counts."""

    def __init__(self, *, book: BehaviourBook, key: str | None, record_bodies: bool) -> None:
        self._book = book
        self._expected = None if key is None else f"Bearer {key}".encode()
        self._statistics = Statistics()
        self._log = RequestLog(record_bodies=record_bodies)
        self._control = Control(book=book, statistics=self._statistics, log=self._log)
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection: HTTP and lifespan."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            raise ValueError(f"the simulator does not speak {scope['type']}")

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope=scope, receive=receive, send=send, request_id=f"req-sim{next(self._numbers):06d}")
        try:
            if scope["path"].startswith(CONTROL_PREFIX):
                self._authenticate(scope)
                await self._control.handle(exchange, await exchange.read_body())
            else:
                await self._serve_provider(exchange)
        except RequestProblem as problem:
            await exchange.respond(problem.status, problem.body())
        except CallerGone:
            return
        finally:
            exchange.release()

    async def _serve_provider(self, exchange: Exchange) -> None:
        """Receive, count and record a request to a provider, and see to it that its count is settled."""
        scope = exchange.scope
        provider, operation = _parse_path(scope["path"])
        body = await exchange.read_body()
        document, problem = _read_leniently(body) if scope["method"] == "POST" else ({}, None)
        model = _name_model(document, operation)
        self._log.add(
            method=scope["method"],
            path=scope["path"],
            provider=provider,
            model=model,
            headers=scope["headers"],
            body=body,
        )
        call = Call(
            exchange=exchange,
            route=self._book.resolve(provider, model),
            tally=self._statistics.begin(provider, model),
            provider=provider,
            model=model,
            operation=operation,
        )
        try:
            await self._answer(call, document=document, problem=problem)
        except RequestProblem as refused:
            call.tally.settle(refused.outcome)
            raise
        except (CallerGone, asyncio.CancelledError):
            call.tally.settle("cancelled", cancelled=True)
            raise
        finally:
            call.tally.settle("error")

    async def _answer(self, call: Call, *, document: Mapping[str, Any], problem: RequestProblem | None) -> None:
        """The gates in the order in which a provider has them, then the answer."""
        if call.route.behaviour.down:
            call.tally.settle(_DOWN)
            await call.exchange.respond(
                503,
                b"no healthy upstream (simulated)",
                content_type=TEXT,
                headers=[(b"connection", b"close")],
            )
            return
        self._authenticate(call.exchange.scope)
        _check_method(call)
        if problem is not None:
            raise problem
        if call.operation.startswith(_MODELS):
            await self._answer_models(call)
        elif call.operation == _EMBEDDINGS:
            await self._answer_embeddings(call, document)
        else:
            await self._answer_text(call, document)

    def _authenticate(self, scope: Scope) -> None:
        """Raise ``RequestProblem`` (401) unless the key is right or none is set."""
        if self._expected is None:
            return
        given = b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                given = value
        if not hmac.compare_digest(given, self._expected):
            raise unauthorized(given=bool(given))

    async def _answer_models(self, call: Call) -> None:
        failure = call.route.next_failure(FailureTarget.MODELS)
        if failure is not None and await suffer(call, failure, stream=False):
            return
        if call.operation == _MODELS:
            body = models_body(self._book.models(call.provider), provider=call.provider)
        else:
            _check_offered(call)
            body = model_body(call.model, provider=call.provider)
        await send_whole(call, body, failure=failure)

    async def _answer_embeddings(self, call: Call, document: Mapping[str, Any]) -> None:
        read_model(document)
        request = read_embeddings(document)
        _check_offered(call)
        failure = call.route.next_failure(FailureTarget.CALLS)
        if failure is not None and await suffer(call, failure, stream=False):
            return
        behaviour = call.route.behaviour
        vectors, usage = embed(request, tokens=behaviour.tokens, dimensions=behaviour.dimensions)
        body = embeddings_body(
            vectors,
            usage=usage,
            model=call.model,
            encoded=request.as_base64,
            with_usage=failure is None or failure.kind is not FailureKind.NO_USAGE,
        )
        await send_whole(call, body, failure=failure)

    async def _answer_text(self, call: Call, document: Mapping[str, Any]) -> None:
        operation = _TEXT_OPERATIONS[call.operation]
        read_model(document)
        request = operation.read(document)
        _check_offered(call)
        failure = call.route.next_failure(FailureTarget.CALLS)
        if failure is not None and await suffer(call, failure, stream=request.stream):
            return
        behaviour = call.route.behaviour
        answer = compose(request, tokens=behaviour.tokens, rng=call.route.rng)
        stamp = Stamp(id=f"{operation.id_prefix}{next(self._numbers):06d}", created=int(time.time()), model=call.model)
        with_usage = failure is None or failure.kind is not FailureKind.NO_USAGE
        if not request.stream:
            body = operation.body(answer, stamp=stamp, with_usage=with_usage)
            await send_whole(call, body, failure=failure)
            return
        frames = operation.frames(
            answer,
            stamp=stamp,
            with_usage=with_usage and request.include_usage,
            chunk_tokens=behaviour.chunk_tokens,
        )
        await send_stream(call, frames, failure=failure)


def build_application(
    *,
    behaviours: Mapping[str, Any] | None = None,
    seed: int = 0,
    key: str | None = None,
    record_bodies: bool = False,
) -> Simulator:
    """A simulator as an ASGI application.

    ``behaviours`` maps ``provider/model`` patterns to behaviours (shape: the package's docstring); ``seed``
    starts the random sequences; with a ``key``, provider and control endpoints want it as a bearer token;
    ``record_bodies`` keeps the last hundred request bodies. Raises ``BehaviourError``.
    """
    return Simulator(book=BehaviourBook(behaviours, seed=seed), key=key, record_bodies=record_bodies)


async def _live(receive: Receive, send: Send) -> None:
    """The lifespan protocol; there is nothing to open or close."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return


@lru_cache(maxsize=1024)
def _parse_path(path: str) -> tuple[str, str]:
    """Provider and operation of a path; an operation that is not simulated is returned as it is."""
    match = _ROUTE.fullmatch(path)
    if match is None:
        return DEFAULT_PROVIDER, ""
    return match.group(1) or DEFAULT_PROVIDER, match.group(2)


def _read_leniently(body: bytes) -> tuple[Mapping[str, Any], RequestProblem | None]:
    """The document, or an empty one and the problem, which is due only after the earlier gates."""
    try:
        return read_document(body), None
    except RequestProblem as problem:
        return {}, problem


def _name_model(document: Mapping[str, Any], operation: str) -> str:
    """The model that a request names, in its body or its path; empty if none."""
    if operation.startswith(_MODEL_PREFIX):
        return operation.removeprefix(_MODEL_PREFIX)
    model = document.get("model")
    return model if isinstance(model, str) else ""


def _check_method(call: Call) -> None:
    """Raise ``RequestProblem`` for a path that is not simulated, or not with this method."""
    method, path = call.exchange.scope["method"], call.exchange.scope["path"]
    reads = call.operation == _MODELS or call.operation.startswith(_MODEL_PREFIX)
    if not reads and call.operation != _EMBEDDINGS and call.operation not in _TEXT_OPERATIONS:
        raise unknown_url(method, path)
    if method != ("GET" if reads else "POST"):
        raise wrong_method(method, path)


def _check_offered(call: Call) -> None:
    if not call.route.behaviour.offered:
        raise unknown_model(call.model)
