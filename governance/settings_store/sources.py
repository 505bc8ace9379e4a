"""Where the value in force of a setting comes from: its default, a stored row, or the environment, which wins.

A pinned setting (``SIGNALBOX_SETTINGS``) has the environment's value in every process, whatever is stored, and nothing
is stored for it meanwhile: an operator would take a change that has no effect for one that has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError

from governance.models import SettingValue
from governance.settings_store.registry import REGISTRY, Setting, Value

PINNED_BY = "SIGNALBOX_SETTINGS"
"""The environment variable that pins settings."""


class SettingPinned(ValidationError):
    """The environment pins the setting, so that nothing is stored for it."""


class Source(StrEnum):
    """Where a value in force comes from."""

    DEFAULT = "default"
    STORED = "stored"
    ENVIRONMENT = "environment"
    UNREADABLE = "unreadable"
    """Something is stored that may not be stored; in force is what the setting takes it for."""


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """A setting as pages show it: the value in force, where it comes from, and what is stored, if anything is."""

    setting: Setting[Any]
    value: Any
    source: Source
    stored: SettingValue | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether it can be changed in the environment only."""
        return self.source is Source.ENVIRONMENT

    @property
    def stored_at(self) -> datetime | None:
        """When the stored value was stored."""
        return None if self.stored is None else self.stored.updated_at


def pinned_settings() -> Mapping[str, Any]:
    """The values that the environment pins, by key; the start has checked them."""
    pinned: Mapping[str, Any] = settings.SIGNALBOX_SETTINGS
    return pinned


def resolve(setting: Setting[Value], *, stored: Mapping[str, Any], pinned: Mapping[str, Any]) -> tuple[Value, Source]:
    """The value in force and its source: the environment's, else the stored one, else the default."""
    if setting.key in pinned:
        return setting.read(pinned[setting.key]), Source.ENVIRONMENT
    if setting.key not in stored:
        return setting.default, Source.DEFAULT
    value = stored[setting.key]
    return setting.read(value), Source.STORED if setting.accepts(value) is None else Source.UNREADABLE


def settings_in_force() -> list[SettingInForce]:
    """Every declared setting with the value in force: one query."""
    rows = {row.key: row for row in SettingValue.objects.all()}
    stored, pinned = {key: row.value for key, row in rows.items()}, pinned_settings()
    found = []
    for key, setting in REGISTRY.items():
        value, source = resolve(setting, stored=stored, pinned=pinned)
        found.append(SettingInForce(setting=setting, value=value, source=source, stored=rows.get(key)))
    return found


def check_changeable(key: str) -> None:
    """Refuse what cannot be changed here.

    Raises:
        ValidationError: there is no such setting.
        SettingPinned: the environment pins it.
    """
    if key not in REGISTRY:
        raise ValidationError({"key": f"There is no setting {key}. Choose one of {', '.join(REGISTRY)}."})
    if key in pinned_settings():
        raise SettingPinned(
            {"key": f"{key} is pinned by the environment variable {PINNED_BY}; it is changed there, and by a restart."}
        )


def check_storable(key: str, value: Any) -> None:
    """Refuse what may not be stored.

    Raises:
        ValidationError: there is no such setting, the environment pins it, or it does not accept the value.
    """
    check_changeable(key)
    complaint = REGISTRY[key].accepts(value)
    if complaint is not None:
        raise ValidationError({"value": f"{key}: {complaint}."})
