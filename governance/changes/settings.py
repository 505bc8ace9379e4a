"""Changes of settings."""

from typing import Any

from django.db import transaction

from governance.audit.actions import AuditAction, Author, RecordKind
from governance.changes.descriptions import describe, version_of
from governance.changes.door import change, remove
from governance.models import SettingsVersion, SettingValue
from governance.settings_store.sources import check_changeable, check_storable


def stored_version(key: str) -> str:
    """The version of what is stored under a key, if anything is: what a change can be tied to."""
    return version_of(describe(RecordKind.SETTING, key))


def store_setting(key: str, value: Any, *, author: Author, reason: str = "", expected: str | None = None) -> None:
    """Store a value, in force from half a second later on.

    Raises:
        ValidationError: there is no such setting, the environment pins it, or it does not accept the value.
        RecordMovedOn: the stored value has another version than ``expected``.
    """
    check_storable(key, value)
    with transaction.atomic():
        SettingsVersion.bump()  # before the row is looked for, since somebody else may be storing it
        row = SettingValue.objects.filter(key=key).first() or SettingValue(key=key)
        row.value = value
        revision = change(
            kind=RecordKind.SETTING, record=row, name=key, author=author, reason=reason, expected=expected
        )
        if revision is None:
            transaction.set_rollback(True)


def clear_setting(key: str, *, author: Author, reason: str = "", expected: str | None = None) -> None:
    """Forget the stored value, so that the declared default is in force.

    Raises:
        ValidationError: there is no such setting, or the environment pins it.
        RecordMovedOn: the stored value has another version than ``expected``.
    """
    check_changeable(key)
    with transaction.atomic():
        SettingsVersion.bump()
        row = SettingValue.objects.filter(key=key).first()
        if row is None:
            transaction.set_rollback(True)
            return
        remove(
            kind=RecordKind.SETTING,
            record=row,
            name=key,
            author=author,
            reason=reason,
            action=AuditAction.RESET,
            expected=expected,
        )
