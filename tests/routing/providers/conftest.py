"""What the tests of calling providers share: a fake upstream, a transport that may reach it, requests and endpoints."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from routing.core.calls import CallRequest, Original
from routing.core.conversation import Protocol
from routing.providers.base import Endpoint, Timeouts
from routing.providers.outbound import OutboundPolicy
from routing.providers.transport import HttpTransport
from tests.servers.fake_provider import FakeProvider

KEY = "sk-proj-S3cr3tKeyOfOurs0000"

MakeEndpoint = Callable[..., Endpoint]


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with FakeProvider() as server:
        yield server


@pytest.fixture
async def transport(fake: FakeProvider) -> AsyncIterator[HttpTransport]:
    made = HttpTransport(policy=OutboundPolicy(allow=frozenset({fake.host_port})))
    yield made
    await made.aclose()


@pytest.fixture
def endpoint(fake: FakeProvider) -> MakeEndpoint:
    """Makes endpoints of the fake; keyword arguments replace fields, time-outs by their own names."""

    def make(
        *, connect: float = 5, first_event: float = 5, between_events: float = 5, total: float = 10, **fields: Any
    ) -> Endpoint:
        timeouts = Timeouts(connect=connect, first_event=first_event, between_events=between_events, total=total)
        values: dict[str, Any] = {
            "provider": "prod-east",
            "adapter_type": "openai",
            "base_url": fake.url,
            "api_key": KEY,
            "timeouts": timeouts,
        }
        return Endpoint(**(values | fields))

    return make


def request_of(document: dict[str, Any], *, body: bytes | None = None) -> CallRequest:
    """A call as the gateway would make it of a body in OpenAI's protocol."""
    compact = orjson.dumps(document)
    written = compact if body is None else body
    options = document.get("stream_options") or {}
    return CallRequest(
        target=document.get("model", ""),
        messages=(),
        stream=bool(document.get("stream")),
        wants_usage=bool(options.get("include_usage")),
        original=Original(Protocol.OPENAI_CHAT, None if written == compact else written, document),
    )


def chat(**fields: Any) -> CallRequest:
    """A small chat request."""
    return request_of({"model": "fast", "messages": [{"role": "user", "content": "Hi"}], **fields})
