"""Who reads a setting: the values that calls are handed, watched."""

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from governance.settings_store.store import EffectiveSettings, SettingsSnapshot


class Attribute(NamedTuple):
    """A field of one of the values that hold settings in force."""

    holder: type
    name: str


class _Watched:
    """A field as it was, which notes the module of whoever reads it."""

    def __init__(self, field: Any, seen: set[str]) -> None:
        self._field = field
        self._seen = seen

    def __get__(self, holder: Any, owner: type | None = None) -> Any:
        if holder is None:
            return self
        frame = sys._getframe(1)
        if frame.f_code.co_filename != "<string>":  # what dataclasses write: comparing, hashing, showing
            self._seen.add(frame.f_globals["__name__"])
        return self._field.__get__(holder, owner)

    def __set__(self, holder: Any, value: Any) -> None:
        self._field.__set__(holder, value)


def attributes_of(key: str, value: Any) -> list[Attribute]:
    """Where a setting ends up: what differs between the default settings and those with this value."""
    plain, changed = (EffectiveSettings.of(SettingsSnapshot(each, version=1)) for each in ({}, {key: value}))
    return list(_differences(plain, changed))


def _differences(one: Any, other: Any) -> Iterator[Attribute]:
    for field in dataclasses.fields(one):
        before, after = getattr(one, field.name), getattr(other, field.name)
        if dataclasses.is_dataclass(before):
            yield from _differences(before, after)
        elif before != after:
            yield Attribute(type(one), field.name)


@contextmanager
def watched(attributes: list[Attribute]) -> Iterator[set[str]]:
    """The names of the modules that read one of these fields while the block runs; it fills up."""
    seen: set[str] = set()
    fields = {each: each.holder.__dict__[each.name] for each in attributes}
    try:
        for each, field in fields.items():
            setattr(each.holder, each.name, _Watched(field, seen))
        yield seen
    finally:
        for each, field in fields.items():
            setattr(each.holder, each.name, field)
