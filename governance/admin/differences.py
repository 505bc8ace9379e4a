"""Entries of the audit trail as pages show them: what was done, by whom, and each field before and after."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from governance.audit.actions import (
    ACTION_LABELS,
    CHANNEL_LABELS,
    KIND_LABELS,
    AuditAction,
    Channel,
    RecordKind,
)
from governance.models import AuditEvent, Revision
from governance.spelling import ABSENT, spell_rate

_SAID_FIRST = frozenset({"valid_from", "currency", "input_rate", "output_rate", "provenance"})


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


def entry_row(event: AuditEvent) -> EntryRow:
    """An entry in words."""
    return EntryRow(
        event=event,
        action=action_words(event.action),
        kind=kind_words(event.kind),
        channel=channel_words(event.channel),
        differences=[] if event.revision is None else differences(event.revision),
    )


def differences(revision: Revision) -> list[Difference]:
    """What a revision changed. Of a record that was made or taken away, the fields that say something."""
    whole = revision.before is None or revision.after is None
    return [
        Difference(field.replace("_", " "), spell_field(field, before), spell_field(field, after))
        for field, (before, after) in revision.changes.items()
        if not whole or any(value not in (None, "", [], False) for value in (before, after))
    ]


def action_words(stored: str) -> str:
    """An action in words; the stored word where this version knows none."""
    return ACTION_LABELS[AuditAction(stored)] if stored in set(AuditAction) else stored


def kind_words(stored: str) -> str:
    """A kind of record in words."""
    return KIND_LABELS[RecordKind(stored)] if stored in set(RecordKind) else stored


def channel_words(stored: str) -> str:
    """A surface in words."""
    return CHANNEL_LABELS[Channel(stored)] if stored in set(Channel) else stored


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
            return ", ".join(value) or "none"
    return json.dumps(value, ensure_ascii=False)


def _spell_price(price: Mapping[str, Any]) -> str:
    others = [
        f"{field.removesuffix('_rate').replace('_', ' ')} {spell_field(field, value)}"
        for field, value in price.items()
        if field not in _SAID_FIRST and value not in (None, False)
    ]
    rates = f"{spell_rate(price['input_rate'])} / {spell_rate(price['output_rate'])} {price['currency']}"
    return "; ".join([f"from {str(price['valid_from'])[:16].replace('T', ' ')}: {rates}", *others])
