"""A caller that hangs up lets the provider go at once, wherever the call is, and leaves a row."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from budgets import ledger
from budgets.models import Account
from governance.changes.settings import store_setting
from governance.gateway.middleware import retry
from telemetry.models import Call
from tests.authors import SOMEBODY
from tests.factories import BudgetFactory
from tests.governance.gateway.conftest import World, relist
from tests.governance.gateway.harness import Conversation, question
from tests.governance.gateway.upstream import ROLE, answers, chunk_of, fails
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


def test_while_the_answer_is_booked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has been answered and is paid for: the row says so as the ledger does, and that the caller had left."""
    BudgetFactory()
    world.gateway.refresh()
    books, goes_on = threading.Event(), threading.Event()
    settle = ledger.settle

    def slowly(**word: Any) -> bool:
        books.set()
        assert goes_on.wait(5.0)
        return settle(**word)

    monkeypatch.setattr(ledger, "settle", slowly)
    world.script(answers())
    conversation = chat(world, stream=False)
    assert books.wait(5.0)
    conversation.hang_up()
    conversation.finish()
    goes_on.set()
    wait_until(lambda: not world.gateway.service.services.owed)
    call = world.call()
    assert (call.success, call.failure_kind, call.served_model) == (False, "cancelled", "fast")
    assert call.actual_cost_nanos == Account.objects.get().spent > 0
    assert (call.actual_output_tokens or 0) > 0
