"""What a protocol's fields mean to this installation, as data: read, answered by us, carried by one protocol, refused.

Readers consult it for every object they read, so that a field nobody here knows is noticed and named. The page of
protocols and the tests read the same data.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from routing.core.features import Feature


class Fate(StrEnum):
    """What becomes of a field."""

    READ = "read"
    OURS = "ours"
    NATIVE = "native"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a request.

    Attributes:
        fate: ``READ`` into the canonical request; ``OURS``: Signalbox itself acts on it; ``NATIVE``: only the same
            protocol carries it; ``IGNORED``: it asks for nothing, so other protocols are not sent it; ``REFUSED``:
            nobody may set it.
        features: what it asks for, where it is read. Empty for what every dialect has.
        harmless: values of a native field that ask for nothing, and so are carried everywhere.
    """

    fate: Fate
    features: tuple[Feature, ...] = ()
    harmless: tuple[Any, ...] = ()


OURS = Field(Fate.OURS)
NATIVE = Field(Fate.NATIVE)
IGNORED = Field(Fate.IGNORED)
READ = Field(Fate.READ)
REFUSED = Field(Fate.REFUSED)


def reads(*features: Feature) -> Field:
    """A field that asks for features."""
    return Field(Fate.READ, features)


def native_but(*harmless: Any) -> Field:
    """A field that only the same protocol carries, unless it has one of these values."""
    return Field(Fate.NATIVE, (), harmless)


class FieldBook:
    """The fields of one protocol by their path: names joined by dots, list elements without a name of their own.

    An entry speaks for everything below it unless that has entries too; one that ends in ``*`` for the members that
    have none of their own, where there are objects of many kinds.
    """

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self.fields = fields
        self._members: dict[str, dict[str, Field]] = {}
        for path, field in fields.items():
            parent, _, name = path.rpartition(".")
            self._members.setdefault(parent, {})[name] = field
        self.names: dict[str, str] = {}
        """What the protocol calls a feature: the first field that asks for it."""
        for path, field in fields.items():
            for feature in field.features:
                self.names.setdefault(feature.value, path)

    def uncarried(self, value: Mapping[str, Any], path: str = "", where: str = "") -> Iterator[str]:
        """The members of an object that its canonical form does not hold. A member that is null is not there.

        Args:
            value: the object.
            path: its path in this book.
            where: how to name it to the caller, list positions included.
        """
        members = self._members.get(path, {})
        for name, each in value.items():
            field = members.get(name)
            if each is not None and (field is None or (field.fate is Fate.NATIVE and each not in field.harmless)):
                yield f"{where}.{name}" if where else name

    def entry(self, path: str) -> Field | None:
        """The entry that speaks for a path."""
        while path:
            if path in self.fields:
                return self.fields[path]
            path = path.rpartition(".")[0]
            if path and self._members.get(path):
                return self._members[path].get("*")  # an object whose members each have an entry
        return None
