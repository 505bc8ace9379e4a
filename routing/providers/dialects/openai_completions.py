"""OpenAI's legacy completions: requests that arrived in it, as they are. No other protocol has what they ask for.

Their answers differ from those of a chat by one member; ``openai_chat_replies`` reads both.
"""

from types import MappingProxyType

from routing.core.calls import CallRequest
from routing.core.conversation import Protocol
from routing.providers.base import Carries
from routing.providers.dialects.openai_chat_requests import forwarded

CARRIES: Carries = MappingProxyType({})
"""Nothing is written anew in this protocol."""


def request_body(request: CallRequest, *, model_id: str) -> bytes:
    """The bytes to send for a request."""
    original = request.original
    if original is None or original.protocol is not Protocol.OPENAI_COMPLETIONS:
        raise ValueError("the request is no legacy completion")
    return forwarded(original, model_id, asks=request.stream and not request.wants_usage, renamed={})
