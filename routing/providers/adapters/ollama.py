"""Ollama's own API, which says more than the one it has for OpenAI's clients: what it thinks, and whether it was done.

An address that ends in ``/v1`` or ``/api`` is that of the same server: its programs and its pages name all three.
"""

from dataclasses import replace

from routing.core.calls import CallReply, CallRequest
from routing.core.conversation import Protocol
from routing.providers.asking import NDJSON, ask, ask_for_events, bearer, fetch, ids_of
from routing.providers.base import Endpoint, Transport
from routing.providers.dialects import ollama_embeddings
from routing.providers.dialects.ollama_replies import LineCodec, read_reply
from routing.providers.dialects.ollama_requests import CARRIES, request_body
from routing.providers.dialects.tools import ToolNames
from routing.providers.dialects.vectors import EmbeddingsApi
from routing.providers.stream import FrameStream


class OllamaAdapter:
    """See ``base.Adapter``."""

    protocol = Protocol.OLLAMA
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
            endpoint=_server(endpoint),
            transport=transport,
            path="api/chat",
            body=request_body(request, model_id=model_id),
            headers=bearer(endpoint),
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
            endpoint=_server(endpoint),
            transport=transport,
            path="api/chat",
            body=request_body(request, model_id=model_id),
            codec=LineCodec(endpoint=endpoint, tools=ToolNames(request.tools)),
            headers=bearer(endpoint),
            wire=NDJSON,
        )

    async def list_models(self, *, endpoint: Endpoint, transport: Transport) -> tuple[str, ...]:
        """The names of the models that were pulled."""
        document = await fetch(
            endpoint=_server(endpoint), transport=transport, path="api/tags", headers=bearer(endpoint)
        )
        return ids_of(document, endpoint=endpoint, member="models", field="name")


class OllamaEmbeddings(EmbeddingsApi):
    """See ``base.Api``."""

    protocol = Protocol.OLLAMA_EMBEDDINGS
    carries = ollama_embeddings.CARRIES

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
            endpoint=_server(endpoint),
            transport=transport,
            path="api/embed",
            body=ollama_embeddings.request_body(request, model_id=model_id),
            headers=bearer(endpoint),
        )
        return ollama_embeddings.read_reply(answer, request=request, endpoint=endpoint)


def _server(endpoint: Endpoint) -> Endpoint:
    base = endpoint.base_url.rstrip("/").removesuffix("/v1").removesuffix("/api")
    return endpoint if base == endpoint.base_url else replace(endpoint, base_url=base)
