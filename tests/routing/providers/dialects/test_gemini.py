from dataclasses import replace
from typing import Any

import orjson
import pytest

from routing.core.calls import (
    CallRequest,
    Coverage,
    Event,
    Opaque,
    Reasoning,
    ReasoningSealed,
    Started,
    Stopped,
    StopReason,
    Text,
    ToolArguments,
    ToolCallStarted,
    UsageReported,
)
from routing.core.conversation import (
    Effort,
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
    ToolMode,
)
from routing.core.failures import CallFailed, FailureKind
from routing.providers.base import Endpoint
from routing.providers.dialects.carrying import NotCarried
from routing.providers.dialects.gemini_replies import read_reply, read_usage
from routing.providers.dialects.gemini_requests import UNSIGNED, request_body
from routing.providers.dialects.tools import NO_NAMES
from tests.routing.core.feature_samples import PIXEL, SCHEMA, TOOL, asked, plain, said, showing

ENDPOINT = Endpoint(provider="prod-east", adapter_type="gemini", base_url="https://api.example.com/v1beta")
GEMINI = Protocol.GEMINI

# --- Requests -------------------------------------------------------------------------------------------------------


def document(request: CallRequest, model_id: str = "gemini-3.8-flash") -> Any:
    return orjson.loads(request_body(request, model_id=model_id))


def test_a_small_request_names_no_model_since_that_is_in_the_path() -> None:
    assert document(plain()) == {"contents": [{"role": "user", "parts": [{"text": "Why?"}]}]}


def test_instructions_are_moved_up_in_their_order() -> None:
    found = document(plain(said("A", Role.SYSTEM), said("Why?"), said("B", Role.DEVELOPER), said("Well?")))
    assert found["systemInstruction"] == {"parts": [{"text": "A"}, {"text": "B"}]}
    assert found["contents"] == [{"role": "user", "parts": [{"text": "Why?"}, {"text": "Well?"}]}]


def conversation(*parts: ReasoningPart) -> CallRequest:
    calls = (ToolCall("c1", "look_up", '{"city":"Ulm"}'), ToolCall("c2", "weigh", ""))
    return replace(
        plain(
            said("Where?"),
            Message(Role.ASSISTANT, (*parts, TextPart("I look.")), tool_calls=calls),
            Message(Role.TOOL, (TextPart('{"river":"Danube"}'),), answers_call="c1"),
            Message(Role.TOOL, (TextPart("no scales"), ImagePart(PIXEL)), answers_call="c2", has_failed=True),
        ),
        tools=(TOOL, Tool("weigh", 20)),
    )


def test_a_tool_round_trip() -> None:
    asked_, answered, results = document(conversation())["contents"]
    assert asked_["role"] == "user"
    assert answered == {
        "role": "model",
        "parts": [
            {"text": "I look."},
            {
                "functionCall": {"id": "c1", "name": "look_up", "args": {"city": "Ulm"}},
                "thoughtSignature": UNSIGNED,
            },
            {"functionCall": {"id": "c2", "name": "weigh", "args": {}}},
        ],
    }
    assert results == {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "c1", "name": "look_up", "response": {"river": "Danube"}}},
            {"functionResponse": {"id": "c2", "name": "weigh", "response": {"error": "no scales"}}},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        ],
    }


def test_the_vendors_own_signature_goes_back_with_the_first_call() -> None:
    sealed = ReasoningPart("", "sig", GEMINI)
    parts = document(conversation(sealed))["contents"][1]["parts"]
    assert [each.get("thoughtSignature") for each in parts] == [None, "sig", None]


@pytest.mark.parametrize("model_id", ["gemini-2.5-pro", "gemini-1.5-flash"])
def test_older_models_are_sent_no_signature_they_do_not_know(model_id: str) -> None:
    parts = document(conversation(), model_id)["contents"][1]["parts"]
    assert all("thoughtSignature" not in each for each in parts)


@pytest.mark.parametrize(
    ("text", "response"), [("plain", {"result": "plain"}), ("[1]", {"result": [1]}), ('{"a":1}', {"a": 1})]
)
def test_a_result_is_an_object(text: str, response: Any) -> None:
    result = Message(Role.TOOL, (TextPart(text),), answers_call="call-1")
    part = document(asked(result=result))["contents"][-1]["parts"][0]
    assert part["functionResponse"]["response"] == response


def test_an_answer_to_a_call_nobody_made_is_refused() -> None:
    with pytest.raises(NotCarried, match="call-7"):
        document(asked(result=Message(Role.TOOL, (TextPart("x"),), answers_call="call-7")))


def test_data_in_another_spelling_is_refused() -> None:
    with pytest.raises(NotCarried, match="base64"):
        document(showing(ImagePart("data:image/svg+xml,<svg/>")))


