"""OpenAI's responses API."""

from routing.core.calls import CallReply, CallRequest
from routing.core.conversation import Protocol
from routing.providers.asking import Header, ask, ask_for_events, bearer, fetch, ids_of
from routing.providers.base import Endpoint, Transport
from routing.providers.dialects.openai_responses_replies import EventReader, read_reply
from routing.providers.dialects.openai_responses_requests import CARRIES, request_body
from routing.providers.dialects.tools import ToolNames
from routing.providers.stream import FrameStream

PATH = "responses"


class OpenAIResponsesAdapter:
    """See ``base.Adapter``."""

    protocol = Protocol.OPENAI_RESPONSES
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
        body = request_body(request, model_id=model_id)
        answer = await ask(endpoint=endpoint, transport=transport, path=PATH, body=body, headers=_headers(endpoint))
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
            body=request_body(request, model_id=model_id),
            codec=EventReader(endpoint=endpoint, tools=ToolNames(request.tools)),
            headers=_headers(endpoint),
        )

    async def list_models(self, *, endpoint: Endpoint, transport: Transport) -> tuple[str, ...]:
        """The ids of the models the key may use."""
        document = await fetch(endpoint=endpoint, transport=transport, path="models", headers=_headers(endpoint))
        return ids_of(document, endpoint=endpoint)


def _headers(endpoint: Endpoint) -> tuple[Header, ...]:
    organization = (("openai-organization", endpoint.organization),) if endpoint.organization else ()
    return (*bearer(endpoint), *organization)
