"""``manage.py resting``: which routes rest, why and for how long; clears or pauses one by hand."""

import math
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from governance.audit.actions import Author, Channel
from governance.changes.circuits import clear_route, rest_route
from governance.gateway.service import standing_now
from governance.route_health import read_routes, resting_among
from routing.core.breaker import CircuitState
from routing.core.failures import FAILURES
from routing.core.vocabulary import LABELS

AUTHOR = Author("manage.py resting", Channel.COMMAND)


class Command(BaseCommand):
    """List routes that rest; clear or pause one."""

    help = "List the routes that rest, with the reason and the time left; clear or pause one of them by hand."

    def add_arguments(self, parser: CommandParser) -> None:
        """What to do to which route."""
        action = parser.add_mutually_exclusive_group()
        action.add_argument("--clear", metavar="MODEL", help="Identifier of a model that shall be asked again.")
        action.add_argument("--pause", metavar="MODEL", help="Identifier of a model that shall not be asked.")
        parser.add_argument("--seconds", type=float, default=300.0, help="For how long it is paused (300).")
        parser.add_argument("--reason", default="", help="Why, for the audit trail.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Do it, and say how things are."""
        model = options["clear"] or options["pause"]
        if model:
            self._act(model, options)
        resting = resting_among(read_routes())
        for each in resting:
            self.stdout.write(f"{each.model.route}: {_told(each.state)}")
        if not resting:
            self.stdout.write("No route rests.")

    def _act(self, model: str, options: dict[str, Any]) -> None:
        if all(each.model.identifier != model for each in read_routes()):
            raise CommandError(f"There is no route {model} in service.")
        circuits, author = standing_now().circuits, AUTHOR
        try:
            if options["clear"]:
                clear_route(circuits, model, author=author, reason=options["reason"])
            else:
                rest_route(circuits, model, seconds=options["seconds"], author=author, reason=options["reason"])
        except ValidationError as refused:
            raise CommandError(" ".join(refused.messages)) from None


def _told(state: Any) -> str:
    why = LABELS[state.cause] if state.kind is None else FAILURES[state.kind].label
    if state.state is CircuitState.RESTING:
        return f"rests for another {math.ceil(state.remaining)} s ({why}; failures in a row: {state.failures})"
    return f"has rested; the next call tries it ({why}; failures in a row: {state.failures})"
