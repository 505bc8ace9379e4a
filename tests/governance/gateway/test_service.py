"""The process behind the gateway: opens whatever the state of things, goes on whatever happens, ends in order."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connections
from starlette.types import Message

from budgets.models import Hold
from governance.changes.records import retire, switch
from governance.changes.settings import store_setting
from governance.gateway import bridge as bridge_module
from governance.gateway import service
from governance.gateway.bridge import Bridge
from governance.models import NamedCall
from governance.project.asgi import application
from routing.core.policy import PolicyMode
from telemetry.models import Call
from telemetry.recorder import Recorder
from tests.authors import SOMEBODY
from tests.factories import BudgetFactory
from tests.governance.alerts.rows import webhook
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import LoopThread, elapsed, question
from tests.governance.gateway.test_queries import counted
from tests.governance.gateway.upstream import ROLE, answers, chunk_of, fails, streams
from tests.servers.fake_provider import Pause, Script, Stall, events
from tests.servers.web import wait_until

AWAY: list[Callable[[], Exception]] = [
    lambda: OperationalError("away"),
    lambda: InterfaceError("the connection is closed"),
    lambda: LookupError("a fault of ours"),
]


@pytest.mark.parametrize("error", AWAY, ids=["operational", "interface", "ours"])
def test_the_writer_outlives_whatever_goes_wrong(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception]
) -> None:
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.02)
    tries = {"failed": 0}
    flush = Recorder.flush

    def fail_at_first(self: Recorder, **settings: Any) -> int:
        if tries["failed"] < 3:
            tries["failed"] += 1
            raise error()
        return flush(self, **settings)

    monkeypatch.setattr(Recorder, "flush", fail_at_first)
    assert world.gateway.chat().status == 200
    wait_until(lambda: Call.objects.count() == 1)
    assert tries["failed"] == 3
    assert world.gateway.chat().status == 200
    wait_until(lambda: Call.objects.count() == 2)


def test_a_row_that_cannot_be_made_does_not_cost_the_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("a fault of ours")

    monkeypatch.setattr("governance.gateway.middleware.telemetry.complexity", fail)
    assert world.gateway.chat().status == 200
    world.script(streams())
    reply = world.gateway.chat(stream=True)
    assert reply.frames[-1] == b"[DONE]"
    assert caplog.text.count("could not be recorded") == 2


def test_whoever_closes_waits_for_calls_and_writes_their_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.script([Pause(0.3), *answers()])
    conversation = world.gateway.begin_chat()
    world.wait_for_request(0)
    assert elapsed(world.gateway.close) > 0.2
    assert conversation.reply().status == 200
    assert Call.objects.get().success
    world.gateway.open()


def test_whoever_closes_does_not_wait_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "DRAIN_SECONDS", 0.1)
    world.script([Pause(5), *answers()])
    world.gateway.begin_chat()
    world.wait_for_request(0)
    assert elapsed(world.gateway.close) < 2
    world.gateway.open()


@pytest.mark.parametrize(
    "script", [[Stall()], events(ROLE, chunk_of({"content": "Left "}), end=[Stall()])], ids=["whole", "stream"]
)
def test_a_call_that_takes_too_long_is_ended_and_has_its_row(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, script: Script
) -> None:
    """As if its caller had left: the provider is let go, what was reserved is booked, the name is free again."""
    monkeypatch.setattr(service, "DRAIN_SECONDS", 0.1)
    BudgetFactory()
    world.gateway.refresh()
    world.script(script)
    stream = len(script) > 1
    conversation = world.gateway.begin(question(stream=stream), headers={"idempotency-key": "order-17"})
    world.wait_for_request(0)
    if stream:
        conversation.wait_for(b"Left")
    world.gateway.close()
    call = Call.objects.get()
    assert (call.success, call.failure_kind, call.requests_sent) == (False, "cancelled", 1)
    assert [each.is_uncertain for each in Hold.objects.all()] == [True]
    assert not NamedCall.objects.exists()
    assert "1 calls are ended" in caplog.text
    wait_until(lambda: world.upstreams[0].busy_connections == 0)
    world.gateway.open()


def test_closing_without_a_database_says_what_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Recorder, **_: Any) -> int:
        raise InterfaceError("the connection is closed")

    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "flush", fail)
        world.gateway.chat()
        world.gateway.close()
    assert "1 records of calls were lost" in caplog.text
    world.gateway.open()


def test_closing_does_not_wait_for_a_database_that_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither for the last flush nor for one that hangs already."""
    answering, hanging = threading.Event(), list[threading.Thread]()

    def hang(self: Recorder, **_: Any) -> int:
        hanging.append(threading.current_thread())
        answering.wait(20)
        connections.close_all()
        return 0

    monkeypatch.setattr(service, "FLUSH_SECONDS", 0.1)
    monkeypatch.setattr(bridge_module, "CLOSE_SECONDS", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "flush", hang)
        world.gateway.chat()
        took = elapsed(world.gateway.close)
        answering.set()
        for thread in hanging:
            thread.join(5)
    assert took < 3
    assert "1 records of calls were lost" in caplog.text
    assert "are left behind" in caplog.text
    world.gateway.open()


