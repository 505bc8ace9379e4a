"""What is wrong with a request is said in the envelope, with the field's name, and is never a 500."""

from typing import Any

import orjson
import pytest

from governance.changes.settings import store_setting
from governance.gateway import http
from governance.settings_store.registry import MAX_BODY_BYTES
from telemetry.models import Call, UsageDay
from tests.authors import SOMEBODY
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Reply, elapsed, question

USER = {"role": "user", "content": "Hello"}


def told(reply: Reply, status: int) -> str:
    """The message of an error that has the whole envelope."""
    assert reply.status == status, reply.body
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-should-retry"] == "false"
    error = reply.error
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return str(error["message"])


@pytest.fixture(autouse=True)
def nothing_is_sent(world: World) -> Any:
    """No provider is asked, and nothing is recorded, of a request that is no call."""
    yield
    assert world.asked == [0, 0, 0]
    world.gateway.flush()
    assert not Call.objects.exists()
    assert not UsageDay.objects.exists()


def test_a_body_that_is_no_document(world: World) -> None:
    for body, words in {
        b"": "no valid JSON",
        b"{": "no valid JSON",
        b"[]": "must be a JSON object",
        b"null": "must be a JSON object",
        b'"text"': "must be a JSON object",
        b'{"model":"support-chat","messages":[}': "no valid JSON",
        b'{"a":NaN}': "no valid JSON",
        b'{"a":1,}': "no valid JSON",
        b"{'a':1}": "no valid JSON",
        b'{"a":1} {}': "no valid JSON",
        b'\xef\xbb\xbf{"a":1}': "no valid JSON",
        b'{"a":"\xff"}': "no valid JSON",
        b'{"a":"\xed\xa0\xbd"}': "no valid JSON",  # half a pair, in bytes
        b'{"a":"\\ud83d"}': "no valid JSON",  # half a pair, escaped
        b'{"a":"\\ud83d\\u0041"}': "no valid JSON",
        b'{"\\udc00":1}': "no valid JSON",
        b"PK\x03\x04": "no valid JSON",
    }.items():
        reply = world.gateway.request(body)
        assert words in told(reply, 400), body
        assert reply.error["code"] == "invalid_json"


def test_a_body_that_nests_without_end(world: World) -> None:
    for depth in (255, 400, 1000, 1024, 1025, 5000, 100_000):
        for opened, closed in ((b"[", b"]"), (b'{"a":', b"}"), (b'{"a" : [', b"]}")):
            for ending in (b"1" + closed * depth + b"}", b""):
                body = b'{"model":"support-chat","messages":[],"x":' + opened * depth + ending
                message = told(world.gateway.request(body), 400)
                assert "nested too deeply" in message or "no valid JSON" in message


def test_a_key_that_is_given_twice(world: World) -> None:
    content = b'[{"role":"user","content":"Hello"}]'
    for body, key in {
        b'{"model":"a","model":"support-chat","messages":' + content + b"}": "model",
        b'{"model":"support-chat","messages":' + content + b',"messages":' + content + b"}": "messages",
        b'{ "model" : "support-chat" , "messages" : ' + content + b' , "\\u006dodel" : "b" }': "model",
        b'{"model":"support-chat","messages":[{"role":"user","content":"a","content":"b"}]}': "content",
        b'{"model":"support-chat","messages":' + content + b',"metadata":{"a":{"b":1,"b":1}}}': "b",
        b'{"model":"support-chat","messages":' + content + b',"tools":[{"type":"x","type":"x"}]}': "type",
    }.items():
        assert f"the key '{key}' twice" in told(world.gateway.request(body), 400)


FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("model", {"model": None}),
    ("model", {"model": 7}),
    ("model", {"model": "  "}),
    ("model", {"model": ["support-chat"]}),
    ("messages", {"messages": None}),
    ("messages", {"messages": []}),
    ("messages", {"messages": {}}),
    ("messages", {"messages": "Hello"}),
    ("messages[0]", {"messages": ["Hello"]}),
    ("messages[1]", {"messages": [USER, None]}),
    ("messages[0].role", {"messages": [{"content": "Hello"}]}),
    ("messages[0].role", {"messages": [{"role": "robot", "content": "Hello"}]}),
    ("messages[0].role", {"messages": [{"role": ["user"], "content": "Hello"}]}),
    ("messages[0].content", {"messages": [{"role": "user", "content": 7}]}),
    ("messages[0].content", {"messages": [{"role": "user", "content": {}}]}),
    ("messages[0].content[0]", {"messages": [{"role": "user", "content": ["Hello"]}]}),
    ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}),
    ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"type": {}}]}]}),
    ("messages[0].content[0].text", {"messages": [{"role": "user", "content": [{"type": "text", "text": 7}]}]}),
    ("messages[0].content[0].text", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
    ("messages[0].content[0].image_url", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
    (
        "messages[0].content[0].image_url",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": 7}}]}]},
    ),
    ("messages[0].tool_calls", {"messages": [{"role": "assistant", "tool_calls": {"a": 1}}]}),
    ("messages[0].tool_calls[0]", {"messages": [{"role": "assistant", "tool_calls": ["f"]}]}),
    ("messages[0].tool_calls[0].function", {"messages": [{"role": "assistant", "tool_calls": [{}]}]}),
    (
        "messages[0].tool_calls[0].function",
        {"messages": [{"role": "assistant", "tool_calls": [{"type": "function", "function": "f"}]}]},
    ),
    (
        "messages[0].tool_calls[0].custom",
        {"messages": [{"role": "assistant", "tool_calls": [{"type": "custom", "custom": "f"}]}]},
    ),
    (
        "messages[0].tool_calls[0].custom",
        {"messages": [{"role": "assistant", "tool_calls": [{"type": "custom", "function": ["f"]}]}]},
    ),
    (
        "messages[0].tool_calls[0].function.arguments",
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]},
    ),
    ("stream", {"stream": "yes"}),
    ("stream", {"stream": 1}),
    ("stream_options", {"stream": True, "stream_options": ["include_usage"]}),
    ("tools", {"tools": {"a": 1}}),
    ("tools[0]", {"tools": ["look_up"]}),
    ("max_tokens", {"max_tokens": 0}),
    ("max_tokens", {"max_tokens": "many"}),
    ("max_tokens", {"max_tokens": True}),
    ("max_completion_tokens", {"max_completion_tokens": 1.5}),
    ("max_completion_tokens", {"max_completion_tokens": -1, "max_tokens": 1}),
    # Where calls go, and with whose key, is not the caller's to say.
    ("api_base", {"api_base": "http://169.254.169.254/"}),
    ("base_url", {"base_url": None}),
    ("api_key", {"api_key": "sk-another"}),
    ("extra_headers", {"extra_headers": {"authorization": "Bearer x"}}),
]


def test_a_field_that_is_wrong_is_named(world: World) -> None:
    for field, members in FIELDS:
        reply = world.gateway.request(orjson.dumps({"model": "support-chat", "messages": [USER], **members}))
        assert told(reply, 400).startswith(f"{field}: "), members
        assert (reply.error["param"], reply.error["code"]) == (field, "invalid_value")


def test_a_name_that_no_record_could_have_is_neither_compared_nor_repeated(world: World) -> None:
    for length in (1001, 100_000):
        reply = world.gateway.request(orjson.dumps({"model": "a" * length, "messages": [USER]}))
        assert told(reply, 400) == "model: a name has at most 1000 characters"


def test_headers_that_say_nothing_that_can_be_kept(world: World) -> None:
    for name, value in [
        ("x-signalbox-on-device", "yes"),
        ("x-signalbox-on-device", "1"),
        ("x-signalbox-max-cost", "cheap"),
        ("x-signalbox-max-cost", "-1"),
        ("x-signalbox-max-cost", "NaN"),
        ("x-signalbox-max-cost", "Infinity"),
        ("x-signalbox-max-cost", "1e999999"),
        ("x-signalbox-max-cost", "0.0000000001"),
        ("x-signalbox-max-cost", "\xb2"),
        ("x-signalbox-max-cost", "9" * 5000),
    ]:
        reply = world.gateway.request(question(), headers={name: value})
        assert told(reply, 400).startswith(f"{name}: ")
        assert reply.error["param"] == name


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW")


def test_methods(world: World) -> None:
    for path, allowed in {
        "/v1/chat/completions": ("POST",),
        "/v1/responses": ("POST",),
        "/v1/models": ("GET", "HEAD"),
        "/v1/models/support-chat": ("GET", "HEAD"),
    }.items():
        for method in METHODS:
            if method not in allowed:
                reply = world.gateway.request(question(), method=method, path=path)
                told(reply, 405)
                assert reply.headers["allow"] == allowed[0]


PATHS = [
    "/v1/", "/v1/nonesuch", "/v1/chat", "/v1/chat/completions/", "/v1/models/", "/v1//models", "/v1/ünïcode",
    "/v1/chat/completions\n", "/v1/" + "x" * 10_000, "/v1/\x00", "/v1/\ufffd", "/v1/../admin/", "/v1/embeddings/",
]  # fmt: skip


