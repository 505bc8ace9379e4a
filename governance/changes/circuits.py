"""What operators do to the circuit of a route. That they did stands in the audit trail; that it rests is no record."""

from django.core.exceptions import ValidationError
from django.db import transaction

from governance.audit.actions import AuditAction, Author, RecordKind
from governance.audit.trail import append
from routing.circuits import Circuits
from routing.core.vocabulary import RestCause

LEAST_SECONDS, MOST_SECONDS = 1.0, 24 * 3600.0
"""How long a route may be paused. What shall not be asked for longer is switched off."""

LONGEST_REASON = 500


def rest_route(
    circuits: Circuits,
    model: str,
    *,
    seconds: float,
    author: Author,
    reason: str = "",
    cause: RestCause = RestCause.PAUSED,
) -> None:
    """Make a route rest, in all processes. One that would rest longer anyway goes on as it is.

    Raises:
        ValidationError: the time or the reason.
    """
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise ValidationError(f"seconds: from {LEAST_SECONDS:g} to {MOST_SECONDS:g}, which is a day")
    _tell(AuditAction.PAUSED, model, author, f"{seconds:g} s. {reason}".strip())
    circuits.rest(model, seconds=seconds, cause=cause)
    circuits.share([model])


def clear_route(circuits: Circuits, model: str, *, author: Author, reason: str = "") -> None:
    """Let a route be asked again, in all processes, as if it had never failed.

    Raises:
        ValidationError: the reason.
    """
    _tell(AuditAction.CLEARED, model, author, reason)
    circuits.clear(model)
    circuits.share([model])


def _tell(action: AuditAction, model: str, author: Author, reason: str) -> None:
    if len(reason) > LONGEST_REASON:
        raise ValidationError(f"reason: at most {LONGEST_REASON} characters")
    with transaction.atomic():
        append(action=action, kind=RecordKind.ROUTE, record=model, author=author, reason=reason)
