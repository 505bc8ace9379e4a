"""A database that does not answer, which is worse than one that is away: no call waits for it for long."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections
from pytest_django import Settings

from governance import replays
from governance.changes.settings import store_setting
from governance.gateway import deadline
from governance.models import AccessKey
from governance.shared_state.table import TableStore
from routing.core.breaker import CircuitState
from tests.authors import SOMEBODY
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Conversation, Reply, elapsed, question
from tests.governance.gateway.upstream import ROLE, answers, chunk_of, fails, usage_chunk
from tests.servers.fake_provider import Pause, Stall, events
from tests.servers.web import wait_until

ENOUGH = 1.5
"""Seconds within which a call ends that has patience for a fifth of one."""


class Hanging:
    """What does not answer until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._answering = threading.Event()
        self.asked = 0

    def hang(self, owner: Any, name: str) -> None:
        """Let a function hang, and do what it does afterwards."""
        function: Callable[..., Any] = getattr(owner, name)

        def wait(*args: Any, **settings: Any) -> Any:
            self.asked += 1
            self._answering.wait(10)
            try:
                return function(*args, **settings)
            finally:
                connections.close_all()

        self._monkeypatch.setattr(owner, name, wait)

    def answer(self) -> None:
        self._answering.set()


@pytest.fixture
def hanging(world: World, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Hanging]:
    settings.REDIS_URL = None
    monkeypatch.setattr(deadline, "PATIENCE", 0.2)
    made = Hanging(monkeypatch)
    yield made
    made.answer()
    wait_until(lambda: not world.gateway.service.services.owed)


def named(world: World, name: str = "order-17") -> Conversation:
    return world.gateway.begin(question(temperature=0), headers={"idempotency-key": name})


def in_time(ask: Callable[[], Reply]) -> Reply:
    replies: list[Reply] = []
    assert elapsed(lambda: replies.append(ask())) < ENOUGH
    return replies[0]


def test_a_name_that_cannot_be_looked_up_sends_nothing(world: World, hanging: Hanging) -> None:
    hanging.hang(replays, "claim")
    reply = in_time(lambda: named(world).reply())
    assert (reply.status, reply.headers["retry-after"], world.asked) == (503, "1", [0, 0, 0])
    hanging.answer()
    wait_until(lambda: not world.gateway.service.services.owed)  # it was taken late, and given back
    world.script(answers())
    assert named(world).reply().status == 200


def test_an_answer_does_not_wait_until_it_is_kept(world: World, hanging: Hanging) -> None:
    hanging.hang(replays, "keep")
    world.script(answers())
    first = in_time(lambda: named(world).reply())
    hanging.answer()
    again = named(world).reply()  # its twin waits for that
    assert (first.status, again.body, world.asked) == (200, first.body, [1, 0, 0])


def test_a_cache_that_cannot_be_looked_into_is_done_without(world: World, hanging: Hanging) -> None:
    world.configuration.cache_seconds = 600
    world.configuration.save()
    world.gateway.refresh()
    hanging.hang(replays, "claim")
    world.script(answers())
    reply = in_time(lambda: world.gateway.chat(temperature=0))
    assert (reply.status, reply.headers["x-signalbox-cache"], hanging.asked) == (200, "miss", 1)


def test_limits_that_cannot_be_counted_send_nothing(world: World, hanging: Hanging) -> None:
    key = AccessKey.objects.get(pk=world.configuration_key)
    key.requests_per_minute = 5
    key.save()
    world.gateway.refresh()
    hanging.hang(TableStore, "meter")
    world.script(answers())
    reply = in_time(lambda: world.gateway.chat())
    assert (reply.status, reply.headers["retry-after"], world.asked) == (503, "1", [0, 0, 0])
    hanging.answer()
    wait_until(lambda: not world.gateway.service.services.owed)
    assert world.gateway.chat().headers["x-ratelimit-remaining-requests"] == "4"  # it was given back


def test_a_probe_goes_on_without_the_others(world: World, hanging: Hanging) -> None:
    world.script(fails(503), answers())
    world.gateway.chat()
    hanging.hang(TableStore, "add")
    world.script(answers())
    wait_until(lambda: route(world) is not CircuitState.RESTING)
    reply = in_time(lambda: world.gateway.chat())
    assert (reply.headers["x-signalbox-route"], hanging.asked > 0) == ("prod-east/fast", True)
    assert route(world) is CircuitState.CLOSED


def test_whoever_leaves_while_a_probe_is_asked_for_leaves_no_lease(
    world: World, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is taken after the caller has gone, and would keep every process from trying the route."""
    world.script(fails(503), answers())
    world.gateway.chat()
    wait_until(lambda: route(world) is not CircuitState.RESTING)
    monkeypatch.setattr(deadline, "PATIENCE", 5.0)
    hanging.hang(TableStore, "add")
    conversation = world.gateway.begin_chat()
    wait_until(lambda: hanging.asked > 0)
    conversation.hang_up()
    conversation.finish()
    hanging.answer()
    wait_until(lambda: not world.gateway.service.services.owed)
    world.gateway.refresh()
    world.script(answers())
    assert world.gateway.chat().headers["x-signalbox-route"] == "prod-east/fast"


def test_a_twin_waits_no_longer_than_its_own_deadline(world: World) -> None:
    world.script([Pause(3), *answers()])
    first = named(world)
    world.wait_for_request(0)
    store_setting("gateway.deadlineSeconds", 1, author=SOMEBODY)
    world.gateway.refresh()
    reply = in_time(lambda: named(world).reply())
    assert (reply.status, reply.error["type"], reply.error["code"]) == (504, "timeout", "deadline")
    first.hang_up()
    first.finish()


def route(world: World) -> CircuitState:
    return world.gateway.service.circuits.state(world.models[0].identifier).state


def test_a_provider_is_let_go_before_what_it_used_is_booked(
    world: World, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "PATIENCE", 5.0)
    key = AccessKey.objects.get(pk=world.configuration_key)
    key.tokens_per_minute = 100_000
    key.save()
    world.gateway.refresh()
    world.script(events(ROLE, usage_chunk(), chunk_of({"content": "Left "}), end=[Stall()]))
    conversation = world.gateway.begin_chat(stream=True)
    conversation.wait_for(b"Left")
    (request,) = world.upstreams[0].requests
    hanging.hang(TableStore, "meter")
    left_at = time.monotonic()
    conversation.hang_up()
    world.gateway.threads.run(request.client_closed.wait(), seconds=5.0)
    assert time.monotonic() - left_at < 1.0
    wait_until(lambda: hanging.asked == 1)
    hanging.answer()
    conversation.finish()
