"""Failures to callers: the only place, beside the API's, that knows HTTP statuses.

What went wrong with the HTTP request itself (no key, a body that is no JSON) is a :class:`RequestProblem`. What went
wrong with the call is a :class:`~routing.core.failures.Failure`, whose kind has a row here. The words on the wire are
the protocol module's.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from routing.core.failures import Failure, FailureKind

STATUS: Mapping[FailureKind, int] = MappingProxyType(
    {
        FailureKind.RATE_LIMITED: 429,
        FailureKind.QUOTA_EXHAUSTED: 429,
        FailureKind.TRANSIENT: 503,
        FailureKind.TIMEOUT: 504,
        FailureKind.AUTH: 502,  # never 401: it is our key that was refused, not the caller's
        FailureKind.NOT_FOUND: 502,
        FailureKind.UNREADABLE: 502,
        FailureKind.INVALID_REQUEST: 400,
        FailureKind.CONTEXT_EXCEEDED: 400,
        FailureKind.UNSUPPORTED: 400,
        FailureKind.REFUSED: 200,  # an answer like every other, where the protocol has one that says so
        FailureKind.OVER_BUDGET: 402,
        FailureKind.RATE_EXCEEDED: 429,
        FailureKind.FORBIDDEN: 403,
        FailureKind.CANCELLED: 499,  # written to nobody, or into a stream
        FailureKind.INTERNAL: 500,
    }
)

MODEL_NOT_FOUND = "model_not_found"
"""The code of a failure whose cause is that the name asked for means nothing here: 404, as every vendor does it."""

LONGEST_WAIT = 60.0
"""Seconds for which clients sleep by themselves; for longer ones they use a wait of their own, which is in vain."""

NAME_TAKEN, NAME_BUSY = "idempotency_key_reused", "idempotency_key_in_use"
"""Codes of failures whose cause is the name that the caller gave to the call."""

NAME_HEADER = "Idempotency-Key"
"""The header with that name."""

_STATUS_OF_CODE: Mapping[tuple[FailureKind, str], int] = MappingProxyType(
    {
        (FailureKind.UNSUPPORTED, MODEL_NOT_FOUND): 404,
        (FailureKind.INVALID_REQUEST, NAME_TAKEN): 422,
        (FailureKind.INVALID_REQUEST, NAME_BUSY): 409,
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What a protocol module writes: status, kind, sentence, machine code, field, seconds to wait, details by name."""

    status: int
    kind: str
    message: str
    code: str = ""
    parameter: str = ""
    retry_after: float | None = None
    final: bool = True
    details: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        """Headers every protocol sends: how a key is shown, how long to wait, that our retries need no multiplying."""
        headers = {"x-should-retry": "false"} if self.final else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.retry_after is not None:
            headers["Retry-After"] = str(math.ceil(self.retry_after))
        return headers


INTERNAL_ERROR = Problem(500, "internal_error", "Signalbox failed; the operator's log says more", code="internal_error")
"""What a caller is told of a fault of our own."""


class RequestProblem(Exception):
    """The HTTP request cannot become a call. With ``retry_after`` it could later, so that asking again is right."""

    def __init__(
        self, status: int, message: str, *, code: str = "", parameter: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.problem = Problem(
            status=status,
            kind="invalid_request",
            message=message,
            code=code,
            parameter=parameter,
            retry_after=retry_after,
            final=retry_after is None,
        )

    def within(self, place: str) -> "RequestProblem":
        """The same problem of a request that is a part of another one, such as ``calls[3]``."""
        problem = self.problem
        return RequestProblem(
            problem.status,
            f"{place}: {problem.message}",
            code=problem.code,
            parameter=f"{place}.{problem.parameter}" if problem.parameter else place,
            retry_after=problem.retry_after,
        )


def problem_of(failure: Failure) -> Problem:
    """What a caller is told of a call's failure. That a model declined comes here only from protocols whose answers
    cannot say it."""
    status = 400 if failure.kind is FailureKind.REFUSED else STATUS[failure.kind]
    status = _STATUS_OF_CODE.get((failure.kind, failure.code), status)
    return Problem(
        status=status,
        kind=failure.kind.value,
        message=failure.message,
        code=failure.code or failure.kind.value,
        parameter=failure.parameter,
        retry_after=failure.retry_after,
        final=not _may_ask_again(failure),
        details=failure.details,
    )


def _may_ask_again(failure: Failure) -> bool:
    """Whether a caller's client does well to wait and ask again: one of our limits was reached, and not for long."""
    is_ours = failure.kind is FailureKind.RATE_EXCEEDED
    return is_ours and failure.retry_after is not None and failure.retry_after <= LONGEST_WAIT