@pytest.mark.parametrize(
    ("choice", "strict", "expected"),
    [
        (None, False, None),
        (ToolChoice(ToolMode.AUTO), True, {"mode": "VALIDATED"}),
        (ToolChoice(ToolMode.NONE), True, {"mode": "NONE"}),
        (ToolChoice(ToolMode.REQUIRED), False, {"mode": "ANY"}),
        (ToolChoice(ToolMode.NAMED, "look_up"), False, {"mode": "ANY", "allowedFunctionNames": ["look_up"]}),
    ],
)
def test_how_tools_are_chosen(choice: ToolChoice | None, strict: bool, expected: Any) -> None:
    found = document(replace(plain(), tools=(replace(TOOL, strict=strict),), tool_choice=choice))
    assert found.get("toolConfig", {}).get("functionCallingConfig") == expected


def test_a_tool_without_arguments_declares_none() -> None:
    found = document(replace(plain(), tools=(TOOL, Tool("weigh", 20))))
    first, second = found["tools"][0]["functionDeclarations"]
    assert first["parametersJsonSchema"] == SCHEMA
    assert second == {"name": "weigh"}


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (ReasoningWish(), {"includeThoughts": True}),
        (ReasoningWish(Effort.NONE), {"thinkingBudget": 0}),
        (ReasoningWish(Effort.MAX), {"includeThoughts": True, "thinkingLevel": "high"}),
        (ReasoningWish(budget=2048), {"includeThoughts": True, "thinkingBudget": 2048}),
    ],
)
def test_reasoning(wish: ReasoningWish, expected: Any) -> None:
    assert document(replace(plain(), reasoning=wish))["generationConfig"]["thinkingConfig"] == expected


def test_a_shape() -> None:
    found = document(replace(plain(), structured_output=OutputFormat(SCHEMA, "place")))["generationConfig"]
    assert found == {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}


# --- Answers --------------------------------------------------------------------------------------------------------


def events(*parts: Any, finish: str = "STOP", **members: Any) -> list[Event]:
    candidate = {"content": {"parts": list(parts)}, "finishReason": finish}
    whole = {"candidates": [candidate], "responseId": "r-1", "modelVersion": "gemini-x", **members}
    return list(read_reply(orjson.dumps(whole), endpoint=ENDPOINT, tools=NO_NAMES).events)


END = Stopped(StopReason.END)


def test_every_part_is_read() -> None:
    assert events({"text": "Hm", "thought": True}, {"text": "Yes"}, {"text": "!", "thoughtSignature": "s"}) == [
        Started("r-1", "gemini-x"),
        Reasoning("Hm"),
        Text("Yes"),
        ReasoningSealed("s", GEMINI, is_hidden=True),
        Text("!"),
        END,
    ]


def test_a_call_without_an_id_gets_one_of_its_own() -> None:
    call = {"functionCall": {"name": "f"}}
    found = events(call, {"functionCall": {"name": "g", "args": {"a": 1}}})[1:]
    assert found == [
        ToolCallStarted(0, "call_r-1_0", "f"),
        ToolArguments(0, "{}"),
        ToolCallStarted(1, "call_r-1_1", "g"),
        ToolArguments(1, '{"a":1}'),
        Stopped(StopReason.TOOL_CALLS),
    ]


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("MAX_TOKENS", StopReason.LENGTH),
        ("SAFETY", StopReason.REFUSAL),
        ("PROHIBITED_CONTENT", StopReason.REFUSAL),
        ("MALFORMED_FUNCTION_CALL", StopReason.OTHER),
    ],
)
def test_why_the_model_stopped(finish: str, expected: StopReason) -> None:
    assert events(finish=finish)[1:] == [Stopped(expected)]


def test_a_blocked_prompt_is_a_refusal() -> None:
    body = orjson.dumps({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}})
    reply = read_reply(body, endpoint=ENDPOINT, tools=NO_NAMES)
    assert reply.stop is StopReason.REFUSAL
    assert reply.usage is not None
    assert (reply.usage.input, reply.usage.output) == (7, 0)


def test_what_the_vendor_ran_is_named() -> None:
    assert Opaque("executableCode") in events({"executableCode": {"code": "1"}})


def test_thoughts_lie_beside_the_answer_and_what_is_cached_inside_the_prompt() -> None:
    usage = read_usage(
        {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 60,
            "toolUsePromptTokenCount": 11,
            "candidatesTokenCount": 20,
            "thoughtsTokenCount": 30,
        }
    )
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning) == (51, 60, 50, 30)
    assert usage.coverage is Coverage.EXACT


def test_usage_before_the_end_is_known_in_part() -> None:
    usage = read_usage({"promptTokenCount": 3}, is_final=False)
    assert usage is not None
    assert usage.coverage is Coverage.PARTIAL
    assert read_usage({"totalTokenCount": 3}) is None


def test_usage_follows_the_end() -> None:
    assert isinstance(events({"text": "a"}, usageMetadata={"promptTokenCount": 3})[-1], UsageReported)


def test_an_answer_without_candidates_is_none() -> None:
    with pytest.raises(CallFailed) as caught:
        read_reply(b'{"usageMetadata":{}}', endpoint=ENDPOINT, tools=NO_NAMES)
    assert caught.value.failure.kind is FailureKind.UNREADABLE
