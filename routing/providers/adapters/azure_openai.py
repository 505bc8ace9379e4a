"""OpenAI's models at Azure: chat completions and embeddings, with another key header and the deployment in the path.

With an API version it is the older API, below the resource's own address (``https://NAME.openai.azure.com``): each
deployment has a path, so a model's id here is the deployment's name. Without one it is the API whose address ends in
``/openai/v1`` and whose requests name the deployment as the model.
"""

from urllib.parse import quote

from routing.core.calls import CallReply, CallRequest
from routing.core.conversation import Protocol
from routing.providers.asking import Header, ask, ask_for_events, fetch, ids_of
from routing.providers.base import Endpoint, Transport
from routing.providers.dialects import openai_embeddings
from routing.providers.dialects.openai_chat_replies import ChunkReader, read_reply
from routing.providers.dialects.openai_chat_requests import CARRIES, request_body
from routing.providers.dialects.tools import ToolNames
from routing.providers.dialects.vectors import EmbeddingsApi
from routing.providers.stream import FrameStream

CHAT = "chat/completions"
EMBEDDINGS = "embeddings"


class AzureOpenAIAdapter:
    """See ``base.Adapter``."""

    protocol = Protocol.OPENAI_CHAT
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
        body = request_body(request, model_id=model_id, stream=False)
        path = _path(endpoint, model_id, CHAT)
        answer = await ask(endpoint=endpoint, transport=transport, path=path, body=body, headers=_key(endpoint))
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
            path=_path(endpoint, model_id, CHAT),
            body=request_body(request, model_id=model_id, stream=True),
            codec=ChunkReader(
                endpoint=endpoint,
                hides_usage=not request.wants_usage,
                choices=request.choices,
                tools=ToolNames(request.tools),
            ),
            headers=_key(endpoint),
        )

    async def list_models(self, *, endpoint: Endpoint, transport: Transport) -> tuple[str, ...]:
        """The ids of the models that the resource offers; which of them are deployed it does not say."""
        path = f"openai/models?api-version={endpoint.api_version}" if endpoint.api_version else "models"
        document = await fetch(endpoint=endpoint, transport=transport, path=path, headers=_key(endpoint))
        return ids_of(document, endpoint=endpoint)


class AzureEmbeddings(EmbeddingsApi):
    """See ``base.Api``."""

    protocol = Protocol.OPENAI_EMBEDDINGS
    carries = openai_embeddings.CARRIES

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
        body = openai_embeddings.request_body(request, model_id=model_id)
        path = _path(endpoint, model_id, EMBEDDINGS)
        answer = await ask(endpoint=endpoint, transport=transport, path=path, body=body, headers=_key(endpoint))
        return openai_embeddings.read_reply(answer, request=request, endpoint=endpoint)


def _path(endpoint: Endpoint, model_id: str, what: str) -> str:
    """Where a deployment is asked; its name is one piece of the path, whatever is in it."""
    if not endpoint.api_version:
        return what
    version = quote(endpoint.api_version, safe="")
    return f"openai/deployments/{quote(model_id, safe='')}/{what}?api-version={version}"


def _key(endpoint: Endpoint) -> tuple[Header, ...]:
    return (("api-key", endpoint.api_key),) if endpoint.api_key else ()
