from typing import Any

import orjson
import pytest

from governance.gateway.errors import RequestProblem
from governance.gateway.protocols.anthropic import read_request
from governance.gateway.protocols.seals import Seal, mark, read_mark
from routing.core.calls import CallRequest, ReasoningSealed
from routing.core.conversation import (
    CacheMark,
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
    Sampling,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolMode,
)
from routing.core.features import Feature, features_of

ANTHROPIC = Protocol.ANTHROPIC
GIF = "data:image/gif;base64,eA=="
LETTER = "data:text/plain;base64,eA=="
SAID = {"role": "user", "content": "Why?"}


def read(**members: Any) -> CallRequest:
    return read_request(orjson.dumps({"model": "fast", "max_tokens": 50, "messages": [SAID], **members}))


def turn(*blocks: Any, role: str = "user") -> tuple[Message, ...]:
    return read(messages=[{"role": role, "content": list(blocks)}]).messages


def test_a_whole_request_is_held_and_nothing_is_left_over() -> None:
    tool = {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": True}
    request = read(
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        tools=[tool, {"type": "web_search_20260209", "name": "web_search", "max_uses": 3}],
        tool_choice={"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        output_config={"effort": "xhigh", "format": {"type": "json_schema", "schema": {"a": 1}}},
        thinking={"type": "adaptive"},
        temperature=0.5,
        top_p=0.9,
        top_k=7,
        stop_sequences=["END"],
        metadata={"user_id": "ann"},
        service_tier="auto",
        stream=True,
        speed="standard",
        container=None,
    )
    assert request.uncarried == ()
    assert request.messages == (
        Message(Role.SYSTEM, (TextPart("Be brief.", CacheMark.SHORT),)),
        Message(Role.USER, (TextPart("Why?"),)),
    )
    assert [(each.name, each.kind) for each in request.tools] == [
        ("f", ToolKind.FUNCTION),
        ("web_search_20260209", ToolKind.HOSTED),
    ]
    assert request.tools[0] == Tool("f", request.tools[0].schema_bytes, "d", {"type": "object"}, True)
    assert request.tool_choice == ToolChoice(ToolMode.NAMED, "f")
    assert request.parallel_calls is False
    assert request.structured_output == OutputFormat({"a": 1}, strict=True)
    assert request.reasoning == ReasoningWish(Effort.XHIGH)
    assert request.sampling == Sampling(0.5, 0.9, 7)
    assert (request.max_output, request.stop, request.user) == (50, ("END",), "ann")
    assert (request.stream, request.wants_usage, request.prompt_caching) == (True, True, True)


def test_a_turn_with_results_and_words_is_several_messages() -> None:
    results = turn(
        {"type": "tool_result", "tool_use_id": "c1", "content": "1", "is_error": True},
        {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "2"}]},
        {"type": "tool_result", "tool_use_id": "c3"},
        {"type": "text", "text": "Go on."},
    )
    assert results == (
        Message(Role.TOOL, (TextPart("1"),), answers_call="c1", has_failed=True),
        Message(Role.TOOL, (TextPart("2"),), answers_call="c2"),
        Message(Role.TOOL, (), answers_call="c3"),
        Message(Role.USER, (TextPart("Go on."),)),
    )


def test_what_the_model_said_and_called_keeps_its_order() -> None:
    found = turn(
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "enc"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
        {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
        {"type": "text", "text": "and wait"},
        role="assistant",
    )
    assert found == (
        Message(
            Role.ASSISTANT,
            (
                ReasoningPart("Hm.", "sig", ANTHROPIC),
                ReasoningPart("", "enc", ANTHROPIC, is_hidden=True),
                TextPart("I look."),
            ),
            (ToolCall("c1", "f", '{"a":1}'), ToolCall("c2", "g", "{}")),
        ),
        Message(Role.ASSISTANT, (TextPart("and wait"),)),
    )


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        ({"type": "base64", "media_type": "image/gif", "data": "eA=="}, "image", ImagePart(GIF)),
        ({"type": "url", "url": "https://x.example/1.png"}, "image", ImagePart("https://x.example/1.png")),
        ({"type": "url", "url": "https://x.example/1.pdf"}, "document", FilePart("https://x.example/1.pdf")),
        ({"type": "text", "media_type": "text/plain", "data": "x"}, "document", FilePart(LETTER)),
        ({"type": "file", "file_id": "f"}, "document", OpaquePart("document")),
        ({"type": "file", "file_id": "f"}, "image", OpaquePart("image")),
    ],
)  # fmt: skip
def test_sources(source: Any, kind: str, expected: Any) -> None:
    assert turn({"type": kind, "source": source})[0].parts == (expected,)


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"container": {"id": "c"}}, ("container",)),
        ({"something_new": 1}, ("something_new",)),
        ({"speed": "fast"}, ("speed",)),
        ({"max_tokens": 0}, ("max_tokens",)),
        ({"thinking": {"type": "between_tools"}}, ("thinking",)),
        ({"thinking": {"type": "adaptive", "display": "updates"}}, ("thinking.display",)),
        ({"output_config": {"effort": "heroic"}}, ("output_config.effort",)),
        ({"output_config": {"task_budget": {}}}, ("output_config.task_budget",)),
        ({"tool_choice": {"type": "new"}}, ("tool_choice",)),
        ({"context_management": {"edits": [{"type": "clear_tool_uses"}]}}, ("context_management",)),
        ({"tools": [{"name": "f", "input_schema": {}, "input_examples": [{}]}]}, ("tools[0].input_examples",)),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "colour": 1}]}]},
            ("messages[0].content[0].colour",),
        ),
    ],
)
def test_what_is_not_held_is_named(members: dict[str, Any], named: tuple[str, ...]) -> None:
    assert read(**members).uncarried == named


