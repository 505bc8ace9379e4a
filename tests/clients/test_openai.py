"""The official OpenAI client, with nothing about it changed but its address and its key."""

import asyncio
import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

from telemetry.models import Call
from tests.clients.conftest import Installation
from tests.servers.simulator import SimulatorServer
from tests.servers.web import wait_until

pytestmark = pytest.mark.database

ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Where is my parcel?"}]
LOOK_UP: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    },
}
ANSWER = "Simulated answer to: Where is my parcel?"


class Parcel(BaseModel):
    place: str
    days: int


def test_a_text(sdk: openai.OpenAI, installation: Installation) -> None:
    raw = sdk.chat.completions.with_raw_response.create(model="support-chat", messages=ASKED)
    answer = raw.parse()
    assert (answer.choices[0].message.content or "").startswith(ANSWER)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 32)
    assert answer._request_id == raw.headers["x-request-id"]
    assert raw.headers["x-signalbox-route"] == "prod-east/fast"
    assert raw.headers["x-signalbox-cost"] == "0.0003325 USD"
    with installation.web.records():
        wait_until(lambda: Call.objects.filter(pk=raw.headers["x-signalbox-call"]).exists())


async def test_a_text_asynchronously(installation: Installation, simulator: SimulatorServer) -> None:
    async with openai.AsyncOpenAI(base_url=f"{installation.web.url}/v1", api_key=installation.secret) as client:
        answers = await asyncio.gather(
            *(client.chat.completions.create(model="support-chat", messages=ASKED) for _ in range(8))
        )
        assert all((each.choices[0].message.content or "").startswith(ANSWER) for each in answers)
        stream = await client.chat.completions.create(model="support-chat", messages=ASKED, stream=True)
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(texts).startswith(ANSWER)


