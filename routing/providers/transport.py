"""The one guarded HTTP client: connections, time-outs, sizes. It knows no vendor and no dialect.

One transport belongs to one event loop; its owner makes it there and closes it there. It keeps one pool of
connections per base URL, so that providers do not wait for each other's. HTTP/1.1, no redirects, no cookies, no
retries of its own: all waiting and repeating happens in the gateway, bounded by the call's deadline. aiohttp is called
directly; of httpx there is only how it finds certificate authorities and reads URLs.

The environment's proxy variables are *not* honoured, nor is ``.netrc``: a proxy resolves names itself, which leaves
nothing of the outbound policy, and a variable that a machine happens to have must not decide who sees prompts.
``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` are honoured, for providers with a certificate of an own authority.
"""

import asyncio
import logging
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver

from routing.core.failures import CallFailed
from routing.providers.base import Endpoint, Phase
from routing.providers.errors import ProviderFailed, connection_failure, timed_out, unreadable
from routing.providers.outbound import Destination, DestinationBlocked, GuardedResolver, GuardedSockets, OutboundPolicy

MAX_REPLY_BYTES = 64 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
ERROR_BODY_SECONDS = 2.0
DRAIN_SECONDS = 0.1
_PIECE = 256 * 1024
_LARGE_BODY = 1024 * 1024

_log = logging.getLogger(__name__)


class UnknownEncoding(Exception):
    """Raised for a content encoding that was not asked for and is not understood, or is broken."""


class Inflater:
    """Undoes gzip and deflate in bounded pieces, so that a small body cannot become a large one unnoticed."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise UnknownEncoding
        self._may_be_raw = encoding == "deflate"
        self._window = zlib.MAX_WBITS if self._may_be_raw else zlib.MAX_WBITS | 16
        self._inflate = zlib.decompressobj(self._window)
        self._is_complete = True

    @property
    def is_complete(self) -> bool:
        """Whether what was fed so far ends where a compressed stream ends."""
        return self._is_complete

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The decompressed pieces of ``data``, each of bounded size. Raises :class:`UnknownEncoding`."""
        while data:
            self._is_complete = False
            piece = self._decompress(data)
            if piece:
                yield piece
            data = self._inflate.unconsumed_tail
            while not data and len(piece) == _PIECE:  # all input is taken, but not all output was given
                piece = self._decompress(b"")
                if piece:
                    yield piece
            if self._inflate.eof:
                self._is_complete = True
                data = self._inflate.unused_data
                self._inflate = zlib.decompressobj(self._window)

    def _decompress(self, data: bytes) -> bytes:
        try:
            piece = self._inflate.decompress(data, _PIECE)
        except zlib.error:
            if not self._may_be_raw:
                raise UnknownEncoding from None
            self._window = -zlib.MAX_WBITS
            self._inflate = zlib.decompressobj(self._window)
            self._may_be_raw = False
            return self._decompress(data)
        self._may_be_raw = False
        return piece


class _Sliced:
    """A large request body, written in pieces: in one piece it would be copied at once and block the loop."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), _PIECE):
            yield self._body[at : at + _PIECE]


class _Watch:
    """Fails the body that a connection is carrying when the connection is lost.

    aiohttp (3.14) does so itself, except after broken chunk framing in the middle of a body: its parser forgets the
    body before it raises, and whoever reads it waits for ever. One watch is kept for each connection.
    """

    __slots__ = ("content",)

    def __init__(self) -> None:
        self.content: aiohttp.StreamReader | None = None

    def __call__(self, closed: asyncio.Future[None]) -> None:
        if not closed.cancelled():
            closed.exception()  # taken notice of
        content, self.content = self.content, None
        if content is not None and not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the connection was lost"))


class _Response(aiohttp.ClientResponse):
    """A response whose body fails when its connection is lost; see :class:`_Watch`."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        protocol = connection.protocol
        await super().start(connection)
        if protocol is not None and not self.content.is_eof():
            watch = _watches.get(protocol)
            if watch is None:
                watch = _watches[protocol] = _Watch()
                if protocol.closed is not None:
                    protocol.closed.add_done_callback(watch)
            watch.content = self.content
        return self


