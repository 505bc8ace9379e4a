"""The correlation id: one word that ties together an answer, its log lines and the logs of whoever asked.

A caller's own `X-Request-ID` is kept if it looks like an id; anything else is replaced, since it will be
written into logs. The answer carries it back. It begins the trace of the request (`governance.trace`), and travels
with the tasks that the request sends.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import cast
from uuid import uuid4

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from governance.trace import Mark, marks, traced

HEADER = "X-Request-ID"
META_KEY = "signalbox.correlation"
"""Where a view that may not import this module finds the id: no header of a caller can end up there."""

_FIELD = HEADER.lower().encode()
_ACCEPTABLE = re.compile(r"[A-Za-z0-9._-]{1,64}")

Handler = Callable[[HttpRequest], HttpResponseBase]
AsyncHandler = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


def current_correlation() -> str | None:
    """The id of the request being answered, or `None` outside of one."""
    return marks().get(Mark.CORRELATION)


def choose_correlation(*, offered: str | None) -> str:
    """The offered id where it is acceptable, else a new one."""
    if offered is not None and _ACCEPTABLE.fullmatch(offered):
        return offered
    return uuid4().hex


@contextmanager
def correlated(*, offered: str | None, **known: str) -> Iterator[str]:
    """A trace for the block under one id, which is handed in; `known` are further marks of it."""
    correlation = choose_correlation(offered=offered)
    with traced(correlation=correlation, **known):
        yield correlation


class Correlated:
    """An ASGI application each of whose requests is a trace of its own, the server's line about it included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        offered = next((value.decode("latin-1") for name, value in scope["headers"] if name == _FIELD), None)
        with correlated(offered=offered) as correlation:

            async def send_correlated(message: Message) -> None:
                if message["type"] == "http.response.start":
                    others = [pair for pair in message["headers"] if pair[0].lower() != _FIELD]
                    message = {**message, "headers": [*others, (_FIELD, correlation.encode())]}
                await send(message)

            await self._app(scope, receive, send_correlated)


@sync_and_async_middleware
def correlate(get_response: Handler | AsyncHandler) -> Handler | AsyncHandler:
    """Middleware: lets views find the id, and begins a trace where no ASGI application around it did."""
    if iscoroutinefunction(get_response):
        answer_later = cast("AsyncHandler", get_response)

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            with _trace_of(request) as correlation:
                request.META[META_KEY] = correlation
                response = await answer_later(request)
                response[HEADER] = correlation
                return response

        return respond_async

    answer = cast("Handler", get_response)

    def respond(request: HttpRequest) -> HttpResponseBase:
        with _trace_of(request) as correlation:
            request.META[META_KEY] = correlation
            response = answer(request)
            response[HEADER] = correlation
            return response

    return respond


@contextmanager
def _trace_of(request: HttpRequest) -> Iterator[str]:
    known = current_correlation()
    if known is not None:
        yield known
        return
    with correlated(offered=request.headers.get(HEADER)) as correlation:
        yield correlation
