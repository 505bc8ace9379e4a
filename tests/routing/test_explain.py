"""The command `explain`: what it prints, when it fails and how, and that its documentation tells the truth."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from routing.core import scenario
from routing.core.policy import RoutingPolicy
from routing.core.requirements import Limits, Requirements
from routing.core.vocabulary import Enforcement, Operation
from routing.management.commands.explain import Command
from routing.management.rendering import describe
from tests.routing.core.samples import criteria, decided, fixed, listed, model

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = sorted((ROOT / "docs" / "scenarios").glob("*.json"))
PAGE = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")

FAST: dict[str, Any] = {"identifier": "fast", "adapter_type": "openai", "provider": "prod-east", "quality": 0.8}
SLOW: dict[str, Any] = {"identifier": "slow", "adapter_type": "anthropic", "quality": 0.7}
BALANCED: dict[str, Any] = {"mode": "balanced", "models": [FAST, SLOW]}

Write = Callable[[str, object], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def explain(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    out, err = StringIO(), StringIO()
    try:
        call_command(Command(stdout=out, stderr=err, no_color=True), *map(str, arguments))
    except SystemExit as exit_:
        return int(exit_.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def text_of(content: dict[str, Any]) -> str:
    return "\n".join(describe(scenario.read_scenario(content).decide()))


# --- The scenarios of the documentation -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_documented_scenario_holds(path: Path) -> None:
    read = scenario.load_scenario(path.read_text(encoding="utf-8"))
    assert read.expect, "a scenario that expects nothing proves nothing"
    assert scenario.differences(read.expect, read.decide()) == []


def test_without_database_checks_and_environment() -> None:
    """As an operator runs it: nothing is set, not even a path."""
    run = subprocess.run(
        [sys.executable, "manage.py", "explain", "docs/scenarios", "--json"],
        cwd=ROOT,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert [each["file"] for each in json.loads(run.stdout)] == [f"docs/scenarios/{path.name}" for path in SCENARIOS]


def test_the_example_of_the_page_prints_what_the_page_says(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    example, output = (
        re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE) for kind in ("json", "text")
    )
    path = write("example.json", example[0])
    monkeypatch.chdir(path.parent)
    assert explain("example.json") == (0, output[0], "")


def test_the_page_explains_every_key() -> None:
    keys = (
        scenario._TOP
        | scenario._CRITERIA
        | scenario._MODEL
        | scenario._HEALTH
        | scenario._HISTORY
        | scenario._EXPECTATION
        | scenario._EXPECTED_CANDIDATE
    )
    assert sorted(key for key in keys if f"`{key}`" not in PAGE) == []


# --- Output for programs ----------------------------------------------------------------------------------------------


def test_json_of_one_scenario_is_its_outcome(write: Write) -> None:
    deaf = {"identifier": "deaf", "adapter_type": "gemini", "capabilities": ["embeddings"]}
    code, out, err = explain(write("one.json", {**BALANCED, "operation": "chat", "models": [FAST, deaf]}), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "selected": "fast",
        "order": ["fast"],
        "state": "decided",
        "mode": "balanced",
        "basis": None,
        "signals_used": ["quality"],
        "candidates": [
            {"identifier": "fast", "score": 0.8, "signals": {"quality": 0.8, "health": None}, "reason": None},
            {
                "identifier": "deaf",
                "reason": "operationCapabilityMissing",
                "detail": "declares embeddings, but the call needs chat",
            },
        ],
    }


def test_json_of_several_scenarios_is_a_list_by_file(write: Write) -> None:
    first, second = write("b.json", BALANCED), write("a.json", {"models": []})
    code, out, _ = explain(first, second, "--json")
    assert code == 0
    assert [(each["file"], each["result"]["selected"]) for each in json.loads(out)] == [
        (str(first), "fast"),
        (str(second), None),
    ]


def test_a_folder_is_its_json_files_in_order(write: Write) -> None:
    for name in ("many/b.json", "many/a.json", "many/notes.txt", "many/deeper/c.json"):
        write(name, BALANCED)
    folder = write("many/a.json", BALANCED).parent
    code, out, _ = explain(folder, "--json")
    assert code == 0
    assert [each["file"] for each in json.loads(out)] == [str(folder / "a.json"), str(folder / "b.json")]


def test_a_folder_of_one_file_is_a_list_all_the_same(write: Write) -> None:
    folder = write("few/a.json", BALANCED).parent
    assert isinstance(json.loads(explain(folder, "--json")[1]), list)


# --- Expectations -----------------------------------------------------------------------------------------------------


def test_an_expectation_that_holds(write: Write) -> None:
    code, out, err = explain(write("kept.json", {**BALANCED, "expect": {"order": ["fast", "slow"]}}))
    assert (code, err) == (0, "")
    assert out.endswith("As expected.\n")


def test_an_expectation_that_does_not_hold(write: Write) -> None:
    path = write("broken.json", {**BALANCED, "expect": {"selected": "slow", "basis": "callCost"}})
    code, out, _ = explain(path)
    assert code == 1
    assert out.endswith(
        "NOT as expected:\n  selected: expected 'slow', got 'fast'\n  basis: expected 'callCost', got None\n"
    )


def test_with_json_what_differs_goes_to_standard_error(write: Write) -> None:
    path = write("broken.json", {**BALANCED, "expect": {"selected": "slow"}})
    code, out, err = explain(path, "--json")
    assert code == 1
    assert json.loads(out)["selected"] == "fast"
    assert err == f"{path}: selected: expected 'slow', got 'fast'\n"


def test_one_broken_expectation_among_others_fails_the_run(write: Write) -> None:
    kept = write("kept.json", {**BALANCED, "expect": {"selected": "fast"}})
    broken = write("broken.json", {**BALANCED, "expect": {"selected": "slow"}})
    code, out, _ = explain(broken, kept)
    assert code == 1
    assert "As expected." in out
    assert "NOT as expected:" in out


# --- What cannot be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"modle": "balanced", "models": []}, "modle: unknown key"),
        ({"mode": "cheapest", "models": []}, "mode: one of providerPriority"),
        ({"models": [{"identifier": "fast", "quality": "good"}]}, "models[0].quality: a number from 0 to 1 is needed"),
        ('{"mode": "balanced",', "line 1, column 21: "),
        ('{"models": [], "models": []}', "models: written twice in one object"),
        ('{"models": [{"identifier": "fast", "quality": NaN}]}', "NaN is no number"),
        ("[" * 100_000, "nested too deeply"),
    ],
    ids=["key", "mode", "value", "syntax", "twice", "nan", "depth"],
)
def test_a_malformed_scenario_is_one_line_with_file_and_field(write: Write, content: object, complaint: str) -> None:
    path = write("bad.json", content)
    code, out, err = explain(path)
    assert (code, out) == (2, "")
    assert err.startswith(f"{path}: {complaint}")
    assert err.count("\n") == 1


def test_every_malformed_scenario_is_named_and_nothing_else_is_printed(write: Write) -> None:
    good = write("good.json", {**BALANCED, "expect": {"selected": "slow"}})
    code, out, err = explain(good, write("bad.json", "{}"), write("worse.json", "["))
    assert (code, out) == (2, "")
    assert [Path(line.split(":")[0]).name for line in err.splitlines()] == ["bad.json", "worse.json"]


def test_what_is_no_file_at_all(write: Write, tmp_path: Path) -> None:
    assert explain(tmp_path / "none.json") == (2, "", f"{tmp_path / 'none.json'}: No such file or directory\n")
    empty = write("empty/notes.txt", "").parent
    assert explain(empty) == (2, "", f"{empty}: the folder holds no *.json file\n")
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"{\xff}")
    assert explain(binary) == (2, "", f"{binary}: not UTF-8 from byte 1\n")


def test_a_byte_order_mark_is_no_fault(write: Write) -> None:
    assert explain(write("marked.json", "\ufeff" + json.dumps(BALANCED)))[0] == 0


def test_names_cannot_break_lines(write: Write) -> None:
    odd = {"models": [{"identifier": "fa\nst\ud800", "adapter_type": "openai"}]}
    code, out, _ = explain(write("odd.json", odd))
    assert code == 0
    assert "fa\\nst\\ud800" in out


def test_money_is_read_as_written(write: Write) -> None:
    path = write(
        "exact.json",
        '{"mode": "economy", "models": [{"identifier": "fast", "price_input": 0.1, "price_output": 0.123456789}]}',
    )
    assert "0.1 + 0.123456789 USD" in explain(path)[1]


# --- Lines ------------------------------------------------------------------------------------------------------------


def test_no_data_zero_and_not_collected_are_three_things() -> None:
    text = text_of({**BALANCED, "models": [{**FAST, "quality": 0}, SLOW]})
    assert "0.0000 (0)" in text
    assert "no data" in text
    assert "Not collected in this mode: cost, latency, callCost." in text


def test_a_figure_that_does_not_count_is_shown_as_no_data() -> None:
    text = text_of(
        {
            "mode": "economy",
            "call_history": True,
            "operation": "chat",
            "models": [
                {
                    **FAST,
                    "price_input": "1",
                    "price_output": "2",
                    "price_currency": "EUR",
                    "history": {"calls": 4, "mean_latency_ms": 900, "priced_calls": 3, "mean_cost": "0.01"},
                }
            ],
        }
    )
    assert "no data (1 + 2 EUR)" in text
    assert "no data (900 ms, 4 of 5 calls)" in text
    assert "no data (0.01 USD, 3 of 5 calls)" in text


def test_what_is_shown_without_weight_says_so() -> None:
    text = text_of(
        {
            **BALANCED,
            "call_history": True,
            "operation": "chat",
            "models": [{**FAST, "history": {"calls": 9, "mean_latency_ms": 900}}, SLOW],
        }
    )
    assert "latency (no weight)" in text
    assert "0.5000 (900 ms, 9 calls)" in text
    assert "Signals used, with their weights: quality (0.4)." in text


def test_provider_priority_shows_an_order_and_no_signals() -> None:
    text = text_of({"models": [FAST, SLOW]})
    assert "Mode providerPriority: provider priority, then tie-breaks; nothing is measured." in text
    assert "quality (" not in text
    assert "Not collected" not in text


def test_refused_candidates_stand_below_with_reason_and_detail() -> None:
    lines = text_of({**BALANCED, "allowed_models": ["slow"]}).splitlines()
    assert lines[-1] == "  -  fast   notPermitted: the key does not allow this model"


def test_a_tier_in_force_is_told_and_its_model_goes_first() -> None:
    tier = {"budget": "desk", "threshold": 80, "percent": 83, "targets": ["slow"]}
    lines = text_of({**BALANCED, "budget_tiers": [tier]}).splitlines()
    assert lines[0] == "Ranked by the policy in force. Selected: slow."
    told = "83 % of the budget desk are used up, which is past its tier at 80 %"
    assert lines[1] == f"{told}: slow goes first where it may serve."
    assert [line.split()[:2] for line in lines[-2:]] == [["1", "slow"], ["2", "fast"]]


def test_the_states_are_told_apart() -> None:
    fast, nobody = model("fast"), Limits(allowed_models=frozenset())
    firsts = [
        describe(each)[0]
        for each in (
            decided(fixed("fast"), fast),
            decided(fixed()),
            decided(fixed("fast"), fast, limits=nobody),
            decided(listed("fast"), fast),
            decided(criteria(), fast),
            decided(criteria()),
            decided(criteria(), fast, limits=nobody),
        )
    ]
    assert firsts == [
        "The configuration names its model; nothing was ranked. Selected: fast.",
        "The configuration names its model; nothing was ranked. No model is selected.",
        "The configuration names its model; nothing was ranked. It was refused.",
        "The configuration lists its models; nothing was scored. Selected: fast.",
        "Ranked by the policy in force. Selected: fast.",
        "No model is in service. No model is selected.",
        "Every candidate was refused. No model is selected.",
    ]


def test_no_operation_is_not_an_operation_that_needs_nothing() -> None:
    without = describe(decided(criteria(), model("fast"), requirements=Requirements()))
    embedding = describe(decided(criteria(), model("fast"), requirements=Requirements(operation=Operation.EMBED)))
    assert "No operation chosen, history not read." in without
    assert "Operation embed needs no capability." in embedding


def test_what_is_only_observed_says_so() -> None:
    lines = describe(
        decided(
            criteria(),
            model("fast", capabilities=["chat"]),
            requirements=Requirements(operation=Operation.TOOLS),
            policy=RoutingPolicy(enforcement=Enforcement.OBSERVE),
        )
    )
    assert "Capabilities that the call needs are observed, not enforced." in lines
    assert any("fast (lacks tools)" in line for line in lines)


def test_listed_orders_show_the_figure_they_go_by() -> None:
    listed_models = {
        "selection": "listed",
        "models": [{**FAST, "consecutive_failures": 2}, {**SLOW, "price_input": "1", "price_output": "5"}],
    }
    cheapest = text_of({**listed_models, "order": "cheapest"})
    assert re.search(r"1  slow +1 \+ 5 USD", cheapest)
    assert re.search(r"2  fast +no data", cheapest)
    healthiest = text_of({**listed_models, "order": "healthiest"})
    assert re.search(r"1  slow +0", healthiest)
    assert re.search(r"2  fast +2", healthiest)


def test_a_listed_model_that_is_not_in_service_is_named() -> None:
    assert describe(decided(listed("gone", "fast"), model("fast")))[-1] == "  gone: not in service"
