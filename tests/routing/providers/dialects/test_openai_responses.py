from dataclasses import replace
from typing import Any

import orjson
import pytest

from routing.core.calls import (
    CallRequest,
    Coverage,
    Event,
    Opaque,
    Original,
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
from routing.core.conversation import (
    Effort,
    FilePart,
    ImagePart,
    Message,
    OutputFormat,
    Protocol,
    ReasoningPart,
    ReasoningWish,
    Role,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolMode,
)
from routing.core.failures import CallFailed, FailureKind
from routing.providers.base import Endpoint
from routing.providers.dialects.openai_responses_replies import EventReader, read_reply, read_usage
from routing.providers.dialects.openai_responses_requests import request_body
from routing.providers.dialects.tools import NO_NAMES
from routing.providers.sse import ServerEvent
from tests.routing.core.feature_samples import PIXEL, SCHEMA, TOOL, plain, said

ENDPOINT = Endpoint(provider="prod-east", adapter_type="openai_responses", base_url="https://api.example.com/v1")
PATCH = Tool("patch", 20, "Applies a patch", kind=ToolKind.CUSTOM)

# --- Requests -------------------------------------------------------------------------------------------------------


def document(request: CallRequest) -> Any:
    return orjson.loads(request_body(request, model_id="gpt-x"))


def items(*given: Message) -> Any:
    return document(plain(*given))["input"]


def test_a_small_request_leaves_nothing_behind_at_the_vendor() -> None:
    assert document(plain()) == {
        "model": "gpt-x",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Why?"}]}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


def test_a_request_of_this_protocol_is_forwarded_but_for_the_model() -> None:
    body = b'{"model" : "support-chat", "input":"H\\u00e4","previous_response_id":"r-1","x":1.50}'
    original = Original(Protocol.OPENAI_RESPONSES, body, orjson.loads(body))
    sent = request_body(replace(plain(), original=original), model_id="gpt-x")
    assert sent == body.replace(b'"support-chat"', b'"gpt-x"')


def test_a_round_trip_with_both_kinds_of_tools() -> None:
    calls = (ToolCall("c1", "look_up", '{"city":"Ulm"}'), ToolCall("c2", "patch", "*** Begin", ToolKind.CUSTOM))
    assert items(
        said("Be brief.", Role.DEVELOPER),
        Message(Role.ASSISTANT, (ReasoningPart("Hm.", "enc", Protocol.OPENAI_RESPONSES, "rs-1"), TextPart("I look."))),
        Message(Role.ASSISTANT, tool_calls=calls),
        Message(Role.TOOL, (TextPart("On the Danube"),), answers_call="c1"),
        Message(Role.TOOL, (TextPart("no such file"),), answers_call="c2", has_failed=True),
        Message(Role.TOOL, (TextPart("A map"), ImagePart(PIXEL)), answers_call="c1"),
    ) == [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {
            "type": "reasoning",
            "id": "rs-1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "enc",
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"city":"Ulm"}'},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
        {"type": "function_call_output", "call_id": "c1", "output": "On the Danube"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "The tool failed:\nno such file"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_text", "text": "A map"},
                {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
            ],
        },
    ]


def test_files_by_link_and_by_content() -> None:
    parts = (FilePart("https://files.example/a.pdf"), FilePart("data:application/pdf;base64,eA==", "a.pdf"))
    assert items(Message(Role.USER, parts))[0]["content"] == [
        {"type": "input_file", "file_url": "https://files.example/a.pdf"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,eA==", "filename": "a.pdf"},
    ]


def test_tools_are_strict_only_where_somebody_said_so() -> None:
    offered = (TOOL, replace(TOOL, name="strict", strict=True), PATCH)
    found = document(replace(plain(), tools=offered, tool_choice=ToolChoice(ToolMode.NAMED, "patch")))
    assert [each.get("strict") for each in found["tools"]] == [False, True, None]
    assert found["tools"][2] == {"type": "custom", "name": "patch", "description": "Applies a patch"}
    assert found["tool_choice"] == {"type": "custom", "name": "patch"}


def test_shape_verbosity_and_effort() -> None:
    shape = OutputFormat(SCHEMA, "place", strict=True)
    request = replace(plain(), structured_output=shape, verbosity="low", reasoning=ReasoningWish(Effort.MINIMAL))
    found = document(request)
    assert found["text"] == {
        "format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True},
        "verbosity": "low",
    }
    assert found["reasoning"] == {"effort": "minimal"}


@pytest.mark.parametrize(("budget", "effort"), [(1024, "low"), (4096, "low"), (4097, "medium"), (16385, "high")])
def test_a_budget_comes_to_an_effort(budget: int, effort: str) -> None:
    assert document(replace(plain(), reasoning=ReasoningWish(budget=budget)))["reasoning"] == {"effort": effort}


# --- Answers --------------------------------------------------------------------------------------------------------


def events(*output: Any, **members: Any) -> list[Event]:
    whole = {"id": "r-1", "model": "gpt-x", "status": "completed", "output": output, **members}
    return list(read_reply(orjson.dumps(whole), endpoint=ENDPOINT, tools=NO_NAMES).events)[1:]


class Stream:
    """Reads documents as events of one stream."""

    def __init__(self) -> None:
        self.reader = EventReader(endpoint=ENDPOINT, tools=NO_NAMES)

    def __call__(self, kind: str, **members: Any) -> list[Event]:
        data = orjson.dumps({"type": kind, **members})
        frame = self.reader.read(ServerEvent(kind, data, b"data: " + data + b"\n\n"))
        return [] if frame is None else list(frame.events)


END = Stopped(StopReason.END)
RESPONSES = Protocol.OPENAI_RESPONSES


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}, [Text("Hi"), END]),
        (
            {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]},
            [Refusal("No."), Stopped(StopReason.REFUSAL)],
        ),
        (
            {"type": "reasoning", "id": "rs", "summary": [{"text": "a"}, {"text": "b"}], "encrypted_content": "e"},
            [Reasoning("a\n\nb"), ReasoningSealed("e", RESPONSES, "rs"), END],
        ),
        (
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"},
            [ReasoningSealed("e", RESPONSES, "rs", is_hidden=True), END],
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "exec", "namespace": "functions", "input": "ls"},
            [
                ToolCallStarted(0, "c", "exec", ToolKind.CUSTOM, "functions"),
                ToolArguments(0, "ls"),
                Stopped(StopReason.TOOL_CALLS),
            ],
        ),
        ({"type": "web_search_call", "status": "completed"}, [Opaque("web_search_call"), END]),
    ],
    ids=["text", "refusal", "reasoning", "sealed", "custom", "hosted"],
)
def test_items(item: Any, expected: list[Event]) -> None:
    assert events(item) == expected
    stream = Stream()
    found = stream("response.output_item.done", output_index=0, item=item)
    assert found + stream("response.completed", response={"status": "completed"}) == expected
    assert stream.reader.is_done


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("max_output_tokens", StopReason.LENGTH),
        ("content_filter", StopReason.REFUSAL),
        ("something_new", StopReason.OTHER),
    ],
)
def test_an_answer_that_is_not_complete(reason: str, expected: StopReason) -> None:
    assert events(status="incomplete", incomplete_details={"reason": reason}) == [Stopped(expected)]


