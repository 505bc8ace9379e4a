from dataclasses import replace
from typing import Any

import orjson
import pytest

from routing.core.calls import CallRequest, Original
from routing.core.conversation import (
    CacheMark,
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
from routing.providers.dialects.anthropic_requests import request_body
from routing.providers.dialects.carrying import NotCarried
from tests.routing.core.feature_samples import PDF, PIXEL, SCHEMA, TOOL, asked, plain, said, sampled, showing


def document(request: CallRequest, **settings: Any) -> Any:
    return orjson.loads(request_body(request, model_id="claude-x", **settings))


def messages(*given: Message) -> Any:
    return document(plain(*given))["messages"]


def test_a_small_request() -> None:
    assert document(plain()) == {
        "model": "claude-x",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Why?"}]}],
    }


@pytest.mark.parametrize(
    ("said_by_caller", "known_of_model", "expected"), [(None, None, 8192), (None, 64_000, 64_000), (321, 64_000, 321)]
)
def test_the_limit_is_the_callers_or_the_models(
    said_by_caller: int | None, known_of_model: int | None, expected: int
) -> None:
    request = replace(plain(), max_output=said_by_caller)
    assert document(request, max_output=known_of_model)["max_tokens"] == expected


def test_a_request_of_this_protocol_is_forwarded_but_for_the_model() -> None:
    body = b'{ "model" : "support-chat", "messages":[{"role":"user","content":"H\\u00e4"}],"x":1.50,"max_tokens":5}'
    request = replace(plain(), original=Original(Protocol.ANTHROPIC, body, orjson.loads(body)))
    assert request_body(request, model_id="claude-x") == body.replace(b'"support-chat"', b'"claude-x"')


def test_instructions_stand_before_the_conversation_and_later_ones_inside() -> None:
    found = document(
        plain(
            said("Be brief.", Role.SYSTEM), said("In German.", Role.DEVELOPER), said("Why?"), said("Now.", Role.SYSTEM)
        )
    )
    assert found["system"] == [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "In German."}]
    assert [each["role"] for each in found["messages"]] == ["user", "system"]


def test_a_tool_round_trip_has_two_sides_that_take_turns() -> None:
    calls = (ToolCall("call-1", "look_up", '{"city":"Ulm"}'), ToolCall("call-2", "weigh", ""))
    found = messages(
        said("Where?"),
        Message(Role.ASSISTANT, (TextPart("I look."),), tool_calls=calls),
        Message(Role.TOOL, (TextPart("On the Danube"),), answers_call="call-1"),
        Message(Role.TOOL, (TextPart("no scales"),), answers_call="call-2", has_failed=True),
        said("Go on."),
    )
    assert found == [
        {"role": "user", "content": [{"type": "text", "text": "Where?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "call-1", "name": "look_up", "input": {"city": "Ulm"}},
                {"type": "tool_use", "id": "call-2", "name": "weigh", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call-1", "content": "On the Danube"},
                {"type": "tool_result", "tool_use_id": "call-2", "content": "no scales", "is_error": True},
                {"type": "text", "text": "Go on."},
            ],
        },
    ]


def test_an_empty_text_is_left_out_since_the_vendor_refuses_it() -> None:
    found = messages(said("Why?"), Message(Role.ASSISTANT, (TextPart(""),)), said("Well?"))
    assert [each["role"] for each in found] == ["user"]


@pytest.mark.parametrize("arguments", ["[1]", '{"a":', "null"])
def test_arguments_that_are_no_object_are_refused(arguments: str) -> None:
    request = asked(result=said("x"), call=ToolCall("call-9", "look_up", arguments))
    with pytest.raises(NotCarried, match="call-9"):
        document(request)


def test_images_and_documents() -> None:
    text = "data:text/plain;charset=utf-8;base64,SGFsbG8="
    request = showing(
        ImagePart(PIXEL), ImagePart("https://images.example/1.png"), FilePart(PDF, "report.pdf"), FilePart(text)
    )
    _, *blocks = document(request)["messages"][0]["content"]
    assert blocks == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "image", "source": {"type": "url", "url": "https://images.example/1.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF.partition(",")[2]},
            "title": "report.pdf",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hallo"}},
    ]


@pytest.mark.parametrize(
    "part", [ImagePart("data:image/svg+xml,<svg/>"), FilePart("data:application/zip;base64,UEs="), FilePart("data:,x")]
)
def test_data_the_vendor_cannot_read_is_refused(part: ImagePart | FilePart) -> None:
    with pytest.raises(NotCarried):
        document(showing(part))


def test_cache_marks_stand_where_they_stood() -> None:
    tool = replace(TOOL, mark=CacheMark.SHORT)
    result = Message(Role.TOOL, (TextPart("On the Danube", CacheMark.LONG),), answers_call="call-1")
    found = document(replace(asked(result=result), tools=(tool,)))
    assert found["tools"][0]["cache_control"] == {"type": "ephemeral"}
    assert found["messages"][-1]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_sealed_reasoning_goes_back_first_and_unchanged() -> None:
    earlier = Message(
        Role.ASSISTANT,
        (
            ReasoningPart("Clouds.", "c2VhbA==", Protocol.ANTHROPIC),
            ReasoningPart("", "bGVmdCBvdXQ=", Protocol.ANTHROPIC),
            ReasoningPart("", "aGlkZGVu", Protocol.ANTHROPIC, is_hidden=True),
            ReasoningPart("from elsewhere, unsealed"),
            TextPart("It rained."),
        ),
    )
    assert messages(said("Why?"), earlier)[1]["content"] == [
        {"type": "thinking", "thinking": "Clouds.", "signature": "c2VhbA=="},
        {"type": "thinking", "thinking": "", "signature": "bGVmdCBvdXQ="},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "text", "text": "It rained."},
    ]


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(ToolMode.AUTO), None, {"type": "auto"}),
        (ToolChoice(ToolMode.NONE), False, {"type": "none"}),
        (ToolChoice(ToolMode.REQUIRED), None, {"type": "any"}),
        (ToolChoice(ToolMode.REQUIRED), False, {"type": "any", "disable_parallel_tool_use": True}),
        (ToolChoice(ToolMode.NAMED, "look_up"), None, {"type": "tool", "name": "look_up"}),
    ],
    ids=["nothing", "parallel", "alone", "auto", "none-alone", "required", "required-alone", "named"],
)
def test_how_tools_are_chosen(choice: ToolChoice | None, parallel: bool | None, expected: Any) -> None:
    request = replace(plain(), tools=(TOOL,), tool_choice=choice, parallel_calls=parallel)
    assert document(request).get("tool_choice") == expected


