"""What everything that makes embeddings promises, whichever vendor it speaks to, against loopback."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from routing.core.calls import CallReply, CallRequest, Coverage, Started, Usage, last_usage
from routing.core.conversation import Protocol
from routing.core.embeddings import Embedded, EmbeddingWish, Encoding
from routing.core.failures import CallFailed, FailureKind
from routing.core.features import Feature
from routing.core.money import Money
from routing.providers.base import Api, Endpoint
from routing.providers.dialects.carrying import NotCarried
from routing.providers.registry import ADAPTER_TYPES, api_for
from routing.providers.transport import HttpTransport
from tests.routing.core.feature_samples import SAMPLES, embedding, plain
from tests.routing.providers.conftest import KEY, MakeEndpoint
from tests.routing.providers.vendors import GEMINI, OLLAMA, OPENAI
from tests.servers.fake_provider import FakeProvider, whole

VECTORS = ([0.5, -2.0, 0.25], [1.0, 0.0, -0.5])
ENCODED = ("AAAAPwAAAMAAAIA+", "AACAPwAAAAAAAAC/")
TWO = embedding(EmbeddingWish(("Ulm", "Bern")))


def _openai(vectors: Any, **members: Any) -> Any:
    data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(vectors)]
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    return {"object": "list", "data": data, "model": "vector-x-2026", "usage": usage, **members}


def _ollama(vectors: Any, **members: Any) -> Any:
    said = {"model": "vector-x-2026", "embeddings": list(vectors), "total_duration": 14_143_917, "prompt_eval_count": 7}
    return {**said, **members}


def _gemini(vectors: Any, **members: Any) -> Any:
    return {"embeddings": [{"values": each} for each in vectors], "usageMetadata": {"promptTokenCount": 7}, **members}


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """One vendor's embeddings: where they are asked for, what opens the door, and how it answers."""

    adapter_type: str
    line: str
    key_header: tuple[str, str]
    answer: Callable[..., Any]
    refused: Any
    model: str = "vector-x-2026"
    api_version: str = ""
    lacks: frozenset[Feature] = frozenset()

    def __str__(self) -> str:
        return f"{self.adapter_type}{self.api_version and '-classic'}"


BEARER = ("authorization", "Bearer {key}")
OPENAI_KIND = Maker(
    adapter_type="openai",
    line="POST /v1/embeddings HTTP/1.1",
    key_header=BEARER,
    answer=_openai,
    refused=OPENAI.errors[0],
)
MAKERS = (
    OPENAI_KIND,
    replace(OPENAI_KIND, adapter_type="openai_responses"),
    replace(OPENAI_KIND, adapter_type="custom"),
    replace(OPENAI_KIND, adapter_type="together"),
    replace(OPENAI_KIND, adapter_type="mistral", lacks=frozenset({Feature.USER, Feature.ENCODED_INPUTS})),
    replace(OPENAI_KIND, adapter_type="openrouter"),
    replace(OPENAI_KIND, adapter_type="azure_openai", key_header=("api-key", "{key}")),
    replace(
        OPENAI_KIND,
        adapter_type="azure_openai",
        line="POST /v1/openai/deployments/model-x/embeddings?api-version=2025-04-01-preview HTTP/1.1",
        key_header=("api-key", "{key}"),
        api_version="2025-04-01-preview",
    ),
    Maker(
        adapter_type="gemini",
        line="POST /v1/models/model-x:batchEmbedContents HTTP/1.1",
        key_header=("x-goog-api-key", "{key}"),
        answer=_gemini,
        refused=GEMINI.errors[0],
        model="",
        lacks=frozenset({Feature.ENCODED_INPUTS}),
    ),
    Maker(
        adapter_type="ollama",
        line="POST /api/embed HTTP/1.1",
        key_header=BEARER,
        answer=_ollama,
        refused=OLLAMA.errors[0],
        lacks=frozenset({Feature.ENCODED_INPUTS}),
    ),
)


@dataclass
class Line:
    """A vendor's fake and what speaks to it."""

    maker: Maker
    api: Api
    fake: FakeProvider
    transport: HttpTransport
    endpoint: Endpoint

    async def reply(self, request: CallRequest, document: Any = None) -> CallReply:
        answer = self.maker.answer(VECTORS) if document is None else document
        self.fake.answer(*whole(answer if isinstance(answer, bytes) else orjson.dumps(answer)))
        return await self.api.call(
            endpoint=self.endpoint, model_id="model-x", request=request, transport=self.transport
        )

    async def written(self, request: CallRequest) -> Any:
        self.fake.requests.clear()
        await self.reply(request)
        (received,) = self.fake.requests
        return orjson.loads(received.body)


@pytest.fixture(params=MAKERS, ids=str)
def line(request: pytest.FixtureRequest, fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint) -> Line:
    maker: Maker = request.param
    return Line(
        maker,
        api_for(maker.adapter_type, TWO),
        fake,
        transport,
        endpoint(adapter_type=maker.adapter_type, api_version=maker.api_version),
    )


