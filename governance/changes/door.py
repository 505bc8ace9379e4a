"""What every change does: validate, save, keep what was and what is, and say so in the audit trail, or none of it.

The first lock is always the counter of the record's app, the last one the trail's. A transaction that changes records
of several apps raises all their counters before it begins (:func:`begin`), so that two of them wait for each other
instead of ending in a deadlock.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import Max

from governance.audit.actions import AuditAction, Author, RecordKind
from governance.audit.trail import append
from governance.changes.descriptions import Document, describe, version_of
from governance.changes.rules import RecordOutOfState, check_parts, check_record
from governance.models import AccessVersion, Revision, SettingsVersion
from routing.models import CatalogueVersion, VersionedRecord

_DOCUMENTS = ("before", "after")


class RecordMovedOn(Exception):
    """A change was meant for a version of the record that is not the stored one any more; nothing was saved."""


def begin() -> None:
    """Take the first locks of a transaction that will change records of several apps. Call it before anything else."""
    for counter in (CatalogueVersion, SettingsVersion, AccessVersion):
        counter.bump()


def change(
    *,
    kind: RecordKind,
    record: VersionedRecord,
    name: str,
    author: Author,
    reason: str = "",
    save: Sequence[models.Model] = (),
    remove: Sequence[models.Model] = (),
    only: Sequence[str] | None = None,
    action: AuditAction | None = None,
    validate: bool = True,
    expected: str | None = None,
) -> Revision | None:
    """Save a record with its parts; gives the revision, or ``None`` if nothing differed, and then nothing is written.

    Args:
        kind: the kind of record.
        record: the record, new or changed.
        name: the identifier under which it is spoken of.
        author: who, and from where.
        reason: why, in the author's words.
        save: parts (prices, places in a list) to save after the record.
        remove: parts to remove before that.
        only: the columns to write, so that two people at one record do not undo each other's work; all if not said.
        action: what to call it, said even if nothing differed; created or changed if not said.
        validate: whether the record's fields are validated. Not where only its state is set: a record with a field
            that is wrong must be possible to switch off.
        expected: the version (:func:`~governance.changes.descriptions.version_of`) that the change is meant for; any
            if not said.

    Raises:
        ValidationError: a field is wrong; nothing was saved.
        RecordOutOfState: the record is retired, and this is not what brings it back.
        RecordMovedOn: the stored record has another version than ``expected``.
    """
    with transaction.atomic():
        record.counter.bump()  # whoever changes such a record waits here, so what is read now is the latest
        before = None if record._state.adding else describe(kind, record.pk)
        _compare(before, expected, name)
        if validate:
            if before is not None and before.get("retired_at") is not None:
                raise RecordOutOfState(f"{name} is retired; bring it back first.")
            record.full_clean()
            check_record(record)
            check_parts(record, saved=save, removed=remove)
        record.save(update_fields=None if only is None or before is None else list(only))
        for part in remove:
            part.delete()
        for part in save:
            _belong(part, record)
            part.full_clean()
            part.save()
        after = describe(kind, record.pk)
        if before == after and action is None:
            transaction.set_rollback(True)
            return None
        called = action or (AuditAction.CREATED if before is None else AuditAction.CHANGED)
        return keep(kind=kind, name=name, before=before, after=after, action=called, author=author, reason=reason)


def remove(
    *,
    kind: RecordKind,
    record: VersionedRecord,
    name: str,
    author: Author,
    reason: str = "",
    action: AuditAction = AuditAction.REMOVED,
    expected: str | None = None,
) -> Revision:
    """Take a record away that no other row names; what it was stays in the revision.

    Raises:
        RecordMovedOn: the stored record has another version than ``expected``.
    """
    with transaction.atomic():
        record.counter.bump()
        before = describe(kind, record.pk)
        _compare(before, expected, name)
        record.delete()
        return keep(kind=kind, name=name, before=before, after=None, action=action, author=author, reason=reason)


def keep(
    *,
    kind: RecordKind,
    name: str,
    before: Document | None,
    after: Document | None,
    action: AuditAction,
    author: Author,
    reason: str = "",
) -> Revision:
    """Keep a revision and add the entry to the trail, inside the transaction of the change.

    Raises:
        ValidationError: the reason is too long.
    """
    earlier: dict[str, Any] = Revision.objects.filter(kind=kind.value, record=name).aggregate(last=Max("number"))
    revision = Revision(
        kind=kind.value,
        record=name,
        number=(earlier["last"] or 0) + 1,
        before=before,
        after=after,
        author=author.name,
        reason=reason,
        at=datetime.now(UTC),
    )
    try:
        revision.clean_fields(exclude=_DOCUMENTS)
    except ValidationError as refused:
        complaints = refused.message_dict
        raise ValidationError([f"{field}: {' '.join(words)}" for field, words in complaints.items()]) from None
    revision.save()
    append(action=action, kind=kind, record=name, author=author, reason=reason, revision=revision)
    return revision


def _compare(before: Document | None, expected: str | None, name: str) -> None:
    if expected is not None and version_of(before) != expected:
        raise RecordMovedOn(f"{name} was changed by somebody else meanwhile")


def _belong(part: models.Model, record: models.Model) -> None:
    """Let a part that was made for an unsaved record name the saved one."""
    for field in part._meta.concrete_fields:
        if part._state.fields_cache.get(field.name) is record:
            setattr(part, field.name, record)
