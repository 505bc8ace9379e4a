"""Entries of the audit trail as pages show them: what was done, by whom, and each field before and after."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from types import MappingProxyType
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db.models import DateTimeField
from django.utils.dateparse import parse_datetime

from governance.audit.actions import (
    ACTION_LABELS,
    CHANNEL_LABELS,
    KIND_LABELS,
    AuditAction,
    Channel,
    RecordKind,
)
from governance.changes.descriptions import Document
from governance.changes.restoration import MODELS
from governance.models import AuditEvent, Revision, changed_fields
from governance.spelling import ABSENT, capability_words, spell_rate

_SAID_FIRST = frozenset({"valid_from", "currency", "input_rate", "output_rate", "provenance"})

_BESIDE_COLUMNS: Mapping[str, str] = MappingProxyType(
    {"has_key": "has a key", "listed_models": "listed models", "fallbacks": "falls back to"}
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field, in words."""

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry of the trail with what it changed."""

    event: AuditEvent
    action: str
    kind: str
    channel: str
    differences: Sequence[Difference]

    @property
    def label(self) -> str:
        """What the table of differences is called by those who hear it."""
        return f"What was changed in entry {self.event.number}"


def entry_row(event: AuditEvent) -> EntryRow:
    """An entry in words."""
    return EntryRow(
        event=event,
        action=action_words(event.action),
        kind=kind_words(event.kind),
        channel=channel_words(event.channel),
        differences=[] if event.revision is None else differences_of(event.revision),
    )


def differences_of(revision: Revision) -> list[Difference]:
    """What a revision changed."""
    return differences(revision.kind, revision.before, revision.after)


def differences(kind: str, before: Document | None, after: Document | None) -> list[Difference]:
    """Two documents of a record compared. Of one that was made or taken away, the fields that say something."""
    whole = before is None or after is None
    return [
        difference(kind, field, *values)
        for field, values in changed_fields(before, after).items()
        if not whole or any(value not in (None, "", [], False) for value in values)
    ]


def difference(kind: str, field: str, before: Any, after: Any) -> Difference:
    """One field of a kind of record, in words."""
    column = _column(kind, field)
    words = _BESIDE_COLUMNS.get(field) or (field.replace("_", " ") if column is None else str(column.verbose_name))
    return Difference(words, _spell(column, field, before), _spell(column, field, after))


def action_words(stored: str) -> str:
    """An action in words; the stored word where this version knows none."""
    return ACTION_LABELS[AuditAction(stored)] if stored in set(AuditAction) else stored


def kind_words(stored: str) -> str:
    """A kind of record in words."""
    return KIND_LABELS[RecordKind(stored)] if stored in set(RecordKind) else stored


def channel_words(stored: str) -> str:
    """A surface in words."""
    return CHANNEL_LABELS[Channel(stored)] if stored in set(Channel) else stored


def _column(kind: str, field: str) -> Any:
    """The column behind a field; ``None`` of what is put together, and of what this version does not know."""
    try:
        column = MODELS[RecordKind(kind)]._meta.get_field(field)
    except (ValueError, KeyError, FieldDoesNotExist):
        return None
    return column if column.concrete else None


def _spell(column: Any, field: str, value: Any) -> str:
    """A value in the words of its column: a choice by its label, a moment in UTC."""
    labels = dict(getattr(column, "flatchoices", None) or ())
    if isinstance(value, str) and value in labels:
        return str(labels[value])
    if isinstance(column, DateTimeField) and isinstance(value, str):
        return _moment(value)
    return spell_field(field, value)


def spell_field(field: str, value: Any) -> str:
    """A field's value as a person reads it: prices as decimals, lists in their order, absence as a dash."""
    match value:
        case None | "":
            return ABSENT
        case bool():
            return "yes" if value else "no"
        case int() if field.endswith("_rate"):
            return spell_rate(value)
        case int():
            return f"{value:,}"
        case str():
            return value
        case list() if field == "prices":
            return "\n".join(_spell_price(each) for each in value) or "none"
        case list() if all(isinstance(each, str) for each in value):
            return (capability_words(value) if field == "capabilities" else ", ".join(value)) or "none"
    return json.dumps(value, ensure_ascii=False)


def _spell_price(price: Mapping[str, Any]) -> str:
    others = [
        f"{field.removesuffix('_rate').replace('_', ' ')} {spell_field(field, value)}"
        for field, value in price.items()
        if field not in _SAID_FIRST and value not in (None, False)
    ]
    rates = f"{spell_rate(price['input_rate'])} / {spell_rate(price['output_rate'])} {price['currency']}"
    return "; ".join([f"from {_moment(str(price['valid_from']))}: {rates}", *others])


def _moment(stored: str) -> str:
    """A stored moment as pages write moments; what is none, as it is stored."""
    moment = parse_datetime(stored)
    return stored if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