def test_without_tools_nothing_is_said_about_choosing() -> None:
    request = replace(plain(), tool_choice=ToolChoice(ToolMode.AUTO), parallel_calls=True)
    assert "tool_choice" not in document(request)


def test_tools_as_the_vendor_has_them() -> None:
    offered = (
        replace(TOOL, strict=True),
        Tool("weigh", 20),
        Tool("patch", 20, "Applies a patch", kind=ToolKind.CUSTOM),
        replace(TOOL, namespace="atlas"),
    )
    plain_tool = {"name": "look_up", "description": "Looks a city up", "input_schema": SCHEMA}
    free = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    assert document(replace(plain(), tools=offered))["tools"] == [
        {**plain_tool, "strict": True},
        {"name": "weigh", "input_schema": {"type": "object", "properties": {}}},
        {
            "name": "patch",
            "description": "Applies a patch",
            "input_schema": {**free, "additionalProperties": False},
        },
        {**plain_tool, "name": "atlas__look_up"},
    ]


@pytest.mark.parametrize(
    ("wish", "thinking", "effort"),
    [
        (ReasoningWish(), {"type": "adaptive"}, None),
        (ReasoningWish(Effort.NONE), {"type": "disabled"}, None),
        (ReasoningWish(Effort.MINIMAL), {"type": "adaptive"}, "low"),
        (ReasoningWish(Effort.XHIGH), {"type": "adaptive"}, "xhigh"),
        (ReasoningWish(budget=2048), {"type": "enabled", "budget_tokens": 2048}, None),
        (ReasoningWish(Effort.LOW, 2048), {"type": "enabled", "budget_tokens": 2048}, None),
    ],
    ids=["on", "off", "minimal", "xhigh", "budget", "both"],
)
def test_reasoning(wish: ReasoningWish, thinking: Any, effort: str | None) -> None:
    found = document(replace(plain(), reasoning=wish))
    assert found["thinking"] == thinking
    assert found.get("output_config", {}).get("effort") == effort


def test_a_shape_and_an_effort_share_one_object() -> None:
    request = replace(plain(), structured_output=OutputFormat(SCHEMA, "place"), reasoning=ReasoningWish(Effort.LOW))
    expected = {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}
    assert document(request)["output_config"] == expected


def test_a_temperature_the_vendor_does_not_know_is_refused_and_not_bent() -> None:
    assert document(sampled(temperature=1))["temperature"] == 1
    with pytest.raises(NotCarried, match="at most 1"):
        document(sampled(temperature=1.2))


@pytest.mark.parametrize(("tier", "expected"), [("default", "standard_only"), ("", None)])
def test_service_tiers(tier: str, expected: str | None) -> None:
    assert document(replace(plain(), service_tier=tier)).get("service_tier") == expected


def test_a_service_tier_the_vendor_does_not_sell_is_refused() -> None:
    with pytest.raises(NotCarried, match="flex"):
        document(replace(plain(), service_tier="flex"))