def test_a_stream(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.create(model="support-chat", messages=ASKED, stream=True) as stream:
        chunks = list(stream)
    assert all(chunk.usage is None for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks).startswith(ANSWER)
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_usage_and_cost_in_a_stream(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.create(
        model="support-chat", messages=ASKED, stream=True, stream_options={"include_usage": True}
    ) as stream:
        *chunks, last = stream
    assert len(chunks) > 3
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 32
    said: dict[str, Any] = (last.model_extra or {})["signalbox"]
    assert (said["cost"], said["currency"]) == ("0.0003325", "USD")
    assert stream.response.headers["x-signalbox-call"] == said["call"]


def test_tools(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(
        model="support-chat",
        messages=ASKED,
        tools=[LOOK_UP],
        tool_choice={"type": "function", "function": {"name": "look_up"}},
    )
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "look_up"
    assert list(json.loads(call.function.arguments)) == ["id"]
    assert answer.choices[0].finish_reason == "tool_calls"
    said: Any = call.model_dump()
    followed = sdk.chat.completions.create(
        model="support-chat",
        messages=[
            *ASKED,
            {"role": "assistant", "tool_calls": [said]},
            {"role": "tool", "tool_call_id": call.id, "content": "in \x00 Leipzig"},
        ],
        tools=[LOOK_UP],
    )
    assert followed.choices[0].message.content


def test_tools_in_a_stream(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.stream(
        model="support-chat", messages=ASKED, tools=[LOOK_UP], tool_choice="required"
    ) as stream:
        answer = stream.get_final_completion()
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.function.name == "look_up"
    assert list(json.loads(call.function.arguments)) == ["id"]


def test_structured_output(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.parse(model="support-chat", messages=ASKED, response_format=Parcel)
    assert isinstance(answer.choices[0].message.parsed, Parcel)
    with sdk.chat.completions.stream(model="support-chat", messages=ASKED, response_format=Parcel) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Parcel)


def test_models(sdk: openai.OpenAI) -> None:
    assert [model.id for model in sdk.models.list()] == ["support-chat", "prod-east/fast"]
    assert sdk.models.retrieve("support-chat").owned_by == "signalbox"
    assert sdk.models.retrieve("prod-east/fast").id == "prod-east/fast"
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("nonesuch")


def test_a_model_that_is_named_directly(sdk: openai.OpenAI) -> None:
    raw = sdk.chat.completions.with_raw_response.create(model="prod-east/gpt-x-mini", messages=ASKED)
    assert raw.headers["x-signalbox-route"] == "prod-east/fast"


# --- Errors ---------------------------------------------------------------------------------------------------------


def test_a_key_that_is_unknown(sdk: openai.OpenAI, installation: Installation) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        sdk.with_options(api_key="sb-unknown").chat.completions.create(model="support-chat", messages=ASKED)
    assert caught.value.code == "invalid_api_key"
    assert installation.received == 0


@pytest.mark.parametrize(
    ("model", "extra", "error", "field"),
    [
        ("secret-chat", {}, openai.PermissionDeniedError, None),
        ("suport-chat", {}, openai.NotFoundError, "model"),
        ("support-chat", {"max_tokens": 0}, openai.BadRequestError, "max_tokens"),
        ("support-chat", {"api_base": "http://x/"}, openai.BadRequestError, "api_base"),
    ],
    ids=["forbidden", "unknown", "invalid", "steering"],
)
def test_what_a_caller_does_wrong(
    sdk: openai.OpenAI,
    installation: Installation,
    model: str,
    extra: dict[str, object],
    error: type[openai.APIStatusError],
    field: str | None,
) -> None:
    with pytest.raises(error) as caught:
        sdk.chat.completions.create(model=model, messages=ASKED, extra_body=extra)
    assert caught.value.param == field
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert installation.received == 0


REPEATED = {"429", "503", "500", "reset"}
"""What we ask once more ourselves."""

FAILURES: list[tuple[str, type[openai.APIStatusError], int]] = [
    ("429", openai.RateLimitError, 429),
    ("insufficient_quota", openai.RateLimitError, 429),
    ("503", openai.InternalServerError, 503),
    ("500", openai.InternalServerError, 503),
    ("reset", openai.InternalServerError, 503),
    ("garbage", openai.InternalServerError, 502),
    ("401", openai.InternalServerError, 502),
    ("404", openai.InternalServerError, 502),
    ("context_length_exceeded", openai.BadRequestError, 400),
]


@pytest.mark.parametrize(("kind", "error", "status"), FAILURES, ids=[kind for kind, *_ in FAILURES])
def test_a_final_failure_is_not_tried_again_by_the_client(
    sdk: openai.OpenAI,
    installation: Installation,
    simulator: SimulatorServer,
    kind: str,
    error: type[openai.APIStatusError],
    status: int,
) -> None:
    """The client would ask three times by itself: for each of its tries we would ask every route again, and each of
    them as often as our own policy says."""
    simulator.fail(kind)
    for stream in (False, True):
        installation.web.let_routes_serve()
        simulator.reset_stats()
        with pytest.raises(error) as caught:
            sdk.chat.completions.create(model="support-chat", messages=ASKED, stream=stream)
        assert caught.value.status_code == status
        assert installation.received == (2 if kind in REPEATED else 1)


def test_a_failure_in_the_middle_of_a_stream(
    sdk: openai.OpenAI, installation: Installation, simulator: SimulatorServer
) -> None:
    simulator.fail("error_frame", after_chunks=3)
    texts: list[str] = []
    with sdk.chat.completions.create(model="support-chat", messages=ASKED, stream=True) as stream:
        chunks = iter(stream)
        while len(texts) < 3:  # what has arrived before is not lost
            texts.append(next(chunks).choices[0].delta.content or "")
        with pytest.raises(openai.APIError, match="prod-east"):
            next(chunks)
    assert "".join(texts).startswith("Simulated answer")
    assert installation.received == 1


def test_leaving_a_stream(sdk: openai.OpenAI, installation: Installation, simulator: SimulatorServer) -> None:
    simulator.set_behaviour(latency={"mean_ms": 20_000, "first_chunk_ms": 10})
    with sdk.chat.completions.create(model="support-chat", messages=ASKED, stream=True) as stream:
        next(iter(stream))
        call = stream.response.headers["x-signalbox-call"]
    simulator.wait_for_stats(lambda stats: stats["cancelled"] == 1, seconds=1.0)
    with installation.web.records():
        wait_until(lambda: Call.objects.filter(pk=call, failure_kind="cancelled").exists())
