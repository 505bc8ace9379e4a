"""Gemini's embeddings: one request for all inputs, whose answer says nothing of how many tokens they had, as a rule."""

from types import MappingProxyType
from typing import Any

import orjson

from routing.core.calls import CallReply, CallRequest, Coverage, Event, Started, Usage, UsageReported
from routing.core.conversation import Protocol
from routing.core.features import Feature
from routing.providers.base import Carries, Endpoint
from routing.providers.dialects.carrying import refuse_uncarried
from routing.providers.dialects.documents import Counts, object_of
from routing.providers.dialects.vectors import object_in, read_vectors, wish_of
from routing.providers.errors import ProviderFailed, classify_error_object, unreadable

CARRIES: Carries = MappingProxyType(
    {
        Feature.TEXT_INPUTS: "`requests`, one for each text",
        Feature.DIMENSIONS: "`outputDimensionality`",
        Feature.USER: "not sent: this vendor takes no word of end users",
    }
)

INTO = "Gemini's embeddings"


def request_body(request: CallRequest, *, model: str) -> bytes:
    """The bytes to send for a request; ``model`` is the resource's name. Raises ``NotCarried``."""
    refuse_uncarried(request, carries=CARRIES, protocol=Protocol.GEMINI_EMBEDDINGS, into=INTO)
    wish = wish_of(request)
    settings: dict[str, Any] = {} if wish.dimensions is None else {"outputDimensionality": wish.dimensions}
    asked = [{"model": model, "content": {"parts": [{"text": text}]}, **settings} for text in wish.texts]
    return orjson.dumps({"requests": asked})


def read_reply(body: bytes, *, request: CallRequest, endpoint: Endpoint) -> CallReply:
    """Read an answer of status 200. Raises ``CallFailed``."""
    document = object_in(body, endpoint=endpoint)
    if document.get("error"):
        failure = classify_error_object(document["error"], endpoint=endpoint)
        raise ProviderFailed(failure, provider=endpoint.provider)
    said = document.get("embeddings")
    if not isinstance(said, list) or not said:
        raise unreadable("the answer has no embeddings", endpoint=endpoint)
    vectors = read_vectors([object_of(each).get("values") for each in said], wish=wish_of(request), endpoint=endpoint)
    return CallReply(
        Protocol.GEMINI_EMBEDDINGS, body, (Started("", ""), *vectors, *_metered(document.get("usageMetadata")))
    )


def _metered(block: object) -> list[Event]:
    said = object_of(block)
    prompt = said.get("promptTokenCount", said.get("totalTokenCount"))
    if prompt is None:
        return []
    counts = Counts()
    tokens = counts.required(prompt)
    coverage = Coverage.EXACT if counts.are_whole else Coverage.PARTIAL
    return [UsageReported(Usage(input=tokens, output=0, coverage=coverage))]
