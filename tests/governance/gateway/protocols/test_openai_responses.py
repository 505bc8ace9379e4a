from typing import Any

import orjson
import pytest

from governance.gateway.errors import RequestProblem
from governance.gateway.protocols.openai_responses import read_request
from routing.core.calls import CallRequest
from routing.core.conversation import (
    Effort,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
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
from routing.core.features import Feature, features_of

RESPONSES = Protocol.OPENAI_RESPONSES
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: a"}


def read(**members: Any) -> CallRequest:
    return read_request(orjson.dumps({"model": "fast", "input": "Why?", **members}))


def test_an_agents_request_is_held_and_nothing_is_left_over() -> None:
    """As the Codex command line writes it, with everything it adds for itself."""
    request = read(
        input=[
            {
                "type": "additional_tools",
                "id": "at_1",
                "role": "developer",
                "tools": [
                    {
                        "type": "namespace",
                        "name": "functions",
                        "description": "",
                        "tools": [{"type": "custom", "name": "exec", "description": "Runs", "format": GRAMMAR}],
                    }
                ],
            },
            {
                "type": "message",
                "id": "m",
                "role": "developer",
                "content": [{"type": "input_text", "text": "Be brief"}],
            },
            {"role": "user", "content": "Hello"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"},
            {
                "type": "message",
                "role": "assistant",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "I run it.", "annotations": []}],
            },
            {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "namespace": "functions", "input": "ls"},
            {"type": "function_call", "call_id": "c2", "name": "wait", "arguments": "{}", "status": "completed"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "a\nb"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "done"}]},
        ],
        tools=[{"type": "function", "name": "wait", "strict": False, "parameters": {"type": "object"}}],
        tool_choice="auto",
        parallel_tool_calls=True,
        reasoning={"effort": "medium", "summary": "auto"},
        store=False,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="key",
        text={"verbosity": "low"},
        client_metadata={"session_id": "s"},
        stream=True,
    )
    assert request.uncarried == ()
    assert request.messages == (
        Message(Role.DEVELOPER, (TextPart("Be brief"),)),
        Message(Role.USER, (TextPart("Hello"),)),
        Message(
            Role.ASSISTANT,
            (ReasoningPart("", "enc", RESPONSES, "rs_1"), TextPart("I run it.")),
            (ToolCall("c1", "exec", "ls", ToolKind.CUSTOM, "functions"), ToolCall("c2", "wait", "{}")),
        ),
        Message(Role.TOOL, (TextPart("a\nb"),), answers_call="c1"),
        Message(Role.TOOL, (TextPart("done"),), answers_call="c2"),
    )
    wait, run = request.tools
    assert (wait.name, wait.kind, wait.strict) == ("wait", ToolKind.FUNCTION, False)
    assert run == Tool("exec", run.schema_bytes, "Runs", kind=ToolKind.CUSTOM, namespace="functions", grammar=GRAMMAR)
    assert request.reasoning == ReasoningWish(Effort.MEDIUM)
    assert (request.verbosity, request.cache_key, request.stream, request.wants_usage) == ("low", "key", True, True)
    assert features_of(request) >= {Feature.GRAMMAR, Feature.NAMESPACED_TOOLS, Feature.SEALED_REASONING}


def test_a_text_and_instructions() -> None:
    request = read(instructions="Be brief.", max_output_tokens=7, temperature=0.5, user="ann", metadata={"a": "b"})
    assert request.messages == (Message(Role.SYSTEM, (TextPart("Be brief."),)), Message(Role.USER, (TextPart("Why?"),)))
    assert (request.max_output, request.sampling.temperature, request.user) == (7, 0.5, "ann")
    assert (request.metadata, request.uncarried) == ({"a": "b"}, ())


def test_calls_stand_with_the_turn_that_made_them() -> None:
    """Whatever the order of items, an answer follows the turn that called."""
    messages = read(
        input=[
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "message", "role": "assistant", "content": "Meanwhile"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
        ]
    ).messages
    assert messages == (
        Message(Role.ASSISTANT, (TextPart("Meanwhile"),), (ToolCall("a", "f", "{}"),)),
        Message(Role.TOOL, (TextPart("1"),), answers_call="a"),
    )


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "input_image", "image_url": "data:,", "detail": "auto"}, ImagePart("data:,")),
        ({"type": "input_image", "image_url": "data:,", "detail": "low"}, ImagePart("data:,", "low")),
        ({"type": "input_file", "file_data": "data:x,", "filename": "n"}, FilePart("data:x,", "n")),
        ({"type": "input_file", "file_url": "https://x.example/a.pdf"}, FilePart("https://x.example/a.pdf")),
        ({"type": "refusal", "refusal": "No."}, TextPart("No.")),
        ({"type": "input_audio", "data": "x"}, OpaquePart("input_audio")),
    ],
)
def test_parts(part: Any, expected: Any) -> None:
    assert read(input=[{"role": "user", "content": [part]}]).messages[0].parts == (expected,)


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"previous_response_id": "resp_1"}, ("previous_response_id",)),
        ({"conversation": "conv_1"}, ("conversation",)),
        ({"background": True}, ("background",)),
        ({"store": True}, ("store",)),
        ({"truncation": "auto"}, ("truncation",)),
        ({"include": ["message.output_text.logprobs"]}, ("include",)),
        ({"prompt": {"id": "p"}}, ("prompt",)),
        ({"tool_choice": {"type": "web_search"}}, ("tool_choice",)),
        ({"reasoning": {"effort": "heroic"}}, ("reasoning.effort",)),
        ({"text": {"format": {"type": "grammar"}}}, ("text.format",)),
        ({"something_new": 1}, ("something_new",)),
        (
            {"input": [{"type": "function_call_output", "call_id": "c9", "output": "x"}]},
            ("input[0].call_id (c9 was never called)",),
        ),
    ],
)
def test_state_and_what_else_is_not_held_is_named(members: dict[str, Any], named: tuple[str, ...]) -> None:
    assert read(**members).uncarried == named


@pytest.mark.parametrize(
    "item", [{"type": "item_reference", "id": "i"}, {"type": "web_search_call"}, {"type": "compaction"}]
)
def test_items_of_other_types_are_carried_by_the_same_protocol_alone(item: Any) -> None:
    assert Feature.OTHER_PARTS in features_of(read(input=[{"role": "user", "content": "x"}, item]))


def test_tools_the_vendor_runs_are_named() -> None:
    request = read(tools=[{"type": "web_search", "external_web_access": True}, {"type": "tool_search"}])
    assert [(each.name, each.kind) for each in request.tools] == [
        ("web_search", ToolKind.HOSTED),
        ("tool_search", ToolKind.HOSTED),
    ]


def test_a_function_is_strict_unless_it_says_otherwise() -> None:
    tools = [{"type": "function", "name": "f", "parameters": {}}, {"type": "custom", "name": "g"}]
    request = read(tools=tools, tool_choice={"type": "custom", "name": "g"})
    assert [each.strict for each in request.tools] == [True, None]
    assert request.tool_choice == ToolChoice(ToolMode.NAMED, "g")


def test_a_shape() -> None:
    shape = {"type": "json_schema", "name": "n", "schema": {"a": 1}, "strict": True}
    assert read(text={"format": shape}).structured_output == OutputFormat({"a": 1}, "n", strict=True)
    assert read(text={"format": {"type": "text"}}).structured_output is None


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"input": None}, "input"),
        ({"input": 7}, "input"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"base_url": "x"}, "base_url"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(members: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestProblem) as caught:
        read(**members)
    assert (caught.value.problem.status, caught.value.problem.parameter) == (400, field)
