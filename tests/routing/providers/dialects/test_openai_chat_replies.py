import contextlib
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.core.calls import (
    Coverage,
    Event,
    Frame,
    Reasoning,
    Refusal,
    Started,
    Stopped,
    StopReason,
    Text,
    ToolArguments,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from routing.core.failures import CallFailed, FailureKind
from routing.providers.base import Endpoint
from routing.providers.dialects.openai_chat_replies import ChunkReader, read_reply, read_usage
from routing.providers.sse import ServerEvent

ENDPOINT = Endpoint(provider="prod-east", adapter_type="openai", base_url="https://api.example.com/v1")

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


# --- Usage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, Usage(10, 5)),
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(10, 5)),
        (
            {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 80}},
            Usage(20, 5, cache_read=80),
        ),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "total_tokens": 150,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 40},
            },
            Usage(10, 50, cache_read=60, cache_write=30, reasoning=40),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": None,
                "completion_tokens_details": {},
            },
            Usage(10, 5),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 8}, Usage(2, 5, cache_read=8)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 315,
                "completion_tokens_details": {"reasoning_tokens": 300},
            },
            Usage(10, 305, reasoning=300),
        ),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0)),
        ({"prompt_tokens": 12.0, "completion_tokens": 5}, Usage(12, 5)),
        ({"prompt_tokens": -3, "completion_tokens": 5}, Usage(0, 5, coverage=Coverage.PARTIAL)),
        ({"prompt_tokens": 10, "completion_tokens": 2.5}, Usage(10, 0, coverage=Coverage.PARTIAL)),
        ({"prompt_tokens": "10", "completion_tokens": 5}, Usage(0, 5, coverage=Coverage.PARTIAL)),
        ({"prompt_tokens": True, "completion_tokens": 5}, Usage(0, 5, coverage=Coverage.PARTIAL)),
        ({"prompt_tokens": 10**30, "completion_tokens": 5}, Usage(10**30, 5)),  # and not credible, see there
        ({"prompt_tokens": 1e300, "completion_tokens": 5}, Usage(int(1e300), 5)),
        ({"completion_tokens": 5}, Usage(0, 5, coverage=Coverage.PARTIAL)),
        ({"total_tokens": 5}, Usage(0, 0, coverage=Coverage.PARTIAL)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 11}},
            Usage(0, 5, cache_read=10, coverage=Coverage.PARTIAL),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": -1}},
            Usage(10, 5, coverage=Coverage.PARTIAL),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 7}},
            Usage(10, 5, reasoning=5, coverage=Coverage.PARTIAL),
        ),
        ({}, None),
        (None, None),
        ([], None),
        ("x", None),
        ({"cost": 1}, None),
    ],
    ids=str,
)
def test_usage(block: object, expected: Usage | None) -> None:
    assert read_usage(block) == expected


@given(st.dictionaries(st.sampled_from(["prompt_tokens", "completion_tokens", "total_tokens"]), JSON), JSON, JSON)
def test_no_usage_is_negative_or_breaks_the_reading(block: dict[str, Any], prompt: Any, completion: Any) -> None:
    block |= {
        "prompt_tokens_details": {"cached_tokens": prompt, "cache_write_tokens": completion},
        "completion_tokens_details": {"reasoning_tokens": completion},
    }
    usage = read_usage(block)
    if usage is not None:
        assert min(usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning) >= 0
        assert usage.reasoning <= usage.output


# --- Whole replies --------------------------------------------------------------------------------------------------


def reply(message: dict[str, Any], reason: str | None = "stop", **fields: Any) -> bytes:
    document = {"id": "r-1", "model": "gpt-x-mini-2", "choices": [{"message": message, "finish_reason": reason}]}
    return orjson.dumps(document | fields)


def events_of(body: bytes) -> list[Event]:
    return list(read_reply(body, endpoint=ENDPOINT).events)


def test_a_whole_reply() -> None:
    body = reply({"content": "Hello"}, usage={"prompt_tokens": 3, "completion_tokens": 2})
    found = read_reply(body, endpoint=ENDPOINT)
    assert found.body == body
    assert list(found.events) == [
        Started("r-1", "gpt-x-mini-2"),
        Text("Hello"),
        Stopped(StopReason.END),
        UsageReported(Usage(3, 2)),
    ]
    assert found.usage == Usage(3, 2)


