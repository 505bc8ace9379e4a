"""Does a document fit a JSON schema? The first place where it does not, in words.

What vendors promise for structured output is a subset of JSON Schema 2020-12, and that is what is looked at: types,
enums, constants, properties, items, alternatives, local references, sizes and bounds. A keyword that is not known here
(a pattern, a format, a condition) is taken as met, so a fault that is found is one, and not every fault is found.

Both the schema and the document come from outside. The work is bounded: whatever takes more is taken as fitting.
Nothing is fetched, and no expression of theirs is run.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, DecimalException
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

MOST_STEPS = 20_000
"""How many values are looked at, each as often as a schema speaks of it."""

DEEPEST = 100
"""How deep they may be nested, references included."""


class _TooInvolved(Exception):
    """There is more to look at than is looked at."""


def find_fault(document: Any, schema: Mapping[str, Any]) -> str | None:
    """The first fault as ``place: what is needed there``; ``None`` if none is found.

    Args:
        document: plain values, as JSON is read.
        schema: the schema. What is wrong with it is no fault of the document.
    """
    try:
        return next(_Check(schema).faults(document, schema, "$", 0), None)
    except _TooInvolved:
        return None


class _Check:
    """One document held to one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._steps = 0

    def faults(self, value: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        """What is wrong with a value, as far as anybody goes on asking."""
        self._step(depth)
        if schema is False:
            yield f"{place}: nothing may be here"
        if not isinstance(schema, Mapping):
            return
        for keyword, wanted in schema.items():
            plain, nested = _PLAIN.get(keyword), _NESTED.get(keyword)
            if plain is not None:
                need = plain(value, wanted)
                if need:
                    yield f"{place}: {need}"
            elif nested is not None:
                yield from nested(self, value, wanted, schema, place, depth + 1)

    def _step(self, depth: int) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS or depth > DEEPEST:
            raise _TooInvolved

    def _fits(self, value: Any, schema: Any, place: str, depth: int) -> bool:
        return next(self.faults(value, schema, place, depth), None) is None

    def _reference(self, value: Any, wanted: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        found = self._look_up(wanted)
        if found is not None:
            yield from self.faults(value, found, place, depth)

    def _look_up(self, reference: Any) -> Any:
        """What a local reference names; ``None`` for any other."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return None
        found: Any = self._root
        for each in reference.split("/")[1:]:
            name = unquote(each).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isascii() and name.isdecimal():
                found = found[int(name)] if int(name) < len(found) else None
            else:
                found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _all(self, value: Any, wanted: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        for each in wanted if isinstance(wanted, list) else ():
            yield from self.faults(value, each, place, depth)

    def _any(self, value: Any, wanted: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        """One alternative at least. More than one of ``oneOf`` is let pass: each may hold what is not looked at."""
        if not isinstance(wanted, list) or not wanted:
            return
        if not any(self._fits(value, each, place, depth) for each in wanted):
            yield f"{place}: it fits none of the {len(wanted)} alternatives"

    def _properties(self, value: Any, wanted: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        if isinstance(value, dict) and isinstance(wanted, Mapping):
            for name, each in wanted.items():
                if name in value:
                    yield from self.faults(value[name], each, _member(place, name), depth)

    def _further(self, value: Any, wanted: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        """Members that ``properties`` does not name."""
        known = schema.get("properties") or {}
        if not isinstance(value, dict) or not isinstance(known, Mapping) or "patternProperties" in schema:
            return
        for name, each in value.items():
            if name not in known:
                yield from self.faults(each, wanted, _member(place, name), depth)

    def _items(self, value: Any, wanted: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        first = schema.get("prefixItems")
        begin = len(first) if isinstance(first, list) else 0
        if isinstance(value, list):
            for index, each in enumerate(value[begin:], begin):
                yield from self.faults(each, wanted, f"{place}[{index}]", depth)

    def _enum(self, value: Any, wanted: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        if isinstance(wanted, list):
            sought = self._alike(value, depth)
            if not any(self._alike(each, depth) == sought for each in wanted):
                yield f"{place}: one of the {len(wanted)} values of the enum is needed"

    def _const(self, value: Any, wanted: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        if self._alike(value, depth) != self._alike(wanted, depth):
            yield f"{place}: the constant of the schema is needed"

    def _unique(self, value: Any, wanted: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        is_asked = wanted is True and isinstance(value, list)
        if is_asked and len({self._alike(each, depth) for each in value}) < len(value):
            yield f"{place}: no two items may be equal"

    def _alike(self, value: Any, depth: int) -> Any:
        """Something that is equal for values that JSON calls equal, and can be hashed."""
        self._step(depth)
        if isinstance(value, dict):
            return "object", frozenset((name, self._alike(each, depth + 1)) for name, each in value.items())
        if isinstance(value, list):
            return "array", tuple(self._alike(each, depth + 1) for each in value)
        return ("boolean", value) if isinstance(value, bool) else value

    def _first_items(self, value: Any, wanted: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        if isinstance(value, list) and isinstance(wanted, list):
            for index, (each, of_it) in enumerate(zip(value, wanted, strict=False)):
                yield from self.faults(each, of_it, f"{place}[{index}]", depth)


_TYPES: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
    {
        "object": lambda value: isinstance(value, dict),
        "array": lambda value: isinstance(value, list),
        "string": lambda value: isinstance(value, str),
        "boolean": lambda value: isinstance(value, bool),
        "null": lambda value: value is None,
        "number": lambda value: _is_number(value),
        "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    }
)


def _type(value: Any, wanted: Any) -> str | None:
    names = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(names, list) or not names or not all(isinstance(each, str) for each in names):
        return None
    known = [_TYPES[each] for each in names if each in _TYPES]
    if len(known) < len(names) or any(is_one(value) for is_one in known):
        return None
    return f"{' or '.join(names)} is needed"


def _required(value: Any, wanted: Any) -> str | None:
    if not isinstance(value, dict) or not isinstance(wanted, list):
        return None
    missing = next((name for name in wanted if isinstance(name, str) and name not in value), None)
    return None if missing is None else f"the member {missing!r} is missing"


def _multiple(value: Any, wanted: Any) -> str | None:
    if not _is_number(value) or not _is_number(wanted) or wanted <= 0:
        return None
    try:
        is_one = Decimal(str(value)) % Decimal(str(wanted)) == 0
    except DecimalException:
        return None
    return None if is_one else f"a multiple of {wanted} is needed"


def _bound(size: Callable[[Any], Any], is_met: Callable[[Any, Any], bool], words: str) -> "_Plain":
    """A keyword that bounds a size; ``size`` gives ``None`` for values that have none."""

    def need(value: Any, wanted: Any) -> str | None:
        measured = size(value)
        if measured is None or not _is_number(wanted) or is_met(measured, wanted):
            return None
        return f"{words} {wanted} is needed"

    return need


def _number(value: Any) -> Any:
    return value if _is_number(value) else None


def _length_of(kind: type[str] | type[list[Any]] | type[dict[str, Any]]) -> Callable[[Any], int | None]:
    return lambda value: len(value) if isinstance(value, kind) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _member(place: str, name: str) -> str:
    return f"{place}.{name}" if name.isidentifier() else f"{place}[{name!r}]"


_Plain = Callable[[Any, Any], str | None]
_PLAIN: Mapping[str, _Plain] = MappingProxyType(
    {
        "type": _type,
        "required": _required,
        "multipleOf": _multiple,
        "minimum": _bound(_number, ge, "at least"),
        "maximum": _bound(_number, le, "at most"),
        "exclusiveMinimum": _bound(_number, gt, "more than"),
        "exclusiveMaximum": _bound(_number, lt, "less than"),
        "minLength": _bound(_length_of(str), ge, "a length of at least"),
        "maxLength": _bound(_length_of(str), le, "a length of at most"),
        "minItems": _bound(_length_of(list), ge, "a number of items of at least"),
        "maxItems": _bound(_length_of(list), le, "a number of items of at most"),
        "minProperties": _bound(_length_of(dict), ge, "a number of members of at least"),
        "maxProperties": _bound(_length_of(dict), le, "a number of members of at most"),
    }
)
"""Keywords that look at a value itself: what it would need to be, or ``None``."""

_Nested = Callable[[_Check, Any, Any, Any, str, int], Iterator[str]]
_NESTED: Mapping[str, _Nested] = MappingProxyType(
    {
        "$ref": _Check._reference,
        "enum": _Check._enum,
        "const": _Check._const,
        "uniqueItems": _Check._unique,
        "allOf": _Check._all,
        "anyOf": _Check._any,
        "oneOf": _Check._any,
        "properties": _Check._properties,
        "additionalProperties": _Check._further,
        "items": _Check._items,
        "prefixItems": _Check._first_items,
    }
)
"""Keywords that hold a value, or what is in it, to further schemas."""

KEYWORDS = frozenset(_PLAIN) | frozenset(_NESTED)
"""What is looked at."""