def test_what_came_in_pieces_is_not_said_again() -> None:
    stream = Stream()
    item = {"id": "rs", "type": "reasoning", "summary": [{"text": "ab"}], "encrypted_content": "e"}
    assert stream("response.reasoning_summary_text.delta", output_index=0, delta="a") == [Reasoning("a")]
    assert stream("response.reasoning_summary_part.added", output_index=0, summary_index=0) == []
    assert stream("response.reasoning_summary_part.added", output_index=0, summary_index=1) == [Reasoning("\n\n")]
    assert stream("response.output_item.done", output_index=0, item=item) == [ReasoningSealed("e", RESPONSES, "rs")]


@pytest.mark.parametrize(
    ("kind", "members", "expected"),
    [
        ("response.failed", {"response": {"error": {"code": "server_error"}}}, FailureKind.TRANSIENT),
        ("response.failed", {"response": {"error": {"code": "rate_limit_exceeded"}}}, FailureKind.RATE_LIMITED),
        ("error", {"code": "insufficient_quota", "message": "m"}, FailureKind.QUOTA_EXHAUSTED),
        ("error", {"error": {"code": "context_length_exceeded"}}, FailureKind.CONTEXT_EXCEEDED),
    ],
)
def test_error_events(kind: str, members: Any, expected: FailureKind) -> None:
    with pytest.raises(CallFailed) as caught:
        Stream()(kind, **members)
    assert caught.value.failure.kind is expected


def test_a_whole_answer_that_failed_is_a_failure() -> None:
    with pytest.raises(CallFailed) as caught:
        events(status="failed", error={"code": "server_error", "message": "sk-secret"})
    assert caught.value.failure.kind is FailureKind.TRANSIENT


def test_usage_and_tier_come_last() -> None:
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5}
    assert events(usage=usage, service_tier="flex")[-1] == UsageReported(Usage(6, 5, cache_read=4), service_tier="flex")


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (None, None),
        ({"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 99}}, (0, 10, 5, 0)),
        ({"input_tokens": 1, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 9}}, (1, 0, 5, 5)),
        ({"input_tokens": -1, "output_tokens": 5}, (0, 0, 5, 0)),
    ],
)
def test_figures_that_cannot_be_true(block: Any, expected: tuple[int, ...] | None) -> None:
    usage = read_usage(block)
    if usage is None:
        assert expected is None
        return
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning) == expected
    assert usage.coverage is Coverage.PARTIAL
