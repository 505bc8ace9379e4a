"""One request and its answer on the ASGI side: reading, waiting, sending, noticing that the caller left."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from governance.demo.simulator.problems import Headers, RequestProblem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
EVENT_STREAM = b"text/event-stream; charset=utf-8"

_MARK = (b"x-signalbox-simulator", b"1")
_MOST_BYTES = 64 * 1024 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_SECONDS_FOR_CLOSING = 1.0


class CallerGone(Exception):
    """The caller closed the connection before the answer was complete."""


class Exchange:
    """Reads one request, sends one answer; a wait ends early with ``CallerGone`` if the caller leaves."""

    __slots__ = ("_receive", "_send", "_watch", "request_id", "scope")

    def __init__(self, *, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        self.scope = scope
        self.request_id = request_id
        self._receive = receive
        self._send = send
        self._watch: asyncio.Task[None] | None = None

    async def read_body(self) -> bytes:
        """The whole request body; raises ``CallerGone``, or ``RequestProblem`` (413) over 64 MiB."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise CallerGone
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return body
        parts, size = [body], len(body)
        while message.get("more_body", False):
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise CallerGone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > _MOST_BYTES:
                raise RequestProblem("The request body is too large.", status=413, outcome="too_large")
        return b"".join(parts)

    async def pause(self, seconds: float) -> None:
        """Wait, at least for one turn of the event loop; only after the body was read."""
        watch = self._watching()
        if seconds > 0.0:
            await asyncio.wait({watch}, timeout=seconds)
        else:
            await asyncio.sleep(0)
        if watch.done():
            raise CallerGone

    async def wait_for_hang_up(self) -> None:
        """Wait until the caller leaves, however long that takes."""
        await asyncio.wait({self._watching()})

    async def respond(
        self, status: int, body: bytes, *, content_type: bytes = JSON, headers: Headers | None = None
    ) -> None:
        """Send a whole answer."""
        await self.start(status, content_type=content_type, length=len(body), headers=headers)
        await self._send({"type": "http.response.body", "body": body})

    async def start(
        self, status: int, *, content_type: bytes, length: int | None = None, headers: Headers | None = None
    ) -> None:
        """Send the head of an answer; without a length, as a stream."""
        head = [
            (b"content-type", content_type),
            _MARK,
            (b"x-request-id", self.request_id.encode("ascii")),
        ]
        if length is None:
            head += [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        else:
            head.append((b"content-length", b"%d" % length))
        if headers:
            head += headers
        await self._send({"type": "http.response.start", "status": status, "headers": head})

    async def send(self, data: bytes) -> None:
        """Send a part of the body; more follows."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self) -> None:
        """End the body."""
        await self._send({"type": "http.response.body", "body": b""})

    async def break_connection(self, *, reset: bool) -> None:
        """Close the connection under the answer: at once and by TCP reset, or after what was sent is out.

        ASGI has no message for this. uvicorn's ``send`` is a method of an object that knows the transport;
        under another server the exception raised instead makes it close the connection as it sees fit.
        """
        transport = getattr(getattr(self._send, "__self__", None), "transport", None)
        if transport is None:
            raise ConnectionAbortedError("a simulated provider broke the connection")
        if reset:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            transport.abort()
        else:
            transport.close()
        await asyncio.wait({self._watching()}, timeout=_SECONDS_FOR_CLOSING)

    def release(self) -> None:
        """Stop watching for the caller; to be called when the answer is over."""
        if self._watch is not None:
            self._watch.cancel()

    def _watching(self) -> "asyncio.Task[None]":
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(_until_disconnect(self._receive))
        return self._watch


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
