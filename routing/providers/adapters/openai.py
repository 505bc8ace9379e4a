"""OpenAI's chat completions, legacy completions and embeddings, and every host that speaks them with a bearer key; how
a host differs is told to it."""

from routing.core.calls import CallReply, CallRequest
from routing.core.conversation import Protocol
from routing.providers.asking import Header, ask, ask_for_events, bearer, fetch, ids_of
from routing.providers.base import Endpoint, Transport
from routing.providers.dialects import openai_completions, openai_embeddings
from routing.providers.dialects.openai_chat_replies import ChunkReader, read_reply
from routing.providers.dialects.openai_chat_requests import CARRIES, OPENAI_ITSELF, Differences, request_body
from routing.providers.dialects.tools import ToolNames
from routing.providers.dialects.vectors import EmbeddingsApi
from routing.providers.stream import FrameStream

PATH = "chat/completions"


class OpenAIAdapter:
    """See ``base.Adapter``.

    ``reports_cost`` is true for an aggregator whose answers say what it charges.
    """

    protocol = Protocol.OPENAI_CHAT
    carries = CARRIES

    def __init__(self, differences: Differences = OPENAI_ITSELF, *, reports_cost: bool = False) -> None:
        self._differences = differences
        self._reports_cost = reports_cost

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
        body = request_body(request, model_id=model_id, stream=False, differences=self._differences)
        answer = await ask(endpoint=endpoint, transport=transport, path=PATH, body=body, headers=_headers(endpoint))
        return read_reply(answer, endpoint=endpoint, tools=ToolNames(request.tools), reports_cost=self._reports_cost)

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
            body=request_body(request, model_id=model_id, stream=True, differences=self._differences),
            codec=ChunkReader(
                endpoint=endpoint,
                hides_usage=not request.wants_usage,
                choices=request.choices,
                tools=ToolNames(request.tools),
                reports_cost=self._reports_cost,
            ),
            headers=_headers(endpoint),
        )

    async def list_models(self, *, endpoint: Endpoint, transport: Transport) -> tuple[str, ...]:
        """The ids of the models the key may use, as the host lists them."""
        document = await fetch(endpoint=endpoint, transport=transport, path="models", headers=_headers(endpoint))
        return ids_of(document, endpoint=endpoint)


class OpenAICompletions:
    """See ``base.Api``; ``reports_cost`` as above."""

    protocol = Protocol.OPENAI_COMPLETIONS
    carries = openai_completions.CARRIES

    def __init__(self, *, reports_cost: bool = False) -> None:
        self._reports_cost = reports_cost

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
        body = openai_completions.request_body(request, model_id=model_id)
        answer = await ask(
            endpoint=endpoint, transport=transport, path="completions", body=body, headers=_headers(endpoint)
        )
        return read_reply(answer, endpoint=endpoint, reports_cost=self._reports_cost, protocol=self.protocol)

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
            path="completions",
            body=openai_completions.request_body(request, model_id=model_id),
            codec=ChunkReader(
                endpoint=endpoint,
                hides_usage=not request.wants_usage,
                choices=request.choices,
                reports_cost=self._reports_cost,
                protocol=self.protocol,
            ),
            headers=_headers(endpoint),
        )


class OpenAIEmbeddings(EmbeddingsApi):
    """See ``base.Api``; ``reports_cost`` as above."""

    protocol = Protocol.OPENAI_EMBEDDINGS
    carries = openai_embeddings.CARRIES

    def __init__(
        self,
        differences: openai_embeddings.Differences = openai_embeddings.OPENAI_ITSELF,
        *,
        reports_cost: bool = False,
    ) -> None:
        self._differences = differences
        self._reports_cost = reports_cost

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
        body = openai_embeddings.request_body(request, model_id=model_id, differences=self._differences)
        answer = await ask(
            endpoint=endpoint, transport=transport, path="embeddings", body=body, headers=_headers(endpoint)
        )
        return openai_embeddings.read_reply(answer, request=request, endpoint=endpoint, reports_cost=self._reports_cost)


def _headers(endpoint: Endpoint) -> tuple[Header, ...]:
    organization = (("openai-organization", endpoint.organization),) if endpoint.organization else ()
    return (*bearer(endpoint), *organization)
