"""An HTTP/1.1 upstream on a raw socket that misbehaves on the wire exactly as it is told.

A script is a sequence of steps; every request takes the next script, the last one is repeated. What is recorded of
a request: its head, its body, and whether and when the client closed the connection.

    async with FakeProvider(whole(b"{}")) as fake:
        fake.answer(head(), Send(b"data: 1"), Pause(0.1), Send(b"\\n\\n"), Reset())
"""

import asyncio
import gzip
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, cast


@dataclass(frozen=True, slots=True)
class Send:
    """Write bytes as they are."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stall:
    """Say nothing more until the client closes."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection in an orderly way."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Close the connection with a reset."""


Step = Send | Pause | Stall | Close | Reset
Script = Sequence[Step]


def head(
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    content_type: str = "text/event-stream",
    chunked: bool = False,
    length: int | None = None,
) -> Send:
    """The head of an answer. Without a length and without chunks the body ends with the connection."""
    lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {content_type}"]
    if chunked:
        lines.append("transfer-encoding: chunked")
    elif length is not None:
        lines.append(f"content-length: {length}")
    else:
        lines.append("connection: close")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return Send("\r\n".join([*lines, "", ""]).encode("latin-1"))


def chunk(data: bytes) -> Send:
    """One chunk of a chunked body; an empty one ends it."""
    return Send(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def whole(
    body: bytes,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    content_type: str = "application/json",
    compress: bool = False,
    lie: int = 0,
) -> Script:
    """A whole answer with its length; ``lie`` is added to the length that is claimed."""
    headers = dict(headers or {})
    if compress:
        body = gzip.compress(body)
        headers["content-encoding"] = "gzip"
    steps: list[Step] = [head(status, headers, content_type=content_type, length=len(body) + lie), Send(body)]
    return [*steps, Close()] if lie else steps


def events(*payloads: bytes, end: Iterable[Step] | None = None) -> Script:
    """A chunked event stream with one chunk for each ``data``; ``end`` replaces the regular end of the body."""
    frames = [chunk(b"data: " + payload + b"\n\n") for payload in payloads]
    return [head(chunked=True), *frames, *([chunk(b"")] if end is None else end)]


@dataclass(slots=True)
class Received:
    """A request, and what became of its connection. Times are ``time.monotonic()``."""

    line: str
    headers: dict[str, str]
    body: bytes
    head: bytes
    connection: int
    arrived_at: float
    client_closed_at: float | None = None
    client_closed: asyncio.Event = field(default_factory=asyncio.Event)


class FakeProvider:
    """The server; an asynchronous context manager."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts: list[Script] = list(scripts)
        self._by_turns = False
        self._by_body: Mapping[bytes, Script] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._transports: set[asyncio.Transport] = set()
        self.requests: list[Received] = []
        self.connections = 0

    @property
    def url(self) -> str:
        """The base URL to configure, ``/v1`` included."""
        return f"http://{self.host_port}/v1"

    @property
    def host_port(self) -> str:
        """What an exception of the outbound policy has to name."""
        return f"127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        """The port listened on."""
        if self._server is None:
            raise RuntimeError("not started")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def open_connections(self) -> int:
        """Connections that neither side has closed."""
        return len(self._transports)

    @property
    def busy_connections(self) -> int:
        """Connections on which a script is still being played."""
        return len(self._tasks)

    def answer(self, *steps: Step) -> None:
        """Replace the scripts by one."""
        self.answer_in_turn(steps)

    def answer_in_turn(self, *scripts: Script) -> None:
        """Replace the scripts; the last one is repeated."""
        self._scripts, self._by_turns, self._by_body = list(scripts), False, {}

    def answer_by_turns(self, scripts: Iterable[Script]) -> None:
        """Replace the scripts; after the last one the first one comes again."""
        self._scripts, self._by_turns, self._by_body = list(scripts), True, {}

    def answer_by_body(self, scripts: Mapping[bytes, Script]) -> None:
        """Answer by the first of these that stands in a request's body."""
        self._by_body = scripts

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for transport in tuple(self._transports):
            transport.abort()
        await asyncio.sleep(0)

    def next_script(self, body: bytes) -> Script:
        """The script for the next request."""
        for part, script in self._by_body.items():
            if part in body:
                return script
        if not self._scripts:
            raise AssertionError("a request came for which there is no script")
        if self._by_turns:
            self._scripts.append(self._scripts[0])
        return self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]

    def opened(self, transport: asyncio.Transport) -> int:
        """A connection was made; gives it a number."""
        self._transports.add(transport)
        self.connections += 1
        return self.connections

    def lost(self, transport: asyncio.Transport) -> None:
        """A connection is gone."""
        self._transports.discard(transport)

    def start(self, task: asyncio.Task[None]) -> None:
        """Keep a running script alive."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Connection(asyncio.Protocol):
    def __init__(self, fake: FakeProvider) -> None:
        self._fake = fake
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._number = 0
        self._current: Received | None = None
        self._client_gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self._number = self._fake.opened(self._transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_bytes, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        line, *fields = head_bytes.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        received = Received(line, headers, rest[:length], head_bytes, self._number, time.monotonic())
        self._current = received
        self._fake.requests.append(received)
        self._fake.start(asyncio.get_running_loop().create_task(self._play(self._fake.next_script(received.body))))

    def eof_received(self) -> bool:
        self._note_close()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._note_close()
        if self._transport is not None:
            self._fake.lost(self._transport)

    def _note_close(self) -> None:
        self._client_gone.set()
        if self._current is not None and self._current.client_closed_at is None:
            self._current.client_closed_at = time.monotonic()
            self._current.client_closed.set()

    async def _play(self, script: Script) -> None:
        transport = self._transport
        assert transport is not None
        for step in script:
            if self._client_gone.is_set():
                return
            match step:
                case Send(data):
                    transport.write(data)
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Stall():
                    await self._client_gone.wait()
                case Close():
                    self._current = None  # whatever is lost from here on was not closed by the client
                    transport.close()
                case Reset():
                    self._current = None
                    sock: socket.socket = transport.get_extra_info("socket")
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    transport.abort()
