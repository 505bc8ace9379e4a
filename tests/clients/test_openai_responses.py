"""The official OpenAI client's responses against a provider that speaks chat completions: it does not notice."""

import json

import openai
import pytest
from openai.types.responses import FunctionToolParam, ResponseInputParam

pytestmark = pytest.mark.database

LOOK_UP: FunctionToolParam = {
    "type": "function",
    "name": "look_up",
    "parameters": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    "strict": False,
}
ASKED = "Where is my parcel?"
ANSWER = f"Simulated answer to: {ASKED}"


def test_a_text(sdk: openai.OpenAI) -> None:
    response = sdk.responses.create(model="support-chat", input=ASKED, instructions="Be brief.")
    assert response.output_text.startswith(ANSWER)
    assert response.status == "completed"
    assert response.usage is not None
    assert response.usage.output_tokens == 32


def test_a_stream(sdk: openai.OpenAI) -> None:
    with sdk.responses.stream(model="support-chat", input=ASKED) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        response = stream.get_final_response()
    assert text.startswith(ANSWER)
    assert response.output_text == text


def test_a_tool_round_trip(sdk: openai.OpenAI) -> None:
    with sdk.responses.stream(model="support-chat", input=ASKED, tools=[LOOK_UP], tool_choice="required") as stream:
        response = stream.get_final_response()
    (call,) = response.output
    assert call.type == "function_call"
    assert list(json.loads(call.arguments)) == ["id"]
    history: ResponseInputParam = [
        {"role": "user", "content": ASKED},
        {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments},
        {"type": "function_call_output", "call_id": call.call_id, "output": "in Leipzig"},
    ]
    assert sdk.responses.create(model="support-chat", input=history, tools=[LOOK_UP]).output_text


def test_state_is_refused_with_the_clients_own_error(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.responses.create(model="support-chat", input=ASKED, previous_response_id="resp_1")
    assert caught.value.code == "unsupported_conversion"
    assert caught.value.param == "previous_response_id"
