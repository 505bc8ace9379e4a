"""Routes: which rest and why, which nothing can select, and what is done to them by hand."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from governance.api.authentication import author_of
from governance.api.exceptions import ApiProblem, ProblemType
from governance.api.permissions import people
from governance.api.serializers import Reason, StrictSerializer
from governance.api.views import ApiView, Operation
from governance.changes.circuits import LEAST_SECONDS, MOST_SECONDS, clear_route, rest_route
from governance.gateway.service import standing_now
from governance.route_health import (
    Access,
    Preflighted,
    RouteHealth,
    preflight,
    read_routes,
    resting_among,
    unusable_among,
)
from routing.core.breaker import CircuitState
from routing.core.failures import FailureKind
from routing.core.vocabulary import RestCause

_READ = people("routing.view_languagemodel", "routing.view_provider")
_CHANGE = people("routing.view_languagemodel", "routing.view_provider", "routing.change_languagemodel")


class RouteHealthSerializer(StrictSerializer):
    """How one route is."""

    model = serializers.CharField(help_text="Identifier of the language model.")
    route = serializers.CharField(help_text="provider/model")
    state = serializers.ChoiceField([each.value for each in CircuitState])
    cause = serializers.ChoiceField([each.value for each in RestCause], allow_null=True)
    failure = serializers.ChoiceField([each.value for each in FailureKind], allow_null=True)
    remaining_seconds = serializers.FloatField(help_text="Of its rest.")
    failures_in_a_row = serializers.IntegerField()
    unusable = serializers.CharField(allow_blank=True, help_text="Why nothing can select it; empty if something can.")


class RoutesSerializer(StrictSerializer):
    """Routes in service."""

    items = RouteHealthSerializer(many=True)


class RoutesQuery(StrictSerializer):
    """Which routes."""

    only = serializers.ChoiceField(["resting", "unusable"], required=False, help_text="Left out: all in service.")


class PauseSerializer(Reason):
    """For how long, and why."""

    seconds = serializers.FloatField(min_value=LEAST_SECONDS, max_value=MOST_SECONDS)


class AccessSerializer(StrictSerializer):
    """What a provider said of one route."""

    model = serializers.CharField()
    route = serializers.CharField()
    access = serializers.ChoiceField([each.value for each in Access])
    why = serializers.CharField()


class PreflightSerializer(StrictSerializer):
    """What providers said of all routes."""

    items = AccessSerializer(many=True)


class RoutesView(ApiView):
    """Routes in service."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="list_routes",
            summary="List routes and whether they rest",
            about="A route that fails rests for a while; calls pass it over, and one call tries it afterwards.",
            permit=_READ,
            query=RoutesQuery,
            answer=RoutesSerializer,
        )
    }

    def get(self, request: Request) -> HttpResponseBase:
        routes, only = list(read_routes()), self.query.get("only")
        if only is not None:
            routes = resting_among(routes) if only == "resting" else unusable_among(routes)
        return Response({"items": [_written(each) for each in routes]})


class PauseRouteView(ApiView):
    """Makes a route rest."""

    operations: Mapping[str, Operation] = {
        "POST": Operation(
            name="pause_route",
            summary="Make a route rest",
            about="In all processes, a second later at the most. A route that would rest longer anyway goes on so.",
            permit=_CHANGE,
            body=PauseSerializer,
            answer=RouteHealthSerializer,
        )
    }

    def post(self, request: Request, name: str) -> HttpResponseBase:
        _find(name)
        body = self.read_body(request)
        rest_route(
            standing_now().circuits, name, seconds=body["seconds"], author=author_of(request), reason=body["reason"]
        )
        return Response(_written(_find(name)))


class ClearRouteView(ApiView):
    """Ends a route's rest."""

    operations: Mapping[str, Operation] = {
        "POST": Operation(
            name="clear_route",
            summary="Let a route be asked again",
            about="In all processes, a second later at the most, as if it had never failed.",
            permit=_CHANGE,
            body=Reason,
            answer=RouteHealthSerializer,
        )
    }

    def post(self, request: Request, name: str) -> HttpResponseBase:
        _find(name)
        clear_route(standing_now().circuits, name, author=author_of(request), reason=self.read_body(request)["reason"])
        return Response(_written(_find(name)))


class PreflightView(ApiView):
    """Asks providers."""

    operations: Mapping[str, Operation] = {
        "POST": Operation(
            name="preflight",
            summary="Ask every provider what it lists",
            about="Free of charge. A route that is denied rests for five minutes; one that could not be checked is "
            "left as it is.",
            permit=_CHANGE,
            body=Reason,
            answer=PreflightSerializer,
        )
    }

    def post(self, request: Request) -> HttpResponseBase:
        found = preflight(author=author_of(request), reason=self.read_body(request)["reason"])
        return Response({"items": [_said(each) for each in found]})


def _find(model: str) -> RouteHealth:
    found = next((each for each in read_routes() if each.model.identifier == model), None)
    if found is None:
        raise ApiProblem(ProblemType.NOT_FOUND, f"There is no route {model} in service.")
    return found


def _written(each: RouteHealth) -> dict[str, Any]:
    state = each.state
    return {
        "model": each.model.identifier,
        "route": each.model.route,
        "state": state.state.value,
        "cause": None if state.cause is None else state.cause.value,
        "failure": None if state.kind is None else state.kind.value,
        "remaining_seconds": round(state.remaining, 3),
        "failures_in_a_row": state.failures,
        "unusable": each.unusable,
    }


def _said(each: Preflighted) -> dict[str, str]:
    return {
        "model": each.model.identifier,
        "route": each.model.route,
        "access": each.access.value,
        "why": each.why,
    }
