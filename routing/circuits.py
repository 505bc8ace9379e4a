"""The circuits of all routes, as one process knows them, and how processes tell one another.

A call asks and tells the process's own memory, and nothing else: no round trip, and no lock for a route that is well.
What has changed is written to the shared store a moment later by whoever calls :meth:`Circuits.share`, twice a second
at the least, which also reads what others have changed. One thing is asked of the store at once: whether a half-open
route's next call may be the probe, so that it is one call of all processes.

A route is one model of one provider, so it goes by the model's identifier.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from routing.core.breaker import (
    PROBE_SECONDS,
    Admission,
    Circuit,
    CircuitState,
    Lease,
    Rest,
    cleared,
    failed,
    merged,
    probed,
    rested,
    served,
    unheard,
)
from routing.core.failures import FAILURES, Failure, FailureKind
from routing.core.sharing import SharedStore
from routing.core.vocabulary import LABELS, RestCause

logger = logging.getLogger(__name__)

KEPT_SECONDS = 600.0
"""How long failures in a row, and a rest that is over, are remembered with no word from the route."""

ELSEWHERE_SECONDS = 1.0
"""How long a route that another process probes is not asked about again."""

_TRIES = 3  # to agree with others in one go; what is left over waits for the next
_WELL = Admission(0)


@dataclass(frozen=True, slots=True)
class RouteState:
    """One route's circuit as an operator reads it: seconds ``remaining`` of a rest of ``seconds``, and its cause."""

    model: str
    state: CircuitState
    failures: int
    remaining: float = 0.0
    seconds: float = 0.0
    cause: RestCause | None = None
    kind: FailureKind | None = None

    @property
    def is_passed_over(self) -> bool:
        """Whether a call that came now would pass the route over."""
        return self.state in (CircuitState.RESTING, CircuitState.PROBING)

    @property
    def told(self) -> str:
        """Why it is passed over, in words; empty if it is not."""
        if not self.is_passed_over:
            return ""
        if self.state is CircuitState.PROBING:
            return "rested; another call is trying it"
        cause = "" if self.cause is None else LABELS[self.cause]
        because = cause if self.kind is None else FAILURES[self.kind].label
        return f"rests for another {math.ceil(self.remaining)} s ({because})"


@dataclass(slots=True)
class _Known:
    """A circuit, what the store was last known to hold of it (``generation`` is the latest that was in it), and whether
    there is something to tell the store."""

    circuit: Circuit
    held: str | None = None
    generation: int = 0
    is_new: bool = False
    changed_at: float = 0.0


