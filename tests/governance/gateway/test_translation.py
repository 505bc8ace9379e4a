"""A call that comes in by one protocol and goes out by another: the caller does not notice."""

from typing import Any

import orjson
import pytest

from tests.governance.gateway.conftest import World
from tests.governance.gateway.upstream import completion, fails
from tests.routing.providers.vendors import ANTHROPIC, CALLS, OPENAI, TEXT, WIRES, Vendor, sse
from tests.servers.fake_provider import Script, chunk, head, whole

USAGE_TOO = {"include_usage": True}
TOOLS = [
    {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "weigh"}},
]


@pytest.fixture
def messages_world(world: World) -> World:
    """The first provider speaks Anthropic's protocol, the others OpenAI's."""
    provider = world.models[0].provider
    provider.adapter_type = "anthropic"
    provider.save()
    world.gateway.refresh()
    return world


def streamed(frames: Any) -> Script:
    return [head(chunked=True), *map(chunk, frames), chunk(b"")]


def joined(chunks: list[Any], name: str) -> str:
    return "".join(each["delta"].get(name) or "" for found in chunks for each in found["choices"])


def test_a_whole_answer_is_written_in_the_callers_protocol(messages_world: World) -> None:
    messages_world.script(whole(orjson.dumps(ANTHROPIC.whole)))
    reply = messages_world.gateway.chat(temperature=0.5, stop=["END"])
    assert orjson.loads(messages_world.upstreams[0].requests[0].body) == {
        "model": "gpt-x-mini",
        "max_tokens": messages_world.models[0].max_output or 8192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "temperature": 0.5,
        "stop_sequences": ["END"],
    }
    document = reply.json
    assert document.pop("created") > 0
    assert document == {
        "id": "reply-77",
        "object": "chat.completion",
        "model": "model-x-2026-05-01",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": TEXT, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 1230,
            "completion_tokens": 340,
            "total_tokens": 1570,
            "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 30},
            "completion_tokens_details": {"reasoning_tokens": 40},
        },
    }
    call = messages_world.call()
    assert (call.success, call.actual_input_tokens, call.actual_cache_read_tokens, call.actual_cache_write_tokens) == (
        True,
        1000,
        200,
        30,
    )
    assert call.actual_cost_nanos is not None


