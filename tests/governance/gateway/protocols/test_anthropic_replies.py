from dataclasses import replace
from typing import Any

import orjson
import pytest

from governance.gateway.protocols.anthropic_replies import AnthropicWriter
from governance.gateway.protocols.base import Head
from routing.core.calls import (
    Event,
    Reasoning,
    ReasoningSealed,
    Started,
    Stopped,
    StopReason,
    Text,
    ToolArguments,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from routing.core.conversation import Protocol

HEAD = Head(call="c-1", model="fast", created=1)


def blocks(*events: Event, head: Head = HEAD) -> list[Any]:
    """The blocks of a stream, each with all its pieces; they must not overlap."""
    writer = AnthropicWriter().stream(head)
    data = b"".join(writer.write([each]) for each in events) + writer.end(None)
    found: list[Any] = []
    is_open = False
    for frame in data.split(b"\n\n"):
        event = orjson.loads(frame.partition(b"data: ")[2] or b"{}")
        match event.get("type"):
            case "content_block_start":
                assert (is_open, event["index"]) == (False, len(found))
                is_open = True
                found.append([event["content_block"]["type"]])
            case "content_block_delta":
                assert (is_open, event["index"]) == (True, len(found) - 1)
                found[-1] += [value for name, value in event["delta"].items() if name != "type"]
            case "content_block_stop":
                is_open = False
    assert not is_open
    return found


def test_calls_that_come_interleaved_stand_one_after_the_other_in_their_order() -> None:
    found = blocks(
        Text("I look."),
        ToolCallStarted(0, "a", "f"),
        ToolCallStarted(1, "b", "g"),
        ToolArguments(1, "{"),
        ToolCallStarted(2, "c", "h"),
        ToolArguments(0, '{"x"'),
        Text("and wait"),
        ToolArguments(2, "{}"),
        ToolArguments(0, ":1}"),
        ToolArguments(1, "}"),
    )
    assert found == [
        ["text", "I look."],
        ["tool_use", '{"x"', ":1}"],
        ["tool_use", "{", "}"],
        ["tool_use", "{}"],
        ["text", "and wait"],
    ]


def test_reasoning_that_is_not_to_be_told_keeps_its_seal() -> None:
    head = replace(HEAD, tells_reasoning=False)
    events: list[Event] = [
        Reasoning("Hm"),
        ReasoningSealed("s", Protocol.ANTHROPIC),
        ReasoningSealed("e", Protocol.GEMINI, is_hidden=True),
        Reasoning("unsealed"),
        Text("Yes"),
    ]
    assert blocks(*events, head=head) == [["thinking", "s"], ["redacted_thinking"], ["text", "Yes"]]
    whole = orjson.loads(AnthropicWriter().reply(events, head=head))["content"]
    assert whole[0] == {"type": "thinking", "thinking": "", "signature": "s"}
    assert [block["type"] for block in whole] == ["thinking", "redacted_thinking", "text"]


def test_reasoning_is_sealed_where_it_ends() -> None:
    found = blocks(
        Reasoning("Hm"),
        Reasoning("."),
        ReasoningSealed("s", Protocol.ANTHROPIC),
        ReasoningSealed("e", Protocol.GEMINI, is_hidden=True),
        Text("Yes"),
    )
    assert found == [["thinking", "Hm", ".", "s"], ["redacted_thinking"], ["text", "Yes"]]


def test_an_answer_of_nothing_is_a_whole_message() -> None:
    writer = AnthropicWriter().stream(HEAD)
    events: list[Event] = [Started("", ""), Stopped(StopReason.LENGTH), UsageReported(Usage(3, 0))]
    data = writer.write(events) + writer.end(None)
    kinds = [frame.partition(b"\n")[0] for frame in data.split(b"\n\n") if frame]
    assert kinds == [b"event: message_start", b"event: message_delta", b"event: message_stop"]
    assert b'"id":"msg_c-1"' in data
    assert b'"stop_reason":"max_tokens"' in data


@pytest.mark.parametrize(
    ("arguments", "expected"), [("", {}), ('{"a":1}', {"a": 1}), ('{"a":', {"raw": '{"a":'}), ("[1]", {"raw": "[1]"})]
)
def test_arguments_that_are_no_object_are_kept_as_they_are(arguments: str, expected: Any) -> None:
    events: list[Event] = [ToolCallStarted(0, "a", "f"), ToolArguments(0, arguments)]
    (block,) = orjson.loads(AnthropicWriter().reply(events, head=HEAD))["content"]
    assert block["input"] == expected
