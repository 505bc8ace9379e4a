"""Callers of OpenAI's responses: by their own protocol, and by that of every other vendor."""

from typing import Any

import orjson
import pytest

from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Reply
from tests.governance.gateway.upstream import fails
from tests.routing.providers.vendors import ANTHROPIC, CALLS, OPENAI, RESPONSES, TEXT, WIRES, Vendor
from tests.servers.fake_provider import Script, chunk, head, whole

TOOLS = [
    {"type": "function", "name": "look_up", "parameters": {"type": "object"}, "strict": False},
    {"type": "function", "name": "weigh", "parameters": {"type": "object"}, "strict": False},
]


def streamed(frames: Any) -> Script:
    return [head(chunked=True), *map(chunk, frames), chunk(b"")]


def ask(world: World, **members: Any) -> Reply:
    sent = orjson.dumps({"model": "support-chat", "input": "Hello", **members})
    return world.gateway.request(sent, path="/v1/responses")


def speak(world: World, vendor: Vendor) -> None:
    for model in world.models:
        model.provider.adapter_type = vendor.adapter_type
        model.provider.save()
    world.gateway.refresh()


def events(reply: Reply) -> list[Any]:
    found = []
    for frame in reply.body.split(b"\n\n"):
        if frame:
            name, _, data = frame.partition(b"\n")
            found.append(orjson.loads(data.removeprefix(b"data: ")))
            assert name == b"event: " + found[-1]["type"].encode()
    return found


def checked(found: list[Any]) -> Any:
    """The response at the end of a stream, which says what the pieces before it said."""
    assert [each["sequence_number"] for each in found] == list(range(len(found)))
    assert [each["type"] for each in found[:2]] == ["response.created", "response.in_progress"]
    pieces: dict[int, str] = {}
    done: dict[int, Any] = {}
    for event in found:
        if event["type"].endswith(".delta"):
            pieces[event["output_index"]] = pieces.get(event["output_index"], "") + event["delta"]
        elif event["type"] == "response.output_item.done":
            done[event["output_index"]] = event["item"]
    response = found[-1]["response"]
    assert [done[index] for index in range(len(response["output"]))] == response["output"]
    for index, text in pieces.items():
        item = response["output"][index]
        parts = item.get("content") or item.get("summary")
        assert text == (item.get("arguments") or item.get("input") or "".join(each["text"] for each in parts))
    return response


# --- The same protocol ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_bytes_are_forwarded_but_for_the_model(world: World, stream: bool) -> None:
    speak(world, RESPONSES)
    sent = b'{"model" : "support-chat","input":"H\\u00e4","previous_response_id":"r","stream":%s}' % (
        b"true" if stream else b"false"
    )
    answer = orjson.dumps(RESPONSES.whole)
    world.script(streamed(RESPONSES.stream) if stream else whole(answer))
    reply = world.gateway.request(sent, path="/v1/responses")
    assert world.upstreams[0].requests[0].body == sent.replace(b'"support-chat"', b'"gpt-x-mini"')
    if not stream:
        assert reply.body == answer
        return
    *forwarded, last = RESPONSES.stream
    assert reply.body.startswith(b"".join(forwarded))
    told = events(reply)[-1]
    assert told.pop("signalbox")["cost"]
    assert told == orjson.loads(last.partition(b"data: ")[2])


# --- Other protocols ------------------------------------------------------------------------------------------------

OTHERS = [each for each in WIRES if each is not RESPONSES]


@pytest.mark.parametrize("vendor", OTHERS, ids=str)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_every_vendor_is_reached(world: World, vendor: Vendor, stream: bool) -> None:
    speak(world, vendor)
    world.script(streamed(vendor.stream) if stream else whole(orjson.dumps(vendor.whole)))
    reply = ask(world, stream=stream, instructions="Be brief.", max_output_tokens=50)
    assert reply.status == 200
    response = checked(events(reply)) if stream else reply.json
    (item,) = response["output"]
    assert (item["type"], item["role"], item["content"][0]["text"]) == ("message", "assistant", TEXT)
    assert (response["status"], response["error"], response["incomplete_details"]) == ("completed", None, None)
    usage = vendor.usage
    assert response["usage"] == {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.output,
    }
    assert world.call().usage_coverage == "exact"


