"""The official OpenAI client's legacy completions."""

import openai
import pytest

pytestmark = pytest.mark.database

PROMPT = "Where is my parcel?"
ANSWER = f"Simulated answer to: {PROMPT}"


def test_a_text(sdk: openai.OpenAI) -> None:
    raw = sdk.completions.with_raw_response.create(model="support-chat", prompt=PROMPT, max_tokens=200)
    answer = raw.parse()
    assert answer.choices[0].text.startswith(ANSWER)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert raw.headers["x-signalbox-route"] == "prod-east/fast"
    assert raw.headers["x-signalbox-cost"].endswith(" USD")


def test_a_stream(sdk: openai.OpenAI) -> None:
    with sdk.completions.create(model="support-chat", prompt=PROMPT, max_tokens=200, stream=True) as stream:
        chunks = list(stream)
    assert "".join(each.choices[0].text for each in chunks).startswith(ANSWER)
    assert chunks[-1].choices[0].finish_reason == "stop"
    with sdk.completions.create(
        model="support-chat", prompt=PROMPT, max_tokens=200, stream=True, stream_options={"include_usage": True}
    ) as stream:
        *_, last = stream
    assert last.usage is not None
    assert (last.model_extra or {})["signalbox"]["currency"] == "USD"
