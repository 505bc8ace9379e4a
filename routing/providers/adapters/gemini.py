"""Google's Gemini API. The model stands in the path, the key in a header and never in the address."""

from urllib.parse import quote

from routing.core.calls import CallReply, CallRequest
from routing.core.conversation import Protocol
from routing.providers.asking import Header, ask, ask_for_events, fetch, ids_of
from routing.providers.base import Endpoint, Transport
from routing.providers.dialects import gemini_embeddings
from routing.providers.dialects.gemini_replies import EventReader, read_reply
from routing.providers.dialects.gemini_requests import CARRIES, request_body
from routing.providers.dialects.tools import ToolNames
from routing.providers.dialects.vectors import EmbeddingsApi
from routing.providers.stream import FrameStream

PAGE = 1000
MOST_PAGES = 10


class GeminiAdapter:
    """See ``base.Adapter``."""

    protocol = Protocol.GEMINI
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
        answer = await ask(
            endpoint=endpoint,
            transport=transport,
            path=f"{_path(model_id)}:generateContent",
            body=request_body(request, model_id=model_id),
            headers=_key(endpoint),
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
            path=f"{_path(model_id)}:streamGenerateContent?alt=sse",
            body=request_body(request, model_id=model_id),
            codec=EventReader(endpoint=endpoint, tools=ToolNames(request.tools)),
            headers=_key(endpoint),
        )

    async def list_models(self, *, endpoint: Endpoint, transport: Transport) -> tuple[str, ...]:
        """The ids of the models the key may use."""
        ids: tuple[str, ...] = ()
        path = f"models?pageSize={PAGE}"
        for _ in range(MOST_PAGES):
            document = await fetch(endpoint=endpoint, transport=transport, path=path, headers=_key(endpoint))
            ids += ids_of(document, endpoint=endpoint, member="models", field="name")
            token = document.get("nextPageToken") if isinstance(document, dict) else None
            if not isinstance(token, str) or not token:
                break
            path = f"models?pageSize={PAGE}&pageToken={quote(token, safe='')}"
        return tuple(each.removeprefix("models/") for each in ids)


class GeminiEmbeddings(EmbeddingsApi):
    """See ``base.Api``."""

    protocol = Protocol.GEMINI_EMBEDDINGS
    carries = gemini_embeddings.CARRIES

    async def call(
        self,
        *,
        endpoint: Endpoint,
        model_id: str,
        request: CallRequest,
        transport: Transport,
        max_output: int | None = None,
    ) -> CallReply:
        """Ask for vectors."""
        answer = await ask(
            endpoint=endpoint,
            transport=transport,
            path=f"{_path(model_id)}:batchEmbedContents",
            body=gemini_embeddings.request_body(request, model=f"models/{model_id.removeprefix('models/')}"),
            headers=_key(endpoint),
        )
        return gemini_embeddings.read_reply(answer, request=request, endpoint=endpoint)


def _path(model_id: str) -> str:
    """Where a model is asked; its id is one piece of the path, whatever is in it."""
    return f"models/{quote(model_id.removeprefix('models/'), safe='')}"


def _key(endpoint: Endpoint) -> tuple[Header, ...]:
    return (("x-goog-api-key", endpoint.api_key),) if endpoint.api_key else ()