def test_what_changes_nothing_is_carried_everywhere() -> None:
    edits = [{"type": "clear_thinking_20251015", "keep": "all"}]
    request = read(context_management={"edits": edits}, cache_control={"type": "ephemeral"}, mcp_servers=[])
    assert request.uncarried == ()
    assert request.prompt_caching


@pytest.mark.parametrize(
    ("thinking", "effort", "expected"),
    [
        (None, None, None),
        (None, "low", ReasoningWish(Effort.LOW)),
        ({"type": "disabled"}, "low", ReasoningWish(Effort.NONE)),
        ({"type": "adaptive"}, None, ReasoningWish()),
        ({"type": "adaptive", "display": "omitted"}, "high", ReasoningWish(Effort.HIGH, is_told=False)),
        ({"type": "enabled", "budget_tokens": 2048}, None, ReasoningWish(None, 2048)),
    ],
)
def test_reasoning_is_said_in_two_places(thinking: Any, effort: Any, expected: ReasoningWish | None) -> None:
    assert read(thinking=thinking, output_config={"effort": effort}).reasoning == expected


def test_a_deferred_tool_is_offered_once_the_conversation_refers_to_it() -> None:
    tools = [
        {"name": "find", "input_schema": {}, "defer_loading": False},
        {"name": "weigh", "input_schema": {}, "defer_loading": True},
        {"name": "measure", "input_schema": {}, "defer_loading": True},
    ]
    found = [{"type": "tool_reference", "tool_name": "weigh"}]
    turns = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "find", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": found}]},
    ]
    assert [tool.name for tool in read(tools=tools).tools] == ["find"]
    request = read(tools=tools, messages=[{"role": "user", "content": "Hi"}, *turns])
    assert [tool.name for tool in request.tools] == ["find", "weigh"]
    assert request.messages[-1].parts == (TextPart("The tool weigh can be called from here on."),)
    assert request.uncarried == ()


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type"),
        ({"system": 7}, "system"),
        ({"api_key": "x"}, "api_key"),
        ({"model": ""}, "model"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(members: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestProblem) as caught:
        read(**members)
    assert (caught.value.problem.status, caught.value.problem.parameter) == (400, field)


def test_a_count_needs_no_limit() -> None:
    body = orjson.dumps({"model": "fast", "messages": [SAID]})
    assert read_request(body, counts_only=True).max_output is None


def test_a_header_that_is_none_is_refused() -> None:
    with pytest.raises(RequestProblem, match="anthropic-beta"):
        read_request(orjson.dumps({"model": "fast", "max_tokens": 5, "messages": [SAID]}), betas="a\r\nb")


@pytest.mark.parametrize("is_hidden", [False, True])
@pytest.mark.parametrize("issuer", Protocol)
def test_a_signature_finds_its_way_back_through_a_caller(issuer: Protocol, is_hidden: bool) -> None:
    kept = mark(ReasoningSealed("a:b==", issuer, "rs_1", is_hidden), spoken=ANTHROPIC)
    seal = read_mark(kept, spoken=ANTHROPIC)
    if issuer is ANTHROPIC:  # as the vendor wrote it, who knows no ids
        assert (kept, seal) == ("a:b==", Seal("a:b==", ANTHROPIC))
    else:
        assert seal == Seal("a:b==", issuer, "rs_1", is_hidden)


def test_a_mark_that_is_none_is_a_signature() -> None:
    assert read_mark("signalbox:nobody:x:y", spoken=ANTHROPIC).issuer is ANTHROPIC


def test_features_are_those_of_the_fields() -> None:
    request = read(top_k=5, thinking={"type": "enabled", "budget_tokens": 1024})
    assert features_of(request) >= {Feature.TOP_K, Feature.REASONING_BUDGET, Feature.MAX_OUTPUT}
    assert request.original is not None
    assert request.original.names[Feature.TOP_K] == "top_k"
