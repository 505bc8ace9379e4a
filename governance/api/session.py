"""Who asks, and logging in for programs that act for a person."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.models import User
from django.http import HttpResponseBase
from django.middleware.csrf import get_token
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.status import HTTP_204_NO_CONTENT

from governance.access.roles import ROLES
from governance.api.authentication import KeyHolder, caller_of
from governance.api.exceptions import ApiProblem, ProblemType
from governance.api.permissions import ANYBODY, both
from governance.api.serializers import StrictSerializer
from governance.api.views import ApiView, Operation


class LogIn(StrictSerializer):
    """Somebody's name and pass phrase."""

    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=4096, trim_whitespace=False, write_only=True)


class KeyHolderSerializer(StrictSerializer):
    """An application, by one of its keys."""

    key = serializers.UUIDField()
    application = serializers.CharField()
    allowed_configurations = serializers.ListField(child=serializers.CharField(), allow_null=True)
    allowed_models = serializers.ListField(child=serializers.CharField(), allow_null=True)
    may_name_models = serializers.BooleanField()
    expires_at = serializers.DateTimeField(allow_null=True)


class PersonSerializer(StrictSerializer):
    """Somebody who is logged in."""

    username = serializers.CharField()
    roles = serializers.ListField(child=serializers.CharField(), help_text="Built-in roles: operator, auditor.")
    csrf_token = serializers.CharField(help_text="Goes into X-CSRFToken with everything that changes something.")


class WhoSerializer(StrictSerializer):
    """Who asks. One of the two is null."""

    key_holder = KeyHolderSerializer(allow_null=True)
    person = PersonSerializer(allow_null=True)


class MeView(ApiView):
    """Who asks."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(name="read_me", summary="Say who asks", permit=both(), answer=WhoSerializer)
    }

    def get(self, request: Request) -> HttpResponseBase:
        return Response(_who(request))


class SessionView(ApiView):
    """A session: what a browser has after logging in at the admin, for programs that act for a person."""

    operations: Mapping[str, Operation] = {
        "POST": Operation(
            name="log_in",
            summary="Log in",
            about="The answer sets the session's cookies. Only JSON is taken, which no form of another site can send.",
            permit=ANYBODY,
            body=LogIn,
            answer=WhoSerializer,
            problems=(ProblemType.NOT_AUTHENTICATED,),
        ),
        "DELETE": Operation(name="log_out", summary="Log out", permit=both(), status=HTTP_204_NO_CONTENT),
    }

    def get_authenticators(self) -> list[Any]:
        """Who logs in is nobody yet; a session that is there already is replaced."""
        return [] if getattr(self.request, "method", None) == "POST" else super().get_authenticators()

    def post(self, request: Request) -> HttpResponseBase:
        sent = self.read_body(request)
        user = authenticate(request._request, username=sent["username"], password=sent["password"])
        if not isinstance(user, User) or not user.is_staff:
            raise ApiProblem(
                ProblemType.NOT_AUTHENTICATED, "The name or the pass phrase is wrong, or not of the staff."
            )
        login(request._request, user)
        request.user = user
        return Response(_who(request))

    def delete(self, request: Request) -> HttpResponseBase:
        if not isinstance(request.user, KeyHolder):
            logout(request._request)
        return Response(status=HTTP_204_NO_CONTENT)


def _who(request: Request) -> Any:
    caller = caller_of(request)
    if caller is not None:
        return WhoSerializer({"key_holder": caller, "person": None}).data
    groups = set(request.user.groups.values_list("name", flat=True))
    person = {
        "username": request.user.get_username(),
        "roles": [name for name in ROLES if name in groups],
        "csrf_token": get_token(request._request),
    }
    return WhoSerializer({"key_holder": None, "person": person}).data
