"""Bringing a record back to what an earlier revision says of it: a change like every other, through the same door.

What is restored is what people set: the fields, the prices with their dates, the list and the chain in their order.
What a record is and what has become of it stays: its identifier, whether it is retired or revoked, when a key ends. No
secret is in a revision, so a provider keeps the key it has, and a webhook its secret; the query of its URL goes with
that URL alone. Every rule that holds for a change holds for this one.

A result of a golden set is the one kind that can be removed, and so the one kind that is made anew.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction

from governance.audit.actions import AuditAction, Author, RecordKind
from governance.changes.descriptions import Document, describe, version_of
from governance.changes.door import RecordMovedOn, change, remove
from governance.changes.drafts import draft
from governance.changes.records import KINDS, save_record
from governance.models import AccessKey, Revision, SettingValue
from governance.settings_store.sources import check_changeable, check_storable
from routing.models import EvaluationResult, VersionedRecord

_NAMED = frozenset({"identifier", "retired_at", "source"})

STAYS: Mapping[RecordKind, frozenset[str]] = MappingProxyType(
    {
        RecordKind.PROVIDER: _NAMED | {"key_hint", "has_key"},
        RecordKind.MODEL: _NAMED,
        RecordKind.CONFIGURATION: _NAMED,
        RecordKind.APPLICATION: _NAMED,
        RecordKind.BUDGET: _NAMED,
        RecordKind.WEBHOOK: _NAMED | {"secret_hint", "has_query"},
        RecordKind.EVALUATION: frozenset({"source"}),
        RecordKind.KEY: frozenset({"application", "prefix", "expires_at", "revoked_at", "source"}),
        RecordKind.SETTING: frozenset(),
    }
)
"""The fields of a revision that are not restored."""

MODELS: Mapping[RecordKind, type[VersionedRecord]] = MappingProxyType(
    {
        **{kind: model for model, kind in KINDS.items()},
        RecordKind.EVALUATION: EvaluationResult,
        RecordKind.KEY: AccessKey,
        RecordKind.SETTING: SettingValue,
    }
)
"""Where the records of a kind are."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """What restoring a revision does, or would do.

    ``before`` is empty where the record is made anew, ``after`` where a setting goes back to its default. ``stays``
    holds the fields that are not restored although the revision says something else of them: what it says, and what
    stays. ``version`` ties the change to what was looked at; ``pk`` is the record's.
    """

    before: Document | None
    after: Document | None
    stays: Mapping[str, tuple[Any, Any]]
    version: str
    pk: Any


def restore(revision: Revision, *, author: Author, reason: str = "", expected: str | None = None) -> Restoration:
    """Bring a record back to what it was after a revision; of a record that was removed then, to what it was before.

    Args:
        revision: what to go back to.
        author: who, and from where.
        reason: why, in the author's words; the number of the revision is put before it.
        expected: the version that was looked at (see :class:`Restoration`); any if not said.

    Raises:
        ValidationError: a rule is broken, the record is retired, revoked or gone, or nothing differs; nothing was
            saved.
        RecordMovedOn: the stored record has another version than ``expected``.
    """
    kind, name, target = RecordKind(revision.kind), revision.record, target_of(revision)
    with transaction.atomic():
        MODELS[kind].counter.bump()  # whoever changes such a record waits here, so what is read now is the latest
        record = find_record(revision)
        before = None if record is None else describe(kind, record.pk)
        version = version_of(before)
        if expected is not None and version != expected:
            raise RecordMovedOn(f"{name} was changed by somebody else meanwhile")
        words = f"Revision {revision.number} restored. {reason}".strip()
        pk = _RESTORERS[kind](_Errand(kind, name, record, target, author, words))
        after = describe(kind, pk)
        if before == after:
            raise ValidationError(f"{name} is as revision {revision.number} says already: nothing would change.")
    return Restoration(before=before, after=after, stays=_stays(target, after), version=version, pk=pk)


def preview(revision: Revision, *, author: Author) -> Restoration:
    """What :func:`restore` would do, found out by doing it and taking it back; raises what that raises."""
    with transaction.atomic():
        restoration = restore(revision, author=author)
        transaction.set_rollback(True)
    return restoration


def target_of(revision: Revision) -> Document | None:
    """What a record is brought back to; ``None`` is the default of a setting."""
    was_removed = revision.after is None and revision.kind != RecordKind.SETTING
    document: Document | None = revision.before if was_removed else revision.after
    return document


def differs(revision: Revision, current: Document | None) -> bool:
    """Whether restoring a revision would change a record that is now described so; one comparison, no query."""
    target = target_of(revision)
    if target is None or current is None:
        return target != current
    stays = STAYS[RecordKind(revision.kind)]
    return any(current[field] != target[field] for field in current if field in target and field not in stays)


def find_record(revision: Revision) -> VersionedRecord | None:
    """The record that a revision is about; ``None`` if there is none now."""
    kind, name = RecordKind(revision.kind), revision.record
    rows: models.QuerySet[Any] = MODELS[kind]._default_manager.order_by("pk")
    match kind:
        case RecordKind.SETTING:
            rows = rows.filter(key=name)
        case RecordKind.KEY:
            application, _, prefix = name.partition("/")
            rows = rows.filter(application__identifier=application, prefix=prefix).select_related("application")
        case RecordKind.EVALUATION:
            rows = _runs(rows, target_of(revision) or {})
        case _:
            rows = rows.filter(identifier=name)
    record: VersionedRecord | None = rows.last()
    return record


def _runs(rows: models.QuerySet[Any], target: Document) -> models.QuerySet[Any]:
    """Of a golden set there are many runs against one model: grader and moment tell them apart."""
    return rows.filter(
        model__identifier=target["model"],
        golden_set=target["golden_set"],
        grader=target["grader"],
        run_at=target["run_at"],
    ).select_related("model")


def _stays(target: Document | None, after: Document | None) -> dict[str, tuple[Any, Any]]:
    told, stored = target or {}, after or {}
    return {field: (told[field], stored[field]) for field in stored if field in told and told[field] != stored[field]}


# --- Each kind ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Errand:
    """What one restoration is about."""

    kind: RecordKind
    name: str
    record: Any
    target: Document | None
    author: Author
    reason: str


def _restore_named(errand: _Errand) -> Any:
    record, name = errand.record, errand.name
    if record is None or errand.target is None:
        raise ValidationError(f"{name} was removed with everything that named it: make a record of another name.")
    if record.retired_at is not None:
        raise ValidationError(f"{name} is retired: bring it back first, then restore it.")
    drafted = draft(record, errand.target, stays=STAYS[errand.kind])
    save_record(
        record,
        author=errand.author,
        reason=errand.reason,
        parts=drafted.save,
        parts_removed=drafted.remove,
        only=drafted.columns,
        action=AuditAction.RESTORED,
    )
    return record.pk


def _restore_key(errand: _Errand) -> Any:
    key = errand.record
    if key is None or errand.target is None:
        raise ValidationError(f"The key {errand.name} was removed: issue another.")
    if key.revoked_at is not None:
        raise ValidationError(f"The key {errand.name} is revoked and stays so: issue another.")
    drafted = draft(key, errand.target, stays=STAYS[errand.kind])
    return _change(errand, key, only=drafted.columns)


def _restore_evaluation(errand: _Errand) -> Any:
    if errand.target is None:
        raise ValidationError(f"Nothing is known of {errand.name}: enter it anew.")
    result = errand.record
    if result is None:
        result = EvaluationResult()
        draft(result, errand.target)
        return _change(errand, result, only=None)
    drafted = draft(result, errand.target, stays=STAYS[errand.kind])
    return _change(errand, result, only=drafted.columns)


def _restore_setting(errand: _Errand) -> Any:
    key, row, target = errand.name, errand.record, errand.target
    if target is not None:
        check_storable(key, target["value"])
        row = row or SettingValue(key=key)
        row.value = target["value"]
        return _change(errand, row, only=["value", "updated_at"])
    check_changeable(key)
    if row is not None:
        remove(
            kind=errand.kind,
            record=row,
            name=key,
            author=errand.author,
            reason=errand.reason,
            action=AuditAction.RESTORED,
        )
    return key


def _change(errand: _Errand, record: VersionedRecord, *, only: Sequence[str] | None) -> Any:
    change(
        kind=errand.kind,
        record=record,
        name=errand.name,
        author=errand.author,
        reason=errand.reason,
        only=only,
        action=AuditAction.RESTORED,
    )
    return record.pk


_RESTORERS: Mapping[RecordKind, Callable[[_Errand], Any]] = MappingProxyType(
    {
        **dict.fromkeys(KINDS.values(), _restore_named),
        RecordKind.EVALUATION: _restore_evaluation,
        RecordKind.KEY: _restore_key,
        RecordKind.SETTING: _restore_setting,
    }
)
"""How each kind is restored; gives the primary key of the record."""
