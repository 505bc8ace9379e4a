"""`/v1/completions`: forwarded to hosts that have them, a chat of one message elsewhere, else refused by name."""

from typing import Any

import orjson
import pytest

from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Conversation, Reply
from tests.governance.gateway.upstream import USAGE, answers, fails, streams
from tests.routing.providers.vendors import ANTHROPIC, TEXT, sse
from tests.servers.fake_provider import Script, chunk, head, whole

PATH = "/v1/completions"


def completion(text: str = " a time", **members: Any) -> bytes:
    """A whole answer of a host that speaks it."""
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": "stop"}
    document = {"id": "cmpl-7", "object": "text_completion", "created": 1, "model": "base-x", "choices": [choice]}
    return orjson.dumps({**document, "usage": USAGE, **members})


def streamed(*frames: bytes) -> Script:
    return [head(chunked=True), *map(chunk, frames), chunk(b"")]


def request(**members: Any) -> bytes:
    return orjson.dumps({"model": "support-chat", "prompt": "Once upon", **members})


def complete(world: World, **members: Any) -> Reply:
    return world.gateway.request(request(**members), path=PATH)


def begin(world: World, **members: Any) -> Conversation:
    return world.gateway.begin(request(**members), path=PATH)


@pytest.fixture
def base_world(world: World) -> World:
    """The first provider's models complete."""
    provider = world.models[0].provider
    provider.adapter_type = "vllm"
    provider.save()
    world.gateway.refresh()
    world.script(whole(completion()))
    return world


# --- A host that has them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"support-chat","prompt":"Once","suffix":" end","echo":true,"logprobs":0,"best_of":3,"x":1.50}',
        b' {"prompt" : ["Once", "Tw\\u0069ce"] ,\n "model": "support-chat", "n":2 }\n',
        b'{"model":"support-chat","prompt":[[15,3],[9]],"logit_bias":{"50256":-100}}',
    ],
    ids=["compact", "spelled", "tokens"],
)
def test_a_request_arrives_as_it_was_but_for_the_model(base_world: World, body: bytes) -> None:
    reply = base_world.gateway.request(body, path=PATH)
    assert (reply.status, reply.body) == (200, completion())
    (received,) = base_world.upstreams[0].requests
    assert received.line == "POST /v1/completions HTTP/1.1"
    assert received.body == body.replace(b"support-chat", b"gpt-x-mini")


def test_its_row(base_world: World) -> None:
    reply = complete(base_world, user="ann")
    call = base_world.call()
    assert (call.operation, call.success, call.streamed, call.user) == ("complete", True, False, "ann")
    assert (call.actual_input_tokens, call.actual_output_tokens) == (1000, 340)  # and 200 cached
    assert str(call.pk) == reply.headers["x-signalbox-call"]
    assert reply.headers["x-signalbox-cost"].endswith(" USD")


def test_a_stream_is_forwarded_and_told_its_cost(base_world: World) -> None:
    choice = {"text": " a", "index": 0, "logprobs": None, "finish_reason": None}
    common = {"id": "cmpl-7", "object": "text_completion", "model": "base-x"}
    first = sse({**common, "choices": [choice]})
    last = sse({**common, "choices": [{**choice, "text": "", "finish_reason": "stop"}]})
    used = sse({**common, "choices": [], "usage": USAGE})
    base_world.script(streamed(first, last, used, b"data: [DONE]\n\n"))
    plain = complete(base_world, stream=True)
    assert plain.body == first + last + b"data: [DONE]\n\n"
    asked = complete(base_world, stream=True, stream_options={"include_usage": True})
    assert asked.body.startswith(first + last)
    assert asked.chunks[-1]["signalbox"]["currency"] == "USD"
    assert [call.operation for call in base_world.calls()] == ["complete", "complete"]  # streamed or not


def test_the_next_host_answers(base_world: World) -> None:
    base_world.script(fails(503), whole(completion(" of it")))
    reply = complete(base_world)
    assert reply.json["choices"][0]["text"] == " of it"
    assert reply.headers["x-signalbox-route"] == "prod-west/wise"


