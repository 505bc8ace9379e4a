"""Who asks: an application by its virtual key, or somebody who is logged in.

A key is recognised by what this process has in memory, as for /v1/; a process without a gateway asks the database
once. Whoever is logged in writes with a token against forged requests only.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from governance.access.directory import Caller, find_caller
from governance.api.exceptions import CHALLENGE, ApiProblem, ProblemType
from governance.audit.actions import Author, Channel
from governance.gateway.authentication import authenticate, shown_key
from governance.gateway.errors import RequestProblem
from governance.gateway.service import opened_service


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """An application, by one of its keys. Stands where the framework has a user."""

    caller: Caller
    is_authenticated: bool = True


class KeyAuthentication(authentication.BaseAuthentication):
    """``Authorization: Bearer sb-…``, or ``x-api-key``."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        secret = shown_key(request.headers)
        if not secret:
            return None
        now = datetime.now(UTC)
        service = opened_service()
        in_force = None if service is None else service.in_force
        if in_force is None:
            caller = find_caller(secret, now=now)
            if caller is None:
                raise AuthenticationFailed("This key is unknown, expired or revoked.")
            return KeyHolder(caller), None
        try:
            return KeyHolder(authenticate(request.headers, directory=in_force.directory, now=now)), None
        except RequestProblem as refused:
            raise AuthenticationFailed(f"{refused}") from None

    def authenticate_header(self, request: Request) -> str:
        """What a 401 says is missing."""
        return CHALLENGE


class PersonAuthentication(authentication.SessionAuthentication):
    """Somebody who is logged in, at the admin or by ``POST /api/v1/session``."""

    def enforce_csrf(self, request: Request) -> None:
        """Refuse what another site may have made a browser send."""
        try:
            super().enforce_csrf(request)
        except PermissionDenied as refused:
            raise ApiProblem(
                ProblemType.FORBIDDEN,
                "The token against forged requests is missing or wrong: send the csrf_token of GET /api/v1/me as "
                f"“X-CSRFToken”, and over HTTPS “Origin” or “Referer” as well. ({refused})",
            ) from None


def caller_of(request: Request) -> Caller | None:
    """The application that asks; ``None`` if somebody is logged in instead."""
    return request.user.caller if isinstance(request.user, KeyHolder) else None


def person_of(request: Request) -> User:
    """Who is logged in; the permissions have been looked at."""
    if not isinstance(request.user, User):
        raise TypeError("this address is for people who are logged in")
    return request.user


def author_of(request: Request) -> Author:
    """Who makes a change by the API, and from where."""
    django_request: HttpRequest = request._request
    return Author(
        name=person_of(request).get_username(),
        channel=Channel.API,
        address=django_request.META.get("REMOTE_ADDR", "") or "",
        correlation=django_request.META.get("signalbox.correlation", ""),
    )
