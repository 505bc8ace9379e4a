"""Who decides, and that each does so within the tiers of budgets: a page that leaves them out says what no call does.

Read as text. `governance.decisions` hands `decide` what is in force; whoever asks it says who is asking, and by what
stands at the moment, with its budgets and with what they have crossed.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
APPS = ("routing", "telemetry", "budgets", "governance")

RULES = "governance.decisions"

DECIDE = {
    "governance/decisions.py": "hands over what is in force",
    "routing/core/scenario.py": "on paper, where a file says what is in force, tiers included",
}
ASK = {
    "governance/gateway/middleware/decide.py": "for a call",
    "governance/questions.py": "for whoever asks: Why this model, Operations, a configuration's page, the API",
    "governance/tab/consequences.py": "for the confirmation of a switch, as nobody in particular",
    "governance/route_health.py": "for what nothing can select, as nobody in particular",
}
OF_THE_PAST = {"governance/demo/world.py": "the demo's past, in which no tier was in force"}
STANDS = {"governance/standing_poll.py": "the poll of a process, with its budgets and crossings"}


def calls_of(file: Path, home: str, *names: str) -> Iterator[ast.Call]:
    """Calls of what a module has, in it or where it is imported from there."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    at_home = file.as_posix().endswith(home.replace(".", "/") + ".py")
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == home
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in names and (at_home or called.partition(".")[0] in imported):
                yield node


def callers_of(home: str, *names: str) -> dict[str, list[ast.Call]]:
    """Every module of the four apps that calls one of these."""
    found = {}
    for app in APPS:
        for file in sorted((ROOT / app).rglob("*.py")):
            if calls := list(calls_of(file, home, *names)):
                found[file.relative_to(ROOT).as_posix()] = calls
    return found


def given(call: ast.Call) -> set[str | None]:
    return {keyword.arg for keyword in call.keywords}


def test_few_decide() -> None:
    deciders = callers_of("routing.core.decision", "decide")
    assert set(deciders) == set(DECIDE)
    assert all("limits" in given(call) for calls in deciders.values() for call in calls)


def test_whoever_asks_says_who_is_asking() -> None:
    askers = callers_of(RULES, "rule", "decide_once", "lay_out")
    assert set(askers) == {*ASK, *OF_THE_PAST}
    assert {
        path: calls for path, calls in askers.items() if any("who" not in given(each) for each in calls)
    }.keys() == (OF_THE_PAST.keys())


def test_what_stands_has_its_budgets_and_what_they_have_crossed() -> None:
    makers = callers_of(RULES, "Standing.of", "Standing")
    assert set(makers) == {*STANDS, *OF_THE_PAST}
    assert all({"budgets", "crossings"} <= given(call) for path in STANDS for call in makers[path])
    supposed = [call for calls in callers_of("dataclasses", "replace").values() for call in calls]
    assert not [ast.unparse(call) for call in supposed if given(call) & {"budgets", "crossings"}]


@pytest.mark.parametrize(
    "statement",
    ["ruling = rule(standing, spec, now=now)", "page(lay_out(standing, now=now))", "decide_once(standing, spec)"],
)
def test_who_asks_and_does_not_say_who_is_found(statement: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(f"from {RULES} import decide_once, lay_out, rule\n{statement}\n", encoding="utf-8")
    (call,) = calls_of(file, RULES, "rule", "decide_once", "lay_out")
    assert "who" not in given(call)