@pytest.mark.parametrize(
    ("message", "reason", "expected"),
    [
        ({"content": None, "reasoning_content": "hm"}, "stop", [Reasoning("hm"), Stopped(StopReason.END)]),
        ({"content": "x", "reasoning": "hm"}, "length", [Reasoning("hm"), Text("x"), Stopped(StopReason.LENGTH)]),
        ({"reasoning": "hm", "reasoning_content": "hm"}, None, [Reasoning("hm")]),
        ({"content": None, "refusal": "No."}, "stop", [Refusal("No."), Stopped(StopReason.REFUSAL)]),
        ({"content": ""}, "content_filter", [Stopped(StopReason.REFUSAL)]),
        ({"content": "x"}, "something", [Text("x"), Stopped(StopReason.OTHER)]),
        (
            {"content": [{"type": "thinking", "thinking": [{"text": "hm"}]}, {"type": "text", "text": "x"}]},
            "stop",
            [Reasoning("hm"), Text("x"), Stopped(StopReason.END)],
        ),
        (
            {
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                    {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                ]
            },
            "tool_calls",
            [
                ToolCallStarted(0, "a", "f"),
                ToolArguments(0, '{"x":1}'),
                ToolCallStarted(1, "b", "g"),
                ToolArguments(1, "{}"),
                Stopped(StopReason.TOOL_CALLS),
            ],
        ),
        (
            {"function_call": {"name": "f", "arguments": "{}"}},
            "function_call",
            [ToolCallStarted(0, "", "f"), ToolArguments(0, "{}"), Stopped(StopReason.TOOL_CALLS)],
        ),
    ],
    ids=[
        "deepseek", "openrouter", "both-names", "refusal", "filter", "unknown-reason", "parts", "tools", "legacy",
    ],
)  # fmt: skip
def test_what_messages_say(message: dict[str, Any], reason: str | None, expected: list[Event]) -> None:
    assert events_of(reply(message, reason))[1:] == expected


def test_all_choices_are_read() -> None:
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in ("a", "b")]
    body = orjson.dumps({"choices": choices})
    assert [event for event in events_of(body) if isinstance(event, Text)] == [Text("a"), Text("b")]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", FailureKind.UNREADABLE),
        (b"<html>", FailureKind.UNREADABLE),
        (b'{"choices":', FailureKind.UNREADABLE),
        (b"[]", FailureKind.UNREADABLE),
        (b'"x"', FailureKind.UNREADABLE),
        (b"{}", FailureKind.UNREADABLE),
        (b'{"choices":[]}', FailureKind.UNREADABLE),
        (b'{"choices":null}', FailureKind.UNREADABLE),
        (b'{"choices":{"a":1}}', FailureKind.UNREADABLE),
        (b'{"choices":["x"]}', FailureKind.UNREADABLE),
        (b'{"choices":[{"text":"x"}]}', FailureKind.UNREADABLE),
        (b"\xff\xfe", FailureKind.UNREADABLE),
        (b"[" * 200_000, FailureKind.UNREADABLE),
        (b'{"error":{"code":"insufficient_quota"},"choices":[]}', FailureKind.QUOTA_EXHAUSTED),
        (b'{"error":"boom"}', FailureKind.TRANSIENT),
        (b'{"object":"error","message":"x","code":429}', FailureKind.RATE_LIMITED),
        (b'{"choices":[{"error":{"code":502}}]}', FailureKind.TRANSIENT),
        (b'{"choices":[{"finish_reason":"error","message":{}}]}', FailureKind.TRANSIENT),
    ],
    ids=lambda value: value[:50].decode("latin-1") if isinstance(value, bytes) else None,
)  # fmt: skip
def test_replies_that_are_none(body: bytes, kind: FailureKind) -> None:
    with pytest.raises(CallFailed) as caught:
        read_reply(body, endpoint=ENDPOINT)
    assert caught.value.failure.kind is kind


def test_what_hosts_write_besides_strict_json_is_read() -> None:
    body = b'\n\n{"choices":[{"message":{"content":"a\\ud83d"},"logprobs":NaN,"finish_reason":"stop"}],"error":null}'
    assert events_of(body)[1] == Text("a\ufffd")
    assert events_of(reply({"content": "a\x00b"}))[1] == Text("a\x00b")


# --- Streams --------------------------------------------------------------------------------------------------------


