"""/v1/ at ASGI level: its own short handler, without Django's middleware, signals and thread per request.

It resolves the path, runs the view, writes the answer, and makes sure that whatever a view began is closed: an answer
that is streamed when the caller hangs up is closed at once, and so is everything behind it.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, get_resolver

from governance.gateway.errors import INTERNAL_ERROR, Problem, RequestProblem
from governance.gateway.http import EventStream, GatewayRequest
from governance.gateway.service import turn_away
from governance.gateway.views import problem_response, writer_of

logger = logging.getLogger(__name__)
access = logging.getLogger("governance.gateway.access")

NO_ROUTE = "(unknown path)"
HUNG_UP = 499
"""The status in the access log of a caller that left before its answer was complete, as web servers write it."""


@dataclass(slots=True)
class _AccessLine:
    """One line for every request, when it is over; `governance.trace` adds whose it was and which model served it.

    It names the endpoint and not the path that was asked for, in which callers may have put anything. Without a status
    the request was broken off from our side.
    """

    method: str
    endpoint: str = NO_ROUTE
    status: int | None = None
    begun: float = field(default_factory=time.monotonic)

    def write(self) -> None:
        figures = {"status": self.status, "milliseconds": round((time.monotonic() - self.begun) * 1000, 1)}
        access.info("%s %s", self.method, self.endpoint, extra=figures)


class GatewayHandler:
    """The ASGI application for everything below /v1/."""

    def __init__(self) -> None:
        resolver = get_resolver("governance.gateway.urls")
        self._resolve = lru_cache(maxsize=1024)(resolver.resolve)  # nearly every call is to one of a few paths

    async def __call__(self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        line = _AccessLine(scope["method"])
        try:
            await self._answer(scope, receive, send, line)
        finally:
            line.write()

    async def _answer(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable, line: _AccessLine
    ) -> None:
        try:
            request = GatewayRequest(scope, receive)
        except ValueError:  # Django reads the content type's parameters, which may name no encoding there is
            problem = Problem(400, "invalid_request", "the content type cannot be read", "invalid_content_type")
            line.status = problem.status
            await _send(problem_response(problem), send)
            return
        try:
            response = await self._respond(request, line)
            line.status = response.status_code
            if isinstance(response, EventStream):
                await _send_stream(response, request, send)
            else:
                await _send(response, send)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            line.status = HUNG_UP if request.hung_up else None
            if not request.hung_up or task is None:
                raise
            task.uncancel()  # the caller is gone and everything is closed; nobody is left to be told
        finally:
            request.stop_watching()

    async def _respond(self, request: GatewayRequest, line: _AccessLine) -> HttpResponseBase:
        try:
            match = self._resolve(request.path_info)
        except Resolver404:
            problem = Problem(404, "invalid_request", f"there is no {request.path_info}", "not_found")
            return problem_response(problem, writer=writer_of(request))
        line.endpoint = f"/{match.route}"
        try:
            response: HttpResponseBase = await match.func(request, *match.args, **match.kwargs)
        except RequestProblem as refused:
            turn_away(refused.problem)
            return problem_response(refused.problem, writer=writer_of(request))
        except Exception:
            logger.exception("a call ended in an error of our own")
            return problem_response(INTERNAL_ERROR, writer=writer_of(request))
        return response


async def _send(response: HttpResponseBase, send: ASGISendCallable) -> None:
    content = response.content if isinstance(response, HttpResponse) else b""
    headers = [*_headers(response), (b"content-length", str(len(content)).encode())]
    await _emit(send, type="http.response.start", status=response.status_code, headers=headers)
    await _emit(send, type="http.response.body", body=content)


async def _send_stream(response: EventStream, request: GatewayRequest, send: ASGISendCallable) -> None:
    try:
        await _emit(send, type="http.response.start", status=response.status_code, headers=_headers(response))
        async for piece in response.outgoing:
            await _emit(send, type="http.response.body", body=piece, more_body=True)
        request.stop_watching()  # a caller that leaves from now on has had its answer
        await _emit(send, type="http.response.body", body=b"")
    finally:
        # Shielded: a caller that hung up has cancelled this task, and the provider must be let go all the same.
        await asyncio.shield(asyncio.ensure_future(response.outgoing.aclose()))


def _headers(response: HttpResponseBase) -> list[tuple[bytes, bytes]]:
    sent = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
    return [*sent, (b"x-content-type-options", b"nosniff")]


async def _emit(send: ASGISendCallable, **message: Any) -> None:
    await send(message)  # type: ignore[arg-type]
