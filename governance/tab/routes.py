"""*Routes*: which rest, why and until when; which nothing can select; and what providers say when they are asked.

A route is cleared or paused by hand behind a confirmation, with a reason for the audit trail.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone

from governance.access.authors import author_of
from governance.changes.circuits import clear_route, rest_route
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
from governance.tab.panels import Content, Panel
from routing.core.breaker import CircuitState
from routing.core.failures import FAILURES
from routing.core.vocabulary import LABELS

MAY_CHANGE = "routing.change_languagemodel"

CLEAR, PAUSE, PREFLIGHT = "clear", "pause", "preflight"

PAUSES: Sequence[tuple[int, str]] = ((300, "5 minutes"), (3600, "an hour"), (4 * 3600, "4 hours"), (86_400, "a day"))
"""For how long a route can be paused here."""

STATES: Mapping[CircuitState, str] = MappingProxyType(
    {
        CircuitState.CLOSED: "asked",
        CircuitState.RESTING: "rests",
        CircuitState.HALF_OPEN: "rested; the next call tries it",
        CircuitState.PROBING: "rested; a call is trying it",
    }
)

ACCESS: Mapping[Access, str] = MappingProxyType(
    {Access.READY: "Ready", Access.DENIED: "Denied", Access.UNKNOWN: "Could not be checked"}
)


@dataclass(frozen=True, slots=True)
class RouteRow:
    """One route. ``until`` is the end of its rest; ``pause_url`` and ``clear_url`` lead to the confirmations."""

    model: str
    route: str
    state: str
    is_resting: bool
    why: str
    until: datetime | None
    left: str
    failures: int
    unusable: str
    pause_url: str
    clear_url: str
    model_url: str


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What is about to be done to a route."""

    action: str
    title: str
    route: str
    model: str
    meaning: str
    pauses: Sequence[tuple[int, str]]
    button: str


@dataclass(frozen=True, slots=True)
class AccessRow:
    """What a provider said of one route."""

    route: str
    access: str
    is_denied: bool
    is_ready: bool
    why: str


@dataclass(frozen=True, slots=True)
class RoutesPanel:
    """The panel: all routes, the confirmation of what is to be done to one, or what a preflight found."""

    rows: Sequence[RouteRow]
    resting: int
    unusable: int
    may_change: bool
    confirmation: Confirmation | None
    found: Sequence[AccessRow]
    problem: str
    url: str


def answer(request: HttpRequest) -> Content | HttpResponse:
    """The routes; with ``do`` in the address a confirmation; by POST what was confirmed."""
    may_change, problem = request.user.has_perm(MAY_CHANGE), ""
    found: Sequence[Preflighted] = ()
    asked = request.GET
    if request.method == "POST":
        if not may_change:
            raise PermissionDenied
        asked = request.POST
        if asked.get("do") == PREFLIGHT:
            found = preflight(author=author_of(request))
        else:
            problem = _act(request)
            if not problem:
                return HttpResponseRedirect(PANEL.url)
    routes = read_routes()
    by_model = {each.model.identifier: each for each in routes}
    route = by_model.get(asked.get("model", ""))
    confirmation = _confirmation(route, asked.get("do", "")) if may_change and route is not None else None
    panel = RoutesPanel(
        rows=[_row(each, now=timezone.now(), may_change=may_change) for each in routes],
        resting=len(resting_among(routes)),
        unusable=len(unusable_among(routes)),
        may_change=may_change,
        confirmation=confirmation,
        found=[_access(each) for each in found],
        problem=problem,
        url=PANEL.url,
    )
    return Content(panel, problem or _status(panel))


def _act(request: HttpRequest) -> str:
    """Do what was confirmed; gives what is wrong with it, nothing if it was done."""
    sent, circuits = request.POST, standing_now().circuits
    model, author, reason = sent.get("model", ""), author_of(request), sent.get("reason", "")
    if all(each.model.identifier != model for each in read_routes()):
        return f"There is no route {model} in service."
    try:
        if sent.get("do") == CLEAR:
            clear_route(circuits, model, author=author, reason=reason)
            messages.success(request, f"{model}: cleared. Every process asks it again within a second.")
            return ""
        seconds = sent.get("seconds", "")
        if sent.get("do") != PAUSE or not seconds.isascii() or not seconds.isdigit():
            return "Choose for how long the route is paused."
        rest_route(circuits, model, seconds=float(seconds), author=author, reason=reason)
    except ValidationError as refused:
        return " ".join(refused.messages)
    messages.success(request, f"{model}: paused. Every process passes it over within a second.")
    return ""


def _confirmation(each: RouteHealth, action: str) -> Confirmation | None:
    route, model = each.model.route, each.model.identifier
    if action == CLEAR:
        meaning = "Calls ask it again at once, as if it had never failed. If it still fails, it rests again."
        return Confirmation(CLEAR, f"Clear {route}", route, model, meaning, (), "Clear")
    if action == PAUSE:
        meaning = (
            "Calls pass it over until then, and say so. Afterwards one call tries it. To take a model out for good, "
            "switch it off in its record."
        )
        return Confirmation(PAUSE, f"Pause {route}", route, model, meaning, PAUSES, "Pause")
    return None


def _row(each: RouteHealth, *, now: datetime, may_change: bool) -> RouteRow:
    state, model = each.state, each.model
    rests = state.state is CircuitState.RESTING
    why = "" if state.cause is None else LABELS[state.cause]
    if state.kind is not None:
        why = FAILURES[state.kind].label
    return RouteRow(
        model=model.identifier,
        route=model.route,
        state=STATES[state.state],
        is_resting=each.is_resting,
        why=why,
        until=now + timedelta(seconds=state.remaining) if rests else None,
        left=_spelled(state.remaining) if rests else "",
        failures=state.failures,
        unusable=each.unusable,
        pause_url=_address(model.identifier, PAUSE) if may_change else "",
        clear_url=_address(model.identifier, CLEAR) if may_change and each.is_resting else "",
        model_url=f"{reverse('admin:routing_languagemodel_changelist')}?{urlencode({'q': model.identifier})}",
    )


def _access(each: Preflighted) -> AccessRow:
    return AccessRow(
        route=each.model.route,
        access=ACCESS[each.access],
        is_denied=each.access is Access.DENIED,
        is_ready=each.access is Access.READY,
        why=each.why,
    )


def _spelled(seconds: float) -> str:
    whole = math.ceil(seconds)
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _status(panel: RoutesPanel) -> str:
    if panel.confirmation is not None:
        return panel.confirmation.title
    if panel.found:
        denied = sum(each.is_denied for each in panel.found)
        return f"{len(panel.found)} routes were checked; {denied} denied."
    return f"{len(panel.rows)} routes, {panel.resting} of them at rest."


def _address(model: str, action: str) -> str:
    return f"{PANEL.url}?{urlencode({'model': model, 'do': action})}"


PANEL = Panel(
    slug="routes",
    title="Routes",
    template="governance/_routes.html",
    permissions=("routing.view_languagemodel", "routing.view_provider"),
    answer=answer,
    methods=("GET", "HEAD", "POST"),
)
