"""Ollama's own wire, as far as the contract that all adapters keep does not say it."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from routing.core.calls import Coverage, Reasoning, Stopped, StopReason, Text, ToolCallStarted, Usage, last_usage
from routing.core.conversation import ImagePart, Message, ReasoningPart, Role, TextPart, ToolCall
from routing.core.failures import CallFailed, FailureKind
from routing.core.features import Feature
from routing.providers.base import Endpoint
from routing.providers.dialects.carrying import NotCarried
from routing.providers.dialects.ollama_replies import read_reply, read_usage
from routing.providers.dialects.ollama_requests import request_body
from routing.providers.dialects.tools import NO_NAMES
from routing.providers.registry import api_for
from routing.providers.transport import HttpTransport
from tests.routing.core.feature_samples import PIXEL, RESULT, SAMPLES, TOOL, asked, plain, said
from tests.routing.providers.conftest import MakeEndpoint
from tests.routing.providers.vendors import OLLAMA
from tests.servers.fake_provider import FakeProvider, whole

ENDPOINT = Endpoint(provider="at-home", adapter_type="ollama", base_url="http://localhost:11434")


def written(request: Any) -> Any:
    return orjson.loads(request_body(request, model_id="model-x"))


def answer(message: Any, **members: Any) -> Any:
    document = {"model": "model-x", "message": {"role": "assistant", "content": "", **message}, "done": True, **members}
    return read_reply(orjson.dumps(document), endpoint=ENDPOINT, tools=NO_NAMES)


def test_the_least_of_a_request() -> None:
    """Streams unless it is told not to, and cuts prompts that are too long unless it is told not to."""
    assert written(plain()) == {
        "model": "model-x",
        "messages": [{"role": "user", "content": "Why?"}],
        "stream": False,
        "truncate": False,
    }


def test_a_conversation_with_a_tool() -> None:
    parts = (ReasoningPart("Hm."), TextPart("I look."))
    turn = Message(Role.ASSISTANT, parts, tool_calls=(ToolCall("call-1", "look_up", '{"city":"Ulm"}'),))
    shown = replace(RESULT, parts=(TextPart("A map"), ImagePart(PIXEL)), has_failed=True)
    request = replace(plain(said("Be brief.", Role.DEVELOPER), said("Where?"), turn, shown), tools=(TOOL,))
    document = written(request)
    assert document["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where?"},
        {
            "role": "assistant",
            "content": "I look.",
            "thinking": "Hm.",
            "tool_calls": [{"id": "call-1", "function": {"name": "look_up", "arguments": {"city": "Ulm"}}}],
        },
        {
            "role": "tool",
            "content": "The tool failed:\nA map",
            "tool_name": "look_up",
            "tool_call_id": "call-1",
        },
        {"role": "user", "content": "", "images": ["iVBORw0KGgo="]},
    ]
    assert document["tools"] == [
        {
            "type": "function",
            "function": {"name": "look_up", "description": "Looks a city up", "parameters": TOOL.schema},
        }
    ]


def test_options_and_formats() -> None:
    assert written(SAMPLES[Feature.MAX_OUTPUT])["options"] == {"num_predict": 321}
    assert written(SAMPLES[Feature.STOP])["options"] == {"stop": ["END", "STOP"]}
    assert written(SAMPLES[Feature.JSON_OBJECT])["format"] == "json"
    assert written(SAMPLES[Feature.JSON_SCHEMA])["format"]["required"] == ["city"]
    assert "tools" not in written(SAMPLES[Feature.CHOICE_NONE])


@pytest.mark.parametrize(
    ("feature", "think"),
    [
        (Feature.REASONING, True),
        (Feature.REASONING_EFFORT, "high"),
        (Feature.REASONING_BUDGET, "low"),
        (Feature.REASONING_OFF, False),
    ],
)
def test_how_much_is_thought(feature: Feature, think: bool | str) -> None:
    assert written(SAMPLES[feature])["think"] == think


@pytest.mark.parametrize(
    "request_",
    [
        asked(result=RESULT, call=ToolCall("call-1", "look_up", "Ulm")),
        asked(result=replace(RESULT, answers_call="call-9")),
        plain(Message(Role.USER, (ImagePart("data:image/svg+xml,<svg/>"),))),
    ],
    ids=["no-object", "unknown-call", "no-base64"],
)
def test_what_has_no_place_is_refused(request_: Any) -> None:
    with pytest.raises(NotCarried):
        request_body(request_, model_id="model-x")


# --- Answers --------------------------------------------------------------------------------------------------------


def test_thoughts_come_before_the_text() -> None:
    reply = answer({"thinking": "Hm.", "content": "Ulm."}, done_reason="length", prompt_eval_count=5, eval_count=9)
    assert list(reply.events[1:4]) == [Reasoning("Hm."), Text("Ulm."), Stopped(StopReason.LENGTH)]
    assert reply.usage == Usage(5, 9)


def test_calls_without_ids_get_ids_of_their_own() -> None:
    """Those of two turns are told apart by them."""
    call = {"function": {"name": "weigh", "arguments": {}}}
    started = [
        event
        for _ in range(2)
        for event in answer({"tool_calls": [call, call]}).events
        if isinstance(event, ToolCallStarted)
    ]
    assert len({event.call_id for event in started}) == 4
    assert [event.index for event in started] == [0, 1, 0, 1]


def test_a_prompt_that_was_cached_whole_is_not_counted() -> None:
    assert read_usage({"eval_count": 9}) == Usage(0, 9, coverage=Coverage.PARTIAL)
    assert read_usage({}) is None
    assert last_usage(answer({"content": "x"}).events) is None


@pytest.mark.parametrize("members", [{"done": False}, {"done": "true"}, {"message": None}, {"message": []}])
def test_what_is_not_done_is_no_answer(members: Any) -> None:
    with pytest.raises(CallFailed) as caught:
        read_reply(orjson.dumps({**OLLAMA.whole, **members}), endpoint=ENDPOINT, tools=NO_NAMES)
    assert caught.value.failure.kind is FailureKind.UNREADABLE


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/api"])
async def test_every_address_of_the_server_will_do(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint, ending: str
) -> None:
    base = fake.url.removesuffix("/v1")
    fake.answer(*whole(orjson.dumps(OLLAMA.whole)))
    api = api_for("ollama", plain())
    await api.call(
        endpoint=endpoint(adapter_type="ollama", base_url=base + ending),
        model_id="model-x",
        request=plain(),
        transport=transport,
    )
    assert fake.requests[0].line == "POST /api/chat HTTP/1.1"