_watches: WeakKeyDictionary[aiohttp.client_proto.ResponseHandler, _Watch] = WeakKeyDictionary()


@dataclass(slots=True)
class _Line:
    """What is kept for one base URL: its connections, and where paths begin."""

    session: aiohttp.ClientSession
    prefix: str


class HttpExchange:
    """An answer whose head has arrived; see ``base.Exchange``."""

    __slots__ = (
        "_endpoint",
        "_is_closed",
        "_max_bytes",
        "_next_piece",
        "_response",
        "_started_at",
        "_total_at",
    )

    def __init__(
        self, *, endpoint: Endpoint, response: aiohttp.ClientResponse, started_at: float, max_bytes: int
    ) -> None:
        self._endpoint = endpoint
        self._response = response
        self._started_at = started_at
        self._total_at = started_at + endpoint.timeouts.total
        self._max_bytes = max_bytes
        self._is_closed = False
        self._next_piece: Callable[[], Awaitable[bytes]] = response.content.readany
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding and encoding != "identity":
            self._next_piece = partial(anext, _inflated(response.content, Inflater(encoding)), b"")

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def started_at(self) -> float:
        return self._started_at

    def header(self, name: str) -> str:
        value: str = self._response.headers.get(name, "")
        return value

    async def chunk(self, *, until: float, phase: Phase) -> bytes:
        if self._is_closed:
            return b""
        try:
            async with asyncio.timeout_at(min(until, self._total_at)):
                return await self._next_piece()
        except TimeoutError as error:
            await self.aclose()
            failure = timed_out(endpoint=self._endpoint, phase=phase, total=until >= self._total_at)
            raise ProviderFailed(failure, provider=self._endpoint.provider) from error
        except UnknownEncoding as error:
            await self.aclose()
            raise unreadable("the answer's compression cannot be read", endpoint=self._endpoint) from error
        except BaseException as error:
            was_closed = self._has_been_closed()
            await self.aclose()
            if was_closed and isinstance(error, Exception):
                return b""
            if isinstance(error, aiohttp.ClientError | OSError):
                failure = connection_failure(error, endpoint=self._endpoint, phase=phase)
                raise ProviderFailed(failure, provider=self._endpoint.provider) from error
            raise

    async def read(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := await self.chunk(until=self._total_at, phase=Phase.ANSWER):
            pieces.append(piece)
            size += len(piece)
            if size > self._max_bytes:
                await self.aclose()
                raise unreadable(f"the answer is larger than {self._max_bytes} bytes", endpoint=self._endpoint)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def read_error(self) -> bytes:
        until = asyncio.get_running_loop().time() + ERROR_BODY_SECONDS
        body = bytearray()
        try:
            while len(body) < MAX_ERROR_BYTES and (piece := await self.chunk(until=until, phase=Phase.ANSWER)):
                body += piece
        except CallFailed:
            pass  # the status is judged without the rest
        await self.aclose()
        return bytes(body[:MAX_ERROR_BYTES])

    async def drain(self) -> None:
        until = asyncio.get_running_loop().time() + DRAIN_SECONDS
        try:
            while await self.chunk(until=until, phase=Phase.BETWEEN_EVENTS):
                pass
        except CallFailed:
            pass  # the answer was complete; the connection is closed instead of kept
        await self.aclose()

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._response.release()
            await self._response.wait_for_close()
        except (aiohttp.ClientError, OSError):
            _log.debug("closing an answer of %s failed", self._endpoint.provider)

    def _has_been_closed(self) -> bool:
        """Whether it was closed, by another task perhaps, while a read waited."""
        return self._is_closed


class HttpTransport:
    """The guarded way out of one event loop; see ``base.Transport``."""

    def __init__(
        self,
        *,
        policy: OutboundPolicy,
        max_connections: int = 1000,
        keep_alive_seconds: float = 30.0,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        resolver: AbstractResolver | None = None,
    ) -> None:
        """Make a transport inside the loop it will serve.

        Args:
            policy: where connections may go.
            max_connections: to each base URL; whoever comes later waits, within its ``connect`` time-out.
            keep_alive_seconds: how long an idle connection is kept.
            max_reply_bytes: the most a whole answer may have, decompressed.
            resolver: resolves names; by default the system's resolver in a thread. Its answers are judged too.
        """
        self._loop = asyncio.get_running_loop()
        self._policy = policy
        self._max_connections = max_connections
        self._keep_alive_seconds = keep_alive_seconds
        self._max_reply_bytes = max_reply_bytes
        self._resolver = resolver
        self._tls: ssl.SSLContext = httpx.create_ssl_context()
        self._lines: dict[tuple[str, bool], _Line] = {}
        self._is_closed = False

    async def open(
        self,
        *,
        endpoint: Endpoint,
        method: str,
        path: str,
        headers: tuple[tuple[bytes, bytes], ...],
        body: bytes = b"",
        phase: Phase = Phase.ANSWER,
    ) -> HttpExchange:
        """See ``base.Transport.open``."""
        line = self._lines.get((endpoint.base_url, endpoint.allow_http)) or self._connect_line(endpoint)
        started_at = self._loop.time()
        timeouts = endpoint.timeouts
        limit = timeouts.total
        if phase is Phase.FIRST_EVENT:
            limit = min(limit, timeouts.first_event)
        is_large = len(body) > _LARGE_BODY
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
        if is_large:
            fields.append(("content-length", str(len(body))))
        try:
            async with asyncio.timeout_at(started_at + limit):
                response = await line.session.request(
                    method,
                    f"{line.prefix}/{path}",
                    headers=fields,
                    data=_Sliced(body) if is_large else body or None,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(connect=timeouts.connect, sock_connect=timeouts.connect),
                )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
                failure = timed_out(endpoint=endpoint, phase=phase, total=limit == timeouts.total)
            else:
                failure = connection_failure(error, endpoint=endpoint, phase=phase)
                _log.info("no answer: %s: %s", endpoint.provider, failure.code)
            raise ProviderFailed(failure, provider=endpoint.provider) from error
        return await _exchange(
            endpoint=endpoint, response=response, started_at=started_at, max_bytes=self._max_reply_bytes
        )

    async def aclose(self) -> None:
        """Close all connections. May be called repeatedly; nothing can be opened afterwards."""
        self._is_closed = True
        lines = tuple(self._lines.values())
        self._lines.clear()
        for line in lines:
            await line.session.close()
        if lines:
            await asyncio.sleep(0)  # sockets are closed in the loop's next turn

    def _connect_line(self, endpoint: Endpoint) -> _Line:
        if self._is_closed:
            raise RuntimeError("the transport is closed")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("a transport belongs to the event loop it was made in")
        try:
            destination = self._policy.destination(endpoint.base_url, allow_http=endpoint.allow_http)
        except DestinationBlocked as error:
            failure = connection_failure(error, endpoint=endpoint, phase=Phase.CONNECT)
            _log.warning("blocked destination: %s: %s", endpoint.provider, error)
            raise ProviderFailed(failure, provider=endpoint.provider) from error
        line = _Line(session=self._session(destination), prefix=endpoint.base_url.rstrip("/"))
        self._lines[(endpoint.base_url, endpoint.allow_http)] = line
        return line

    def _session(self, destination: Destination) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            ssl=self._tls,
            limit=self._max_connections,
            keepalive_timeout=self._keep_alive_seconds,
            resolver=GuardedResolver(
                policy=self._policy,
                destination=destination,
                inner=self._resolver or aiohttp.ThreadedResolver(),
            ),
            socket_factory=GuardedSockets(policy=self._policy, destination=destination),
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=_Response,
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=("accept", "accept-encoding", "content-type", "user-agent"),
        )


async def _exchange(
    *, endpoint: Endpoint, response: aiohttp.ClientResponse, started_at: float, max_bytes: int
) -> HttpExchange:
    try:
        return HttpExchange(endpoint=endpoint, response=response, started_at=started_at, max_bytes=max_bytes)
    except UnknownEncoding as error:
        response.release()
        raise unreadable("the answer is compressed in a way not asked for", endpoint=endpoint) from error


async def _inflated(content: aiohttp.StreamReader, inflater: Inflater) -> AsyncIterator[bytes]:
    while data := await content.readany():
        for piece in inflater.pieces(data):
            yield piece
    if not inflater.is_complete:
        raise ConnectionError("the compressed body is cut off")
