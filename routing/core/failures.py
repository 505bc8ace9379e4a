"""Every way a call can fail, and the one table that says what each means.

Retry, fall-through, circuits and health all read :data:`FAILURES`; the gateway adds the HTTP status of each
kind, because statuses belong to a protocol. How a vendor's answer becomes a kind is the adapters' business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class FailureKind(StrEnum):
    """What went wrong, seen from the caller's side of the provider."""

    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    TRANSIENT = "transient"
    TIMEOUT = "timeout"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    UNREADABLE = "unreadable"
    INVALID_REQUEST = "invalid_request"
    CONTEXT_EXCEEDED = "context_exceeded"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"
    OVER_BUDGET = "over_budget"
    RATE_EXCEEDED = "rate_exceeded"
    FORBIDDEN = "forbidden"
    CANCELLED = "cancelled"
    INTERNAL = "internal_error"


class Retry(StrEnum):
    """May the same route be asked again?"""

    NEVER = "never"
    AFTER_STATED_WAIT = "afterStatedWait"
    BACKING_OFF = "backingOff"
    IF_CONFIGURED = "ifConfigured"


class NextRoute(StrEnum):
    """May another route be asked instead?"""

    NO = "no"
    YES = "yes"
    LARGER_CONTEXT = "largerContext"
    AFFORDABLE = "affordable"


class CircuitEffect(StrEnum):
    """What the failure does to the route's circuit."""

    NONE = "none"
    BACKS_OFF = "backsOff"
    STATED_WAIT = "statedWait"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class FailureRule:
    """One row of the table.

    ``provider_fault`` tells whether the failure is evidence about the provider's health. Faults of the caller,
    refusals by the model and our own refusals are not: they are no samples at all.
    """

    retry: Retry
    next_route: NextRoute
    circuit: CircuitEffect
    provider_fault: bool
    label: str


FAILURES: Mapping[FailureKind, FailureRule] = MappingProxyType(
    {
        FailureKind.RATE_LIMITED: FailureRule(
            Retry.AFTER_STATED_WAIT, NextRoute.YES, CircuitEffect.STATED_WAIT, True, "The provider limits our rate"
        ),
        FailureKind.QUOTA_EXHAUSTED: FailureRule(
            Retry.NEVER, NextRoute.YES, CircuitEffect.SETTLED, True, "Our account at the provider is used up"
        ),
        FailureKind.TRANSIENT: FailureRule(
            Retry.BACKING_OFF, NextRoute.YES, CircuitEffect.BACKS_OFF, True, "The provider failed or was not reached"
        ),
        FailureKind.TIMEOUT: FailureRule(
            Retry.IF_CONFIGURED, NextRoute.YES, CircuitEffect.BACKS_OFF, True, "The provider did not answer in time"
        ),
        FailureKind.AUTH: FailureRule(
            Retry.NEVER, NextRoute.YES, CircuitEffect.SETTLED, True, "The provider refuses our key"
        ),
        FailureKind.NOT_FOUND: FailureRule(
            Retry.NEVER, NextRoute.YES, CircuitEffect.SETTLED, True, "The provider does not know the model"
        ),
        FailureKind.UNREADABLE: FailureRule(
            Retry.NEVER, NextRoute.YES, CircuitEffect.NONE, True, "The provider's answer cannot be read"
        ),
        FailureKind.INVALID_REQUEST: FailureRule(
            Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False, "The provider calls the request invalid"
        ),
        FailureKind.CONTEXT_EXCEEDED: FailureRule(
            Retry.NEVER, NextRoute.LARGER_CONTEXT, CircuitEffect.NONE, False, "The prompt is too long for the model"
        ),
        FailureKind.UNSUPPORTED: FailureRule(
            Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False, "No route can serve the request"
        ),
        FailureKind.REFUSED: FailureRule(
            Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False, "The model declined to answer"
        ),
        FailureKind.OVER_BUDGET: FailureRule(
            Retry.NEVER, NextRoute.AFFORDABLE, CircuitEffect.NONE, False, "A budget cannot afford the call"
        ),
        FailureKind.RATE_EXCEEDED: FailureRule(
            Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False, "A rate or quota of the key is used up"
        ),
        FailureKind.FORBIDDEN: FailureRule(
            Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False, "A rule of this installation forbids the call"
        ),
        FailureKind.CANCELLED: FailureRule(
            Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False, "The caller hung up, or did not read on"
        ),
        FailureKind.INTERNAL: FailureRule(
            Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False, "Signalbox itself failed, or is set up wrongly"
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure as a value: its kind, a sentence for people, and what is known besides.

    Attributes:
        kind: the row of the table that applies.
        message: what happened, for the caller. It may quote the caller's own request, so it is in no log and no row.
        retry_after: seconds the provider asked us to wait, exactly; ``None`` without usable advice.
        code: the vendor's own short code, such as ``insufficient_quota``; empty if there was none.
        parameter: the request field at fault, where somebody named one.
        details: what a program may want to read besides, by name; ``None`` is "not known".
        is_free: whether the provider charges nothing for certain: nothing was sent, or an error is its whole answer.
    """

    kind: FailureKind
    message: str = field(repr=False)
    retry_after: float | None = None
    code: str = ""
    parameter: str = ""
    details: Mapping[str, str | None] = field(default_factory=dict)
    is_free: bool = field(default=False, compare=False)

    @property
    def rule(self) -> FailureRule:
        """The row of :data:`FAILURES` for this failure."""
        return FAILURES[self.kind]


class CallFailed(Exception):
    """Raised wherever a call or one attempt of it ends without an answer; carries the :class:`Failure`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    @property
    def evidence(self) -> Failure | None:
        """What it says about the route that was asked, which its circuit hears of; ``None`` if nothing."""
        return self.failure


class RouteUnusable(CallFailed):
    """Raised before anything is sent: what this installation knows of a route cannot be used, so it is passed over."""

    @property
    def evidence(self) -> Failure | None:
        return None


class OutOfTime(CallFailed):
    """Raised where the time of the whole call is up: it ends, whatever routes there are left.

    That the time is up says nothing about a route. What the route had done before is ``evidence``.
    """

    def __init__(self, failure: Failure, *, evidence: Failure | None = None) -> None:
        super().__init__(failure)
        self._evidence = evidence

    @property
    def evidence(self) -> Failure | None:
        return self._evidence


def internal_failure(error: Exception) -> Failure:
    """An error of our own as a failure. Its class is the code; its words are for the log alone."""
    return Failure(FailureKind.INTERNAL, "Signalbox failed; the operator's log says more", code=type(error).__name__)
