"""What passes through is not touched: requests on their way to a provider, answers on their way back."""

import asyncio
from typing import Any

import orjson
import pytest
from django.conf import settings

from routing.credentials import store_key
from routing.models import LanguageModel
from routing.vault import Vault
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import question
from tests.governance.gateway.upstream import (
    DONE,
    ROLE,
    STOP,
    USAGE,
    chunk_of,
    completion,
    fails,
    streams,
    usage_chunk,
)
from tests.servers.fake_provider import Pause, chunk, events, head, whole

REQUESTS = [
    # canonical, with members nobody here knows
    b'{"model":"support-chat","messages":[{"role":"user","content":"Hello"}],"diagnostics":{},"seed":7}',
    # blanks, another order, numbers in spellings of their own, escapes
    b' {\r\n "messages" : [ {"role":"user", "content":"H\\u00e4 \\ud83d\\ude00 \\/ \\"model\\":"} ],\t"top_p" : 1.0,\n'
    b'  "temperature":1e-1, "seed": 12345678901234567890123, "model" : "support-chat" , "n":1.50 }\n',
    # the name also stands elsewhere
    b'{"metadata": {"model":"support-chat"},"model": "support-chat", "messages":[{"role":"user","content":"model"}]}',
    # NUL characters, in tool output
    b'{"model":"support-chat","messages":[{"role":"tool","tool_call_id":"c","content":"a\\u0000b"}]}',
    # legacy shapes
    b'{"model":"support-chat","messages":[{"role":"function","name":"f","content":"1"}],"functions":[{"name":"f"}],'
    b'"function_call":"auto","stop":"END"}',
    # tools, structured output, parts, arguments that are no JSON
    orjson.dumps(
        {
            "model": "support-chat",
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "Be brief"}]},
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "aa", "format": "wav"}}]},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":'}}],
                },
                {"role": "tool", "tool_call_id": "c", "content": "1"},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            "tool_choice": "none",
            "parallel_tool_calls": False,
            "response_format": {"type": "json_object"},
            "reasoning_effort": "none",
        }
    ),
]


@pytest.mark.parametrize("body", REQUESTS, ids=range(len(REQUESTS)))
def test_a_request_arrives_as_it_was_but_for_the_model(world: World, body: bytes) -> None:
    assert world.gateway.request(body).status == 200
    (received,) = world.upstreams[0].requests
    spelled = b'"model" : ' if b'"model" : ' in body else b'"model": ' if b'"model": "s' in body else b'"model":'
    assert received.body == body.replace(spelled + b'"support-chat"', spelled + b'"gpt-x-mini"')


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (b'"stream":true', b'"stream":true,"stream_options":{"include_usage":true}'),
        (
            b'"stream":true,"stream_options":{"include_usage":false,"x":1}',
            b'"stream":true,"stream_options":{"include_usage":true,"x":1}',
        ),
        (
            b'"stream":true,"stream_options":{"include_usage":true}',
            b'"stream":true,"stream_options":{"include_usage":true}',
        ),
        (b'"stream": true, "stream_options": null', b'"stream": true, "stream_options": {"include_usage":true}'),
        (b'"stream":false,"stream_options":{}', b'"stream":false,"stream_options":{}'),
    ],
    ids=["unasked", "declined", "asked", "null", "whole"],
)
def test_a_stream_is_asked_for_its_usage(world: World, sent: bytes, arrives: bytes) -> None:
    around = b'{"model":"%s","messages":[{"role":"user","content":"Hello"}],%s}'
    world.script(streams() if b"true" in sent.partition(b",")[0] else whole(completion()))
    assert world.gateway.request(around % (b"support-chat", sent)).status == 200
    (received,) = world.upstreams[0].requests
    assert received.body == around % (b"gpt-x-mini", arrives)


def test_the_model_is_that_of_each_route(world: World) -> None:
    world.script(fails(503), fails(503), whole(completion()))
    world.gateway.chat()
    sent = [orjson.loads(each.requests[0].body)["model"] for each in world.upstreams]
    assert sent == ["gpt-x-mini", "gpt-x-pro", "gpt-x-max"]


def test_nothing_of_the_callers_headers_arrives(world: World) -> None:
    provider = world.models[0].provider
    store_key(provider, "sk-of-the-provider-0001", vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS))
    provider.organization = "org-77"
    provider.save()
    world.gateway.refresh()
    headers = {"x-secret": "s", "cookie": "a=b", "openai-organization": "org-mine", "user-agent": "theirs"}
    world.gateway.request(question(), headers=headers)
    (received,) = world.upstreams[0].requests
    assert received.line == "POST /v1/chat/completions HTTP/1.1"
    assert received.headers["authorization"] == "Bearer sk-of-the-provider-0001"
    assert received.headers["openai-organization"] == "org-77"
    assert not {"x-secret", "cookie", "x-signalbox-source", "x-request-id"} & set(received.headers)
    assert world.gateway.secret.encode() not in received.head + received.body


