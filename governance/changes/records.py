"""Changes of records with identifiers (providers, models, configurations, applications, budgets, webhooks), and of
evaluation results."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

from django.db import models

from governance.audit.actions import AuditAction, Author, RecordKind
from governance.changes.door import change, remove
from governance.changes.prices import mark_prices
from governance.changes.rules import RecordOutOfState
from governance.models import Application, Budget, Webhook
from routing.models import Configuration, EvaluationResult, LanguageModel, NamedRecord, Provider

KINDS: Mapping[type[NamedRecord], RecordKind] = MappingProxyType(
    {
        Provider: RecordKind.PROVIDER,
        LanguageModel: RecordKind.MODEL,
        Configuration: RecordKind.CONFIGURATION,
        Application: RecordKind.APPLICATION,
        Budget: RecordKind.BUDGET,
        Webhook: RecordKind.WEBHOOK,
    }
)


def save_record(
    record: NamedRecord,
    *,
    author: Author,
    reason: str = "",
    parts: Sequence[models.Model] = (),
    parts_removed: Sequence[models.Model] = (),
    only: Sequence[str] | None = None,
    action: AuditAction | None = None,
    validate: bool = True,
    expected: str | None = None,
) -> None:
    """Save a record with the parts that belong to it; see :func:`governance.changes.door.change`."""
    columns = None if only is None else [*only, "updated_at"]
    mark_prices(parts)
    change(
        kind=KINDS[type(record)],
        record=record,
        name=record.identifier,
        author=author,
        reason=reason,
        save=parts,
        remove=parts_removed,
        only=columns,
        action=action,
        validate=validate,
        expected=expected,
    )


def switch(record: NamedRecord, *, on: bool, author: Author, reason: str = "") -> None:
    """Switch a record on or off. Off, it serves no call, from half a second later on."""
    if record.retired_at is not None:
        raise RecordOutOfState(f"{record.identifier} is retired; bring it back first.")
    record.is_active = on
    save_record(record, author=author, reason=reason, only=["is_active"], validate=on)


def retire(record: NamedRecord, *, author: Author, reason: str = "") -> None:
    """Take a record out of service for good; its identifier stays taken."""
    if record.retired_at is None:
        record.is_active, record.retired_at = False, datetime.now(UTC)
        columns = ["is_active", "retired_at"]
        save_record(record, author=author, reason=reason, only=columns, action=AuditAction.RETIRED, validate=False)


def bring_back(record: NamedRecord, *, author: Author, reason: str = "") -> None:
    """Bring a retired record back, switched off."""
    if record.retired_at is not None:
        record.retired_at = None
        columns = ["retired_at"]
        save_record(record, author=author, reason=reason, only=columns, action=AuditAction.BROUGHT_BACK, validate=False)


def save_evaluation(
    result: EvaluationResult,
    *,
    author: Author,
    reason: str = "",
    only: Sequence[str] | None = None,
    expected: str | None = None,
) -> None:
    """Save a result of a golden set."""
    change(
        kind=RecordKind.EVALUATION,
        record=result,
        name=name_of_evaluation(result),
        author=author,
        reason=reason,
        only=only,
        expected=expected,
    )


def remove_evaluation(
    result: EvaluationResult, *, author: Author, reason: str = "", expected: str | None = None
) -> None:
    """Take a result away. No row names a result, so this kind of record can go."""
    name = name_of_evaluation(result)
    remove(kind=RecordKind.EVALUATION, record=result, name=name, author=author, reason=reason, expected=expected)


def name_of_evaluation(result: EvaluationResult) -> str:
    """Under which name a result is spoken of."""
    return f"{result.model.identifier}/{result.golden_set}"
