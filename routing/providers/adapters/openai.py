"""OpenAI's chat completions API, and every host that speaks it with a bearer key.

Only our own headers are sent: the caller's never are. Compression is not asked for: answers are small, and a
compressing host holds streamed events back.
"""

import contextlib
from datetime import UTC, datetime

from routing.core.calls import CallReply, CallRequest
from routing.core.failures import Failure, FailureKind, RouteUnusable
from routing.providers.base import Endpoint, Exchange, Phase, Transport
from routing.providers.dialects.openai_chat import ChunkReader, parse_json, read_reply, request_body
from routing.providers.errors import ProviderFailed, classify_answer, classify_error_object, unreadable
from routing.providers.stream import FrameStream

PATH = "chat/completions"
MAX_MODELS = 10_000

_ADVICE = ("retry-after", "retry-after-ms")
_JSON = (
    (b"accept", b"application/json"),
    (b"accept-encoding", b"identity"),
    (b"content-type", b"application/json"),
    (b"user-agent", b"signalbox"),
)
_EVENTS = ((b"accept", b"text/event-stream"), *_JSON[1:])


class OpenAIAdapter:
    """See ``base.Adapter``.

    ``ask_for_usage`` is false for hosts that refuse ``stream_options`` and report usage in streams anyway.
    """

    __slots__ = ("_ask_for_usage",)

    def __init__(self, *, ask_for_usage: bool = True) -> None:
        self._ask_for_usage = ask_for_usage

    async def call(self, *, endpoint: Endpoint, model_id: str, request: CallRequest, transport: Transport) -> CallReply:
        """Ask for a whole answer."""
        body = request_body(request, model_id=model_id, stream=False)
        exchange = await transport.open(
            endpoint=endpoint, method="POST", path=PATH, headers=_headers(endpoint, _JSON), body=body
        )
        if exchange.status != 200:
            raise await _refused(exchange, endpoint)
        return read_reply(await exchange.read(), endpoint=endpoint)

    async def open_stream(
        self, *, endpoint: Endpoint, model_id: str, request: CallRequest, transport: Transport
    ) -> FrameStream:
        """Ask for a streamed answer."""
        body = request_body(request, model_id=model_id, stream=True, ask_for_usage=self._ask_for_usage)
        exchange = await transport.open(
            endpoint=endpoint,
            method="POST",
            path=PATH,
            headers=_headers(endpoint, _EVENTS),
            body=body,
            phase=Phase.FIRST_EVENT,
        )
        if exchange.status != 200:
            raise await _refused(exchange, endpoint)
        media_type = exchange.header("content-type").partition(";")[0].strip().lower()
        if media_type in ("application/json", "application/problem+json", "text/html"):
            raise await _not_a_stream(exchange, endpoint)
        codec = ChunkReader(endpoint=endpoint, hides_usage=not request.wants_usage, choices=request.choices)
        return FrameStream(endpoint=endpoint, exchange=exchange, codec=codec)

    async def list_models(self, *, endpoint: Endpoint, transport: Transport) -> tuple[str, ...]:
        """The ids of the models the key may use, as the host lists them."""
        exchange = await transport.open(
            endpoint=endpoint, method="GET", path="models", headers=_headers(endpoint, _JSON[:2] + _JSON[3:])
        )
        if exchange.status != 200:
            raise await _refused(exchange, endpoint)
        try:
            document = parse_json(await exchange.read())
        except ValueError:
            raise unreadable("the list of models is not JSON", endpoint=endpoint) from None
        entries = document.get("data") if isinstance(document, dict) else document
        if not isinstance(entries, list):
            raise unreadable("the list of models is no list", endpoint=endpoint)
        ids = (entry.get("id") for entry in entries[:MAX_MODELS] if isinstance(entry, dict))
        return tuple(each for each in ids if isinstance(each, str) and each)


def _headers(endpoint: Endpoint, common: tuple[tuple[bytes, bytes], ...]) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of a request. Raises ``RouteUnusable`` for a key or header that HTTP cannot carry."""
    pairs = [("authorization", f"Bearer {endpoint.api_key}")] if endpoint.api_key else []
    if endpoint.organization:
        pairs.append(("openai-organization", endpoint.organization))
    pairs += endpoint.headers
    if not all(name.isascii() and value.isascii() and f"{name}{value}".isprintable() for name, value in pairs):
        raise RouteUnusable(
            Failure(
                FailureKind.AUTH,
                f"{endpoint.provider}: the configured key, organization or a header has characters that no "
                "HTTP header can carry",
                code="unusable_key",
            )
        )
    return (*common, *((name.encode(), value.encode()) for name, value in pairs))


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
