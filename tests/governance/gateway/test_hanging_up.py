"""A caller that hangs up lets the provider go at once, wherever the call is, and leaves a row."""

import asyncio
import time
from collections.abc import Callable

import orjson
import pytest

from governance.changes.settings import store_setting
from governance.gateway.middleware import retry
from telemetry.models import Call
from tests.authors import SOMEBODY
from tests.governance.gateway.conftest import World, relist
from tests.governance.gateway.harness import Conversation, question
from tests.governance.gateway.upstream import ROLE, chunk_of, fails
from tests.servers.fake_provider import Script, Send, Stall, events, head
from tests.servers.web import wait_until

AT_ONCE = 0.1
"""Seconds within which the provider has to see its connection closed."""

LEFT = chunk_of({"content": "Left "})


def chat(world: World, *, stream: bool) -> Conversation:
    return world.gateway.begin_chat(stream=stream)


def message(world: World, *, stream: bool) -> Conversation:
    """In another protocol than the provider's, so that the answer is written anew."""
    body = {
        "model": "support-chat",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": stream,
    }
    return world.gateway.begin(orjson.dumps(body), path="/v1/messages")


PLACES: dict[str, tuple[Script, bool, bytes]] = {
    "before the head": ([Stall()], False, b""),
    "in the middle of a whole answer": ([head(length=900), Send(b'{"id"'), Stall()], False, b""),
    "before the head of a stream": ([Stall()], True, b""),
    "before the first word": (events(ROLE, end=[Stall()]), True, b""),
    "after the first word": (events(ROLE, LEFT, end=[Stall()]), True, b"Left"),
}


@pytest.mark.parametrize("begin", [chat, message])
@pytest.mark.parametrize("place", PLACES)
def test_the_provider_is_let_go_at_once(world: World, place: str, begin: Callable[..., Conversation]) -> None:
    """The quickest of a few: what is measured is the gateway, and not how busy the machine is."""
    script, stream, seen = PLACES[place]
    world.script(script)
    took = []
    for _ in range(3):
        world.forget()
        conversation = begin(world, stream=stream)
        world.wait_for_request(0)
        if seen:
            conversation.wait_for(seen)
        (request,) = world.upstreams[0].requests
        left_at = time.monotonic()
        conversation.hang_up()
        conversation.finish()
        world.gateway.threads.run(request.client_closed.wait(), seconds=2.0)
        assert request.client_closed_at is not None
        took.append(request.client_closed_at - left_at)
    assert min(took) < AT_ONCE
    assert [(row.success, row.failure_kind, row.requests_sent) for row in world.calls()] == [
        (False, "cancelled", 1)
    ] * 3
    assert world.asked == [1, 0, 0]  # nobody else is asked for somebody who has left
    assert (world.gateway.service.calls_under_way, +world.gateway.service.services.slots.taken) == (0, {})


def test_between_two_attempts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends with the caller, and what the route had done before is what its health hears of."""
    waiting: list[float] = []

    async def wait_long(seconds: float) -> None:
        waiting.append(seconds)
        await asyncio.sleep(60)

    monkeypatch.setattr(retry, "sleep", wait_long)
    store_setting("retry.attempts", 2, author=SOMEBODY)
    relist(world.configuration, world.models[:1])
    world.gateway.refresh()
    world.script(fails(503))
    conversation = world.gateway.begin(question())
    wait_until(lambda: bool(waiting))
    left_at = time.monotonic()
    conversation.hang_up()
    conversation.finish()
    assert time.monotonic() - left_at < 1.0
    assert (conversation.sent, world.asked) == ([], [1, 0, 0])
    world.gateway.flush()
    call = Call.objects.get()
    assert (call.failure_kind, call.first_failure_kind, call.requests_sent) == ("cancelled", "transient", 1)