def test_paths_that_lead_nowhere(world: World) -> None:
    for path in PATHS:
        for method in ("GET", "POST"):
            told(world.gateway.request(question(), method=method, path=path), 404)


# --- Sizes and times ------------------------------------------------------------------------------------------------


def limit(world: World, size: int) -> None:
    """Set the largest body."""
    store_setting(MAX_BODY_BYTES.key, size, author=SOMEBODY)
    world.gateway.refresh()


def test_a_body_whose_declared_length_is_too_large_is_not_read(world: World) -> None:
    limit(world, 2000)
    for length in ("2001", "9" * 18, "9" * 40, "9" * 5000):
        conversation = world.gateway.begin([b"{"], headers={"content-length": length}, is_complete=False)
        reply = conversation.reply()
        assert "larger than 2000 bytes" in told(reply, 413)
        assert "gateway.maxBodyBytes" in reply.error["message"]


def test_a_body_that_is_too_large_all_the_same(world: World) -> None:
    limit(world, 2000)
    for headers in ({}, {"content-length": "10"}, {"content-length": "\xb2"}, {"content-length": "-1"}):
        pieces = [b'{"model":"support-chat","x":"', b"x" * 1000, b"x" * 1000]
        assert "larger than 2000 bytes" in told(
            world.gateway.begin(pieces, headers=headers, is_complete=False).reply(), 413
        )


def test_a_body_of_just_the_size(world: World) -> None:
    limit(world, 2000)
    exact = b'{"model":7}'.ljust(2000)
    assert "model" in told(world.gateway.request([exact[:1000], exact[1000:]]), 400)
    told(world.gateway.request([exact, b" "]), 413)


def test_a_body_that_does_not_arrive(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.1)
    conversation = world.gateway.begin([b'{"model":'], is_complete=False)
    assert elapsed(conversation.finish) < 2
    assert "within 0.1 seconds" in told(conversation.reply(), 408)
    assert world.gateway.service.turned_away == {"body_timeout": 1}


def test_the_body_of_a_stranger_is_not_read(world: World) -> None:
    conversation = world.gateway.begin([b"{"], key="sb-nobody", is_complete=False)
    reply = conversation.reply()
    assert told(reply, 401) == "this key is unknown, expired or revoked"
    assert "sb-nobody" not in str(reply)


# --- Headers --------------------------------------------------------------------------------------------------------

ODD: list[list[tuple[bytes, bytes]]] = [
    [(b"content-type", b"application/json; charset*=bogus''abc")],
    [(b"content-type", b"application/json; charset=\xff\x00")],
    [(b"content-type", b"text/plain; charset=utf-16; charset=\x00")],
    [(b"content-type", b";" * 5000)],
    [(b"content-type", b"a/b; x*0*=utf-8''%ff; x*1=\xe9")],
    [(b"content-length", b"0"), (b"content-length", b"0")],
    [(b"authorization", b"Bearer")],
    [(b"authorization", b"Basic c2I6eA==")],
    [(b"authorization", b"\xff\xfe\x00")],
    [(b"authorization", b"Bearer " + b"x" * 60_000)],
    [(b"x-api-key", bytes(range(1, 256)))],
    [(b"x-request-id", b"\xff\r\nset-cookie: a=b")],
    [(b"x-request-id", b"x" * 10_000)],
    [(b"cookie", b"\xff=\xff; ;;=")],
    [(b"host", b"[::1")],
    [(b"host", b"\xff"), (b"host", b"b")],
    [(b"", b""), (b"\xff", b"x"), (b"a b", b"c")],
    [(f"x-{number}".encode(), b"y" * 500) for number in range(500)],
    [(b"transfer-encoding", b"gzip, chunked")],
    [(b"content-encoding", b"gzip")],
    [(b"expect", b"100-continue")],
    [(b"range", b"bytes=0-")],
]


def test_odd_headers_are_no_fault_of_ours(world: World) -> None:
    for fields in ODD:
        for path in ("/v1/chat/completions", "/v1/models", "/v1/nonesuch"):
            for key in ("", None):
                method = "GET" if path == "/v1/models" else "POST"
                reply = world.gateway.request(b"{}", path=path, method=method, key=key, headers=fields)
                assert reply.status in (200, 400, 401, 404), fields
                assert "\n" not in reply.headers["x-request-id"]
