"""Callers of Anthropic's messages: by their own protocol, and by that of every other vendor."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Reply
from tests.governance.gateway.upstream import fails
from tests.routing.providers.vendors import ANTHROPIC, CALLS, OPENAI, RESPONSES, TEXT, WIRES, Vendor
from tests.servers.fake_provider import Script, chunk, head, whole

TOOLS = [{"name": "look_up", "input_schema": {"type": "object"}}, {"name": "weigh", "input_schema": {"type": "object"}}]


def streamed(frames: Any) -> Script:
    return [head(chunked=True), *map(chunk, frames), chunk(b"")]


def body(**members: Any) -> bytes:
    question = [{"role": "user", "content": "Hello"}]
    return orjson.dumps({"model": "support-chat", "max_tokens": 100, "messages": question, **members})


def ask(world: World, sent: bytes | None = None, headers: Mapping[str, str] | None = None, **members: Any) -> Reply:
    return world.gateway.request(sent or body(**members), path="/v1/messages", headers=headers or {})


def speak(world: World, vendor: Vendor, *, route: int = 0) -> None:
    provider = world.models[route].provider
    provider.adapter_type = vendor.adapter_type
    provider.save()
    world.gateway.refresh()


def events(reply: Reply) -> list[Any]:
    found = []
    for frame in reply.body.split(b"\n\n"):
        if frame:
            name, _, data = frame.partition(b"\n")
            document = orjson.loads(data.removeprefix(b"data: "))
            assert name == b"event: " + document["type"].encode()
            found.append(document)
    return found


def assembled(found: list[Any]) -> Any:
    """The message that a client puts together, block by block; blocks never overlap."""
    message = dict(found[0]["message"])
    opened: Any = None
    text = ""
    for event in found[1:]:
        match event["type"]:
            case "content_block_start":
                assert opened is None
                assert event["index"] == len(message["content"])
                opened = dict(event["content_block"])
                text = ""
            case "content_block_delta":
                delta = event["delta"]
                match delta["type"]:
                    case "text_delta":
                        opened["text"] += delta["text"]
                    case "thinking_delta":
                        opened["thinking"] += delta["thinking"]
                    case "signature_delta":
                        opened["signature"] += delta["signature"]
                    case "input_json_delta":
                        text += delta["partial_json"]
            case "content_block_stop":
                if opened["type"] == "tool_use":
                    opened["input"] = orjson.loads(text)
                message["content"].append(opened)
                opened = None
            case "message_delta":
                message |= event["delta"]
                message["usage"] = event["usage"]
    assert found[-1] == {"type": "message_stop"}
    return message


# --- The same protocol ----------------------------------------------------------------------------------------------

ODD = b' { "model" : "support-chat",\r\n"max_tokens": 1e2,"messages":[{"role":"user","content":"H\\u00e4"}],"new":1.50}'


@pytest.mark.parametrize("stream", [False, True])
def test_bytes_are_forwarded_but_for_the_model(world: World, stream: bool) -> None:
    speak(world, ANTHROPIC)
    sent = ODD.replace(b"1e2", b"100")
    sent = sent.replace(b'"new"', b'"stream": true, "new"') if stream else sent
    answer = orjson.dumps(ANTHROPIC.whole)
    world.script(streamed(ANTHROPIC.stream) if stream else whole(answer))
    reply = ask(world, sent, headers={"anthropic-beta": "context-management-2025-06-27,other"})
    (received,) = world.upstreams[0].requests
    assert received.body == sent.replace(b'"support-chat"', b'"gpt-x-mini"')
    assert received.headers["anthropic-beta"] == "context-management-2025-06-27,other"
    assert received.headers["anthropic-version"] == "2023-06-01"
    if not stream:
        assert reply.body == answer
        return
    *forwarded, last, end = ANTHROPIC.stream
    assert reply.body.startswith(b"".join(forwarded))
    assert reply.body.endswith(end)
    told = events(reply)[-2]
    assert told.pop("signalbox")["call"] == reply.headers["x-signalbox-call"]
    assert told == orjson.loads(last.partition(b"data: ")[2])
    assert world.call().usage_coverage == "exact"


# --- Other protocols ------------------------------------------------------------------------------------------------

OTHERS = [each for each in WIRES if each is not ANTHROPIC]


def usage_of(vendor: Vendor) -> Any:
    usage = vendor.usage
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }


@pytest.mark.parametrize("vendor", OTHERS, ids=str)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_every_vendor_is_reached(world: World, vendor: Vendor, stream: bool) -> None:
    speak(world, vendor)
    world.script(streamed(vendor.stream) if stream else whole(orjson.dumps(vendor.whole)))
    reply = ask(world, stream=stream, temperature=0.5, system="Be brief.", thinking={"type": "adaptive"})
    assert reply.status == 200
    message = assembled(events(reply)) if stream else reply.json
    assert message == {
        "id": vendor.reply_id or f"msg_{reply.headers['x-signalbox-call']}",
        "type": "message",
        "role": "assistant",
        "model": "model-x-2026-05-01",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage_of(vendor),
    }
    call = world.call()
    assert (call.success, call.actual_output_tokens, call.usage_coverage) == (True, vendor.usage.output, "exact")


def test_what_has_no_place_in_an_answer_is_named_beside_it(world: World) -> None:
    speak(world, OPENAI)
    world.script(whole(orjson.dumps({**OPENAI.whole, "citations": ["https://pages.example/ulm"]})))
    assert ask(world).headers["x-signalbox-untold"] == "citations"
    reply = world.gateway.chat()  # whose protocol it came in: nothing is left out
    assert "x-signalbox-untold" not in reply.headers
    assert reply.json["citations"] == ["https://pages.example/ulm"]


@pytest.mark.parametrize("vendor", OTHERS, ids=str)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_tool_calls_arrive_one_block_after_the_other(world: World, vendor: Vendor, stream: bool) -> None:
    speak(world, vendor)
    world.script(streamed(vendor.calls_stream) if stream else whole(orjson.dumps(vendor.calls_whole)))
    reply = ask(world, stream=stream, tools=TOOLS)
    message = assembled(events(reply)) if stream else reply.json
    assert message["stop_reason"] == "tool_use"
    assert [(each["id"], each["name"], each["input"]) for each in message["content"]] == [
        (call_id, name, orjson.loads(arguments)) for call_id, name, arguments in CALLS
    ]


def test_reasoning_of_another_vendor_goes_back_to_it_and_to_nobody_else(world: World) -> None:
    speak(world, RESPONSES)
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"text": "Hm."}], "encrypted_content": "e=="}
    world.script(whole(orjson.dumps({**RESPONSES.whole, "output": [reasoning, *RESPONSES.whole["output"][1:]]})))
    content = ask(world).json["content"]
    assert content[0] == {"type": "thinking", "thinking": "Hm.", "signature": "signalbox:openai_responses:rs_1:e=="}
    history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": content}]
    again = [*history, {"role": "user", "content": "And?"}]
    world.forget()
    ask(world, messages=again)
    sent = orjson.loads(world.upstreams[0].requests[0].body)["input"]
    assert sent[1] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "e==",
    }
    for route in range(len(world.models)):
        speak(world, OPENAI, route=route)
    refused = ask(world, messages=again)
    assert refused.status == 400
    assert refused.error["param"] == "messages.content.signature"


def test_a_vendor_is_not_sent_another_s_seal_by_its_own_protocol_either(world: World) -> None:
    speak(world, ANTHROPIC)
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "signalbox:openai_responses:rs_1:e=="}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]}
    history = [{"role": "user", "content": "Hello"}, said, {"role": "user", "content": "And?"}]
    refused = ask(world, messages=history)
    assert (refused.status, refused.error["param"]) == (400, "messages.content.signature")
    assert world.asked == [0, 0, 0]


def test_what_no_route_carries_is_named_in_the_callers_words(world: World) -> None:
    refused = ask(world, top_k=5)
    assert (refused.status, refused.error["type"]) == (400, "invalid_request_error")
    assert (refused.error["code"], refused.error["param"]) == ("unsupported_conversion", "top_k")
    assert world.asked == [0, 0, 0]


# --- Errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status", "kind"),
    [
        (b"{", 400, "invalid_request_error"),
        (body(max_tokens=None), 400, "invalid_request_error"),
        (body(model="nothing-here"), 404, "not_found_error"),
    ],
)
def test_errors_have_the_protocols_envelope(world: World, sent: bytes, status: int, kind: str) -> None:
    reply = ask(world, sent)
    assert (reply.status, reply.json["type"], reply.error["type"]) == (status, "error", kind)
    assert reply.headers["x-should-retry"] == "false"


def test_a_stranger_is_told_in_the_protocols_envelope(world: World) -> None:
    reply = world.gateway.request(body(), path="/v1/messages", key="")
    assert (reply.status, reply.error["type"]) == (401, "authentication_error")


def test_failures_of_providers(world: World) -> None:
    world.script(fails(429, headers={"retry-after": "7"}), fails(429), fails(429))
    reply = ask(world)
    assert (reply.status, reply.error["type"]) == (429, "rate_limit_error")
    world.script(fails(503), fails(503), fails(503))
    assert ask(world).error["type"] == "api_error"


def test_an_error_inside_a_stream_is_an_event_and_the_end(world: World) -> None:
    world.script(streamed([*OPENAI.stream[:2], OPENAI.error_frame]))
    found = events(ask(world, stream=True))
    assert (found[-1]["type"], found[-1]["error"]["type"]) == ("error", "rate_limit_error")
    assert all(each["type"] != "message_stop" for each in found)


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_an_answer(world: World, stream: bool) -> None:
    world.script(fails(400, code="content_filter"))
    reply = ask(world, stream=stream)
    message = assembled(events(reply)) if stream else reply.json
    assert (reply.status, message["stop_reason"]) == (200, "refusal")


# --- Beside the call ------------------------------------------------------------------------------------------------


def test_tokens_are_counted_without_asking_anybody(world: World) -> None:
    sent = orjson.dumps({"model": "support-chat", "messages": [{"role": "user", "content": "x" * 400}]})
    reply = world.gateway.request(sent, path="/v1/messages/count_tokens")
    assert (reply.status, reply.json) == (200, {"input_tokens": 100})
    assert world.asked == [0, 0, 0]
    assert world.calls() == []
    assert world.gateway.request(sent, path="/v1/messages/count_tokens", key="").status == 401
    assert (
        world.gateway.request(path="/v1/messages/count_tokens", method="GET").error["type"] == "invalid_request_error"
    )


def test_models_are_listed_in_the_callers_words(world: World) -> None:
    version = {"anthropic-version": "2023-06-01"}
    reply = world.gateway.request(path="/v1/models", method="GET", headers=version)
    (listed, *_) = reply.json["data"]
    assert (listed["type"], listed["id"], reply.json["has_more"]) == ("model", "support-chat", False)
    assert reply.json["first_id"] == "support-chat"
    one = world.gateway.request(path="/v1/models/support-chat", method="GET", headers=version)
    assert one.json == listed
    assert world.gateway.request(path="/v1/models", method="GET").json["object"] == "list"
