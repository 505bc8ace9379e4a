"""The circuits of routes in several processes: what one learns the others know, and nobody waits for anybody."""

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from governance.shared_state.memory import MemoryStore
from governance.shared_state.standby import SECONDS_LEFT_ALONE, StandbyStore
from routing.circuits import ELSEWHERE_SECONDS, KEPT_SECONDS, Circuits
from routing.core.breaker import PROBE_SECONDS, Admission, CircuitState
from routing.core.failures import Failure, FailureKind
from routing.core.sharing import SharedStore, StoreAway
from routing.core.vocabulary import RestCause

DOWN = Failure(FailureKind.TRANSIENT, "down")
GARBAGE = Failure(FailureKind.UNREADABLE, "garbage")
FAST = "fast"


class Counted(MemoryStore):
    """A store that counts who asks it, and can be away, lose everything, or go back to what it held before."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock=clock)
        self.asked = 0
        self.written = 0
        self.is_away = False
        self.copy()

    def _ask(self) -> None:
        self.asked += 1
        if self.is_away:
            raise StoreAway("gone")

    def lose(self) -> None:
        self._kept.clear()

    def copy(self) -> None:
        self._copied = dict(self._kept)

    def restore(self) -> None:
        self._kept = dict(self._copied)

    def read(self, keys: Sequence[str]) -> Mapping[str, str]:
        self._ask()
        return super().read(keys)

    def swap(self, key: str, value: str, *, expected: str | None, seconds: float) -> bool:
        self._ask()
        self.written += 1
        return super().swap(key, value, expected=expected, seconds=seconds)


class Processes:
    """Processes that share a store, under one clock; with ``standby`` each goes by its own memory while that is away,
    as installations do."""

    def __init__(self, number: int = 2, *, standby: bool = False) -> None:
        self.now = 5000.0
        self._standby = standby
        self.store = Counted(lambda: self.now)
        self.told = 0
        # Clocks that are never set begin anywhere; the one on the wall is everybody's.
        self.all = [self.circuits(at) for at in range(number)]

    def circuits(self, at: int) -> Circuits:
        def hear() -> None:
            self.told += 1

        store: SharedStore = self.store
        if self._standby:
            store = StandbyStore(store, memory=MemoryStore(clock=lambda: self.now), clock=lambda: self.now)
        return Circuits(
            store=store,
            clock=lambda: self.now + 1000.0 * at,
            wall=lambda: self.now + 1_700_000_000.0,
            on_change=hear,
        )

    def share(self) -> None:
        """Everybody tells, then everybody hears."""
        for _ in range(2):
            for each in self.all:
                each.share([FAST])


def fail(circuits: Circuits, failure: Failure = DOWN) -> None:
    circuits.failed(FAST, ask(circuits), failure)


def ask(circuits: Circuits) -> Admission:
    admission = circuits.admit(FAST)
    assert admission is not None
    assert not admission.probe or circuits.confirm(FAST, admission)
    return admission


def seen(circuits: Circuits) -> tuple[CircuitState, float, int]:
    state = circuits.state(FAST)
    return state.state, round(state.remaining, 3), state.failures


def test_a_healthy_route_costs_no_round_trip() -> None:
    processes = Processes(1)
    (here,) = processes.all
    for _ in range(100):
        here.served(FAST, ask(here))
    assert (processes.store.asked, processes.told) == (0, 0)
    for _ in range(100):
        here.share([FAST])
    assert (processes.store.asked, processes.store.written) == (100, 0)  # one reading for all routes each time


def test_what_one_process_learns_the_other_knows() -> None:
    processes = Processes()
    here, there = processes.all
    fail(here)
    assert there.admit(FAST) is not None  # nobody has told it yet
    processes.share()
    processes.now += 0.25
    assert seen(there) == seen(here) == (CircuitState.RESTING, 0.75, 1)
    assert (there.admit(FAST), here.admit(FAST)) == (None, None)
    assert there.counts == {FAST: 1}
    state = there.states()[FAST]
    assert (state.cause, state.kind, state.seconds) == (RestCause.FAILURES, FailureKind.TRANSIENT, 1.0)
    written = processes.store.written
    processes.share()
    assert processes.store.written == written  # what has not changed is not written


def test_one_call_of_all_processes_is_the_probe() -> None:
    processes = Processes(3)
    here, there, third = processes.all
    fail(here)
    processes.share()
    processes.now += 1
    probe, rival = here.admit(FAST), there.admit(FAST)
    assert probe is not None
    assert rival is not None
    assert here.admit(FAST) is None  # in its own process nobody even asks
    assert here.confirm(FAST, probe)
    assert not there.confirm(FAST, rival)
    assert there.admit(FAST) is None
    processes.now += ELSEWHERE_SECONDS
    again = there.admit(FAST)
    assert again is not None
    assert not there.confirm(FAST, again)
    here.served(FAST, probe)
    processes.share()
    assert [seen(each) for each in processes.all] == [(CircuitState.CLOSED, 0.0, 0)] * 3
    there.failed(FAST, rival, DOWN)  # an answer of the time before
    assert seen(there)[0] is CircuitState.CLOSED
    fail(third)
    processes.now += 1
    ask(third)  # the lease of the probe before was given back


def test_a_probe_without_a_word_lets_another_process_try() -> None:
    processes = Processes()
    here, there = processes.all
    fail(here)
    processes.share()
    processes.now += 1
    here.unheard(FAST, ask(here))
    ask(here)
    rival = there.admit(FAST)
    assert rival is not None
    assert not there.confirm(FAST, rival)
    processes.now += PROBE_SECONDS  # the probe never reports
    ask(there)


def test_a_rest_is_told_again_to_a_store_that_lost_it() -> None:
    processes = Processes()
    here, there = processes.all
    fail(here, Failure(FailureKind.AUTH, "no"))
    processes.share()
    processes.store.lose()
    there.share([FAST])  # finds it gone
    there.share([FAST])
    new = processes.circuits(7)
    new.share([FAST])
    assert seen(new) == seen(here) == (CircuitState.RESTING, 300.0, 1)


def test_while_the_store_is_away_each_goes_by_what_it_knows() -> None:
    processes = Processes()
    here, there = processes.all
    processes.store.is_away = True
    fail(here)
    with pytest.raises(StoreAway):
        here.share([FAST])
    assert (here.admit(FAST), seen(there)[0]) == (None, CircuitState.CLOSED)
    fail(there, Failure(FailureKind.RATE_LIMITED, "slow", retry_after=40.0))
    processes.store.is_away = False
    processes.share()
    assert seen(here) == seen(there) == (CircuitState.RESTING, 40.0, 1)  # the longer one


def outage(processes: Processes, change: Any) -> None:
    processes.store.is_away = True
    change()
    processes.share()
    processes.store.is_away = False
    processes.now += SECONDS_LEFT_ALONE


def older_copy(processes: Processes, change: Any) -> None:
    processes.store.copy()
    change()
    processes.share()
    processes.store.restore()


@pytest.mark.parametrize("misfortune", [outage, older_copy])
@pytest.mark.parametrize(
    ("change", "becomes", "seconds"),
    [
        (lambda here: here.rest(FAST, seconds=900.0, cause=RestCause.PAUSED), CircuitState.RESTING, 900.0),
        (lambda here: here.clear(FAST), CircuitState.CLOSED, 0.0),
        (lambda here: fail(here, Failure(FailureKind.AUTH, "no")), CircuitState.RESTING, 300.0),
    ],
)
def test_a_store_that_holds_what_was_before_is_told_again(
    misfortune: Any, change: Any, becomes: CircuitState, seconds: float
) -> None:
    processes = Processes(standby=True)
    here, there = processes.all
    fail(here)
    processes.share()
    processes.now += 1.0  # the rest is over, and what is known of the route is in the store
    misfortune(processes, lambda: change(here))
    began = processes.now
    processes.share()
    processes.share()
    new = processes.circuits(7)
    new.share([FAST])
    for each in (here, there, new):
        state, remaining, _ = seen(each)
        assert state is becomes
        assert seconds - 1.0 <= remaining <= seconds
    assert processes.now == began


class Busy(dict[str, Any]):
    """What is known, while calls of another thread make more known."""

    def __init__(self, here: Circuits, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self._here = here

    def items(self) -> Any:
        for each in super().items():
            call = threading.Thread(target=fail, args=(self._here,))
            call.start()
            call.join(0.1)
            yield each


def test_routes_become_known_while_others_are_told() -> None:
    processes = Processes(1)
    (here,) = processes.all
    here.rest("slow", seconds=60.0, cause=RestCause.PAUSED)
    here._known = Busy(here, here._known)
    here.share([])
    assert "circuit:slow" in processes.store.read(["circuit:slow"])


def test_a_clock_on_the_wall_that_is_set_back_holds_nothing() -> None:
    processes = Processes()
    here, _ = processes.all
    fail(here)
    here.share([FAST])
    wall, late = 1_700_000_000.0, 0.0
    back = Circuits(store=processes.store, clock=lambda: late, wall=lambda: wall - 3600)
    back.share([FAST])
    assert seen(back) == (CircuitState.RESTING, 1.0, 1)  # no longer than the whole of it
    late = 1.0
    assert seen(back)[0] is CircuitState.HALF_OPEN


def test_pausing_and_clearing_are_everybodys() -> None:
    processes = Processes()
    here, there = processes.all
    call = ask(there)
    here.rest(FAST, seconds=900.0, cause=RestCause.PAUSED)
    processes.share()
    assert (seen(there), there.state(FAST).cause) == ((CircuitState.RESTING, 900.0, 0), RestCause.PAUSED)
    there.served(FAST, call)  # it was under way before
    assert there.admit(FAST) is None
    there.clear(FAST)
    processes.share()
    assert seen(here) == (CircuitState.CLOSED, 0.0, 0)
    assert here.states() == {}


def test_failures_in_a_row_are_counted_as_they_change() -> None:
    here = Processes(1).all[0]
    live = here.counts
    here.served(FAST, ask(here))
    assert (here.generation, dict(live)) == (0, {})  # nothing has changed
    fail(here, GARBAGE)
    fail(here, GARBAGE)
    assert (here.generation, dict(live)) == (2, {FAST: 2})
    here.unheard(FAST, ask(here))
    here.served(FAST, ask(here))
    assert (here.generation, dict(live)) == (3, {})
    with pytest.raises(TypeError):
        live[FAST] = 1  # type: ignore[index]


def test_what_nobody_asks_for_is_forgotten() -> None:
    processes = Processes()
    here, there = processes.all
    fail(here, GARBAGE)
    processes.share()
    processes.now += KEPT_SECONDS
    processes.share()
    assert (dict(here.counts), dict(there.counts), processes.store.read([f"circuit:{FAST}"])) == ({}, {}, {})
    assert not here._known


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '{"generation": 1}', '{"generation":1,"failures":1,"trips":1,"rest":7}']
)
def test_something_else_in_the_store_is_no_circuit(text: str, caplog: pytest.LogCaptureFixture) -> None:
    processes = Processes()
    here, there = processes.all
    processes.store.put(f"circuit:{FAST}", text, seconds=60)
    with caplog.at_level(logging.WARNING):
        processes.share()
        assert seen(here)[0] is CircuitState.CLOSED
        fail(here)
        processes.share()
    assert seen(there)[0] is CircuitState.RESTING
    assert len(caplog.records) <= 3


def test_the_store_holds_no_more_than_the_circuit() -> None:
    processes = Processes(1)
    fail(processes.all[0], Failure(FailureKind.RATE_LIMITED, "as your prompt said: sesame", retry_after=7.0))
    processes.share()
    held = json.loads(processes.store.read([f"circuit:{FAST}"])[f"circuit:{FAST}"])
    assert held == {
        "generation": 1,
        "failures": 1,
        "trips": 1,
        "rest": {"until": 1_700_005_007.0, "seconds": 7.0, "cause": "failures", "kind": "rate_limited"},
    }


# --- Whatever happens, in whichever order ----------------------------------------------------------------------------


class Fleet(RuleBasedStateMachine):
    """Three processes, calls that end whenever they like, and a store that is away or loses everything meanwhile."""

    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.processes = Processes(3, standby=True)

    at = st.integers(0, 2)

    @rule(target=calls, at=at)
    def call(self, at: int) -> Any:
        circuits = self.processes.all[at]
        state = circuits.state(FAST).state
        admission = circuits.admit(FAST)
        assert (admission is None) is (state in (CircuitState.RESTING, CircuitState.PROBING))
        if admission is None:
            return multiple()
        if admission.probe and not circuits.confirm(FAST, admission):
            return multiple()
        return at, admission

    @rule(call=calls, failure=st.sampled_from([DOWN, GARBAGE, Failure(FailureKind.AUTH, "no")]))
    def fails(self, call: tuple[int, Admission], failure: Failure) -> None:
        self.processes.all[call[0]].failed(FAST, call[1], failure)

    @rule(call=calls)
    def is_served(self, call: tuple[int, Admission]) -> None:
        self.processes.all[call[0]].served(FAST, call[1])

    @rule(call=calls)
    def is_cancelled(self, call: tuple[int, Admission]) -> None:
        self.processes.all[call[0]].unheard(FAST, call[1])

    @rule(seconds=st.sampled_from([0.3, 1.0, 31.0, 301.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        self.processes.now += seconds

    @rule(at=at)
    def shares(self, at: int) -> None:
        self.processes.all[at].share([FAST])

    @rule()
    def the_store_goes_or_comes(self) -> None:
        self.processes.store.is_away = not self.processes.store.is_away

    @rule()
    def the_store_loses_everything(self) -> None:
        self.processes.store.lose()

    @rule()
    def the_store_is_copied(self) -> None:
        self.processes.store.copy()

    @rule()
    def the_store_goes_back(self) -> None:
        self.processes.store.restore()

    @rule(at=at)
    def is_paused(self, at: int) -> None:
        self.processes.all[at].rest(FAST, seconds=60.0, cause=RestCause.PAUSED)

    @rule(at=at)
    def is_cleared(self, at: int) -> None:
        self.processes.all[at].clear(FAST)
        assert self.processes.all[at].state(FAST).state is CircuitState.CLOSED

    @rule()
    def everybody_agrees_in_the_end(self) -> None:
        self.processes.store.is_away = False
        self.processes.now += SECONDS_LEFT_ALONE
        for _ in range(3):
            self.processes.share()
        resting = {seen(each)[:2] for each in self.processes.all if seen(each)[0] is CircuitState.RESTING}
        open_or_not = {each.state(FAST).cause is None for each in self.processes.all}
        assert len(resting) <= 1
        assert len(open_or_not) == 1
        assert len({each.state(FAST).failures for each in self.processes.all}) == 1

    @invariant()
    def nobody_is_held_for_ever(self) -> None:
        before = self.processes.now
        self.processes.now += 300.0 + PROBE_SECONDS
        for each in self.processes.all:
            assert each.state(FAST).state in (CircuitState.CLOSED, CircuitState.HALF_OPEN)
        self.processes.now = before


TestFleet = Fleet.TestCase
TestFleet.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
