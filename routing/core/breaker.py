"""How long a route rests after failures, and who may ask it again: the state machine of one route's circuit.

A circuit is a value and every step gives the next one. Moments are seconds on a clock of the caller's that is never
set back; how states travel between processes is ``routing.circuits``' business.

    closed    -- a failure that trips --> resting
    resting   -- its time is over -->     half-open
    half-open -- one call -->             probing
    probing   -- served -->               closed
    probing   -- trips -->                resting
    probing   -- no word in time -->      half-open

Every opening and closing makes a new generation. What a call says counts in the generation that it was admitted in,
and of a probe while no other has taken its place; later it is an old answer and decides nothing.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from routing.core.failures import CircuitEffect, Failure, FailureKind
from routing.core.vocabulary import RestCause

FIRST_REST = 1.0
LONGEST_REST = 60.0
SETTLED_REST = 300.0
LONGEST_STATED = 24 * 3600.0
"""A provider may state any wait. A day is long enough to be looked at by somebody."""

PROBE_SECONDS = 30.0
"""How long a probe may go without a word before another call may be one."""

_MOST_DOUBLINGS = 32


class CircuitState(StrEnum):
    """Whether a route is asked."""

    CLOSED = "closed"
    RESTING = "resting"
    HALF_OPEN = "halfOpen"
    PROBING = "probing"


@dataclass(frozen=True, slots=True)
class Rest:
    """A rest: its end, how long it is in all, and what brought it about; ``kind`` is of the failure, if one did."""

    ends: float
    seconds: float
    cause: RestCause
    kind: FailureKind | None = None

    def remaining(self, now: float) -> float:
        """Seconds left; never more than the whole of it, whatever the clock did."""
        return min(max(self.ends - now, 0.0), self.seconds)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to be the one call that tries a route, until it ends."""

    token: str
    ends: float


@dataclass(frozen=True, slots=True)
class Admission:
    """With what a call was let through: the generation, and the token of its lease if it is a probe."""

    generation: int
    probe: str = ""


@dataclass(frozen=True, slots=True)
class Circuit:
    """One route's circuit. ``failures`` are failed calls in a row of any kind, ``trips`` those that opened it."""

    generation: int = 0
    failures: int = 0
    trips: int = 0
    rest: Rest | None = None
    lease: Lease | None = None

    def state(self, now: float) -> CircuitState:
        """Whether the route is asked at this moment."""
        if self.rest is None:
            return CircuitState.CLOSED
        if self.rest.remaining(now) > 0:
            return CircuitState.RESTING
        if self.lease is not None and now < self.lease.ends:
            return CircuitState.PROBING
        return CircuitState.HALF_OPEN

    @property
    def is_pristine(self) -> bool:
        """Whether there is nothing to tell: as a circuit that was never heard of."""
        return self.rest is None and not self.failures


def rest_after(failure: Failure, *, trips: int) -> float | None:
    """How long the ``trips``-th failure in a row makes a route rest, in seconds; ``None`` if it does not.

    A wait that the provider stated is kept exactly if that is what the kind asks for; where the kind backs off by
    itself it can only lengthen the rest.
    """
    effect, stated = failure.rule.circuit, failure.retry_after
    if effect is CircuitEffect.NONE:
        return None
    if effect is CircuitEffect.SETTLED:
        return SETTLED_REST
    if stated is not None:
        stated = min(stated, LONGEST_STATED)
        if effect is CircuitEffect.STATED_WAIT:
            return stated
    backing_off: float = min(FIRST_REST * 2 ** min(max(trips, 1) - 1, _MOST_DOUBLINGS), LONGEST_REST)
    return max(backing_off, stated or 0.0)


def probed(circuit: Circuit, *, token: str, now: float) -> Circuit:
    """The half-open circuit with a call under way that tries the route."""
    return replace(circuit, lease=Lease(token, now + PROBE_SECONDS))


def served(circuit: Circuit, admission: Admission) -> Circuit:
    """A call was answered."""
    if circuit.is_pristine or _is_old(circuit, admission):
        return circuit
    return Circuit(generation=circuit.generation + (circuit.rest is not None))


def failed(circuit: Circuit, admission: Admission, failure: Failure, *, now: float) -> Circuit:
    """A call has failed, after all its attempts."""
    seconds = rest_after(failure, trips=circuit.trips + 1)
    if _is_old(circuit, admission):
        return _lengthened(circuit, failure, seconds, now)
    if seconds is None:
        return replace(circuit, failures=circuit.failures + 1, lease=None)
    return Circuit(
        generation=circuit.generation + 1,
        failures=circuit.failures + 1,
        trips=circuit.trips + 1,
        rest=Rest(now + seconds, seconds, RestCause.FAILURES, failure.kind),
    )


def unheard(circuit: Circuit, admission: Admission) -> Circuit:
    """A call said nothing about the route: cancelled, or never sent. A probe gives its lease back."""
    if not admission.probe or _is_old(circuit, admission):
        return circuit
    return replace(circuit, lease=None)


def rested(circuit: Circuit, *, seconds: float, cause: RestCause, now: float) -> Circuit:
    """The circuit made to rest from outside, for as long as it would have rested anyway at the least."""
    if circuit.rest is not None and circuit.rest.remaining(now) >= seconds:
        return circuit
    return replace(circuit, generation=circuit.generation + 1, rest=Rest(now + seconds, seconds, cause), lease=None)


def cleared(circuit: Circuit) -> Circuit:
    """The circuit closed from outside, with all failures forgotten."""
    return Circuit(generation=circuit.generation + 1)


def merged(mine: Circuit, theirs: Circuit) -> Circuit:
    """What two processes that changed a circuit at the same time agree on, whoever tells it first: the later
    generation; of equal ones the longer rest, no rest being the shortest. Of two without rest it is mine."""
    return max(mine, theirs, key=lambda each: (each.generation, _end(each)))


def _lengthened(circuit: Circuit, failure: Failure, seconds: float | None, now: float) -> Circuit:
    """An old answer decides nothing, but what a provider says of how long it will not serve is true all the same."""
    rest = circuit.rest
    says_so = failure.retry_after is not None or failure.rule.circuit is CircuitEffect.SETTLED
    if rest is None or seconds is None or not says_so or not rest.remaining(now):
        return circuit
    if seconds <= rest.remaining(now):
        return circuit
    return replace(circuit, rest=Rest(now + seconds, seconds, rest.cause, failure.kind))


def _is_old(circuit: Circuit, admission: Admission) -> bool:
    probe = "" if circuit.lease is None else circuit.lease.token
    return admission.generation != circuit.generation or admission.probe != probe


def _end(circuit: Circuit) -> float:
    return 0.0 if circuit.rest is None else circuit.rest.ends
