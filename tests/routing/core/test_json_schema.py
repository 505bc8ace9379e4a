from typing import Any

import pytest

from routing.core.json_schema import DEEPEST, KEYWORDS, MOST_STEPS, find_fault

PARCEL = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "city": {"type": "string", "minLength": 2},
        "tags": {"type": "array", "items": {"enum": ["new", "late"]}, "maxItems": 2},
        "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    },
    "required": ["id", "city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"id": 7, "city": "Ulm"}, None),
        ({"id": 7.0, "city": "Ulm", "tags": ["new"], "next": None}, None),
        ({"id": 7, "city": "Ulm", "next": {"id": 8, "city": "Bonn"}}, None),
        ([], "$: object is needed"),
        ({"id": 7}, "$: the member 'city' is missing"),
        ({"id": "7", "city": "Ulm"}, "$.id: integer is needed"),
        ({"id": True, "city": "Ulm"}, "$.id: integer is needed"),
        ({"id": 0, "city": "Ulm"}, "$.id: at least 1 is needed"),
        ({"id": 7, "city": "U"}, "$.city: a length of at least 2 is needed"),
        ({"id": 7, "city": "Ulm", "colour": 1}, "$.colour: nothing may be here"),
        ({"id": 7, "city": "Ulm", "a b": 1}, "$['a b']: nothing may be here"),
        ({"id": 7, "city": "Ulm", "tags": ["new", "old"]}, "$.tags[1]: one of the 2 values of the enum is needed"),
        ({"id": 7, "city": "Ulm", "tags": ["new"] * 3}, "$.tags: a number of items of at most 2 is needed"),
        ({"id": 7, "city": "Ulm", "next": {"id": 8}}, "$.next: it fits none of the 2 alternatives"),
    ],
)
def test_the_first_fault_is_named_with_its_place(document: Any, fault: str | None) -> None:
    assert find_fault(document, PARCEL) == fault


KEYWORD_SAMPLES: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, [None], [1]),
    ({"$ref": "#/allOf/0", "allOf": [{"type": "null"}]}, [None], [1]),
    ({"type": ["string", "null"]}, ["", None], [0, False]),
    ({"enum": [1, "a", None, [1]]}, [1, 1.0, "a", None, [1]], [True, "b", [True], 0]),
    ({"const": {"a": [1, 2]}}, [{"a": [1, 2.0]}], [{"a": [2, 1]}, {}]),
    ({"uniqueItems": True}, [[1, True, "1"], "x"], [[1, 1.0], [{"a": 1}, {"a": 1}]]),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2, "x"], [0, 3]),
    ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, ["x", 5], [4]),
    ({"oneOf": [{"type": "string"}, {"minimum": 5}]}, ["x", 5], [4]),
    ({"properties": {"a": {"type": "null"}}}, [{}, {"a": None}, 1], [{"a": 1}]),
    ({"required": ["a"]}, [{"a": None}, 1], [{}]),
    ({"properties": {"a": True}, "additionalProperties": {"type": "null"}}, [{"a": 1, "b": None}], [{"b": 1}]),
    ({"items": {"type": "null"}}, [[], [None]], [[None, 1]]),
    ({"prefixItems": [{"type": "null"}], "items": False}, [[], [None]], [[1], [None, None]]),
    ({"multipleOf": 0.1}, [0.3, 1, "x"], [0.35]),
    ({"minimum": 1}, [1], [0.9]),
    ({"maximum": 1}, [1], [1.1]),
    ({"exclusiveMinimum": 1}, [1.1], [1]),
    ({"exclusiveMaximum": 1}, [0.9], [1]),
    ({"minLength": 1}, ["a", []], [""]),
    ({"maxLength": 1}, ["ä", "🌌"], ["ab"]),
    ({"minItems": 1}, [[1], ""], [[]]),
    ({"maxItems": 1}, [[1]], [[1, 2]]),
    ({"minProperties": 1}, [{"a": 1}], [{}]),
    ({"maxProperties": 1}, [{"a": 1}], [{"a": 1, "b": 1}]),
    ({"type": "array", "items": {"type": "number"}}, [[1, 1.5]], [[True], ["1"]]),
]


@pytest.mark.parametrize(("schema", "good", "bad"), KEYWORD_SAMPLES)
def test_keywords(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    assert [each for each in good if find_fault(each, schema) is not None] == []
    assert [each for each in bad if find_fault(each, schema) is None] == []


def test_every_keyword_is_tried() -> None:
    assert {keyword for schema, _, _ in KEYWORD_SAMPLES for keyword in schema} - {"$defs"} == KEYWORDS


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "(a+)+$"},
        {"format": "date"},
        {"not": {"type": "string"}},
        {"if": True, "then": False},
        {"type": "colour"},
        {"type": 7},
        {"enum": "a"},
        {"required": "a"},
        {"properties": [1]},
        {"anyOf": []},
        {"minimum": "1"},
        {"multipleOf": 0},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#/nowhere/0"},
        {"$ref": "#/enum/99"},
        {"patternProperties": {"a": True}, "additionalProperties": False},
    ],
)
def test_what_is_not_known_is_met(schema: dict[str, Any]) -> None:
    assert find_fault("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", schema) is None
    assert find_fault({"a": 1}, schema) is None


def test_the_work_is_bounded() -> None:
    assert find_fault(1, {"$ref": "#"}) is None
    assert find_fault([1] * (MOST_STEPS + 1), {"items": {"type": "string"}}) == "$[0]: string is needed"
    assert find_fault([1] * MOST_STEPS + ["x"], {"items": {"type": "integer"}}) is None
    twice = {"anyOf": [{"$ref": "#/$defs/t"}, {"$ref": "#/$defs/t"}]}
    assert find_fault(1, {**twice, "$defs": {"t": twice}}) is None
    deep: Any = 1
    for _ in range(3 * DEEPEST):
        deep = [deep]
    assert find_fault(deep, {"uniqueItems": True, "enum": [1]}) is None
    assert find_fault([1] * 9, {"enum": [list(range(MOST_STEPS))]}) is None
