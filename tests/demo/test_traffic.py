"""The generator asks what applications ask, says where it comes from, and outlives what goes wrong."""

import logging
import random
import threading
import time

import pytest

from governance.demo.habits import HABITS, Habit
from governance.demo.traffic import Traffic, body_of, send
from routing.core.vocabulary import Operation
from tests.servers.ports import find_free_port
from tests.servers.simulator import SimulatorServer

LIVE = [habit for habit in HABITS if habit.live]
KEYS = {habit.application: f"sb-{habit.application}" for habit in LIVE}


def run_for(traffic: Traffic, *, seconds: float) -> float:
    """Run a generator and stop it; gives how long it took to stop."""
    thread = threading.Thread(target=traffic.run)
    thread.start()
    time.sleep(seconds)
    told = time.monotonic()
    traffic.stop()
    thread.join(10)
    assert not thread.is_alive()
    return time.monotonic() - told


@pytest.mark.parametrize("habit", LIVE, ids=lambda habit: f"{habit.configuration}-{habit.operation.value}")
def test_every_live_habit_is_a_request_of_its_operation(simulator: SimulatorServer, habit: Habit) -> None:
    body = body_of(habit, random.Random(1))
    assert send(simulator.base_url(), key="sb-1", body=body) == 200
    assert body["model"] == habit.configuration
    assert body.get("stream", False) is (habit.operation in (Operation.STREAM, Operation.STREAM_TOOLS))
    assert ("tools" in body) is (habit.operation in (Operation.TOOLS, Operation.STREAM_TOOLS))
    assert ("image_url" in str(body["messages"])) is (habit.operation is Operation.VISION)


def test_calls_say_that_they_are_the_demos(simulator: SimulatorServer) -> None:
    traffic = Traffic(base=simulator.base_url(), keys=KEYS, every=0.02)
    run_for(traffic, seconds=0.6)
    requests = simulator.requests()
    assert len(requests) > 5
    assert all(request.headers["x-signalbox-source"] == "demo" for request in requests)
    assert len({request.model for request in requests}) > 1


def test_a_gateway_that_is_away_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="demo.traffic")
    traffic = Traffic(base=f"http://127.0.0.1:{find_free_port()}/v1", keys=KEYS, every=0.01)
    run_for(traffic, seconds=0.3)
    assert "ConnectionRefusedError" in caplog.text


def test_a_call_that_does_not_end_holds_up_neither_others_nor_the_stop(simulator: SimulatorServer) -> None:
    simulator.set_behaviour("*/*", latency={"mean_ms": 10_000})
    traffic = Traffic(base=simulator.base_url(), keys=KEYS, every=0.01)
    assert run_for(traffic, seconds=0.3) < 5
    assert 1 < simulator.stats()["peak_in_flight"] <= 6, "and there are never many at once"
