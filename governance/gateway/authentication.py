"""Who is calling: the key of an HTTP request, recognised without a query."""

from collections.abc import Mapping
from datetime import datetime

from governance.access.directory import Caller, Directory
from governance.gateway.errors import RequestProblem

UNKNOWN_KEY = "invalid_api_key"


def authenticate(headers: Mapping[str, str], *, directory: Directory, now: datetime) -> Caller:
    """The caller behind ``Authorization: Bearer`` or ``x-api-key``; clients of either protocol may use either.

    Raises:
        RequestProblem: 401. It never repeats any of what was shown.
    """
    secret = shown_key(headers)
    if not secret:
        raise RequestProblem(401, "no key was given; send it as “Authorization: Bearer sb-…”", code="missing_api_key")
    caller = directory.recognise(secret, now=now)
    if caller is None:
        raise RequestProblem(401, "this key is unknown, expired or revoked", code=UNKNOWN_KEY)
    return caller


def shown_key(headers: Mapping[str, str]) -> str:
    """The secret that a request shows; empty if it shows none."""
    return _bearer(headers.get("authorization", "")) or headers.get("x-api-key", "").strip()


def _bearer(header: str) -> str:
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""
