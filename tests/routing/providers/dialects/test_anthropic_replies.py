from typing import Any

import orjson
import pytest

from routing.core.calls import (
    Coverage,
    Event,
    Opaque,
    Reasoning,
    ReasoningSealed,
    Refusal,
    Stopped,
    StopReason,
    Text,
    ToolArguments,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from routing.core.conversation import Protocol
from routing.core.failures import CallFailed, FailureKind
from routing.providers.base import Endpoint
from routing.providers.dialects.anthropic_replies import EventReader, read_reply, read_usage
from routing.providers.dialects.tools import NO_NAMES
from routing.providers.sse import ServerEvent

ENDPOINT = Endpoint(provider="prod-east", adapter_type="anthropic", base_url="https://api.example.com/v1")


def events(*content: Any, **members: Any) -> list[Event]:
    document = {"id": "m-1", "model": "claude-x", "content": content, "stop_reason": "end_turn", **members}
    return list(read_reply(orjson.dumps(document), endpoint=ENDPOINT, tools=NO_NAMES).events)[1:]


class Stream:
    """Reads documents as events of one stream."""

    def __init__(self) -> None:
        self.reader = EventReader(endpoint=ENDPOINT, tools=NO_NAMES)

    def __call__(self, kind: str, **members: Any) -> list[Event]:
        data = orjson.dumps({"type": kind, **members})
        frame = self.reader.read(ServerEvent(kind, data, b"event: x\ndata: " + data + b"\n\n"))
        return [] if frame is None else list(frame.events)

    def delta(self, **delta: Any) -> list[Event]:
        return self("content_block_delta", index=0, delta=delta)


END = Stopped(StopReason.END)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "text", "text": "Hello"}, [Text("Hello")]),
        (
            {"type": "thinking", "thinking": "Hm", "signature": "s"},
            [Reasoning("Hm"), ReasoningSealed("s", Protocol.ANTHROPIC)],
        ),
        ({"type": "redacted_thinking", "data": "x"}, [ReasoningSealed("x", Protocol.ANTHROPIC, is_hidden=True)]),
        (
            {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
            [ToolCallStarted(0, "c", "f"), ToolArguments(0, '{"a":1}')],
        ),
        (
            {"type": "tool_use", "id": "c", "name": "f", "input": {}},
            [ToolCallStarted(0, "c", "f"), ToolArguments(0, "{}")],
        ),
        ({"type": "web_search_tool_result", "content": []}, [Opaque("web_search_tool_result")]),
    ],
    ids=["text", "thinking", "redacted", "tool", "parameterless", "hosted"],
)
def test_blocks(block: Any, expected: list[Event]) -> None:
    assert events(block) == [*expected, END]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", StopReason.END),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("tool_use", StopReason.TOOL_CALLS),
        ("pause_turn", StopReason.OTHER),
        ("something_new", StopReason.OTHER),
    ],
)
def test_why_the_model_stopped(reason: str, expected: StopReason) -> None:
    assert events(stop_reason=reason) == [Stopped(expected)]


def test_the_stop_text_is_told() -> None:
    assert events(stop_reason="stop_sequence", stop_sequence="END") == [Stopped(StopReason.STOP_TEXT, text="END")]


def test_a_refusal_has_the_vendors_words() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "I cannot help with that."}
    assert events(stop_reason="refusal", stop_details=details) == [
        Refusal("I cannot help with that."),
        Stopped(StopReason.REFUSAL),
    ]
    assert events(stop_reason="refusal", stop_details=None) == [Stopped(StopReason.REFUSAL)]


def test_thinking_in_pieces_is_sealed_at_its_end() -> None:
    stream = Stream()
    assert stream("content_block_start", index=0, content_block={"type": "thinking", "thinking": ""}) == []
    assert stream.delta(type="thinking_delta", thinking="Hm") == [Reasoning("Hm")]
    assert stream.delta(type="signature_delta", signature="s") == [ReasoningSealed("s", Protocol.ANTHROPIC)]
    assert stream("content_block_stop", index=0) == []


def test_what_is_new_is_named_and_not_fatal() -> None:
    stream = Stream()
    assert stream.delta(type="colour_delta", colour={}) == [Opaque("colour_delta")]
    assert stream("content_block_start", index=0, content_block={"type": "hologram"}) == [Opaque("hologram")]
    assert stream("something_new") == []
    assert stream("ping") == []


def test_a_ping_passes_as_it_came() -> None:
    reader = EventReader(endpoint=ENDPOINT, tools=NO_NAMES)
    raw = b'event: ping\ndata: {"type": "ping"}\n\n'
    frame = reader.read(ServerEvent("ping", b'{"type": "ping"}', raw))
    assert frame is not None
    assert (frame.raw, frame.events, frame.hidden) == (raw, (), False)


def test_usage_of_a_stream_comes_in_parts_of_which_the_last_counts() -> None:
    stream = Stream()
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 12304, "cache_read_input_tokens": 0, "output_tokens": 1}
    early = stream("message_start", message={"id": "m", "model": "claude-x", "usage": usage})[1]
    assert early == UsageReported(Usage(3, 1, cache_write=12304, coverage=Coverage.PARTIAL))
    late = stream("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 550})
    assert late == [END, UsageReported(Usage(3, 550, cache_write=12304))]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"input_tokens": 51, "output_tokens": 136, "output_tokens_details": {"thinking_tokens": 31}}, (51, 136, 31)),
        ({"input_tokens": 5, "output_tokens": 2}, (5, 2, 0)),
    ],
)
def test_reasoning_is_a_part_of_the_output(block: Any, expected: tuple[int, int, int]) -> None:
    reported = read_usage(block)
    assert reported is not None
    assert (reported.usage.input, reported.usage.output, reported.usage.reasoning) == expected


@pytest.mark.parametrize(
    "block", [{"input_tokens": -5, "output_tokens": 2}, {"input_tokens": "x", "output_tokens": 2}, {"input_tokens": 3}]
)
def test_figures_that_cannot_be_true_make_usage_partial(block: Any) -> None:
    reported = read_usage(block)
    assert reported is not None
    assert reported.usage.coverage is Coverage.PARTIAL
    assert min(reported.usage.input, reported.usage.output) >= 0


def test_no_usage_is_none_and_not_zero() -> None:
    assert read_usage(None) is None
    assert read_usage({}) is None
    assert read_usage({"input_tokens": None, "output_tokens": None}) is None


def test_the_service_tier_served_travels_with_usage() -> None:
    reported = read_usage({"input_tokens": 1, "output_tokens": 1, "service_tier": "priority"})
    assert reported is not None
    assert reported.service_tier == "priority"


def test_an_end_without_a_beginning_is_no_answer() -> None:
    with pytest.raises(CallFailed) as caught:
        Stream()("message_stop")
    assert caught.value.failure.kind is FailureKind.UNREADABLE


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", FailureKind.TRANSIENT),
        ("api_error", FailureKind.TRANSIENT),
        ("rate_limit_error", FailureKind.RATE_LIMITED),
        ("not_found_error", FailureKind.NOT_FOUND),
        ("something_new", FailureKind.TRANSIENT),
    ],
)
def test_error_frames(kind: str, expected: FailureKind) -> None:
    with pytest.raises(CallFailed) as caught:
        Stream()("error", error={"type": kind, "message": "sk-ant-secret"})
    assert caught.value.failure.kind is expected
    assert "secret" not in caught.value.failure.message