def frames(*payloads: dict[str, Any] | bytes, hides_usage: bool = True) -> list[Frame]:
    reader = ChunkReader(endpoint=ENDPOINT, hides_usage=hides_usage)
    found = []
    for payload in payloads:
        data = payload if isinstance(payload, bytes) else orjson.dumps(payload)
        frame = reader.read(ServerEvent("", data, b"data: " + data + b"\n\n"))
        if frame is not None:
            found.append(frame)
    return found


def delta(reason: str | None = None, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"id": "r-1", "model": "m", "choices": [{"index": index, "delta": fields, "finish_reason": reason}]}


def stream_events(*payloads: dict[str, Any] | bytes) -> list[Event]:
    return [event for frame in frames(*payloads) for event in frame.events if not isinstance(event, Started)]


def test_a_stream() -> None:
    usage = {"id": "r-1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    found = frames(delta(role="assistant", content=""), delta(content="Hi"), delta("stop"), usage, b"[DONE]")
    assert [frame.events for frame in found] == [
        (Started("r-1", "m"),),
        (Text("Hi"),),
        (Stopped(StopReason.END),),
        (UsageReported(Usage(3, 2)),),
        (),
    ]
    assert [frame.hidden for frame in found] == [False, False, False, True, False]
    assert found[-1].raw == b"data: [DONE]\n\n"


def test_usage_is_hidden_only_where_it_was_not_asked_for_and_stands_alone() -> None:
    block = {"prompt_tokens": 3, "completion_tokens": 2}
    alone: dict[str, Any] = {"choices": [], "usage": block}
    (frame,) = frames(alone, hides_usage=False)
    assert not frame.hidden
    nothing: tuple[list[Any] | None, ...] = ([], None)
    for choices in nothing:
        (frame,) = frames({"choices": choices, "usage": block})
        assert frame.hidden
    (frame,) = frames(delta("stop") | {"usage": block})
    assert not frame.hidden
    assert frame.events[-1] == UsageReported(Usage(3, 2))
    (frame,) = frames({"choices": [], "prompt_filter_results": []})
    assert not frame.hidden


def test_usage_is_read_from_any_frame() -> None:
    block = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    preview = {"choices": [], "usage": {"completion_tokens": 4}}
    found = stream_events(
        preview,
        delta(content="x"),
        {"choices": [{"index": 0, "delta": {}}], "usage": block},
        delta("stop") | {"usage": None},
    )
    assert [event.usage.output for event in found if isinstance(event, UsageReported)] == [4, 5]


@pytest.mark.parametrize("data", [b": keepalive", b"", b"  ", b'{"type":"keepalive"}', b'{"type":"ping"}'])
def test_keep_alives_are_dropped(data: bytes) -> None:
    assert frames(data) == []


def tool(
    index: int | None, call_id: str | None = None, name: str | None = None, arguments: str | None = None
) -> dict[str, Any]:
    entry: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    return entry | ({} if index is None else {"index": index}) | ({} if call_id is None else {"id": call_id})


def merged(*deltas: list[dict[str, Any]]) -> dict[int, tuple[str, str, str]]:
    calls: dict[int, tuple[str, str, str]] = {}
    for event in stream_events(*(delta(tool_calls=entries) for entries in deltas)):
        if isinstance(event, ToolCallStarted):
            assert event.index not in calls
            calls[event.index] = (event.call_id, event.name, "")
        elif isinstance(event, ToolArguments):
            call_id, name, arguments = calls[event.index]
            calls[event.index] = (call_id, name, arguments + event.fragment)
    return calls


EXPECTED = {0: ("a", "f", '{"x":1}'), 1: ("b", "g", "{}")}


@pytest.mark.parametrize(
    "deltas",
    [
        [[tool(0, "a", "f", '{"x"')], [tool(1, "b", "g", "{}")], [tool(0, None, None, ":1}")]],
        [[tool(0, "a", "f", ""), tool(0, None, None, '{"x":1}')], [tool(1, "b", "g", "{}")]],
        [[tool(0, "a", "f", '{"x":1}')], [tool(0, "b", "g", "{}")]],
        [[tool(0, "a", "f", '{"x"')], [tool(0, "a", None, ":1}")], [tool(1, "b", "g", "{}")]],
        [[tool(0, "a", "f", '{"x"'), tool(1, "b", "g")], [tool(0, "a", "f", ":1}"), tool(1, "b", "g", "{}")]],
        [[tool(None, "a", "f", '{"x"')], [tool(None, None, None, ":1}")], [tool(None, "b", "g", "{}")]],
        [[tool(0, "a")], [tool(0, None, "f")], [tool(0, None, None, '{"x":1}')], [tool(1, "b", "g", "{}")]],
        [[tool(0, "a", "f", '{"x"')], [tool(0, "b", "g", "{}")], [tool(0, "a", None, ":1}")]],
    ],
    ids=[
        "interleaved", "two-entries-of-one-call", "all-index-0", "id-repeated", "all-repeated", "no-index",
        "name-late", "all-index-0-interleaved",
    ],
)  # fmt: skip
def test_tool_calls_are_merged(deltas: list[list[dict[str, Any]]]) -> None:
    assert merged(*deltas) == EXPECTED


def test_tool_calls_of_several_choices_are_told_apart() -> None:
    found = stream_events(
        delta(index=0, tool_calls=[tool(0, "a", "f", "1")]), delta(index=1, tool_calls=[tool(0, "b", "g", "2")])
    )
    assert [event.call_id for event in found if isinstance(event, ToolCallStarted)] == ["a", "b"]


def test_every_choice_stops_for_itself() -> None:
    """What one of them does is not what the others do: declining, stopping, and so the end of the answer."""
    reader = ChunkReader(endpoint=ENDPOINT, hides_usage=True, choices=2)
    found: list[Event] = []
    for payload in (delta(index=1, refusal="No."), delta(index=0, content="x"), delta("stop", 0)):
        frame = reader.read(ServerEvent("", orjson.dumps(payload), b""))
        assert frame is not None
        found += frame.events
    assert found[-1] == Stopped(StopReason.END, 0)
    assert reader.fault_at_end() is not None
    frame = reader.read(ServerEvent("", orjson.dumps(delta("stop", 1)), b""))
    assert frame is not None
    assert frame.events == (Stopped(StopReason.REFUSAL, 1),)
    assert reader.fault_at_end() is None


def test_a_refusal_in_pieces() -> None:
    found = stream_events(delta(refusal="I "), delta(refusal="cannot."), delta("stop"))
    assert found == [Refusal("I "), Refusal("cannot."), Stopped(StopReason.REFUSAL)]
    assert stream_events(delta(content="x"), delta("content_filter"))[-1] == Stopped(StopReason.REFUSAL)


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b'{"error":{"message":"quota","code":"insufficient_quota"},"choices":[]}', FailureKind.QUOTA_EXHAUSTED),
        (b'{"error":{"code":502},"choices":[{"delta":{},"finish_reason":"error"}]}', FailureKind.TRANSIENT),
        (b'{"object":"error","message":"x","type":"BadRequestError","code":400}', FailureKind.INVALID_REQUEST),
        (b'{"choices":[{"delta":{},"finish_reason":"error"}]}', FailureKind.TRANSIENT),
        (b'{"choices":[{"error":{"code":429}}]}', FailureKind.RATE_LIMITED),
        (b"not json", FailureKind.UNREADABLE),
        (b"[]", FailureKind.UNREADABLE),
        (b"7", FailureKind.UNREADABLE),
        (b'{"choices":7}', FailureKind.UNREADABLE),
        (b'{"choices":[7]}', FailureKind.UNREADABLE),
        (b"[DONE]", FailureKind.UNREADABLE),
    ],
)
def test_frames_that_fail(payload: bytes, kind: FailureKind) -> None:
    with pytest.raises(CallFailed) as caught:
        frames(payload)
    assert caught.value.failure.kind is kind


def test_an_error_event_needs_no_wrapper() -> None:
    reader = ChunkReader(endpoint=ENDPOINT, hides_usage=True)
    with pytest.raises(CallFailed) as caught:
        reader.read(ServerEvent("error", b'{"message":"x","type":"overloaded_error"}', b""))
    assert caught.value.failure.kind is FailureKind.TRANSIENT


@given(JSON, JSON, JSON)
def test_no_chunk_breaks_the_reading(content: Any, entry: Any, other: Any) -> None:
    fields = {
        "content": content,
        "tool_calls": [entry, {"index": other, "id": content, "function": entry}],
        "reasoning": other,
    }
    for payload in (delta(**fields), {"choices": content}, {"choices": [entry]}, {"id": other, "usage": content}):
        with contextlib.suppress(CallFailed):
            frames(payload)
