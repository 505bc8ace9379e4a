from typing import Any

import orjson
import pytest

from governance.gateway.protocols.openai_chat import read_request
from routing.core.calls import CallRequest
from routing.core.conversation import (
    CacheMark,
    Effort,
    FilePart,
    ImagePart,
    OpaquePart,
    OutputFormat,
    ReasoningPart,
    ReasoningWish,
    Role,
    Sampling,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolMode,
)


def read(**members: Any) -> CallRequest:
    return read_request(orjson.dumps({"model": "fast", "messages": [{"role": "user", "content": "Why?"}], **members}))


def part(**content: Any) -> Any:
    request = read(messages=[{"role": "user", "content": [content]}])
    return request.messages[0].parts[0], request.uncarried


def test_a_whole_request_is_held_and_nothing_is_left_over() -> None:
    request = read(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Why?"}], "name": "ann"},
            {
                "role": "assistant",
                "content": None,
                "refusal": "No.",
                "reasoning_content": "Hm.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
        ],
        tools=[
            {
                "type": "function",
                "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
            },
            {"type": "custom", "custom": {"name": "g", "format": {"type": "text"}}},
        ],
        tool_choice={"type": "function", "function": {"name": "f"}},
        parallel_tool_calls=False,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}, "strict": True}},
        reasoning_effort="xhigh",
        max_completion_tokens=50,
        max_tokens=60,
        temperature=0,
        top_p=0.5,
        presence_penalty=1,
        frequency_penalty=-1,
        seed=7,
        stop="END",
        n=2,
        verbosity="low",
        user="ann",
        safety_identifier="hash",
        metadata={"k": "v"},
        service_tier="flex",
        prompt_cache_key="key",
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
        store=False,
        logprobs=False,
        modalities=["text"],
        audio=None,
    )
    assert request.uncarried == ()
    assert [each.role for each in request.messages] == [Role.DEVELOPER, Role.USER, Role.ASSISTANT, Role.TOOL]
    assert request.messages[1].name == "ann"
    assert request.messages[2].parts == (ReasoningPart("Hm."), TextPart("No."))
    assert request.messages[2].tool_calls == (
        ToolCall("c1", "f", "{}"),
        ToolCall("c2", "g", "free", ToolKind.CUSTOM),
    )
    assert [(each.name, each.kind, each.strict) for each in request.tools] == [
        ("f", ToolKind.FUNCTION, True),
        ("g", ToolKind.CUSTOM, None),
    ]
    assert (request.tools[0].description, request.tools[0].schema) == ("d", {"type": "object"})
    assert request.tool_choice == ToolChoice(ToolMode.NAMED, "f")
    assert request.parallel_calls is False
    assert request.structured_output == OutputFormat({"a": 1}, "n", strict=True)
    assert request.reasoning == ReasoningWish(Effort.XHIGH)
    assert request.sampling == Sampling(0, 0.5, None, 1, -1, 7)
    assert (request.max_output, request.stop, request.choices) == (50, ("END",), 2)
    assert (request.verbosity, request.user, request.metadata) == ("low", "hash", {"k": "v"})
    assert (request.service_tier, request.cache_key) == ("flex", "key")
    assert (request.stream, request.wants_usage) == (True, True)


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"diagnostics": {}}, ("diagnostics",)),
        ({"logit_bias": {"50256": -100}}, ("logit_bias",)),
        ({"logprobs": True, "top_logprobs": 3}, ("logprobs", "top_logprobs")),
        ({"store": True}, ("store",)),
        ({"temperature": "hot"}, ("temperature",)),
        ({"stop": ["a", 1]}, ("stop",)),
        ({"metadata": {"k": 1}}, ("metadata",)),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, ("tool_choice",)),
        ({"reasoning_effort": "heroic"}, ("reasoning_effort",)),
        ({"response_format": {"type": "grammar"}}, ("response_format",)),
        ({"functions": [{"name": "f"}], "function_call": "auto"}, ("functions", "function_call")),
        ({"stream_options": {"x": 1}}, ("stream_options.x",)),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "user", "colour": 1}]}, ("messages[1].colour",)),
        ({"messages": [{"role": "function", "name": "f", "content": "1"}]}, ("messages[0].role",)),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "examples": []}}]},
            ("tools[0].function.examples",),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_is_not_held_is_named(members: dict[str, Any], named: tuple[str, ...]) -> None:
    assert read(**members).uncarried == named


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"type": "image_url", "image_url": {"url": "data:,"}}, ImagePart("data:,")),
        ({"type": "image_url", "image_url": {"url": "data:,", "detail": "auto"}}, ImagePart("data:,")),
        ({"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}, ImagePart("data:,", "low")),
        ({"type": "input_audio", "input_audio": {}}, OpaquePart("input_audio")),
        ({"type": "file", "file": {"file_data": "data:x,", "filename": "n"}}, FilePart("data:x,", "n")),
        ({"type": "file", "file": {"file_data": "JVBERg=="}}, FilePart("data:application/pdf;base64,JVBERg==")),
        ({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, TextPart("a", CacheMark.SHORT)),
        (
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            TextPart("a", CacheMark.LONG),
        ),
    ],
)
def test_parts(content: Any, expected: Any) -> None:
    assert part(**content) == (expected, ())


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"type": "file", "file": {"file_id": "f-1"}}, "messages[0].content[0].file.file_id"),
        ({"type": "text", "text": "a", "cache_control": {"type": "forever"}}, "messages[0].content[0].cache_control"),
        ({"type": "text", "text": "a", "citations": {}}, "messages[0].content[0].citations"),
        (
            {"type": "image_url", "image_url": {"url": "data:,", "size": 1}},
            "messages[0].content[0].image_url.size",
        ),
    ],
)
def test_parts_with_more_than_is_held(content: Any, named: str) -> None:
    assert part(**content)[1] == (named,)


def test_a_hosted_tool_is_one_tool() -> None:
    request = read(tools=[{"type": "web_search", "filters": {}}])
    assert [(each.name, each.kind) for each in request.tools] == [("web_search", ToolKind.HOSTED)]


def test_auto_is_what_everybody_does() -> None:
    request = read(service_tier="auto", response_format={"type": "text"}, tool_choice="auto")
    assert (request.service_tier, request.structured_output, request.uncarried) == ("", None, ())
