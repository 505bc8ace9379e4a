"""The official Anthropic client against a provider that speaks OpenAI's protocol: it does not notice."""

from collections.abc import Iterator

import anthropic
import pytest
from anthropic.types import Message, MessageParam, ToolParam

from telemetry.models import Call
from tests.clients.conftest import Installation
from tests.servers.simulator import SimulatorServer
from tests.servers.web import wait_until

pytestmark = pytest.mark.database

ASKED: list[MessageParam] = [{"role": "user", "content": "Where is my parcel?"}]
LOOK_UP: ToolParam = {
    "name": "look_up",
    "input_schema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
}
ANSWER = "Simulated answer to: Where is my parcel?"


@pytest.fixture
def claude(installation: Installation, simulator: SimulatorServer) -> Iterator[anthropic.Anthropic]:
    """The client with everything as it comes, its own retries included."""
    with anthropic.Anthropic(base_url=installation.web.url, api_key=installation.secret, timeout=20.0) as client:
        yield client


def test_a_text(claude: anthropic.Anthropic, installation: Installation) -> None:
    raw = claude.messages.with_raw_response.create(
        model="support-chat", max_tokens=200, messages=ASKED, system="Be brief."
    )
    answer = raw.parse()
    (block,) = answer.content
    assert block.type == "text"
    assert block.text.startswith(ANSWER)
    assert (answer.stop_reason, answer.usage.output_tokens) == ("end_turn", 32)
    assert raw.headers["x-signalbox-route"] == "prod-east/fast"
    with installation.web.records():
        wait_until(lambda: Call.objects.filter(pk=raw.headers["x-signalbox-call"]).exists())
        call = Call.objects.get(pk=raw.headers["x-signalbox-call"])
        assert (call.success, call.actual_output_tokens) == (True, 32)
        assert call.actual_cost_nanos is not None


def test_a_stream(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(model="support-chat", max_tokens=200, messages=ASKED) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text.startswith(ANSWER)
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 32)


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_round_trip(claude: anthropic.Anthropic, stream: bool) -> None:
    answer: Message
    if stream:
        with claude.messages.stream(
            model="support-chat", max_tokens=200, messages=ASKED, tools=[LOOK_UP], tool_choice={"type": "any"}
        ) as events:
            answer = events.get_final_message()
    else:
        answer = claude.messages.create(
            model="support-chat", max_tokens=200, messages=ASKED, tools=[LOOK_UP], tool_choice={"type": "any"}
        )
    assert answer.stop_reason == "tool_use"
    (call,) = [block for block in answer.content if block.type == "tool_use"]
    assert (call.name, list(call.input)) == ("look_up", ["id"])
    followed = claude.messages.create(
        model="support-chat",
        max_tokens=200,
        tools=[LOOK_UP],
        messages=[
            *ASKED,
            answer.to_param(),
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "in Leipzig"}]},
        ],
    )
    assert any(block.type == "text" for block in followed.content)


def test_models_and_counts(claude: anthropic.Anthropic) -> None:
    assert next(iter(claude.models.list())).id == "support-chat"
    assert claude.messages.count_tokens(model="support-chat", messages=ASKED).input_tokens == 5


def test_errors_are_the_clients_own(claude: anthropic.Anthropic, installation: Installation) -> None:
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.create(model="nothing-here", max_tokens=5, messages=ASKED)
    with pytest.raises(anthropic.BadRequestError, match="container"):
        claude.messages.create(model="support-chat", max_tokens=5, messages=ASKED, container={"id": "c"})
    with (
        anthropic.Anthropic(base_url=installation.web.url, api_key="sb-none", max_retries=0) as stranger,
        pytest.raises(anthropic.AuthenticationError),
    ):
        stranger.messages.create(model="support-chat", max_tokens=5, messages=ASKED)
