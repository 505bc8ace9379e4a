"""OpenAI's embeddings, as callers ask for them: requests in."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from governance.gateway.protocols.checks import STEERING, Settings, count, invalid, refuse_steering, target_of
from governance.gateway.protocols.fields import OURS, READ, REFUSED, Field, FieldBook, reads
from governance.gateway.protocols.json_body import read_document
from routing.core.calls import CallRequest, Original
from routing.core.conversation import Protocol
from routing.core.embeddings import EmbeddingWish, Encoding, Input
from routing.core.features import Feature as F

FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        **dict.fromkeys(STEERING, REFUSED),
        "model": OURS,
        "input": reads(F.TEXT_INPUTS, F.ENCODED_INPUTS),
        "encoding_format": READ,
        "dimensions": reads(F.DIMENSIONS),
        "user": reads(F.USER),
    }
)
"""What becomes of each field. A test holds it to the fields that the vendor's client knows."""

BOOK = FieldBook(FIELDS)

_NEEDED = "a text, a list of texts, a list of tokens or a list of such lists is needed"


def read_request(body: bytes) -> CallRequest:
    """The canonical call of a request body.

    Raises:
        RequestProblem: 400 naming the field and what it should be.
    """
    document, kept = read_document(body)
    refuse_steering(document)
    uncarried = list(BOOK.uncarried(document))
    settings = Settings(document, uncarried)
    return CallRequest(
        target=target_of(document),
        messages=(),
        embedding=EmbeddingWish(
            inputs=inputs_of(document, "input", uncarried),
            encoding=_encoding(document, uncarried),
            dimensions=count(document, "dimensions"),
        ),
        user=settings.text("user"),
        uncarried=tuple(uncarried),
        original=Original(Protocol.OPENAI_EMBEDDINGS, kept, document, BOOK.names),
    )


def inputs_of(document: Mapping[str, Any], field: str, uncarried: list[str]) -> tuple[Input, ...]:
    """The texts or tokens that a field holds. Lists of anything else, such as pictures, are for their own protocol
    alone."""
    value = document.get(field)
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not value:
        raise invalid(field, _NEEDED)
    if all(isinstance(each, str) for each in value):
        return tuple(value)
    if _are_tokens(value):
        return (tuple(value),)
    if all(_are_tokens(each) for each in value):
        return tuple(tuple(each) for each in value)
    if not all(isinstance(each, dict) for each in value):
        raise invalid(field, _NEEDED)
    uncarried.append(field)
    return ()


def _are_tokens(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)


def _encoding(document: Mapping[str, Any], uncarried: list[str]) -> Encoding | None:
    """The spelling asked for: numbers unless it is said. One that nobody here knows is its provider's to judge."""
    wanted = document.get("encoding_format")
    if wanted is None:
        return Encoding.FLOAT
    if isinstance(wanted, str) and wanted in set(Encoding):
        return Encoding(wanted)
    uncarried.append("encoding_format")
    return None
