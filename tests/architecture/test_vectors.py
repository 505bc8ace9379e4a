"""No vector of other systems about calls that survive is forgotten: each is run, or a decision record says why not.

`tests/vectors/surviving.json` lists them all. Most are data; a few need a test of their own, which names them.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "tests" / "vectors"
DATA = ("decisions.json", "values.json", "failing.json", "breaker.json")
TESTS = ("test_cache.py", "test_replay.py")


def read(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


AREAS: dict[str, dict[str, list[str]]] = read("surviving.json")["areas"]
IN_DATA = {each["id"] for name in DATA for each in read(name)["vectors"]}
IN_TESTS = "".join((ROOT / "tests" / "governance" / "gateway" / name).read_text(encoding="utf-8") for name in TESTS)
NAMED: set[str] = set()
for record in (ROOT / "docs" / "decisions").glob("*.md"):
    NAMED |= set(re.findall(r"^\| `([\w.-]+)` \|", record.read_text(encoding="utf-8"), re.MULTILINE))


def test_no_area_is_left_out() -> None:
    assert {origin: set(areas) for origin, areas in AREAS.items()} == {
        "llmr": {"breaker", "retry", "error", "router", "stream", "transport", "gateway_error"},
        "nr-llm": {"fallback", "failure", "circuit", "http", "idempotency", "cache"},
    }
    assert sum(len(vectors) for areas in AREAS.values() for vectors in areas.values()) == 156


@pytest.mark.parametrize(
    ("area", "vectors"),
    [(f"{origin} {area}", vectors) for origin, areas in AREAS.items() for area, vectors in areas.items()],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_each_is_run_or_named(area: str, vectors: list[str]) -> None:
    assert vectors
    for vector in vectors:
        is_run = vector in IN_DATA or f'"{vector}"' in IN_TESTS
        assert is_run != (vector in NAMED), f"{area}: {vector}"
