"""A route that failed rests: calls pass it over, say so, and one of them tries it when its rest is over."""

import threading
from datetime import UTC, datetime

import pytest

from governance.shared_state.table import TableStore
from routing.circuits import Circuits
from routing.core.breaker import CircuitState
from routing.core.sharing import StoreAway
from routing.core.vocabulary import RestCause
from telemetry.health import read_health
from tests.governance.gateway.conftest import World, relist
from tests.governance.gateway.upstream import DONE, ROLE, STOP, answers, chunk_of, fails, streams
from tests.servers.fake_provider import Reset, Script, Stall, events
from tests.servers.web import wait_until

TEXT = chunk_of({"content": "Left "})


def state(world: World, model: str = "fast") -> CircuitState:
    return world.gateway.service.circuits.state(model).state


@pytest.mark.parametrize("stream", [False, True])
def test_a_route_that_rests_is_passed_over_and_said_to_be(world: World, stream: bool) -> None:
    answer = streams() if stream else answers()
    world.script(fails(503), answer)
    assert world.gateway.chat(stream=stream).headers["x-signalbox-fell-through"] == "prod-east/fast (transient)"
    sent = world.asked[0]
    reply = world.gateway.chat(stream=stream)
    assert (reply.status, world.asked[0]) == (200, sent)
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (resting)"
    assert reply.headers["x-signalbox-route"] == "prod-west/wise"
    call = world.calls()[-1]
    assert [(each.model, each.skip_reason) for each in call.attempts.order_by("index")] == [
        ("fast", "resting"),
        ("wise", ""),
    ]
    assert (call.success, call.first_failure_kind, call.fallback_attempts) == (True, "", 0)
    assert read_health(now=datetime.now(UTC))["openai"].samples == 1  # a rest is no sample


def test_when_every_route_rests_the_caller_is_told_for_how_long(world: World) -> None:
    world.script(fails(429, headers={"retry-after": "7"}), fails(401), fails(404))
    assert world.gateway.chat().status >= 400
    sent = sum(world.asked)
    reply = world.gateway.chat()
    assert (reply.status, reply.error["type"], sum(world.asked)) == (503, "transient", sent)
    assert reply.headers["retry-after"] == "7"
    assert reply.headers["x-should-retry"] == "false"
    assert reply.headers["x-signalbox-attempts"] == "0"
    message = reply.error["message"]
    assert "prod-east/fast: rests for another 7 s (The provider limits our rate)" in message
    assert "prod-west/wise: rests for another 300 s (The provider refuses our key)" in message
    assert "lab/huge: rests for another 300 s (The provider does not know the model)" in message


def test_a_failed_key_settles_for_five_minutes(world: World) -> None:
    world.script(fails(401), answers())
    assert world.gateway.chat().status == 200
    asked = world.asked[0]
    world.let_rest(seconds=299)
    assert world.gateway.chat().headers["x-signalbox-fell-through"] == "prod-east/fast (resting)"
    world.let_rest(seconds=1)
    assert world.gateway.chat().headers["x-signalbox-fell-through"] == "prod-east/fast (auth)"
    assert world.asked[0] == asked + 1


@pytest.mark.parametrize("stream", [False, True])
def test_the_first_call_after_a_rest_tries_the_route(world: World, stream: bool) -> None:
    answer = streams() if stream else answers()
    world.script(fails(503), answer)
    world.gateway.chat(stream=stream)
    world.script(answer)
    assert state(world) is CircuitState.HALF_OPEN
    assert world.gateway.chat(stream=stream).headers["x-signalbox-route"] == "prod-east/fast"
    assert state(world) is CircuitState.CLOSED
    assert not world.gateway.service.circuits.counts


def test_while_one_call_tries_a_route_others_pass_it_over(world: World) -> None:
    world.script(fails(503), answers())
    world.gateway.chat()
    world.script(events(ROLE, end=[Stall()]))
    world.forget()
    probe = world.gateway.begin_chat(stream=True)
    world.wait_for_request(0)
    reply = world.gateway.chat()
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (resting)"
    assert world.asked == [1, 1, 0]
    probe.hang_up()
    probe.finish()
    wait_until(lambda: state(world) is CircuitState.HALF_OPEN)  # cancelled, it says nothing
    world.script(answers())
    assert world.gateway.chat().headers["x-signalbox-route"] == "prod-east/fast"


