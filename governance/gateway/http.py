"""One HTTP request of the gateway and its answers: Django's request and response, read and written by hand.

Django's own handler reads a body into a temporary file before anyone looks at the key, caps it at 2.5 MB, and gives
every request a thread. Here a view asks for the body when it knows who is calling, and a caller that hangs up cancels
the task that serves it.
"""

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any, Protocol

from asgiref.typing import ASGIReceiveCallable, HTTPScope
from django.core.handlers.asgi import ASGIRequest
from django.http.response import HttpResponseBase

from governance.gateway.errors import RequestProblem

BODY_SECONDS = 60.0
"""How long a body may take to arrive."""

_LENGTH_DIGITS = 18  # of a declared length; one with more is too long whatever it is


class GatewayRequest(ASGIRequest):
    """A request whose body is read on demand."""

    def __init__(self, scope: HTTPScope, receive: ASGIReceiveCallable) -> None:
        super().__init__(scope, BytesIO())
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None
        self.hung_up = False

    async def read_body(self, *, limit: int) -> bytes:
        """The whole body; from then on a caller that hangs up cancels the current task.

        Raises:
            RequestProblem: 413 above ``limit`` bytes, told as soon as it is known; 408 when it takes too long.
        """
        length = self.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and (len(length) > _LENGTH_DIGITS or int(length) > limit):
            raise _too_large(limit)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._collect(limit)
        except TimeoutError:
            raise RequestProblem(
                408, f"the body did not arrive within {BODY_SECONDS:g} seconds", code="body_timeout"
            ) from None
        serving = asyncio.current_task()
        if serving is not None:
            self._watcher = asyncio.create_task(self._watch(serving))
        return body

    def stop_watching(self) -> None:
        """The answer is complete: what the caller does now is its own affair."""
        if self._watcher is not None:
            self._watcher.cancel()

    async def _collect(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            message: Any = await self._receive()
            if message["type"] == "http.disconnect":
                self.hung_up = True
                raise asyncio.CancelledError
            piece = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            pieces.append(piece)
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _watch(self, serving: "asyncio.Task[Any]") -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.hung_up = True
                serving.cancel()
                return


class Outgoing(Protocol):
    """What is streamed to the caller. Closing is explicit, because a generator that never began cannot clean up."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces."""

    async def __anext__(self) -> bytes:
        """The next piece."""

    async def aclose(self) -> None:
        """Let go of everything behind it. Called once the stream has ended or the caller hung up."""


class EventStream(HttpResponseBase):
    """A streamed answer."""

    streaming = True

    def __init__(self, outgoing: Outgoing, *, headers: dict[str, str]) -> None:
        super().__init__(content_type="text/event-stream; charset=utf-8", headers=headers)
        self.outgoing = outgoing
        # Proxies that collect an answer before they pass it on would make a stream pointless.
        self["Cache-Control"] = "no-cache, no-transform"
        self["X-Accel-Buffering"] = "no"


def _too_large(limit: int) -> RequestProblem:
    return RequestProblem(
        413, f"the body is larger than {limit} bytes (the setting gateway.maxBodyBytes)", code="body_too_large"
    )