@pytest.mark.parametrize(
    "body",
    [
        completion(),
        b' {"choices" : [ {"message":{"content":"H\\u00e4"}, "finish_reason":"stop"} ],\n "x": 1.0 } \n',
        completion(system_fingerprint="fp", service_tier="default"),
    ],
    ids=["compact", "blanks", "unknown"],
)
def test_a_whole_answer_arrives_as_it_was(world: World, body: bytes) -> None:
    world.script(whole(body, headers={"x-vendor": "secret", "set-cookie": "a=b"}))
    reply = world.gateway.chat()
    assert reply.body == body
    assert not {"x-vendor", "set-cookie"} & set(reply.headers)
    assert reply.headers["content-length"] == str(len(body))


def test_a_compressed_answer_is_unpacked(world: World) -> None:
    world.script(whole(completion(), compress=True))
    reply = world.gateway.chat()
    assert reply.body == completion()
    assert "content-encoding" not in reply.headers


FRAMES = [
    b"data: " + ROLE + b"\n\n",
    b'data:{"choices":[{"index":0,"delta":{"content":"no blank"}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"crlf"}}]}\r\n\r\n',
    b'id: 7\nevent: message\ndata: {"choices":[{"index":0,"delta":{"content":"fields"}}]}\n\n',
    b'data: {"choices":\ndata: [{"index":0,"delta":{"content":"two lines"}}]}\n\n',
    'data: {"choices":[{"index":0,"delta":{"content":"Grüße 😀 \\ud83d\\ude00"}}],"x":1.0}\n\n'.encode(),
    b'data: {"choices":[{"index":0,"delta":{},"content_filter_results":{}}],"unknown":[1, 2]}\n\n',
    b"data: " + STOP + b"\n\n",
]
USAGE_FRAME = b"data: " + usage_chunk() + b"\n\n"
END = b"data: [DONE]\n\n"
COMMENT = b": PROCESSING\n\n"


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("split", [1, 7, 4096])
def test_a_stream_arrives_as_it_was(world: World, asked: bool, split: int) -> None:
    """But for comments, for usage nobody asked for, and for the cost beside usage that was."""
    sent = COMMENT.join([b"", *FRAMES, USAGE_FRAME, END])
    pieces = [sent[at : at + split] for at in range(0, len(sent), split)]
    world.script([head(chunked=True), *map(chunk, pieces), chunk(b"")])
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
    reply = world.gateway.chat(stream=True, **options)
    call = reply.headers["x-signalbox-call"]
    usage = {**orjson.loads(usage_chunk()), "signalbox": {"call": call, "cost": "0.00595", "currency": "USD"}}
    expected = [*FRAMES, *([b"data: " + orjson.dumps(usage) + b"\n\n"] if asked else []), END]
    assert reply.body == b"".join(expected)


def test_usage_beside_content_is_not_hidden(world: World) -> None:
    """Nothing of an answer may be kept back with it."""
    last = chunk_of({"content": "."}, finish="stop", usage=USAGE)
    world.script(events(ROLE, last, DONE))
    reply = world.gateway.chat(stream=True)
    assert reply.chunks[1] == {
        **orjson.loads(last),
        "signalbox": {"call": reply.headers["x-signalbox-call"], "cost": "0.00595", "currency": "USD"},
    }


def test_usage_of_an_unpriced_model_says_no_cost(world: World) -> None:
    world.models[0].prices.all().delete()
    world.gateway.refresh()
    world.script(streams())
    reply = world.gateway.chat(stream=True, stream_options={"include_usage": True})
    assert reply.chunks[-1] == orjson.loads(usage_chunk())


def test_a_stream_is_not_collected_on_the_way(world: World) -> None:
    """Every frame leaves before the next one has arrived, and the head says that nobody may wait for more."""
    first, second = (b"data: " + chunk_of({"content": text}) + b"\n\n" for text in ("one", "two"))
    world.script([head(chunked=True), chunk(first), Pause(0.5), chunk(second)])
    conversation = world.gateway.begin_chat(stream=True)
    conversation.wait_for(b"one")
    assert b"two" not in conversation.body
    headers = dict(conversation.sent[0]["headers"])
    assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert headers[b"x-accel-buffering"] == b"no"
    assert headers[b"cache-control"] == b"no-cache, no-transform"
    assert b"content-length" not in headers
    assert [each["body"] for each in conversation.sent[1:]] == [first]
    conversation.hang_up()
    conversation.finish()


def test_nothing_leaves_before_the_first_token(world: World) -> None:
    world.script([head(chunked=True), chunk(b"data: " + ROLE + b"\n\n"), Pause(0.3), chunk(FRAMES[1]), chunk(END)])
    conversation = world.gateway.begin_chat(stream=True)
    world.wait_for_request(0)
    world.gateway.threads.run(asyncio.sleep(0.1))  # long enough for the role to arrive
    assert conversation.sent == []
    conversation.wait_for(b"no blank")
    assert conversation.body.startswith(b"data: " + ROLE)
    conversation.hang_up()
    conversation.finish()


def test_a_model_id_with_characters_of_its_own(world: World) -> None:
    model: LanguageModel = world.models[0]
    model.model_id = 'org/"Modell" ü\\7'
    model.save()
    world.gateway.refresh()
    for body in (question(), b' {"model": "support-chat", "messages": [{"role":"user","content":"Hello"}]}'):
        world.forget()
        world.gateway.request(body)
        assert orjson.loads(world.upstreams[0].requests[0].body)["model"] == 'org/"Modell" ü\\7'
