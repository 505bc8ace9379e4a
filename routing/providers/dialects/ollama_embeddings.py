"""Ollama's embeddings. What is too long is cut there unless it is told otherwise; it is."""

from types import MappingProxyType
from typing import Any

import orjson

from routing.core.calls import CallReply, CallRequest, Coverage, Event, Started, Usage, UsageReported
from routing.core.conversation import Protocol
from routing.core.features import Feature
from routing.providers.base import Carries, Endpoint
from routing.providers.dialects.carrying import refuse_uncarried
from routing.providers.dialects.documents import Counts, text_of
from routing.providers.dialects.ollama_replies import raise_for_error
from routing.providers.dialects.vectors import object_in, read_vectors, wish_of
from routing.providers.errors import unreadable

CARRIES: Carries = MappingProxyType(
    {
        Feature.TEXT_INPUTS: "`input`",
        Feature.DIMENSIONS: "`dimensions`",
        Feature.USER: "not sent: this host takes no word of end users",
    }
)

INTO = "Ollama's embeddings"


def request_body(request: CallRequest, *, model_id: str) -> bytes:
    """The bytes to send for a request. Raises ``NotCarried`` for what the protocol has no place for."""
    refuse_uncarried(request, carries=CARRIES, protocol=Protocol.OLLAMA_EMBEDDINGS, into=INTO)
    wish = wish_of(request)
    dimensions: dict[str, Any] = {} if wish.dimensions is None else {"dimensions": wish.dimensions}
    return orjson.dumps({"model": model_id, "input": wish.texts, **dimensions, "truncate": False})


def read_reply(body: bytes, *, request: CallRequest, endpoint: Endpoint) -> CallReply:
    """Read an answer of status 200. Raises ``CallFailed``."""
    document = object_in(body, endpoint=endpoint)
    raise_for_error(document, endpoint)
    said = document.get("embeddings")
    if not isinstance(said, list) or not said:
        raise unreadable("the answer has no embeddings", endpoint=endpoint)
    vectors = read_vectors(said, wish=wish_of(request), endpoint=endpoint)
    started = Started("", text_of(document.get("model")))
    return CallReply(
        Protocol.OLLAMA_EMBEDDINGS, body, (started, *vectors, *_metered(document.get("prompt_eval_count")))
    )


def _metered(prompt: object) -> list[Event]:
    if prompt is None:
        return []
    counts = Counts()
    tokens = counts.required(prompt)
    coverage = Coverage.EXACT if counts.are_whole else Coverage.PARTIAL
    return [UsageReported(Usage(input=tokens, output=0, coverage=coverage))]
