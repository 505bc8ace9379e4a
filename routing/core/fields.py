"""Reading JSON strictly: what is not understood is an error that names the field.

For files that people write by hand and rely on. A number with a point is read as a ``Decimal``, so that money keeps
every digit as written; content that was parsed elsewhere may hold a ``float`` as well.
"""

import json
from collections.abc import Collection, Mapping
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from reprlib import Repr
from typing import TypeVar

from routing.core.money import MoneyError, parse_nanos

_Word = TypeVar("_Word", bound=StrEnum)
_Default = TypeVar("_Default")

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class FieldError(ValueError):
    """A value that cannot be read; the message names the field and what would be right."""


def parse(text: str) -> object:
    """Parse JSON without rounding a number or overlooking a key that is written twice.

    Raises:
        FieldError: the text is no JSON, or JSON that could be read in two ways.
    """
    try:
        content: object = json.loads(
            text, parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_without_duplicates
        )
    except json.JSONDecodeError as error:
        raise FieldError(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise FieldError("nested too deeply") from error
    except (ValueError, ArithmeticError) as error:
        raise error if isinstance(error, FieldError) else FieldError(f"a number that is too long: {error}") from error
    return content


def _no_number(text: str) -> object:
    raise FieldError(f"{text} is no number")


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError(f"{printable(twice)}: written twice in one object")
    return content


class Fields:
    """One object of a document: refuses unknown keys, and names the field in every complaint.

    A key whose value is ``null`` counts as missing.
    """

    def __init__(self, content: object, path: str, known: Collection[str]) -> None:
        self._path = path
        if not isinstance(content, Mapping):
            raise FieldError(f"{path or 'the document'}: an object is needed, not {shown(content)}")
        unknown = sorted(printable(str(key)) for key in content if key not in known)
        if unknown:
            raise FieldError(f"{self.where(unknown[0])}: unknown key")
        self._content = content

    def where(self, key: str) -> str:
        """The path of a field, as complaints name it."""
        return f"{self._path}.{key}" if self._path else key

    def value(self, key: str) -> object:
        """The value as parsed, ``None`` if there is none."""
        return self._content.get(key)

    def has(self, key: str) -> bool:
        """Whether there is a value."""
        return self._content.get(key) is not None

    def fields(self, key: str, known: Collection[str]) -> "Fields":
        """An object within this one; an empty one if there is none."""
        value = self.value(key)
        return Fields({} if value is None else value, self.where(key), known)

    def records(self, key: str, known: Collection[str]) -> "list[Fields]":
        """A list of objects, which must be there."""
        value = self.value(key)
        if not isinstance(value, list):
            raise self.wrong(key, "a list")
        return [Fields(each, f"{self.where(key)}[{index}]", known) for index, each in enumerate(value)]

    def text(self, key: str, default: str) -> str:
        """A text."""
        value = self.value(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(key, "a text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.value(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def whole(self, key: str, default: _Default, *, most: int | None = None) -> int | _Default:
        """A whole number from 0."""
        value = self.value(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(key, "a whole number from 0")
        if most is not None and value > most:
            raise self.wrong(key, f"a whole number from 0 to {most}")
        return value

    def number(self, key: str, *, most: float | None = None) -> float | None:
        """A number from 0, with or without a point."""
        value = self.value(key)
        if value is None:
            return None
        wanted = "a number from 0" if most is None else f"a number from 0 to {most:g}"
        number = as_number(value)
        if number is None or number < 0 or (most is not None and number > most):
            raise self.wrong(key, wanted)
        return number

    def word(self, key: str, words: type[_Word], default: _Default) -> _Word | _Default:
        """One of a closed set of words."""
        value = self.value(key)
        if value is None:
            return default
        if not isinstance(value, str) or value not in set(words):
            raise self.wrong(key, f"one of {', '.join(words)}")
        return words(value)

    def only(self, key: str, word: StrEnum) -> bool:
        """Whether the one demand that can be made here is made."""
        value = self.value(key)
        if value is None:
            return False
        if value != word.value:
            raise self.wrong(key, f"{word.value!r} (nothing else can be demanded)")
        return True

    def names(self, key: str) -> frozenset[str] | None:
        """A list of texts, in no order; ``None`` if there is none."""
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, "a list of names")
        return frozenset(value)

    def nanos(self, key: str) -> int | None:
        """Money from 0 in nano-units, written as a text or a number; exactly as written."""
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, str | int | float | Decimal) or isinstance(value, bool):
            raise self.wrong(key, 'an amount such as "2.50"')
        try:
            nanos = parse_nanos(str(value))
        except MoneyError as error:
            raise FieldError(f"{self.where(key)}: {error}") from None
        if nanos < 0:
            raise self.wrong(key, "an amount from 0")
        return nanos

    def wrong(self, key: str, wanted: str) -> FieldError:
        """The complaint about a field that is not what is wanted."""
        return FieldError(f"{self.where(key)}: {wanted} is needed, not {shown(self.value(key))}")


def as_number(value: object) -> float | None:
    """A parsed JSON number as a float; ``None`` if it is no number, or one that no float can be."""
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if isfinite(number) else None


def shown(value: object) -> str:
    """A value on one short line."""
    return str(value) if isinstance(value, Decimal) else _SHORT.repr(value)


def printable(text: str) -> str:
    """A text as it is, or escaped where it would break a line or a terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]
