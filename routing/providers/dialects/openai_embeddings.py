"""OpenAI's embeddings, spoken by many hosts: requests and answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import orjson

from routing.core.calls import CallReply, CallRequest, Coverage, Event, Started, Usage, UsageReported
from routing.core.conversation import Protocol
from routing.core.embeddings import EmbeddingWish, Encoding
from routing.core.features import Feature, features_of
from routing.core.money import Money
from routing.providers.base import Carries, Endpoint
from routing.providers.dialects.carrying import not_carried, refuse_uncarried
from routing.providers.dialects.documents import Counts, object_of, text_of
from routing.providers.dialects.openai_chat_replies import raise_for_error, read_cost
from routing.providers.dialects.splicing import renamed_members, with_members
from routing.providers.dialects.vectors import object_in, read_vectors, wish_of
from routing.providers.errors import unreadable

CARRIES: Carries = MappingProxyType(
    {
        Feature.TEXT_INPUTS: "`input`",
        Feature.ENCODED_INPUTS: "`input`",
        Feature.DIMENSIONS: "`dimensions`",
        Feature.USER: "`user`",
    }
)

INTO = "OpenAI's embeddings"


@dataclass(frozen=True, slots=True)
class Differences:
    """How a host differs from OpenAI itself.

    Attributes:
        spells_base64: whether it answers in base64; a host that does not is asked for numbers, and turned.
        renamed: fields that have another name there, forwarded requests included.
        lacks: features the host refuses, or worse, ignores.
    """

    spells_base64: bool = True
    renamed: Mapping[str, str] = field(default_factory=dict)
    lacks: frozenset[Feature] = frozenset()


OPENAI_ITSELF = Differences()


def request_body(request: CallRequest, *, model_id: str, differences: Differences = OPENAI_ITSELF) -> bytes:
    """The bytes to send for a request. Raises ``NotCarried`` for what there is no place for."""
    missing = features_of(request) & differences.lacks
    if missing:
        raise not_carried(request, min(missing), into="this host")
    wish, original = wish_of(request), request.original
    turned = {"encoding_format": Encoding.FLOAT.value} if _is_to_be_turned(wish, differences) else {}
    if original is not None and original.protocol is Protocol.OPENAI_EMBEDDINGS:
        members = {"model": model_id, **turned}
        if any(name in original.document for name in differences.renamed):
            return orjson.dumps(renamed_members({**original.document, **members}, differences.renamed))
        return with_members(original, members)
    refuse_uncarried(request, carries=CARRIES, protocol=Protocol.OPENAI_EMBEDDINGS, into=INTO)
    values: dict[str, Any] = {
        "model": model_id,
        "input": [each if isinstance(each, str) else list(each) for each in wish.inputs],
        "encoding_format": None if wish.encoding is None else wish.encoding.value,
        "dimensions": wish.dimensions,
        "user": request.user or None,
        **turned,
    }
    written = {name: value for name, value in values.items() if value is not None}
    return orjson.dumps(renamed_members(written, differences.renamed))


def _is_to_be_turned(wish: EmbeddingWish, differences: Differences) -> bool:
    return wish.encoding is Encoding.BASE64 and not differences.spells_base64


def read_reply(body: bytes, *, request: CallRequest, endpoint: Endpoint, reports_cost: bool = False) -> CallReply:
    """Read an answer of status 200: its own bytes, unless its vectors had to be spelled in another way.

    Args:
        body: the answer.
        request: what was asked.
        endpoint: who answered.
        reports_cost: whether the host is one whose ``usage.cost`` is what it charges.

    Raises ``CallFailed`` for an error inside, or for anything else.
    """
    document = object_in(body, endpoint=endpoint)
    raise_for_error(document, endpoint)
    data = document.get("data")
    if not isinstance(data, list) or not data or not all(isinstance(each, dict) for each in data):
        raise unreadable("the answer has no embeddings", endpoint=endpoint)
    ordered = _in_order(data, endpoint)
    said = [each.get("embedding") for each in ordered]
    vectors = list(read_vectors(said, wish=wish_of(request), endpoint=endpoint))
    if any(vector.vector is not each for vector, each in zip(vectors, said, strict=True)):
        turned = [{**each, "embedding": vector.vector} for each, vector in zip(ordered, vectors, strict=True)]
        body = orjson.dumps({**document, "data": turned})
    started = Started(text_of(document.get("id")), text_of(document.get("model")))
    metered = _metered(document.get("usage"), reports_cost=reports_cost)
    return CallReply(Protocol.OPENAI_EMBEDDINGS, body, (started, *vectors, *metered))


def _in_order(data: list[dict[str, Any]], endpoint: Endpoint) -> list[dict[str, Any]]:
    """The entries by the index they name; hosts that name none answer in order."""
    indexes = [each.get("index") for each in data]
    if all(index is None for index in indexes):
        return data
    by_index = {index: each for index, each in zip(indexes, data, strict=True) if type(index) is int}
    if sorted(by_index) != list(range(len(data))):
        raise unreadable("the embeddings of the answer do not say which input each is of", endpoint=endpoint)
    return [by_index[index] for index in range(len(data))]


def _metered(block: object, *, reports_cost: bool) -> list[Event]:
    usage = read_usage(block)
    if usage is None:
        return []
    cost: Money | None = read_cost(block) if reports_cost else None
    return [UsageReported(usage, cost)]


def read_usage(block: object) -> Usage | None:
    """The tokens that were read; nothing is generated, so there is no more to report. ``None`` if nothing is."""
    said = object_of(block)
    prompt = said.get("prompt_tokens", said.get("total_tokens"))
    if prompt is None:
        return None
    counts = Counts()
    tokens = counts.required(prompt)
    return Usage(input=tokens, output=0, coverage=Coverage.EXACT if counts.are_whole else Coverage.PARTIAL)