def vectors(reply: CallReply) -> list[Any]:
    found = [event for event in reply.events if isinstance(event, Embedded)]
    assert [each.index for each in found] == list(range(len(found)))
    return [each.vector for each in found]


def test_everything_that_embeds_is_held_to_the_contract() -> None:
    held = {type(ADAPTER_TYPES[each.adapter_type].embeddings) for each in MAKERS}
    assert {type(kind.embeddings) for kind in ADAPTER_TYPES.values() if kind.embeddings} == held


async def test_vectors_tokens_and_who_answered(line: Line) -> None:
    reply = await line.reply(TWO)
    assert reply.protocol is line.api.protocol
    assert vectors(reply) == [*VECTORS]
    assert reply.events[0] == Started("", line.maker.model)
    assert last_usage(reply.events) == Usage(7, 0, coverage=Coverage.EXACT)
    assert reply.body == orjson.dumps(line.maker.answer(VECTORS))  # nobody had to turn it


async def test_where_a_request_goes_and_what_opens_the_door(line: Line) -> None:
    await line.reply(TWO)
    (request,) = line.fake.requests
    name, value = line.maker.key_header
    assert (request.line, request.headers[name]) == (line.maker.line, value.format(key=KEY))
    assert KEY not in request.line
    assert KEY.encode() not in request.body


async def test_base64_is_answered_whatever_the_vendor_spells(line: Line) -> None:
    wish = EmbeddingWish(("Ulm", "Bern"), encoding=Encoding.BASE64)
    assert vectors(await line.reply(embedding(wish))) == [*ENCODED]


async def test_numbers_are_answered_whatever_the_vendor_spells(line: Line) -> None:
    if line.api.protocol is Protocol.OPENAI_EMBEDDINGS:
        reply = await line.reply(TWO, line.maker.answer(ENCODED))
        assert vectors(reply) == [*VECTORS]
        assert [each["embedding"] for each in orjson.loads(reply.body)["data"]] == [*VECTORS]


@pytest.mark.parametrize(
    "feature", [Feature.TEXT_INPUTS, Feature.ENCODED_INPUTS, Feature.DIMENSIONS, Feature.USER], ids=str
)
async def test_a_feature_is_carried_as_declared_or_refused(line: Line, feature: Feature) -> None:
    sample = replace(TWO, user="ann") if feature is Feature.USER else SAMPLES[feature]
    bare = embedding(EmbeddingWish(("Bonn", "Rom"))) if feature is Feature.TEXT_INPUTS else TWO
    if feature in line.maker.lacks:
        with pytest.raises(NotCarried) as caught:
            await line.written(sample)
        assert caught.value.failure.parameter == feature
        assert line.fake.connections == 0
        return
    written = await line.written(sample)
    makes_no_difference = line.api.carries[feature].startswith("not sent")
    assert (written == await line.written(bare)) is makes_no_difference


@pytest.mark.parametrize("feature", Feature, ids=str)
def test_what_is_asked_of_an_answer_is_not_asked_of_a_vector(feature: Feature) -> None:
    """No chat is ever taken for a wish to embed, and the other way round."""
    kinds = [kind for kind in ADAPTER_TYPES.values() if kind.embeddings is not None]
    for kind in kinds:
        sample = SAMPLES[feature]
        assert (api_for(kind.name, sample) is kind.embeddings) is (sample.embedding is not None)
    assert api_for("openai", plain()) is ADAPTER_TYPES["openai"].adapter


async def test_nothing_streams(line: Line) -> None:
    with pytest.raises(NotCarried, match="stream cannot be carried to embeddings"):
        await line.api.open_stream(endpoint=line.endpoint, model_id="model-x", request=TWO, transport=line.transport)
    assert line.fake.connections == 0


async def test_what_only_its_own_protocol_knows_is_refused(line: Line) -> None:
    with pytest.raises(NotCarried, match="colour cannot be carried"):
        await line.reply(replace(TWO, uncarried=("colour",)))


NO_ANSWERS = [b"", b"<html>", b"[]", b"{}", b"null", b'{"data":[],"embeddings":[]}', b'{"data":[1],"embeddings":[1]}']


@pytest.mark.parametrize("body", NO_ANSWERS)
async def test_what_is_no_answer_is_unreadable(line: Line, body: bytes) -> None:
    with pytest.raises(CallFailed) as caught:
        await line.reply(TWO, body)
    assert caught.value.failure.kind is FailureKind.UNREADABLE


@pytest.mark.parametrize(
    "said",
    [VECTORS[:1], (*VECTORS, VECTORS[0]), (VECTORS[0], []), (VECTORS[0], None), (VECTORS[0], {"x": 1})],
    ids=["too-few", "too-many", "empty", "missing", "object"],
)
async def test_vectors_that_are_not_those_of_the_inputs(line: Line, said: Any) -> None:
    """Vectors that have slipped by one are stored, and found out about never."""
    with pytest.raises(CallFailed) as caught:
        await line.reply(TWO, line.maker.answer(said))
    assert caught.value.failure.kind is FailureKind.UNREADABLE


