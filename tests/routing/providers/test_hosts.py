"""Hosts of OpenAI's chat completions that have ways of their own, by what their documentation says they take."""

from typing import Any

import orjson
import pytest

from routing.core.calls import CallRequest
from routing.core.conversation import Effort, FilePart, Message, ReasoningWish, Role, Sampling, TextPart
from routing.providers.dialects.carrying import NotCarried
from routing.providers.registry import adapter_for
from routing.providers.transport import HttpTransport
from tests.routing.providers.conftest import MakeEndpoint
from tests.routing.providers.vendors import OPENAI
from tests.servers.fake_provider import FakeProvider, whole

HELLO = Message(Role.USER, (TextPart("Hi"),))
LETTER = "data:application/pdf;base64,eA=="

ASKED: dict[str, Any] = {
    "sampling": Sampling(temperature=0.5, seed=7),
    "max_output": 50,
    "reasoning": ReasoningWish(Effort.HIGH),
    "metadata": {"team": "a"},
    "cache_key": "k",
    "parallel_calls": False,
}


class Sent:
    """What a kind of host is sent for a request."""

    def __init__(self, fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint) -> None:
        self._fake, self._transport, self._endpoint = fake, transport, endpoint

    async def by(self, adapter_type: str, request: CallRequest) -> Any:
        self._fake.answer(*whole(orjson.dumps(OPENAI.whole)))
        await adapter_for(adapter_type).call(
            endpoint=self._endpoint(adapter_type=adapter_type),
            model_id="model-x",
            request=request,
            transport=self._transport,
        )
        return orjson.loads(self._fake.requests[-1].body)


@pytest.fixture
def sent(fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint) -> Sent:
    return Sent(fake, transport, endpoint)


async def test_what_both_take_is_sent_by_their_own_names(sent: Sent) -> None:
    request = CallRequest("x", (HELLO,), **ASKED)
    same = {
        "model": "model-x",
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.5,
        "reasoning_effort": "high",
        "metadata": {"team": "a"},
        "prompt_cache_key": "k",
    }
    assert await sent.by("mistral", request) == {**same, "max_tokens": 50, "random_seed": 7}
    assert await sent.by("groq", request) == {**same, "max_completion_tokens": 50, "seed": 7}


@pytest.mark.parametrize(
    ("adapter_type", "members"),
    [
        ("mistral", {"user": "ann"}),
        ("mistral", {"verbosity": "low"}),
        ("mistral", {"service_tier": "flex"}),
        ("mistral", {"messages": (Message(Role.USER, (TextPart("Hi"),), name="ann"),)}),
        ("mistral", {"messages": (Message(Role.USER, (FilePart(LETTER),)),)}),
        ("groq", {"choices": 2}),
        ("groq", {"messages": (Message(Role.USER, (TextPart("Hi"),), name="ann"),)}),
    ],
    ids=["user", "verbosity", "tier", "name", "file", "groq-choices", "groq-name"],
)
async def test_what_a_host_would_refuse_is_not_sent_there(
    sent: Sent, fake: FakeProvider, adapter_type: str, members: dict[str, Any]
) -> None:
    request = CallRequest("x", **{"messages": (HELLO,), **members})
    assert await sent.by("custom", request)
    before = len(fake.requests)
    with pytest.raises(NotCarried):
        await sent.by(adapter_type, request)
    assert len(fake.requests) == before
