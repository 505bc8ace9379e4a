"""The gateway inside the test's process: on an event loop of its own thread, spoken to in ASGI messages by hand.

Tests stay synchronous: they write records, ask, look at rows. The service under test has its own threads and
connections, as in a real process, so tests that use it are transactional.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import orjson

from governance.gateway.service import Service, close_service, current_service, open_service
from governance.project.asgi import application
from tests.governance.gateway.overheard import overheard
from tests.servers.web import wait_until

SECONDS = 10.0

Result = TypeVar("Result")


class LoopThread:
    """An event loop in a thread; a context manager."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="gateway-under-test", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(SECONDS)
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def run(self, awaitable: Awaitable[Result], *, seconds: float = SECONDS) -> Result:
        """Wait for something that the loop does."""
        return self.begin(awaitable).result(seconds)

    def begin(self, awaitable: Awaitable[Result]) -> "Future[Result]":
        """Let the loop do something."""

        async def wait() -> Result:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(wait(), self.loop)


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return orjson.loads(self.body)

    @property
    def error(self) -> Any:
        """What the error envelope holds."""
        return self.json["error"]

    @property
    def chunks(self) -> list[Any]:
        """The JSON of a stream's frames, without the terminator."""
        return [orjson.loads(data) for data in self.frames if data != b"[DONE]"]

    @property
    def frames(self) -> list[bytes]:
        """The data of a stream's frames."""
        return [frame.removeprefix(b"data: ") for frame in self.body.split(b"\n\n") if frame]


class Conversation:
    """One request under way, and what has been answered so far."""

    def __init__(
        self,
        gateway: "Gateway",
        scope: dict[str, Any],
        pieces: Sequence[bytes],
        *,
        is_complete: bool,
        rests: Sequence[float] = (),
    ) -> None:
        self._loop = gateway.threads.loop
        self._scope = scope
        last = len(pieces) - 1
        self._incoming: list[dict[str, Any]] = [
            {"type": "http.request", "body": piece, "more_body": at < last or not is_complete}
            for at, piece in enumerate(pieces)
        ]
        self._rests = [*rests]
        self._over = asyncio.Event()
        self.has_left = False
        self.sent: list[dict[str, Any]] = []
        self.future = gateway.threads.begin(self._run())

    async def _run(self) -> None:
        await application(self._scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if self._incoming and not self.has_left:
            return self._incoming.pop(0)
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self.has_left:
            return
        self.sent.append(message)
        if message["type"] == "http.response.body" and self._rests:
            await asyncio.sleep(self._rests.pop(0))
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._over.set()

    def hang_up(self) -> None:
        """Close the connection, as a client does."""

        def leave() -> None:
            self.has_left = True
            self._over.set()

        self._loop.call_soon_threadsafe(leave)

    @property
    def body(self) -> bytes:
        """What has arrived of the body."""
        return b"".join(each.get("body", b"") for each in self.sent if each["type"] == "http.response.body")

    def wait_for(self, needle: bytes) -> None:
        """Wait until the body holds some bytes."""
        wait_until(lambda: needle in self.body, seconds=SECONDS)

    def finish(self) -> None:
        """Wait until the gateway is done with the request."""
        self.future.result(SECONDS)

    def reply(self) -> Reply:
        """The whole answer."""
        self.finish()
        head = self.sent[0]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head["headers"]}
        assert head["type"] == "http.response.start"
        assert all(each["type"] == "http.response.body" for each in self.sent[1:])
        assert [each.get("more_body", False) for each in self.sent[1:]] == [True] * (len(self.sent) - 2) + [False]
        return Reply(head["status"], headers, self.body)


class Gateway:
    """The gateway as it runs, and ways to talk to it."""

    def __init__(self, threads: LoopThread) -> None:
        self.threads = threads
        self.secret = ""

    def open(self) -> None:
        """Open the service, as the server's lifespan does."""
        self.threads.run(open_service())

    def close(self) -> None:
        """Close it."""
        self.threads.run(close_service(), seconds=30.0)

    @property
    def service(self) -> Service:
        """The service."""
        return current_service()

    def refresh(self) -> None:
        """Let it see every record at once, and write what waits."""
        self.threads.run(self.service.refresh())

    def flush(self) -> None:
        """Write what waits, or wait until it is written."""
        self.threads.run(self.service._bridge.cross(self.service.services.recorder.flush))

    def begin(
        self,
        body: bytes | Sequence[bytes] = b"",
        *,
        path: str = "/v1/chat/completions",
        method: str = "POST",
        key: str | None = None,
        headers: Mapping[str, str] | Iterable[tuple[bytes, bytes]] = (),
        is_complete: bool = True,
        rests: Sequence[float] = (),
        prefix: str = "",
    ) -> Conversation:
        """Send a request and return at once. The key is the gateway's own unless another, or none (""), is given.

        ``rests`` are the seconds that the caller reads no further, after each of the first pieces of the answer;
        ``prefix`` is what a proxy has put in front of the path.
        """
        secret = self.secret if key is None else key
        overheard.hear(body if isinstance(body, bytes) else b"".join(body), secret)
        fields: list[tuple[bytes, bytes]] = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        if isinstance(headers, Mapping):
            fields += [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        else:
            fields += headers
        if secret:
            fields.append((b"authorization", f"Bearer {secret}".encode()))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": prefix + path,
            "raw_path": (prefix + path).encode("utf-8", "replace"),
            "query_string": b"",
            "root_path": prefix,
            "headers": fields,
            "client": ("127.0.0.1", 40000),
            "server": ("127.0.0.1", 8000),
        }
        pieces = [body] if isinstance(body, bytes) else body
        return Conversation(self, scope, pieces, is_complete=is_complete, rests=rests)

    def request(self, body: bytes | Sequence[bytes] = b"", **settings: Any) -> Reply:
        """Send a request and wait for the whole answer."""
        return self.begin(body, **settings).reply()

    def chat(self, model: str = "support-chat", *, text: str = "Hello", **members: Any) -> Reply:
        """Ask a question; ``members`` are further members of the body."""
        return self.request(question(model, text=text, **members))

    def begin_chat(self, model: str = "support-chat", *, text: str = "Hello", **members: Any) -> Conversation:
        """Ask a question and return at once."""
        return self.begin(question(model, text=text, **members))


def question(model: str = "support-chat", *, text: str = "Hello", **members: Any) -> bytes:
    """The body of a chat request."""
    return orjson.dumps({"model": model, "messages": [{"role": "user", "content": text}], **members})


def elapsed(action: Callable[[], object]) -> float:
    """The seconds that something takes."""
    started = time.monotonic()
    action()
    return time.monotonic() - started
