"""Errors in OpenAI's envelope: the ones that a request deserves, and the ones that a behaviour orders."""

from dataclasses import dataclass

import orjson

from governance.demo.simulator.behaviours import Failure, FailureKind

Headers = list[tuple[bytes, bytes]]


class RequestProblem(Exception):
    """A request that is answered with an error; ``outcome`` is the name it is counted under."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        outcome: str = "invalid_request",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code
        self.outcome = outcome

    def body(self) -> bytes:
        """The error in OpenAI's envelope."""
        return envelope(message=self.message, kind="invalid_request_error", param=self.param, code=self.code)


@dataclass(frozen=True, slots=True)
class _Wording:
    """What a failing provider says: status, message, type and code."""

    status: int
    message: str
    kind: str
    code: str | None


_WORDINGS = {
    FailureKind.RATE_LIMITED: _Wording(429, "Rate limit reached for requests.", "requests", "rate_limit_exceeded"),
    FailureKind.INSUFFICIENT_QUOTA: _Wording(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    FailureKind.SERVER_ERROR: _Wording(
        500, "The server had an error while processing your request.", "server_error", None
    ),
    FailureKind.UNAVAILABLE: _Wording(
        503, "The engine is currently overloaded, please try again later.", "server_error", None
    ),
    FailureKind.UNAUTHORIZED: _Wording(401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    FailureKind.NOT_FOUND: _Wording(
        404,
        "The model does not exist or you do not have access to it.",
        "invalid_request_error",
        "model_not_found",
    ),
    FailureKind.CONTEXT_LENGTH_EXCEEDED: _Wording(
        400,
        "This model's maximum context length is exceeded. Please reduce the length of the messages.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
    FailureKind.ERROR_FRAME: _Wording(
        200, "The server had an error while processing your request.", "server_error", "server_error"
    ),
}
_WITH_ADVICE = frozenset({FailureKind.RATE_LIMITED, FailureKind.INSUFFICIENT_QUOTA, FailureKind.UNAVAILABLE})
_PARAMETERS = {
    FailureKind.NOT_FOUND: "model",
    FailureKind.CONTEXT_LENGTH_EXCEEDED: "messages",
}


def envelope(*, message: str, kind: str, param: str | None, code: str | None) -> bytes:
    """OpenAI's error object as JSON."""
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def ordered_status(failure: Failure) -> int | None:
    """The status of a failure that is a plain error answer, ``None`` for the other kinds."""
    wording = _WORDINGS.get(failure.kind)
    return None if wording is None or wording.status == 200 else wording.status


def ordered_body(failure: Failure) -> bytes:
    """The envelope of an ordered failure; only for kinds that have one."""
    wording = _WORDINGS[failure.kind]
    return envelope(
        message=f"{wording.message} (simulated)",
        kind=wording.kind,
        param=_PARAMETERS.get(failure.kind),
        code=wording.code,
    )


def ordered_headers(failure: Failure) -> Headers:
    """``Retry-After`` and ``retry-after-ms``, where the kind takes advice and the behaviour gives it."""
    if failure.kind not in _WITH_ADVICE:
        return []
    advice = ((b"retry-after", failure.retry_after), (b"retry-after-ms", failure.retry_after_ms))
    return [(name, value.encode("ascii")) for name, value in advice if value is not None]


def unauthorized(*, given: bool) -> RequestProblem:
    """401 for a key that is missing or wrong; the key itself is never repeated."""
    if given:
        return RequestProblem("Incorrect API key provided.", status=401, code="invalid_api_key", outcome="unauthorized")
    return RequestProblem(
        "You didn't provide an API key. Send it in an Authorization header: Bearer YOUR_KEY.",
        status=401,
        outcome="unauthorized",
    )


def unknown_model(model: str) -> RequestProblem:
    """404 for a model that is not offered."""
    return RequestProblem(
        f"The model '{model}' does not exist or you do not have access to it.",
        status=404,
        param="model",
        code="model_not_found",
        outcome="model_not_found",
    )


def unknown_url(method: str, path: str) -> RequestProblem:
    """404 for a path that is not simulated."""
    return RequestProblem(
        f"Unknown request URL: {method} {path}.", status=404, code="unknown_url", outcome="unknown_url"
    )


def wrong_method(method: str, path: str) -> RequestProblem:
    """405 for a path that exists with another method."""
    return RequestProblem(
        f"Not allowed to {method} on {path}.",
        status=405,
        code="method_not_supported",
        outcome="wrong_method",
    )