# --- A chat instead -------------------------------------------------------------------------------------------------


@pytest.fixture
def chat_world(world: World) -> World:
    """All models chat and say so."""
    for model in world.models:
        model.capabilities = ["chat"]
        model.save()
    world.gateway.refresh()
    world.script(*(answers() for _ in world.upstreams))
    return world


def test_a_prompt_becomes_a_users_message(chat_world: World) -> None:
    reply = complete(chat_world, max_tokens=50, temperature=0.5, stop=["END"], echo=False, n=1)
    (received,) = chat_world.upstreams[0].requests
    assert received.line == "POST /v1/chat/completions HTTP/1.1"
    assert orjson.loads(received.body) == {
        "model": "gpt-x-mini",
        "messages": [{"role": "user", "content": "Once upon"}],
        "max_completion_tokens": 50,
        "temperature": 0.5,
        "stop": ["END"],
    }
    document = reply.json
    assert document.pop("created") > 0
    assert document == {
        "id": "chatcmpl-77",
        "object": "text_completion",
        "model": "gpt-x-mini-2026-05-01",
        "choices": [{"text": "The parcel left on Monday.", "index": 0, "logprobs": None, "finish_reason": "stop"}],
        "usage": {
            **USAGE,
            "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 0},
        },
    }
    assert chat_world.call().operation == "complete"


@pytest.mark.parametrize("wants_usage", [False, True])
def test_a_chats_stream_is_written_anew(chat_world: World, wants_usage: bool) -> None:
    chat_world.script(streams("The parcel ", "left."))
    reply = complete(chat_world, stream=True, stream_options={"include_usage": wants_usage})
    assert reply.frames[-1] == b"[DONE]"
    chunks = reply.chunks
    assert {each["object"] for each in chunks} == {"text_completion"}
    said = [choice for each in chunks for choice in each["choices"]]
    assert [choice["text"] for choice in said] == ["The parcel ", "left.", ""]
    assert [choice["finish_reason"] for choice in said] == [None, None, "stop"]
    assert [each["signalbox"]["currency"] for each in chunks if "usage" in each] == ["USD"] * wants_usage


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_of_another_vendor(chat_world: World, stream: bool) -> None:
    provider = chat_world.models[0].provider
    provider.adapter_type = "anthropic"
    provider.save()
    chat_world.gateway.refresh()
    chat_world.script(streamed(*ANTHROPIC.stream) if stream else whole(orjson.dumps(ANTHROPIC.whole)))
    reply = complete(chat_world, stream=stream)
    chunks = reply.chunks if stream else [reply.json]
    assert "".join(choice["text"] for each in chunks for choice in each["choices"]) == TEXT


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_declines(chat_world: World, stream: bool) -> None:
    error = {"error": {"message": "no", "type": "invalid_request_error", "code": "content_filter"}}
    chat_world.script(whole(orjson.dumps(error), 400))
    reply = complete(chat_world, stream=stream)
    assert reply.status == 200
    chunks = reply.chunks if stream else [reply.json]
    assert chunks[-1]["choices"][0]["finish_reason"] == "content_filter"


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"prompt": ["Once", "Twice"]}, "prompt"),
        ({"prompt": [15, 3]}, "prompt"),
        ({"suffix": " end"}, "suffix"),
        ({"echo": True}, "echo"),
        ({"n": 2}, "n"),
        ({"best_of": 2}, "best_of"),
        ({"logprobs": 0}, "logprobs"),
        ({"logit_bias": {"50256": -100}}, "logit_bias"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_what_no_chat_can_do_is_refused_by_its_name(chat_world: World, members: Any, field: str) -> None:
    reply = complete(chat_world, **members)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, "unsupported_conversion", field)
    assert chat_world.asked == [0, 0, 0]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [{"text": "x"}]}, "prompt"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": 1}, "stream_options"),
    ],
)
def test_what_is_no_request(chat_world: World, members: Any, field: str) -> None:
    reply = complete(chat_world, **members)
    assert (reply.status, reply.error["param"]) == (400, field)
    assert chat_world.calls() == []
