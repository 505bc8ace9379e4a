"""Embeddings as providers answer with them: as many as were asked for, index for index, in the spelling asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from routing.core.calls import CallRequest
from routing.core.embeddings import Embedded, EmbeddingWish, Vector, spelled
from routing.providers.base import Endpoint, ReplyStream, Transport
from routing.providers.dialects.carrying import refusal
from routing.providers.dialects.documents import parse_json
from routing.providers.errors import unreadable


class EmbeddingsApi:
    """What all APIs for embeddings have in common: they answer whole."""

    async def open_stream(
        self,
        *,
        endpoint: Endpoint,
        model_id: str,
        request: CallRequest,
        transport: Transport,
        max_output: int | None = None,
    ) -> ReplyStream:
        """Refuses: vectors are not streamed."""
        raise refusal("stream", into="embeddings", because="they come whole")


def wish_of(request: CallRequest) -> EmbeddingWish:
    """What a request wants embedded."""
    if request.embedding is None:
        raise ValueError("the request asks for no embeddings")
    return request.embedding


def object_in(body: bytes, *, endpoint: Endpoint) -> Mapping[str, Any]:
    """The JSON object that an answer is. Raises ``CallFailed``."""
    try:
        document = parse_json(body)
    except ValueError:
        raise unreadable("the answer is not JSON", endpoint=endpoint) from None
    if not isinstance(document, dict):
        raise unreadable("the answer is no JSON object", endpoint=endpoint)
    return document


def read_vectors(vectors: Sequence[object], *, wish: EmbeddingWish, endpoint: Endpoint) -> Iterator[Embedded]:
    """The vectors of all inputs, in the order of the inputs. Raises ``CallFailed`` where one is missing or none."""
    if wish.inputs and len(vectors) != len(wish.inputs):
        raise unreadable(f"the answer has {len(vectors)} embeddings for {len(wish.inputs)} inputs", endpoint=endpoint)
    for index, vector in enumerate(vectors):
        yield Embedded(index, _vector(vector, wish, endpoint))


def _vector(vector: object, wish: EmbeddingWish, endpoint: Endpoint) -> Vector:
    if isinstance(vector, str) or (isinstance(vector, list) and vector):
        try:
            return spelled(vector, wish.encoding)
        except ValueError:
            pass
    raise unreadable("an embedding of the answer is no vector", endpoint=endpoint)
