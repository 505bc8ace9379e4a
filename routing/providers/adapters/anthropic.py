"""Anthropic's messages API."""

from urllib.parse import quote

from routing.core.calls import CallReply, CallRequest
from routing.core.conversation import Protocol
from routing.providers.asking import Header, ask, ask_for_events, fetch, ids_of
from routing.providers.base import Endpoint, Transport
from routing.providers.dialects.anthropic_replies import EventReader, read_reply
from routing.providers.dialects.anthropic_requests import CARRIES, request_body
from routing.providers.dialects.tools import ToolNames
from routing.providers.stream import FrameStream

VERSION = "2023-06-01"
PATH = "messages"
PAGE = 1000
MOST_PAGES = 10


class AnthropicAdapter:
    """See ``base.Adapter``."""

    protocol = Protocol.ANTHROPIC
    carries = CARRIES

    async def call(
        self,
        *,
        endpoint: Endpoint,
        model_id: str,
        request: CallRequest,
        transport: Transport,
        max_output: int | None = None,
    ) -> CallReply:
        """Ask for a whole answer."""
        body = request_body(request, model_id=model_id, max_output=max_output)
        answer = await ask(
            endpoint=endpoint, transport=transport, path=PATH, body=body, headers=_headers(endpoint, request)
        )
        return read_reply(answer, endpoint=endpoint, tools=ToolNames(request.tools))

    async def open_stream(
        self,
        *,
        endpoint: Endpoint,
        model_id: str,
        request: CallRequest,
        transport: Transport,
        max_output: int | None = None,
    ) -> FrameStream:
        """Ask for a streamed answer."""
        return await ask_for_events(
            endpoint=endpoint,
            transport=transport,
            path=PATH,
            body=request_body(request, model_id=model_id, max_output=max_output),
            codec=EventReader(endpoint=endpoint, tools=ToolNames(request.tools)),
            headers=_headers(endpoint, request),
        )

    async def list_models(self, *, endpoint: Endpoint, transport: Transport) -> tuple[str, ...]:
        """The ids of the models the key may use."""
        ids: tuple[str, ...] = ()
        path = f"models?limit={PAGE}"
        for _ in range(MOST_PAGES):
            document = await fetch(endpoint=endpoint, transport=transport, path=path, headers=_key(endpoint))
            ids += ids_of(document, endpoint=endpoint)
            last = document.get("last_id") if isinstance(document, dict) and document.get("has_more") else None
            if not isinstance(last, str) or not last:
                break
            path = f"models?limit={PAGE}&after_id={quote(last, safe='')}"
        return ids


def _headers(endpoint: Endpoint, request: CallRequest) -> tuple[Header, ...]:
    """The headers of a request, with the features that one of this protocol turned on."""
    original = request.original
    if original is None or original.protocol is not Protocol.ANTHROPIC or not original.betas:
        return _key(endpoint)
    return (*_key(endpoint), ("anthropic-beta", original.betas))


def _key(endpoint: Endpoint) -> tuple[Header, ...]:
    key = (("x-api-key", endpoint.api_key),) if endpoint.api_key else ()
    return (*key, ("anthropic-version", VERSION))
