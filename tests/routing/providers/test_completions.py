"""Legacy completions on the wire, and which model is asked for them in its own protocol."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from governance.gateway.protocols.openai_completions import read_request
from routing.core.calls import CallRequest, Event, Started, Stopped, StopReason, Text, Usage, last_usage
from routing.core.conversation import Protocol
from routing.core.failures import CallFailed, FailureKind
from routing.providers.registry import ADAPTER_TYPES, api_for
from routing.providers.transport import HttpTransport
from tests.routing.core.feature_samples import continuing, plain
from tests.routing.providers.conftest import KEY, MakeEndpoint
from tests.routing.providers.vendors import OPENAI, sse
from tests.servers.fake_provider import FakeProvider, chunk, head, whole

USAGE = {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}


def request(**members: Any) -> CallRequest:
    return read_request(orjson.dumps({"model": "fast", "prompt": "Once upon", **members}))


def piece(text: str, finish: str | None = None, index: int = 0, **members: Any) -> Any:
    choice = {"text": text, "index": index, "logprobs": None, "finish_reason": finish}
    return {"id": "cmpl-7", "object": "text_completion", "model": "base-x-2026", "choices": [choice], **members}


FRAMES = (
    sse(piece(" a")),
    sse(piece(" time")),
    sse(piece("", "length")),
    sse({"id": "cmpl-7", "object": "text_completion", "model": "base-x-2026", "choices": [], "usage": USAGE}),
    b"data: [DONE]\n\n",
)


@pytest.fixture
def ask(fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint) -> Any:
    async def ask(asked: CallRequest) -> tuple[list[Event], bytes]:
        api = api_for("vllm", asked)
        settings: Any = {
            "endpoint": endpoint(adapter_type="vllm"),
            "model_id": "base-x",
            "request": asked,
            "transport": transport,
        }
        if not asked.stream:
            reply = await api.call(**settings)
            assert reply.protocol is Protocol.OPENAI_COMPLETIONS
            return list(reply.events), reply.body
        frames = [frame async for frame in await api.open_stream(**settings)]
        raw = b"".join(frame.raw for frame in frames if not frame.hidden)
        return [event for frame in frames for event in frame.events], raw

    return ask


SAID = [Started("cmpl-7", "base-x-2026"), Text(" a time"), Stopped(StopReason.LENGTH)]


async def test_a_whole_completion(ask: Any, fake: FakeProvider) -> None:
    document = piece(" a time", "length", usage=USAGE)
    fake.answer(*whole(orjson.dumps(document)))
    events, body = await ask(request())
    assert (events[:3], body) == (SAID, orjson.dumps(document))
    assert last_usage(events) == Usage(12, 34)
    (received,) = fake.requests
    assert (received.line, received.headers["authorization"]) == ("POST /v1/completions HTTP/1.1", f"Bearer {KEY}")


async def test_a_streamed_completion(ask: Any, fake: FakeProvider) -> None:
    fake.answer(head(chunked=True), *map(chunk, FRAMES), chunk(b""))
    events, raw = await ask(request(stream=True))
    assert [event for event in events if isinstance(event, Text)] == [Text(" a"), Text(" time")]
    assert (Stopped(StopReason.LENGTH) in events, last_usage(events)) == (True, Usage(12, 34))
    assert raw == b"".join((*FRAMES[:3], FRAMES[4]))  # usage that the caller did not ask for is ours
    assert orjson.loads(fake.requests[0].body)["stream_options"] == {"include_usage": True}


async def test_several_prompts_have_several_ends(ask: Any, fake: FakeProvider) -> None:
    asked = request(prompt=["Once", "Twice"], n=2, stream=True)
    assert asked.choices == 4
    ends = [sse(piece("x", "stop", index)) for index in range(3)]
    fake.answer(head(chunked=True), *map(chunk, ends), chunk(b""))
    with pytest.raises(CallFailed) as caught:  # the fourth is missing, and so is the end mark
        await ask(asked)
    assert caught.value.failure.code == "cut_off"


@pytest.mark.parametrize("error", OPENAI.errors, ids=lambda error: error.name)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_error_is_the_failure_it_should_be(ask: Any, fake: FakeProvider, error: Any, stream: bool) -> None:
    fake.answer(*whole(orjson.dumps(error.body), error.status, error.headers))
    with pytest.raises(CallFailed) as caught:
        await ask(request(stream=stream))
    assert caught.value.failure.kind is error.kind


@pytest.mark.parametrize("body", [b"{}", b'{"choices":[{"message":{"content":"x"}}]}', b'{"choices":[{"text":7}]}'])
async def test_what_is_no_completion_is_unreadable(ask: Any, fake: FakeProvider, body: bytes) -> None:
    fake.answer(*whole(body))
    with pytest.raises(CallFailed) as caught:
        await ask(request())
    assert caught.value.failure.kind is FailureKind.UNREADABLE


# --- Who is asked ---------------------------------------------------------------------------------------------------

NOTHING: frozenset[str] = frozenset()
CHAT = frozenset({"chat", "tools"})
COMPLETION = frozenset({"chat", "completion"})


@pytest.mark.parametrize(
    ("adapter_type", "declared", "native"),
    [
        ("vllm", NOTHING, True),
        ("vllm", CHAT, False),
        ("vllm", COMPLETION, True),
        ("openai", NOTHING, False),  # most of its models are none, and refuse it as an unknown model
        ("openai", CHAT, False),
        ("openai", COMPLETION, True),
        ("anthropic", NOTHING, False),
        ("anthropic", COMPLETION, False),
        ("mistral", COMPLETION, False),
    ],
)
def test_a_model_that_completes_is_asked_to(adapter_type: str, declared: frozenset[str], native: bool) -> None:
    kind = ADAPTER_TYPES[adapter_type]
    assert api_for(adapter_type, continuing("Once"), declared=declared) is (
        kind.completions if native else kind.adapter
    )
    assert api_for(adapter_type, plain(), declared=declared) is kind.adapter


def test_every_host_with_completions_speaks_the_same() -> None:
    assert {each.completions.protocol for each in ADAPTER_TYPES.values() if each.completions is not None} == {
        Protocol.OPENAI_COMPLETIONS
    }


async def test_a_request_of_another_protocol_never_gets_here(ask: Any) -> None:
    with pytest.raises(ValueError, match="no legacy completion"):
        await ask(replace(continuing("Once"), original=None))