class Circuits:
    """Every route's circuit. Any thread may ask and tell; ``on_change`` is called by whoever changed something."""

    def __init__(
        self,
        *,
        store: SharedStore,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._wall = wall
        self._on_change = on_change
        self._known: dict[str, _Known] = {}
        self._leases: list[tuple[str, str]] = []  # probes that are over, to be given back
        self._failures: dict[str, int] = {}
        self._lock = Lock()
        self._sharing = Lock()
        self._giving_back = Lock()
        self.generation = 0

    # --- What a call asks and tells ----------------------------------------------------------------------------------

    @property
    def counts(self) -> Mapping[str, int]:
        """Failed calls in a row by model, as they are now and as they change; a model that is not in it has none.

        ``generation`` moves with every change of them, so that whoever keeps an answer knows when it is old.
        """
        return MappingProxyType(self._failures)

    def admit(self, model: str) -> Admission | None:
        """Let a call through, or not. One admitted as a probe has to be confirmed before it is sent."""
        if model not in self._known:
            return _WELL
        with self._lock:
            known = self._known.get(model)
            if known is None:
                return _WELL
            match known.circuit.state(self._clock()):
                case CircuitState.CLOSED:
                    return Admission(known.circuit.generation)
                case CircuitState.HALF_OPEN:
                    token = uuid4().hex
                    known.circuit = probed(known.circuit, token=token, now=self._clock())
                    return Admission(known.circuit.generation, token)
            return None

    def confirm(self, model: str, admission: Admission) -> bool:
        """Ask the store whether this is the only probe. If it is not, it must not be sent. Waits for the store."""
        self._give_back()  # of a probe before this one, which may have ended a moment ago
        if self._store.add(_lease_key(model), admission.probe, seconds=PROBE_SECONDS):
            return True
        with self._lock:
            known = self._known.get(model)
            if known is not None and known.circuit.lease is not None and known.circuit.lease.token == admission.probe:
                elsewhere = Lease("", self._clock() + ELSEWHERE_SECONDS)
                known.circuit = replace(known.circuit, lease=elsewhere)
        return False

    def served(self, model: str, admission: Admission) -> None:
        """A call was answered."""
        if model in self._known:
            self._step(model, lambda circuit: served(circuit, admission), ended=admission)

    def failed(self, model: str, admission: Admission, failure: Failure) -> None:
        """A call has failed, after all its attempts."""
        self._step(model, lambda circuit: failed(circuit, admission, failure, now=self._clock()), ended=admission)

    def unheard(self, model: str, admission: Admission) -> None:
        """A call was cancelled, or nothing was sent for it."""
        if admission.probe:
            self._step(model, lambda circuit: unheard(circuit, admission), ended=admission)

    # --- What an operator does ---------------------------------------------------------------------------------------

    def rest(self, model: str, *, seconds: float, cause: RestCause) -> None:
        """Make a route rest, for as long as it would have rested anyway at the least."""
        self._step(model, lambda circuit: rested(circuit, seconds=seconds, cause=cause, now=self._clock()))

    def clear(self, model: str) -> None:
        """Let a route be asked again, as if it had never failed."""
        self._step(model, cleared)

    def states(self) -> Mapping[str, RouteState]:
        """The routes of which there is something to tell, by model."""
        now = self._clock()
        with self._lock:
            known = {model: each.circuit for model, each in self._known.items()}
        return {model: _told(model, circuit, now) for model, circuit in known.items() if not circuit.is_pristine}

    def state(self, model: str) -> RouteState:
        """One route's circuit."""
        known = self._known.get(model)
        return _told(model, Circuit() if known is None else known.circuit, self._clock())

    # --- What processes tell one another -----------------------------------------------------------------------------

    def share(self, models: Iterable[str]) -> None:
        """Tell the store what has changed here, and read what others have changed, of these models and of all known.

        Raises:
            StoreAway: the store does not answer; what was to be told is told next time.
        """
        with self._sharing:
            with self._lock:  # calls of other threads make routes known meanwhile
                news = [model for model, each in self._known.items() if each.is_new]
            for model in news:
                self._tell(model)
            self._give_back()
            everybody = sorted({*models, *self._known})
            held = self._store.read([_key(model) for model in everybody])
            for model in everybody:
                self._hear(model, held.get(_key(model)))

    def _give_back(self) -> None:
        """Let go of the leases of probes that are over. One that cannot be given back ends by itself."""
        with self._giving_back:  # whoever comes second finds them gone, and not half gone
            with self._lock:
                leases, self._leases = self._leases, []
            for model, token in leases:
                self._store.remove(_lease_key(model), expected=token)

    def _tell(self, model: str) -> None:
        for _ in range(_TRIES):
            known = self._known[model]
            circuit, expected = known.circuit, known.held
            text = self._written(circuit)
            kept = KEPT_SECONDS + (0.0 if circuit.rest is None else circuit.rest.remaining(self._clock()))
            if self._store.swap(_key(model), text, expected=expected, seconds=kept):
                with self._lock:
                    known.held, known.generation = text, circuit.generation
                    known.is_new = known.circuit is not circuit  # somebody changed it meanwhile
                return
            theirs_text = self._store.read([_key(model)]).get(_key(model))
            theirs = self._read(theirs_text)
            with self._lock:
                known.held = theirs_text
                if theirs is not None:
                    known.generation = theirs.generation
                    agreed = merged(known.circuit, theirs)
                    known.is_new = agreed is not theirs
                    self._put(model, known, agreed)
            if not known.is_new:
                return

    def _hear(self, model: str, text: str | None) -> None:
        """Take over what the store holds, unless there is something to tell it first."""
        with self._lock:
            known = self._known.get(model)
            if known is None and text is not None:
                known = self._known[model] = _Known(Circuit(), changed_at=self._clock())
            if known is None or known.is_new or (known.held == text and text is not None):
                return
            known.held = text
            if text is None:
                self._missed(model, known)
                return
            theirs = self._read(text)
            if theirs is None:
                return
            if theirs.generation < known.generation and self._matters(known):
                known.is_new = True  # generations only grow: the store has gone back to what it held before
                return
            known.generation = theirs.generation
            self._put(model, known, _later(theirs, than=known.circuit))

    def _missed(self, model: str, known: _Known) -> None:
        """The store has lost it, or its time is over. What still matters is told again."""
        if self._matters(known) and not known.circuit.is_pristine:
            known.is_new = True
        else:
            self._put(model, known, Circuit(generation=known.circuit.generation))
            del self._known[model]

    def _matters(self, known: _Known) -> bool:
        """Whether it is not so long ago that it would be forgotten."""
        rest = known.circuit.rest
        quiet_since = known.changed_at if rest is None else max(known.changed_at, rest.ends)
        return self._clock() - quiet_since < KEPT_SECONDS

    # --- How it is kept ----------------------------------------------------------------------------------------------

    def _step(self, model: str, step: Callable[[Circuit], Circuit], *, ended: Admission | None = None) -> None:
        with self._lock:
            known = self._known.get(model) or _Known(Circuit())
            circuit = step(known.circuit)
            if ended is not None and ended.probe:
                self._leases.append((model, ended.probe))
            changed = circuit != known.circuit
            if changed:
                self._known[model] = known
                known.is_new = known.is_new or replace(circuit, lease=None) != replace(known.circuit, lease=None)
                known.changed_at = self._clock()
                self._put(model, known, circuit)
        if (changed or ended is None or ended.probe) and self._on_change is not None:
            self._on_change()

    def _put(self, model: str, known: _Known, circuit: Circuit) -> None:
        known.circuit = circuit
        if circuit.failures != self._failures.get(model, 0):
            self.generation += 1
            if circuit.failures:
                self._failures[model] = circuit.failures
            else:
                self._failures.pop(model, None)

    def _written(self, circuit: Circuit) -> str:
        """For the store. Moments are told by the clock on the wall, since that is the one that processes share."""
        rest = circuit.rest
        return json.dumps(
            {
                "generation": circuit.generation,
                "failures": circuit.failures,
                "trips": circuit.trips,
                "rest": rest
                and {
                    "until": self._wall() + rest.ends - self._clock(),
                    "seconds": rest.seconds,
                    "cause": rest.cause.value,
                    "kind": rest.kind and rest.kind.value,
                },
            }
        )

    def _read(self, text: str | None) -> Circuit | None:
        """From the store. Something else than a circuit is no circuit."""
        if text is None:
            return None
        try:
            values = json.loads(text)
            rest = values["rest"]
            return Circuit(
                generation=int(values["generation"]),
                failures=int(values["failures"]),
                trips=int(values["trips"]),
                rest=rest and self._rest(rest),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            logger.warning("the shared store holds something else than a circuit; it is taken for none")
            return None

    def _rest(self, values: Mapping[str, Any]) -> Rest:
        """From here on the rest is counted by a clock that nobody sets; a clock that was set cannot lengthen it."""
        seconds, until = float(values["seconds"]), float(values["until"])
        left = min(max(until - self._wall(), 0.0), seconds)
        kind = values["kind"]
        return Rest(
            ends=self._clock() + left,
            seconds=seconds,
            cause=RestCause(values["cause"]),
            kind=None if kind is None else FailureKind(kind),
        )


def _later(theirs: Circuit, *, than: Circuit) -> Circuit:
    """What others say, in a generation of its own: calls under way here were not admitted in it."""
    is_the_same = theirs.generation == than.generation and (theirs.rest is None) is (than.rest is None)
    if is_the_same:
        return replace(theirs, lease=than.lease)
    return replace(theirs, generation=max(theirs.generation, than.generation + 1))


def _told(model: str, circuit: Circuit, now: float) -> RouteState:
    rest = circuit.rest
    if rest is None:
        return RouteState(model, circuit.state(now), circuit.failures)
    return RouteState(
        model=model,
        state=circuit.state(now),
        failures=circuit.failures,
        remaining=rest.remaining(now),
        seconds=rest.seconds,
        cause=rest.cause,
        kind=rest.kind,
    )


def _key(model: str) -> str:
    return f"circuit:{model}"


def _lease_key(model: str) -> str:
    return f"probe:{model}"
