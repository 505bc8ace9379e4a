"""Asking a provider over HTTP: the part that is the same for every adapter.

Only our own headers are sent: the caller's never are. Compression is not asked for: answers are small, and a
compressing host holds streamed events back.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from routing.core.failures import Failure, FailureKind, RouteUnusable
from routing.providers.base import Endpoint, Exchange, Phase, Transport
from routing.providers.dialects.documents import parse_json
from routing.providers.errors import ProviderFailed, classify_answer, classify_error_object, unreadable
from routing.providers.ndjson import LineReader
from routing.providers.sse import EventReader
from routing.providers.stream import Codec, FrameStream, Reader

MAX_MODELS = 10_000

Header = tuple[str, str]

_ADVICE = ("retry-after", "retry-after-ms")
_COMMON = ((b"accept-encoding", b"identity"), (b"user-agent", b"signalbox"))
_CONTENT = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True)
class StreamWire:
    """How events stand in a stream: the content type that is asked for, and what reads them."""

    content_type: bytes
    reader: Callable[[], Reader]


SSE = StreamWire(b"text/event-stream", EventReader)
NDJSON = StreamWire(b"application/x-ndjson", LineReader)

_NO_STREAM = ("application/json", "application/problem+json", "text/html")


async def ask(
    *, endpoint: Endpoint, transport: Transport, path: str, body: bytes, headers: Iterable[Header] = ()
) -> bytes:
    """The body of a whole answer of status 200. Raises ``CallFailed``."""
    exchange = await transport.open(
        endpoint=endpoint,
        method="POST",
        path=path,
        headers=((b"accept", b"application/json"), _CONTENT, *_headers(endpoint, headers)),
        body=body,
    )
    if exchange.status != 200:
        raise await _refused(exchange, endpoint)
    return await exchange.read()


async def ask_for_events(
    *,
    endpoint: Endpoint,
    transport: Transport,
    path: str,
    body: bytes,
    codec: Codec,
    headers: Iterable[Header] = (),
    wire: StreamWire = SSE,
) -> FrameStream:
    """A streamed answer. Raises ``CallFailed`` for all that goes wrong before it begins."""
    exchange = await transport.open(
        endpoint=endpoint,
        method="POST",
        path=path,
        headers=((b"accept", wire.content_type), _CONTENT, *_headers(endpoint, headers)),
        body=body,
        phase=Phase.FIRST_EVENT,
    )
    if exchange.status != 200:
        raise await _refused(exchange, endpoint)
    if exchange.header("content-type").partition(";")[0].strip().lower() in _NO_STREAM:
        raise await _not_a_stream(exchange, endpoint)
    return FrameStream(endpoint=endpoint, exchange=exchange, codec=codec, reader=wire.reader())


async def fetch(*, endpoint: Endpoint, transport: Transport, path: str, headers: Iterable[Header] = ()) -> Any:
    """A document that is simply there, such as a list of models. Raises ``CallFailed``."""
    exchange = await transport.open(
        endpoint=endpoint,
        method="GET",
        path=path,
        headers=((b"accept", b"application/json"), *_headers(endpoint, headers)),
    )
    if exchange.status != 200:
        raise await _refused(exchange, endpoint)
    try:
        return parse_json(await exchange.read())
    except ValueError:
        raise unreadable("the list of models is not JSON", endpoint=endpoint) from None


def ids_of(document: object, *, endpoint: Endpoint, member: str = "data", field: str = "id") -> tuple[str, ...]:
    """The ids in a list of models: the field of each entry of the member, or of the document that is a list itself."""
    entries = document.get(member) if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise unreadable("the list of models is no list", endpoint=endpoint)
    ids = (entry.get(field) for entry in entries[:MAX_MODELS] if isinstance(entry, dict))
    return tuple(each for each in ids if isinstance(each, str) and each)


def bearer(endpoint: Endpoint) -> tuple[Header, ...]:
    """The key as most vendors want it; nothing for a host that wants none."""
    return (("authorization", f"Bearer {endpoint.api_key}"),) if endpoint.api_key else ()


def _headers(endpoint: Endpoint, own: Iterable[Header]) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of a request. Raises ``RouteUnusable`` for a key or header that HTTP cannot carry."""
    pairs = (*own, *endpoint.headers)
    if not all(name.isascii() and value.isascii() and f"{name}{value}".isprintable() for name, value in pairs):
        raise RouteUnusable(
            Failure(
                FailureKind.AUTH,
                f"{endpoint.provider}: the configured key, organization or a header has characters that no "
                "HTTP header can carry",
                code="unusable_key",
            )
        )
    return (*_COMMON, *((name.encode(), value.encode()) for name, value in pairs))


async def _refused(exchange: Exchange, endpoint: Endpoint) -> ProviderFailed:
    body = await exchange.read_error()
    failure = classify_answer(
        endpoint=endpoint,
        status=exchange.status,
        headers={name: exchange.header(name) for name in _ADVICE},
        body=body,
        now=datetime.now(UTC),
    )
    return ProviderFailed(failure, provider=endpoint.provider)


async def _not_a_stream(exchange: Exchange, endpoint: Endpoint) -> ProviderFailed:
    """The failure that a whole document in place of a stream is: mostly an error inside a 200."""
    body = await exchange.read_error()
    with contextlib.suppress(ValueError):
        document = parse_json(body)
        if isinstance(document, dict) and (document.get("error") or document.get("object") == "error"):
            failure = classify_error_object(document.get("error") or document, endpoint=endpoint)
            return ProviderFailed(failure, provider=endpoint.provider)
    return unreadable("the answer is no event stream", endpoint=endpoint)