def test_a_probe_serves_with_its_first_token(world: World) -> None:
    world.script(fails(503), answers())
    world.gateway.chat()
    world.script(events(ROLE, TEXT, end=[Stall()]))
    probe = world.gateway.begin_chat(stream=True)
    probe.wait_for(b"Left")
    assert state(world) is CircuitState.CLOSED
    probe.hang_up()
    probe.finish()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (events(ROLE, TEXT, end=[Reset()]), CircuitState.RESTING),
        (events(ROLE, TEXT, STOP, DONE), CircuitState.CLOSED),
    ],
)
def test_a_stream_is_heard_of_at_its_end(world: World, script: Script, expected: CircuitState) -> None:
    world.script(script)
    world.gateway.chat(stream=True)
    assert state(world) is expected


@pytest.mark.parametrize("fault", [fails(400), fails(422)])
def test_a_request_at_fault_rests_no_route(world: World, fault: Script) -> None:
    world.script(fault)
    for _ in range(3):
        assert world.gateway.chat().status == 400
    assert (world.asked[0], state(world)) == (3, CircuitState.CLOSED)


def test_a_probe_whose_request_is_at_fault_decides_nothing(world: World) -> None:
    world.script(fails(503), answers())
    world.gateway.chat()
    world.script(fails(400))
    assert world.gateway.chat().status == 400
    assert state(world) is CircuitState.HALF_OPEN
    world.script(fails(503), answers())
    world.gateway.chat()
    assert state(world) is CircuitState.RESTING


def test_other_processes_hear_of_a_rest_at_once_and_this_one_of_theirs(world: World) -> None:
    elsewhere = Circuits(store=TableStore())
    world.script(fails(401), answers())
    world.gateway.chat()

    def is_known() -> bool:
        elsewhere.share(["fast"])
        return elsewhere.state("fast").state is CircuitState.RESTING

    wait_until(is_known)  # told, although nothing polls in these tests
    assert elsewhere.state("fast").remaining == pytest.approx(300, abs=5)
    elsewhere.rest("wise", seconds=60, cause=RestCause.PAUSED)
    elsewhere.clear("fast")
    elsewhere.share([])
    world.gateway.refresh()
    assert (state(world), state(world, "wise")) == (CircuitState.CLOSED, CircuitState.RESTING)


def test_a_call_over_healthy_routes_asks_the_store_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.gateway.chat()
    asked: list[str] = []
    shared = world.gateway.service.shared

    def note(question: object) -> None:
        asked.append(threading.current_thread().name)
        raise AssertionError("the store was asked")

    monkeypatch.setattr(shared, "_ask", note)
    for stream in (False, True):
        world.script(streams() if stream else answers())
        assert world.gateway.chat(stream=stream).status == 200
    assert asked == []


def test_a_store_that_is_away_keeps_no_call_from_its_probe(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: object, *_: object, **__: object) -> None:
        raise StoreAway("gone")

    for name in ("read", "add", "swap", "remove"):
        monkeypatch.setattr(TableStore, name, away)
    world.script(fails(503), answers())
    world.gateway.chat()
    world.script(answers())
    assert world.gateway.chat().headers["x-signalbox-route"] == "prod-east/fast"
    assert state(world) is CircuitState.CLOSED
    assert world.gateway.service.shared.seconds_away() is not None


def test_one_route_alone_rests_as_well(world: World) -> None:
    relist(world.configuration, world.models[:1])
    world.gateway.refresh()
    world.script(fails(503))
    assert world.gateway.chat().status == 503
    sent = world.asked[0]
    reply = world.gateway.chat()
    assert (reply.status, reply.headers["retry-after"], world.asked[0]) == (503, "1", sent)