def test_a_streamed_answer_is_written_in_the_callers_protocol(messages_world: World) -> None:
    messages_world.script(streamed(ANTHROPIC.stream))
    reply = messages_world.gateway.chat(stream=True, stream_options={"include_usage": True})
    *chunks, usage = reply.chunks
    assert reply.frames[-1] == b"[DONE]"
    assert joined(chunks, "content") == TEXT
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert {each["id"] for each in reply.chunks} == {"reply-77"}
    assert [each["choices"][0]["finish_reason"] for each in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert (usage["choices"], usage["usage"]["prompt_tokens"]) == ([], 1230)
    assert usage["signalbox"]["call"] == reply.headers["x-signalbox-call"]
    call = messages_world.call()
    assert (call.success, call.streamed, call.actual_output_tokens, call.usage_coverage) == (True, True, 340, "exact")


def test_usage_nobody_asked_for_is_not_told(messages_world: World) -> None:
    messages_world.script(streamed(ANTHROPIC.stream))
    reply = messages_world.gateway.chat(stream=True)
    assert all("usage" not in each for each in reply.chunks)
    assert messages_world.call().actual_cost_nanos is not None


OTHERS = [each for each in WIRES if each is not OPENAI]


@pytest.mark.parametrize("vendor", OTHERS, ids=str)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_every_vendor_is_reached_by_a_caller_of_openais(world: World, vendor: Vendor, stream: bool) -> None:
    provider = world.models[0].provider
    provider.adapter_type = vendor.adapter_type
    provider.save()
    world.gateway.refresh()
    world.script(streamed(vendor.stream) if stream else whole(orjson.dumps(vendor.whole)))
    options: dict[str, Any] = {"stream_options": USAGE_TOO} if stream else {}
    reply = world.gateway.chat(stream=stream, temperature=0.5, **options)
    assert reply.status == 200
    if stream:
        *chunks, usage = reply.chunks
        assert joined(chunks, "content") == TEXT
        assert reply.frames[-1] == b"[DONE]"
    else:
        usage = reply.json
        assert usage["choices"][0]["message"]["content"] == TEXT
    assert usage["usage"]["prompt_tokens"] == vendor.usage.prompt
    assert usage["usage"]["completion_tokens"] == vendor.usage.output
    call = world.call()
    assert (call.success, call.actual_input_tokens, call.usage_coverage) == (True, vendor.usage.input, "exact")
    assert call.actual_cost_nanos is not None


@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_arrive(messages_world: World, stream: bool) -> None:
    script = streamed(ANTHROPIC.calls_stream) if stream else whole(orjson.dumps(ANTHROPIC.calls_whole))
    messages_world.script(script)
    reply = messages_world.gateway.chat(tools=TOOLS, stream=stream)
    if not stream:
        (choice,) = reply.json["choices"]
        assert choice["finish_reason"] == "tool_calls"
        calls = [
            (each["id"], each["function"]["name"], each["function"]["arguments"])
            for each in choice["message"]["tool_calls"]
        ]
    else:
        found: dict[int, list[str]] = {}
        for each in reply.chunks:
            for delta in each["choices"][0]["delta"].get("tool_calls", ()):
                call = found.setdefault(delta["index"], [delta.get("id", ""), delta["function"].get("name", ""), ""])
                call[2] += delta["function"]["arguments"]
        calls = [(call_id, name, arguments) for call_id, name, arguments in found.values()]
        assert reply.chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert calls == list(CALLS)


def test_a_route_that_cannot_carry_a_field_is_passed_over(messages_world: World) -> None:
    messages_world.script(whole(b"{}"), whole(completion()))
    reply = messages_world.gateway.chat(logit_bias={"1": 5})
    assert reply.status == 200
    assert messages_world.asked == [0, 1, 0]
    assert reply.headers["x-signalbox-route"] == "prod-west/wise"
    assert reply.headers["x-signalbox-attempts"] == "1"
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (notCarried)"


def test_where_no_route_carries_a_field_it_is_named(world: World) -> None:
    for model in world.models:
        model.provider.adapter_type = "anthropic"
        model.provider.save()
    world.gateway.refresh()
    reply = world.gateway.chat(logit_bias={"1": 5})
    assert world.asked == [0, 0, 0]
    assert reply.status == 400
    assert (reply.error["code"], reply.error["param"]) == ("unsupported_conversion", "logit_bias")
    assert "prod-west/wise" in reply.error["message"]
    call = world.call()
    assert (call.success, call.failure_kind, call.requests_sent) == (False, "unsupported", 0)


def test_a_route_that_failed_is_told_before_one_that_cannot_carry(world: World) -> None:
    provider = world.models[1].provider
    provider.adapter_type = "anthropic"
    provider.save()
    world.gateway.refresh()
    world.script(fails(503), whole(b"{}"), fails(503))
    reply = world.gateway.chat(logit_bias={"1": 5})
    assert reply.status == 503
    assert "logit_bias cannot be carried" in reply.error["message"]
    assert world.asked == [1, 0, 1]


@pytest.mark.parametrize("at", [0, 4])
def test_an_error_inside_a_stream(messages_world: World, at: int) -> None:
    """Before the first token the next route is asked; after it an error frame is the end."""
    messages_world.script(streamed([*ANTHROPIC.stream[:at], ANTHROPIC.error_frame]), whole(b"{}"))
    messages_world.upstreams[1].answer(*streamed([b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n']))
    reply = messages_world.gateway.chat(stream=True)
    if at == 0:
        assert messages_world.asked == [1, 1, 0]
        return
    assert messages_world.asked == [1, 0, 0]
    assert reply.chunks[-1]["error"]["type"] == "transient"
    assert b"[DONE]" not in reply.body


def test_a_refusal_is_one(messages_world: World) -> None:
    refused = {**ANTHROPIC.whole, "content": [], "stop_reason": "refusal"}
    messages_world.script(whole(orjson.dumps({**refused, "stop_details": {"explanation": "I will not."}})))
    (choice,) = messages_world.gateway.chat().json["choices"]
    assert (choice["message"]["refusal"], choice["finish_reason"]) == ("I will not.", "content_filter")
    call = messages_world.call()
    assert (call.success, call.failure_kind) == (False, "refused")


THOUGHTS = [
    {"type": "thinking", "thinking": "Hm.", "signature": "s=="},
    {"type": "thinking", "thinking": "", "signature": "t=="},  # its text was left out
    {"type": "redacted_thinking", "data": "d=="},
]
DETAILS = [
    {"type": "reasoning.text", "text": "Hm.", "signature": "signalbox:anthropic::s==", "index": 0},
    {"type": "reasoning.text", "text": "", "signature": "signalbox:anthropic::t==", "index": 1},
    {"type": "reasoning.encrypted", "data": "signalbox:anthropic/hidden::d==", "index": 2},
]


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_goes_back_with_its_seals_to_whoever_sealed_it(messages_world: World, stream: bool) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}}
    if stream:
        messages_world.script(streamed(_thinking_stream()))
        reply = messages_world.gateway.chat(stream=True)
        deltas = [choice["delta"] for chunk in reply.chunks for choice in chunk["choices"]]
        details = [detail for delta in deltas for detail in delta.get("reasoning_details", ())]
    else:
        answer = {**ANTHROPIC.whole, "content": [*THOUGHTS, call], "stop_reason": "tool_use"}
        messages_world.script(whole(orjson.dumps(answer)))
        details = messages_world.gateway.chat().json["choices"][0]["message"]["reasoning_details"]
    assert details == DETAILS
    messages_world.forget()
    called = {"id": "toolu_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "reasoning_details": details}
    history = [
        {"role": "user", "content": "Hello"},
        {**said, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "here"},
    ]
    messages_world.script(whole(orjson.dumps(ANTHROPIC.whole)))
    assert messages_world.gateway.chat(messages=history).status == 200
    sent = orjson.loads(messages_world.upstreams[0].requests[0].body)
    assert sent["messages"][1]["content"] == [*THOUGHTS, call]


def _thinking_stream() -> list[bytes]:
    def event(kind: str, **members: Any) -> bytes:
        return sse({"type": kind, **members}, event=kind)

    def block(index: int, block: Any, *deltas: Any) -> list[bytes]:
        return [
            event("content_block_start", index=index, content_block=block),
            *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
            event("content_block_stop", index=index),
        ]

    thought = {"type": "thinking", "thinking": "", "signature": ""}
    text, *seals = (
        {"type": "thinking_delta", "thinking": "Hm."},
        *({"type": "signature_delta", "signature": each} for each in ("s==", "t==")),
    )
    first, *_, delta, stop = ANTHROPIC.stream
    return [
        first,
        *block(0, thought, text, seals[0]),
        *block(1, thought, seals[1]),
        *block(2, THOUGHTS[2]),
        delta,
        stop,
    ]


def test_no_other_vendor_is_sent_what_one_has_sealed(world: World) -> None:
    said = {"role": "assistant", "content": "Hm", "reasoning_details": DETAILS[:1]}
    history = [{"role": "user", "content": "Hello"}, said, {"role": "user", "content": "And?"}]
    refused = world.gateway.chat(messages=history)
    assert (refused.status, refused.error["param"]) == (400, "messages.reasoning_details")
    assert world.asked == [0, 0, 0]
    own = {**said, "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "own", "index": 0}]}
    assert world.gateway.chat(messages=[history[0], own, history[2]]).status == 200


def test_reasoning_arrives(messages_world: World) -> None:
    content = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Yes."}]
    messages_world.script(whole(orjson.dumps({**ANTHROPIC.whole, "content": content})))
    message = messages_world.gateway.chat(reasoning_effort="low").json["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("Hm.", "Yes.")
    sent = orjson.loads(messages_world.upstreams[0].requests[0].body)
    assert sent["output_config"] == {"effort": "low"}
