"""What a call's row holds as text, in words: operations, modes, reasons, outcomes.

What this version does not know, since another one wrote it, stays as it is.
"""

from routing.core.failures import FAILURES, FailureKind
from routing.core.requirements import Shape
from routing.core.vocabulary import LABELS, ListedOrder, Operation, RejectionReason

DEMO = "demo"
"""The source of rows that a demo made."""

WHOSE = (
    "Asked as nobody in particular: past a tier of a budget that names an application, a key or a user, their calls go "
    "elsewhere."
)
"""Beside what was asked as nobody, where there are such budgets."""

_LISTED = {f"listed:{order}": f"listed, {LABELS[order].lower()}" for order in ListedOrder}
_SHAPES = {
    Shape.SINGLE_TURN.value: "one turn",
    Shape.MULTI_TURN.value: "several turns",
    Shape.TOOL_ASSISTED.value: "with tools",
}
_REASONS = {reason.value: LABELS[reason] for reason in RejectionReason}


def operation_of(text: str) -> Operation | None:
    """The operation that a row names; ``None`` if this version knows none of that name."""
    try:
        return Operation(text)
    except ValueError:
        return None


def operation_words(text: str) -> str:
    """An operation in words."""
    operation = operation_of(text)
    return text if operation is None else LABELS[operation]


def mode_words(text: str) -> str:
    """A recorded mode: the policy mode's own name, or how a list was ordered."""
    return _LISTED.get(text, text)


def reason_words(text: str) -> str:
    """A reason of refusal in words."""
    return _REASONS.get(text, text)


def outcome_words(failure_kind: str) -> str:
    """How a call or an attempt ended, by its failure kind; empty is served."""
    if not failure_kind:
        return "served"
    try:
        return FAILURES[FailureKind(failure_kind)].label
    except ValueError:
        return failure_kind


def shape_words(text: str) -> str:
    """The shape of a request in words."""
    return _SHAPES.get(text, text)
