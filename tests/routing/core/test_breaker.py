"""The circuit of one route: how long it rests, who may try it, and which answers count."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from routing.core.breaker import (
    LONGEST_STATED,
    PROBE_SECONDS,
    Admission,
    Circuit,
    CircuitState,
    Rest,
    cleared,
    failed,
    merged,
    probed,
    rest_after,
    rested,
    served,
    unheard,
)
from routing.core.failures import FAILURES, CircuitEffect, Failure, FailureKind
from routing.core.vocabulary import RestCause
from tests.routing.core.test_vectors import ROOT, VECTORS

NOW = 1000.0
DOWN = Failure(FailureKind.TRANSIENT, "down")
GARBAGE = Failure(FailureKind.UNREADABLE, "garbage")


def limited(wait: float | None) -> Failure:
    return Failure(FailureKind.RATE_LIMITED, "slow down", retry_after=wait)


def admitted(circuit: Circuit) -> Admission:
    return Admission(circuit.generation, "" if circuit.lease is None else circuit.lease.token)


def tripped(times: int) -> Circuit:
    """A circuit whose every probe failed."""
    circuit = Circuit()
    for _ in range(times):
        circuit = failed(circuit, admitted(circuit), DOWN, now=NOW)
    return circuit


# --- Rests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trips", "seconds"), [(1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (30, 60.0), (10**6, 60.0)]
)
@pytest.mark.parametrize("kind", [FailureKind.TRANSIENT, FailureKind.TIMEOUT, FailureKind.RATE_LIMITED])
def test_rests_double_up_to_a_minute(kind: FailureKind, trips: int, seconds: float) -> None:
    assert rest_after(Failure(kind, "x"), trips=trips) == seconds


@pytest.mark.parametrize("kind", [FailureKind.AUTH, FailureKind.NOT_FOUND, FailureKind.QUOTA_EXHAUSTED])
@pytest.mark.parametrize("trips", [1, 9])
def test_what_waiting_does_not_mend_settles(kind: FailureKind, trips: int) -> None:
    assert rest_after(Failure(kind, "x", retry_after=2.0), trips=trips) == 300.0


@pytest.mark.parametrize(("stated", "seconds"), [(0.25, 0.25), (90.0, 90.0), (1e9, LONGEST_STATED), (0.0, 0.0)])
def test_a_stated_wait_is_kept_exactly(stated: float, seconds: float) -> None:
    assert rest_after(limited(stated), trips=5) == seconds


@pytest.mark.parametrize(("stated", "seconds"), [(30.0, 30.0), (1.0, 4.0)])
def test_a_failing_provider_that_states_a_wait_rests_no_shorter(stated: float, seconds: float) -> None:
    assert rest_after(Failure(FailureKind.TRANSIENT, "x", retry_after=stated), trips=3) == seconds


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if FAILURES[kind].circuit is CircuitEffect.NONE])
def test_what_says_nothing_of_the_route_opens_nothing(kind: FailureKind) -> None:
    assert rest_after(Failure(kind, "x", retry_after=5.0), trips=9) is None


def test_only_what_trips_lengthens_rests() -> None:
    circuit = Circuit()
    for _ in range(5):
        circuit = failed(circuit, Admission(0), GARBAGE, now=NOW)
    assert (circuit.failures, circuit.trips, circuit.state(NOW)) == (5, 0, CircuitState.CLOSED)
    circuit = failed(circuit, Admission(0), DOWN, now=NOW)
    assert (circuit.failures, circuit.rest) == (6, Rest(NOW + 1, 1.0, RestCause.FAILURES, FailureKind.TRANSIENT))


@pytest.mark.parametrize("now", [NOW - 3600, NOW, NOW + 0.5, NOW + 1, NOW + 3600])
def test_what_is_left_of_a_rest_is_never_more_than_the_whole(now: float) -> None:
    rest = Rest(NOW + 1, 1.0, RestCause.FAILURES)
    assert rest.remaining(now) == {NOW - 3600: 1.0, NOW: 1.0, NOW + 0.5: 0.5}.get(now, 0.0)


def test_a_rest_of_nothing_is_over_at_once() -> None:
    assert failed(Circuit(), Admission(0), limited(0.0), now=NOW).state(NOW) is CircuitState.HALF_OPEN


# --- Probes ----------------------------------------------------------------------------------------------------------


def test_a_probe_that_is_served_closes() -> None:
    circuit = probed(tripped(3), token="p", now=NOW + 4)
    assert circuit.state(NOW + 4) is CircuitState.PROBING
    closed = served(circuit, Admission(circuit.generation, "p"))
    assert closed == Circuit(generation=circuit.generation + 1)


def test_a_probe_that_trips_opens_anew_and_longer() -> None:
    circuit = probed(tripped(1), token="p", now=NOW + 1)
    circuit = failed(circuit, Admission(1, "p"), DOWN, now=NOW + 1)
    assert (circuit.generation, circuit.trips, circuit.state(NOW + 2.9)) == (2, 2, CircuitState.RESTING)
    assert circuit.state(NOW + 3) is CircuitState.HALF_OPEN


def test_a_probe_that_fails_without_tripping_leaves_the_next_call_to_try() -> None:
    circuit = probed(tripped(1), token="p", now=NOW + 1)
    after = failed(circuit, Admission(1, "p"), GARBAGE, now=NOW + 1)
    assert (after.state(NOW + 1), after.rest, after.generation) == (CircuitState.HALF_OPEN, circuit.rest, 1)


def test_a_probe_without_a_word_gives_its_lease_back() -> None:
    circuit = probed(tripped(1), token="p", now=NOW + 1)
    assert unheard(circuit, Admission(1, "p")).state(NOW + 1) is CircuitState.HALF_OPEN
    assert unheard(circuit, Admission(1, "another")) == circuit
    assert unheard(circuit, Admission(1)) == circuit


def test_a_probe_that_never_reports_blocks_for_as_long_as_its_lease() -> None:
    circuit = probed(tripped(1), token="p", now=NOW + 1)
    assert circuit.state(NOW + 1 + PROBE_SECONDS - 0.001) is CircuitState.PROBING
    assert circuit.state(NOW + 1 + PROBE_SECONDS) is CircuitState.HALF_OPEN
    assert served(circuit, Admission(1, "p")).rest is None  # late, but nobody has taken its place
    another = probed(circuit, token="q", now=NOW + 60)
    assert served(another, Admission(1, "p")) == another


# --- Old answers -----------------------------------------------------------------------------------------------------


def test_an_answer_from_before_a_rest_decides_nothing() -> None:
    circuit = tripped(1)
    assert served(circuit, Admission(0)) == circuit
    assert failed(circuit, Admission(0), DOWN, now=NOW) == circuit
    probing = probed(circuit, token="p", now=NOW + 1)
    assert served(probing, Admission(0)) == probing
    assert failed(probing, Admission(0), DOWN, now=NOW + 1) == probing


@pytest.mark.parametrize(("second", "seconds"), [(60.0, 60.0), (0.5, 1.0)])
def test_two_stated_waits_at_a_time_are_kept_as_the_longer_one(second: float, seconds: float) -> None:
    circuit = failed(Circuit(), Admission(0), limited(1.0), now=NOW)
    circuit = failed(circuit, Admission(0), limited(second), now=NOW)
    assert (circuit.failures, circuit.rest and circuit.rest.remaining(NOW)) == (1, seconds)


def test_a_key_that_is_refused_settles_what_only_rested() -> None:
    circuit = failed(tripped(1), Admission(0), Failure(FailureKind.AUTH, "no"), now=NOW)
    assert circuit.rest == Rest(NOW + 300, 300.0, RestCause.FAILURES, FailureKind.AUTH)


# --- By hand ---------------------------------------------------------------------------------------------------------


def test_pausing_and_clearing() -> None:
    paused = rested(tripped(2), seconds=600.0, cause=RestCause.PAUSED, now=NOW)
    assert (paused.failures, paused.rest) == (2, Rest(NOW + 600, 600.0, RestCause.PAUSED))
    assert rested(paused, seconds=300.0, cause=RestCause.PREFLIGHT, now=NOW) == paused
    assert cleared(paused) == Circuit(generation=paused.generation + 1)
    assert served(paused, Admission(0)) == paused


def test_two_who_changed_a_circuit_agree() -> None:
    short, long = tripped(1), failed(Circuit(), Admission(0), limited(90.0), now=NOW)
    assert merged(short, long) == merged(long, short) == long
    closed = cleared(long)
    assert merged(short, closed) == merged(closed, short) == closed
    served_by_a_probe = Circuit(generation=3)
    paused = rested(Circuit(generation=2), seconds=600.0, cause=RestCause.PAUSED, now=NOW)
    assert merged(served_by_a_probe, paused) == merged(paused, served_by_a_probe) == paused
    mine, theirs = Circuit(failures=2), Circuit(failures=7)
    assert merged(mine, theirs) == mine


# --- Whatever happens, in whichever order ----------------------------------------------------------------------------

FAILED = st.sampled_from([DOWN, GARBAGE, limited(None), limited(3.0), Failure(FailureKind.AUTH, "no")])


class Route(RuleBasedStateMachine):
    """One circuit under calls that are admitted now and end whenever they like, or never."""

    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.circuit = Circuit()
        self.tokens = 0

    @property
    def state(self) -> CircuitState:
        return self.circuit.state(self.now)

    @rule(target=calls)
    def call(self) -> Any:
        if self.state is CircuitState.CLOSED:
            return Admission(self.circuit.generation)
        if self.state is CircuitState.HALF_OPEN:
            self.tokens += 1
            self.circuit = probed(self.circuit, token=f"p{self.tokens}", now=self.now)
            return admitted(self.circuit)
        return multiple()

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 5.0, 31.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    def is_current(self, call: Admission) -> bool:
        return call == admitted(self.circuit)

    @rule(call=calls)
    def is_served(self, call: Admission) -> None:
        before, current = self.circuit, self.is_current(call)
        self.circuit = served(before, call)
        assert self.circuit.is_pristine if current else self.circuit == before

    @rule(call=calls, failure=FAILED)
    def fails(self, call: Admission, failure: Failure) -> None:
        before, current, state = self.circuit, self.is_current(call), self.state
        self.circuit = failed(before, call, failure, now=self.now)
        trips = failure.rule.circuit is not CircuitEffect.NONE
        if not current:
            assert (self.circuit.failures, self.circuit.generation) == (before.failures, before.generation)
            assert self.state is state
        elif trips:
            assert (self.state, self.circuit.generation) == (CircuitState.RESTING, before.generation + 1)
        else:
            assert (self.circuit.failures, self.circuit.rest) == (before.failures + 1, before.rest)

    @rule(call=calls)
    def is_cancelled(self, call: Admission) -> None:
        before, current = self.circuit, self.is_current(call)
        self.circuit = unheard(before, call)
        if current and call.probe:
            assert self.circuit.lease is None
        else:
            assert self.circuit == before

    @rule(seconds=st.sampled_from([2.0, 600.0]))
    def is_paused(self, seconds: float) -> None:
        self.circuit = rested(self.circuit, seconds=seconds, cause=RestCause.PAUSED, now=self.now)
        assert self.state is CircuitState.RESTING

    @rule()
    def is_cleared(self) -> None:
        self.circuit = cleared(self.circuit)
        assert self.state is CircuitState.CLOSED

    @invariant()
    def nothing_holds_it_for_ever(self) -> None:
        """Left alone, it is asked again after a rest and a lease at the latest."""
        rest = 0.0 if self.circuit.rest is None else self.circuit.rest.seconds
        later = self.now + rest + PROBE_SECONDS
        assert self.circuit.state(later) in (CircuitState.CLOSED, CircuitState.HALF_OPEN)

    @invariant()
    def who_rests_has_a_reason(self) -> None:
        assert self.circuit.trips <= self.circuit.failures
        if self.state is CircuitState.PROBING:
            assert self.circuit.lease is not None


TestRoute = Route.TestCase
TestRoute.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


# --- What other systems promise --------------------------------------------------------------------------------------

BREAKER = json.loads((VECTORS / "breaker.json").read_text(encoding="utf-8"))


def test_the_decision_record_names_every_excluded_vector() -> None:
    assert len({each["id"] for each in [*BREAKER["vectors"], *BREAKER["excluded"]]}) == 26
    (record,) = (ROOT / "docs" / "decisions").glob("0077-*.md")
    text = record.read_text(encoding="utf-8")
    assert all(f"`{each['id']}`" in text and each["reason"] for each in BREAKER["excluded"])


@pytest.mark.parametrize("vector", BREAKER["vectors"], ids=lambda vector: vector["id"])
def test_vector(vector: Mapping[str, Any]) -> None:
    given, expected = vector["given"], vector["expect"]
    if "kind" in given:
        failure = Failure(FailureKind(given["kind"]), "x", retry_after=given.get("retry_after"))
        assert rest_after(failure, trips=given["trips"]) == expected["seconds"]
        return
    circuit = Circuit(failures=given["failures"])
    if "rests_since" in given:
        circuit = Circuit(
            generation=1,
            failures=given["failures"],
            trips=given["failures"],
            rest=Rest(given["rests_since"] + given["rest"], given["rest"], RestCause.FAILURES),
        )
    now = given.get("now", NOW)
    for call in given.get("calls", ()):
        if circuit.state(now) is CircuitState.HALF_OPEN:
            circuit = probed(circuit, token="p", now=now)
        admission = admitted(circuit)
        if call == "served":
            circuit = served(circuit, admission)
        else:
            circuit = failed(circuit, admission, Failure(FailureKind(call), "x"), now=now)
    found = {
        "state": circuit.state(now).value,
        "remaining": 0.0 if circuit.rest is None else circuit.rest.remaining(now),
        "failures": circuit.failures,
        "pristine": circuit.is_pristine,
    }
    assert found | expected == found