def test_closing_has_an_end_when_nothing_answers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever holds the threads, a call that does not end and an errand that does not either."""
    answering = threading.Event()

    def hang() -> None:
        answering.wait(10)
        connections.close_all()

    async def go_on() -> None:
        while not answering.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    async def begin() -> None:
        inside = world.gateway.service
        for _ in range(bridge_module.THREADS):
            stuck.append(asyncio.create_task(inside.cross(hang)))
        inside.services.owe(asyncio.sleep(10))
        call = asyncio.create_task(go_on())
        inside._serving.add(call)
        stuck.append(call)

    stuck = list[asyncio.Task[None]]()
    monkeypatch.setattr(service, "DRAIN_SECONDS", 0.1)
    monkeypatch.setattr(service, "FLUSH_SECONDS", 0.1)
    monkeypatch.setattr(service, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(bridge_module, "CLOSE_SECONDS", 0.1)
    world.gateway.threads.run(begin())
    took = elapsed(world.gateway.close)
    answering.set()
    world.gateway.threads.run(asyncio.wait(stuck))
    assert took < service.seconds_to_close() + 1.0
    world.gateway.open()


def test_requests_turned_away_are_reported_now_and_then(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.gateway.close()
    monkeypatch.setattr(service, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(service, "REPORT_SECONDS", 0.0)
    world.gateway.open()
    for _ in range(3):
        world.gateway.request(b"{}", key="sb-unknown")
    wait_until(lambda: "turned away" in caplog.text)
    wait_until(lambda: not world.gateway.service.turned_away)


def test_a_call_is_answered_by_what_was_in_force_when_it_began(world: World) -> None:
    """A route that is switched off meanwhile serves the calls that were under way."""
    world.script([Pause(0.3), *answers()])
    conversation = world.gateway.begin_chat()
    world.wait_for_request(0)
    for model in world.models:
        model.is_active = False
        model.save()
    world.gateway.refresh()
    assert world.gateway.chat().status == 400
    assert conversation.reply().status == 200


def test_a_page_asks_the_standing_that_calls_are_decided_by(world: World) -> None:
    """It sees what was changed a moment ago, and the failures in a row that this process and others have counted."""
    world.script(fails(503), answers())
    assert world.gateway.chat().status == 200
    store_setting("routing.policyMode", "economy", author=SOMEBODY)
    standing = service.standing_now()
    assert standing.settings.routing.mode is PolicyMode.ECONOMY
    assert standing.figures.failures_in_a_row == {"fast": 1}
    in_force = world.gateway.service.in_force
    assert in_force is not None
    assert in_force.standing is standing
    world.gateway.close()
    elsewhere = service.standing_now()
    assert elsewhere.settings.routing.mode is PolicyMode.ECONOMY
    assert elsewhere.figures.failures_in_a_row == {"fast": 1}
    world.gateway.open()


# --- The server's lifespan ------------------------------------------------------------------------------------------


def test_a_gateway_that_cannot_be_opened_stops_the_server(
    loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception would be taken for "no lifespan here", and the server would go on without a gateway."""
    monkeypatch.setattr("governance.project.asgi.open_service", _fail)
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        sent.append(message)

    loop_thread.run(application({"type": "lifespan"}, receive, send))
    assert sent == [{"type": "lifespan.startup.failed", "message": "no key to open anything with"}]


async def _fail() -> None:
    raise LookupError("no key to open anything with")


# --- The bridge -----------------------------------------------------------------------------------------------------


def test_a_bridge_has_so_many_threads_and_no_more(loop_thread: LoopThread) -> None:
    bridge = Bridge(threads=2)

    async def cross_often() -> float:
        started = time.monotonic()
        await asyncio.gather(*(bridge.cross(time.sleep, 0.05) for _ in range(6)))
        return time.monotonic() - started

    took = loop_thread.run(cross_often())
    bridge.close()
    assert 0.14 < took < 1


def test_what_goes_wrong_beyond_the_bridge_comes_back(loop_thread: LoopThread) -> None:
    bridge = Bridge(threads=1)

    def work(first: Any, *, second: Any) -> Any:
        if second is None:
            raise LookupError(first)
        return first, second

    assert loop_thread.run(bridge.cross(work, 1, second=2)) == (1, 2)
    with pytest.raises(LookupError, match="1"):
        loop_thread.run(bridge.cross(work, 1, second=None))
    bridge.close()


def test_alerts_are_looked_for_where_somebody_is_told_and_else_nothing_is_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()

    async def look(self: service.Service) -> int:
        looked.set()
        return 0

    monkeypatch.setattr(service, "ALERT_SECONDS", 0.01)
    monkeypatch.setattr(service.Service, "send_alerts", look)
    world.gateway.close()
    world.gateway.open()
    assert not looked.wait(0.2)
    pager = webhook()
    world.gateway.refresh()
    assert looked.wait(5)
    for leave in (partial(switch, pager, on=False), partial(retire, pager)):
        leave(author=SOMEBODY)
        world.gateway.refresh()
        looked.clear()
        assert not looked.wait(0.1)
        pager.is_active, pager.retired_at = True, None
        pager.save()
        world.gateway.refresh()
        assert looked.wait(5)


def test_that_somebody_is_told_is_looked_up_once_a_change(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(change: Callable[[], object]) -> int:
        with counted(monkeypatch) as statements:
            change()
            world.gateway.refresh()
        return sum("governance_webhook" in sql for thread, sql in statements if thread.startswith("bridge"))

    assert [asked(change) for change in (lambda: None, webhook, lambda: None)] == [0, 1, 0]