@pytest.mark.parametrize("vendor", OTHERS, ids=str)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_tool_calls_arrive(world: World, vendor: Vendor, stream: bool) -> None:
    speak(world, vendor)
    world.script(streamed(vendor.calls_stream) if stream else whole(orjson.dumps(vendor.calls_whole)))
    reply = ask(world, stream=stream, tools=TOOLS)
    response = checked(events(reply)) if stream else reply.json
    assert [(each["type"], each["call_id"], each["name"], each["arguments"]) for each in response["output"]] == [
        ("function_call", *each) for each in CALLS
    ]


def test_an_agents_tools_go_out_flat_and_come_back_as_they_are(world: World) -> None:
    """Free text and namespaces through a protocol that knows neither, there and back."""
    speak(world, ANTHROPIC)
    called = {"type": "tool_use", "id": "c1", "name": "functions__exec", "input": {"input": "ls -l"}}
    answer = {**ANTHROPIC.whole, "content": [called], "stop_reason": "tool_use"}
    world.script(whole(orjson.dumps(answer)))
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: a"}
    tools = [
        {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec", "format": grammar}]}
    ]
    (item,) = ask(world, tools=tools).json["output"]
    assert {name: item[name] for name in ("type", "call_id", "name", "namespace", "input")} == {
        "type": "custom_tool_call",
        "call_id": "c1",
        "name": "exec",
        "namespace": "functions",
        "input": "ls -l",
    }
    (sent,) = orjson.loads(world.upstreams[0].requests[0].body)["tools"]
    assert sent["name"] == "functions__exec"
    assert "lark grammar:\nstart: a" in sent["description"]
    world.forget()
    history = [
        {"role": "user", "content": "x"},
        item,
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "a"},
    ]
    ask(world, input=history, tools=tools)
    _, assistant, result = orjson.loads(world.upstreams[0].requests[0].body)["messages"]
    assert assistant["content"] == [called]
    assert result["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": "a"}]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_reasoning_that_another_vendor_sealed_comes_back_to_it(world: World, stream: bool) -> None:
    speak(world, ANTHROPIC)
    content = [{"type": "thinking", "thinking": "Hm.", "signature": "sig"}, {"type": "text", "text": "Yes."}]
    world.script(whole(orjson.dumps({**ANTHROPIC.whole, "content": content})))
    thinking, said = ask(world, reasoning={"effort": "low"}).json["output"]
    assert (thinking["summary"][0]["text"], thinking["encrypted_content"]) == ("Hm.", "signalbox:anthropic::sig")
    world.forget()
    ask(world, input=[{"role": "user", "content": "x"}, thinking, said, {"role": "user", "content": "y"}])
    sent = orjson.loads(world.upstreams[0].requests[0].body)["messages"][1]["content"]
    assert sent == content


@pytest.mark.parametrize("field", ["previous_response_id", "conversation", "background", "prompt"])
def test_state_that_cannot_be_honoured_is_refused_by_name(world: World, field: str) -> None:
    refused = ask(world, **{field: True if field == "background" else "x"})
    assert refused.status == 400
    assert (refused.error["code"], refused.error["param"]) == ("unsupported_conversion", field)
    assert world.asked == [0, 0, 0]


def test_a_limit_that_was_reached(world: World) -> None:
    choice = {"index": 0, "message": {"content": "Half"}, "finish_reason": "length"}
    world.script(whole(orjson.dumps({**OPENAI.whole, "choices": [choice]})))
    response = ask(world).json
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_an_error_inside_a_stream_is_a_response_that_failed(world: World) -> None:
    world.script(streamed([*OPENAI.stream[:2], OPENAI.error_frame]))
    last = events(ask(world, stream=True))[-1]
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "insufficient_quota")


def test_failures_and_refusals(world: World) -> None:
    world.script(fails(503), fails(503), fails(503))
    assert ask(world).error["type"] == "transient"
    world.script(fails(400, code="content_filter"))
    (item,) = ask(world).json["output"]
    assert item["content"][0]["type"] == "refusal"