async def test_base64_that_is_none(line: Line) -> None:
    if line.api.protocol is Protocol.OPENAI_EMBEDDINGS:
        with pytest.raises(CallFailed) as caught:
            await line.reply(TWO, line.maker.answer(("AAA", ENCODED[1])))
        assert "no vector" in caught.value.failure.message


async def test_entries_in_another_order_find_their_inputs(line: Line) -> None:
    if line.api.protocol is not Protocol.OPENAI_EMBEDDINGS:
        return
    document = _openai(VECTORS)
    reply = await line.reply(TWO, {**document, "data": document["data"][::-1]})
    assert vectors(reply) == [*VECTORS]
    twice = [{**each, "index": 0} for each in document["data"]]
    with pytest.raises(CallFailed) as caught:
        await line.reply(TWO, {**document, "data": twice})
    assert "which input" in caught.value.failure.message
    unnumbered = [{"embedding": each} for each in VECTORS]
    assert vectors(await line.reply(TWO, {**document, "data": unnumbered})) == [*VECTORS]


NOT_REPORTED: list[dict[str, Any]] = [
    dict.fromkeys(("usage", "usageMetadata", "prompt_eval_count")),
    {"usage": {}, "usageMetadata": {}, "prompt_eval_count": None},
]


@pytest.mark.parametrize("members", NOT_REPORTED)
async def test_usage_that_nobody_reports_is_none(line: Line, members: Any) -> None:
    assert (await line.reply(TWO, line.maker.answer(VECTORS, **members))).usage is None


async def test_usage_that_cannot_be_read_is_partial(line: Line) -> None:
    said: Any = {
        "usage": {"prompt_tokens": -1},
        "usageMetadata": {"promptTokenCount": "x"},
        "prompt_eval_count": 1.5,
    }
    document = line.maker.answer(VECTORS, **said)
    usage = (await line.reply(TWO, document)).usage
    assert usage == Usage(0, 0, coverage=Coverage.PARTIAL)


async def test_an_error_is_the_failure_it_should_be(line: Line) -> None:
    refused = line.maker.refused
    line.fake.answer(*whole(orjson.dumps(refused.body), refused.status, refused.headers))
    with pytest.raises(CallFailed) as caught:
        await line.api.call(endpoint=line.endpoint, model_id="model-x", request=TWO, transport=line.transport)
    assert (caught.value.failure.kind, caught.value.failure.retry_after) == (refused.kind, refused.retry_after)
    with pytest.raises(CallFailed) as inside:
        await line.reply(TWO, refused.body)
    assert inside.value.failure.kind is refused.kind


async def test_hosts_differ(fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint) -> None:
    wish = EmbeddingWish(("Ulm", "Bern"), encoding=Encoding.BASE64, dimensions=3)

    async def sent(adapter_type: str) -> Any:
        api = api_for(adapter_type, TWO)
        line = Line(OPENAI_KIND, api, fake, transport, endpoint(adapter_type=adapter_type))
        return await line.written(embedding(wish))

    asked = {"model": "model-x", "input": ["Ulm", "Bern"], "encoding_format": "base64"}
    assert await sent("openai") == {**asked, "dimensions": 3}
    assert await sent("together") == {**asked, "encoding_format": "float", "dimensions": 3}
    assert await sent("mistral") == {**asked, "output_dimension": 3}


async def test_an_aggregators_own_figure_is_the_cost(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint
) -> None:
    line = Line(OPENAI_KIND, api_for("openrouter", TWO), fake, transport, endpoint(adapter_type="openrouter"))
    reply = await line.reply(TWO, _openai(VECTORS, usage={"prompt_tokens": 7, "cost": 0.0000021}))
    reported = reply.events[-1]
    assert getattr(reported, "cost", None) == Money(2100, "USD")


# --- Who is asked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adapter_type", ["anthropic", "groq", "perplexity", "deepseek", "xai"])
def test_kinds_without_embeddings_are_passed_over_with_the_reason(adapter_type: str) -> None:
    with pytest.raises(NotCarried, match=f"the kind {adapter_type} make no embeddings") as caught:
        api_for(adapter_type, TWO)
    assert caught.value.failure.kind is FailureKind.UNSUPPORTED


def test_a_model_that_declares_something_else_is_not_asked() -> None:
    assert api_for("openai", TWO, declared=frozenset({"embeddings", "chat"})) is ADAPTER_TYPES["openai"].embeddings
    with pytest.raises(NotCarried, match="embeddings are not among it"):
        api_for("openai", TWO, declared=frozenset({"chat"}))
    assert api_for("openai", plain(), declared=frozenset({"embeddings"})) is ADAPTER_TYPES["openai"].adapter
