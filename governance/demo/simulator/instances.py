"""A minimal instance of a JSON schema: valid for the keywords that structured output uses, no more.

Covered: objects (required properties), arrays, strings, numbers, booleans, null, ``enum``, ``const``,
``anyOf``, ``oneOf``, ``allOf``, local ``$ref``, length and value bounds, common formats. Not covered:
``pattern``, ``not``, conditionals. Recursion ends at a fixed depth with ``null``.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

_DEEPEST = 24
_MOST_ITEMS = 1_000
_MOST_CHARACTERS = 100_000
_WORD = "simulated"
_FORMATS = {
    "date-time": "2000-01-01T00:00:00Z",
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "simulated@example.invalid",
    "hostname": "example.invalid",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.invalid/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def minimal_instance(schema: Schema) -> Any:
    """The smallest value that satisfies the schema; deterministic."""
    return _build(schema, root=schema, depth=0)


def _build(schema: object, *, root: Schema, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    resolved = _resolve(schema, root=root)
    if "const" in resolved:
        return resolved["const"]
    if resolved.get("enum"):
        return resolved["enum"][0]
    for keyword in ("anyOf", "oneOf"):
        if resolved.get(keyword):
            return _build(_plainest(resolved[keyword]), root=root, depth=depth + 1)
    builder = _BUILDERS.get(_kind(resolved))
    return None if builder is None else builder(resolved, root, depth + 1)


def _resolve(schema: Schema, *, root: Schema) -> Schema:
    """Follow local references and fold ``allOf`` into one schema."""
    resolved = dict(schema)
    for _ in range(_DEEPEST):
        reference = resolved.pop("$ref", None)
        parts = resolved.pop("allOf", [])
        found = [_look_up(reference, root=root)] if isinstance(reference, str) else []
        found += [part for part in parts if isinstance(part, Mapping)]
        if not found:
            break
        for part in found:
            resolved = _fold(resolved, part)
    return resolved


def _fold(first: Schema, second: Schema) -> dict[str, Any]:
    """Two schemas that both have to hold: properties and required names are joined."""
    folded = {**second, **first}
    if "properties" in first and "properties" in second:
        folded["properties"] = {**second["properties"], **first["properties"]}
    if "required" in first and "required" in second:
        folded["required"] = [*first["required"], *second["required"]]
    if "allOf" in first and "allOf" in second:
        folded["allOf"] = [*first["allOf"], *second["allOf"]]
    return folded


def _look_up(reference: str, *, root: Schema) -> Schema:
    """The target of ``#/a/b``; an empty schema where there is none."""
    found: object = root
    for name in reference.removeprefix("#").split("/")[1:]:
        found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _plainest(choices: list[Any]) -> Any:
    """The first choice that is not a reference, since references may lead back; else the first."""
    for choice in choices:
        if isinstance(choice, Mapping) and "$ref" not in choice:
            return choice
    return choices[0]


def _kind(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _object(schema: Schema, root: Schema, depth: int) -> Any:
    properties = schema.get("properties", {})
    required = dict.fromkeys(schema.get("required", ()))
    return {name: _build(properties.get(name, {}), root=root, depth=depth) for name in required}


def _array(schema: Schema, root: Schema, depth: int) -> Any:
    items = schema.get("items", {})
    count = min(int(schema.get("minItems", 0)), _MOST_ITEMS)
    return [_build(items, root=root, depth=depth) for _ in range(count)]


def _string(schema: Schema, _root: Schema, _depth: int) -> Any:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    least, most = min(int(schema.get("minLength", 0)), _MOST_CHARACTERS), schema.get("maxLength")
    text = _WORD * (1 + least // len(_WORD)) if least > len(_WORD) else _WORD
    wanted = max(least, len(_WORD))
    return text[: wanted if most is None else min(wanted, int(most))]


def _integer(schema: Schema, _root: Schema, _depth: int) -> Any:
    step = int(schema.get("multipleOf", 1)) or 1
    if "minimum" in schema:
        return math.ceil(schema["minimum"] / step) * step
    if "exclusiveMinimum" in schema:
        return (math.floor(schema["exclusiveMinimum"] / step) + 1) * step
    return math.floor(_below(schema) / step) * step


def _below(schema: Schema) -> float:
    """Zero, or what an upper bound below zero allows."""
    if "exclusiveMaximum" in schema and schema["exclusiveMaximum"] <= 0:
        return float(schema["exclusiveMaximum"]) - 1
    return min(0.0, float(schema.get("maximum", 0)))


def _number(schema: Schema, _root: Schema, _depth: int) -> Any:
    if "minimum" in schema:
        return schema["minimum"]
    if "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"]
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        return low + 1 if high is None else (low + high) / 2
    return _below(schema)


def _boolean(_schema: Schema, _root: Schema, _depth: int) -> Any:
    return False


_BUILDERS: dict[str, Callable[[Schema, Schema, int], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}
