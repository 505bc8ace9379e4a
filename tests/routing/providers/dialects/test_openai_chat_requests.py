from typing import Any

import orjson
import pytest

from routing.core.calls import CallRequest, Original
from routing.core.conversation import Protocol
from routing.providers.dialects.openai_chat_requests import Differences, request_body
from tests.routing.providers.conftest import request_of

CANONICAL: dict[str, Any] = {
    "temperature": 0.1,
    "model": "fast",
    "messages": [{"role": "user", "content": "Grüße 🌌", "model": "inner"}],
    "x_unknown": {"model": "nested", "stream_options": None},
    "stream": True,
}


def test_a_canonical_body_is_written_with_the_model_replaced() -> None:
    body = request_body(request_of(CANONICAL), model_id="gpt-x-mini", stream=True)
    plain = orjson.dumps(CANONICAL)
    expected = plain.replace(b'"model":"fast"', b'"model":"gpt-x-mini"')
    assert body == expected[:-1] + b',"stream_options":{"include_usage":true}}'


def test_nothing_is_added_when_the_caller_asked_for_usage_or_the_host_is_not_asked() -> None:
    asked = CANONICAL | {"stream_options": {"include_usage": True, "include_obfuscation": False}}
    expected = orjson.dumps(asked | {"model": "gpt-x-mini"})
    assert request_body(request_of(asked), model_id="gpt-x-mini", stream=True) == expected
    body = request_body(
        request_of(CANONICAL), model_id="gpt-x-mini", stream=True, differences=Differences(asks_for_usage=False)
    )
    assert body == orjson.dumps(CANONICAL | {"model": "gpt-x-mini"})


ASKED = b'"stream_options":{"include_usage":true}'
ODD = [
    (
        b'{ "messages" : [ {"role":"user","content":"\\u00fc \\ud83c\\udf0c \\/ \\"}{][:,"} ],\r\n'
        b'\t"model":\t"fast" , "n":1.0, "stream":true }',
        b'{ "messages" : [ {"role":"user","content":"\\u00fc \\ud83c\\udf0c \\/ \\"}{][:,"} ],\r\n'
        b'\t"model":\t"gpt-x-mini" , "n":1.0, "stream":true,' + ASKED + b" }",
    ),
    (
        b'{"temperature":1e-7,"big":12345678901234567890123,"model" :"fast","tools":[{"model":"no"}],'
        b'"stream":true,"stream_options":null}\n',
        b'{"temperature":1e-7,"big":12345678901234567890123,"model" :"gpt-x-mini","tools":[{"model":"no"}],'
        b'"stream":true,' + ASKED + b"}\n",
    ),
    (
        b'{"mod\\u0065l": "fast","stream":true,'
        b'"stream_options": { "x": [1.50, {"include_usage": false}] , "include_usage" : false }}',
        b'{"mod\\u0065l": "gpt-x-mini","stream":true,'
        b'"stream_options": { "x": [1.50, {"include_usage": false}] , "include_usage" : true }}',
    ),
    (
        b' \n{"stream":true,"stream_options":{ },"a":"\\\\","b":"model","model":"fast"}',
        b' \n{"stream":true,"stream_options":{"include_usage":true },"a":"\\\\","b":"model","model":"gpt-x-mini"}',
    ),
    (
        b'{"model":"fast","stream":true,"model":"fast","s":"\\u0000"}',
        b'{"model":"gpt-x-mini","stream":true,"model":"gpt-x-mini","s":"\\u0000",' + ASKED + b"}",
    ),
]


@pytest.mark.parametrize(("body", "expected"), ODD, ids=["escapes", "numbers", "nested", "empty-options", "repeated"])
def test_other_bodies_keep_every_other_byte(body: bytes, expected: bytes) -> None:
    request = request_of(orjson.loads(body), body=body)
    assert request.original is not None
    assert request.original.body is not None
    assert request_body(request, model_id="gpt-x-mini", stream=True) == expected


def test_stream_and_whole_are_not_mixed_up() -> None:
    with pytest.raises(ValueError, match="streaming"):
        request_body(request_of(CANONICAL), model_id="m", stream=False)


def test_originals_of_no_protocol_are_refused() -> None:
    original = Original(Protocol.OPENAI_CHAT, None, {})
    assert request_body(CallRequest("x", (), original=original), model_id="m", stream=False) == b'{"model":"m"}'
