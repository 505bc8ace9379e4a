"""Behaviour of other systems that ours shares, as data: `tests/vectors`, which says where each comes from.

Those that our rules contradict are not run; each is named there and in the decision record, with the reason.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from routing.core.calls import CallRequest
from routing.core.conversation import (
    ImagePart,
    Message,
    OutputFormat,
    Part,
    ReasoningWish,
    Role,
    TextPart,
    Tool,
    ToolCall,
)
from routing.core.policy import WEIGHTS, PolicyMode
from routing.core.requirements import complexity, measure, requirements_of
from routing.core.scenario import differences, load_scenario
from routing.core.signals import HealthFigure
from routing.core.transcript import document
from routing.core.vocabulary import OPERATION_CAPABILITY, Operation, Reach, SignalName
from tests.routing.core.samples import model, price, ranked

ROOT = Path(__file__).resolve().parents[3]
VECTORS = ROOT / "tests" / "vectors"


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    return content


DECISIONS, VALUES = read("decisions.json")["vectors"], read("values.json")["vectors"]
EXCLUDED, AREAS = read("excluded.json")["vectors"], read("index.json")["areas"]


@pytest.mark.parametrize("vector", DECISIONS, ids=lambda vector: vector["id"])
def test_decision(vector: Mapping[str, Any]) -> None:
    scenario = load_scenario(json.dumps(vector["scenario"]))
    decision = scenario.decide()
    assert scenario.expect is not None
    assert differences(scenario.expect, decision) == []
    signals = {each.model.identifier: set(each.signals) for each in decision.candidates}
    for name, expected in vector.get("collected", {}).items():
        assert signals[name] >= set(expected)
    for name, absent in vector.get("not_collected", {}).items():
        assert not signals[name] & set(absent)
    for name, lacking in vector.get("observed", {}).items():
        assert [list(each.observed) for each in decision.candidates if each.model.identifier == name] == [lacking]
    for text in vector.get("refusal_contains", ()):
        assert text in decision.refusal()
    if "rejection_reasons" in vector:
        assert [each.value for each in decision.rejection_reasons] == vector["rejection_reasons"]
    written = document(decision)
    for key, value in vector.get("document", {}).items():
        assert written[key] == value


def health(given: dict[str, Any]) -> object:
    return HealthFigure(**given).value


def policy_mode(given: object) -> object:
    return PolicyMode.read(given).value


def weights(given: str) -> object:
    mode = PolicyMode(given)
    decision = ranked(model("fast", prices=[price("1", "1")]), mode=mode, call_history=False)
    return {
        "quality": WEIGHTS[mode].quality,
        "health": WEIGHTS[mode].health,
        "cost": WEIGHTS[mode].cost,
        "collects_signals": bool(decision.eligible[0].signals),
        "always_collects_cost": SignalName.COST in decision.eligible[0].signals,
    }


def operation(given: str) -> object:
    return OPERATION_CAPABILITY[Operation(given)]


def request_(given: dict[str, Any]) -> object:
    facts = measure(_request(given["messages"], given["tools"]))
    involved = complexity(
        replace(facts, token_estimate=given.get("token_estimate", facts.token_estimate)),
        context_length=given.get("context_length"),
    )
    return {
        "score": involved.score,
        "context_percent": involved.context_percent,
        "shape": facts.shape.value,
        "messages": facts.messages,
        "turns": facts.turns,
        "tools": facts.tools,
        "payload_bytes": facts.payload_bytes,
    }


def estimate_grows(given: dict[str, Any]) -> object:
    def estimate(text: str, tools: int = 0) -> int:
        return measure(_request([{"role": "user", "content": text}], tools)).token_estimate

    large = given["piece"] * given["times"]
    return 0 < estimate(given["small"]) < estimate(large) < estimate(large, tools=2)


def needs(given: dict[str, Any]) -> object:
    parts: tuple[Part, ...] = (TextPart("Why?"), *([ImagePart("data:,")] if given.get("image") else []))
    asked = CallRequest(
        target="assistant",
        messages=(Message(Role.USER, parts),),
        tools=_tools(given.get("tools", 0)),
        reasoning=ReasoningWish() if given.get("reasoning") else None,
        structured_output=OutputFormat() if given.get("structured_output") else None,
    )
    return sorted(requirements_of(asked, measure(asked)).needs)


def reach(given: str) -> object:
    return Reach.parse(given)


def on_device(given: str) -> object:
    return Reach(given).is_on_device


KINDS = {
    "health": health,
    "policyMode": policy_mode,
    "weights": weights,
    "operation": operation,
    "request": request_,
    "estimate_grows": estimate_grows,
    "needs": needs,
    "reach": reach,
    "on_device": on_device,
}


@pytest.mark.parametrize("vector", VALUES, ids=lambda vector: vector["id"])
def test_value(vector: Mapping[str, Any]) -> None:
    found = KINDS[vector["kind"]](vector["given"])  # type: ignore[operator]
    expected = vector["expect"]
    if isinstance(expected, dict) and isinstance(found, dict):
        found = {key: found[key] for key in expected}
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_every_vector_is_run_or_excluded_with_a_reason() -> None:
    known = sorted(
        (origin, identifier) for origin, areas in AREAS.items() for names in areas.values() for identifier in names
    )
    handled = sorted((each["origin"], each["id"]) for each in [*DECISIONS, *VALUES, *EXCLUDED])
    assert handled == known
    assert all(each["reason"].strip() for each in EXCLUDED)


def test_the_decision_record_names_every_excluded_vector_and_no_other() -> None:
    (record,) = (ROOT / "docs" / "decisions").glob("0010-*.md")
    text = record.read_text(encoding="utf-8")
    named = {name for name in text.split("`") if name in {each["id"] for each in [*DECISIONS, *VALUES, *EXCLUDED]}}
    assert named == {each["id"] for each in EXCLUDED}


def _request(messages: list[dict[str, Any]], tools: int) -> CallRequest:
    return CallRequest(target="assistant", messages=tuple(_message(each) for each in messages), tools=_tools(tools))


def _tools(count: int) -> tuple[Tool, ...]:
    return tuple(Tool(f"tool-{index}", schema_bytes=40) for index in range(count))


def _message(content: dict[str, Any]) -> Message:
    said = content["content"]
    return Message(
        Role(content["role"]),
        (TextPart(said),) if isinstance(said, str) else tuple(ImagePart("data:,") for _ in said),
        tool_calls=tuple(
            ToolCall(
                each["id"], each.get("function", {}).get("name", ""), each.get("function", {}).get("arguments", "")
            )
            for each in content.get("tool_calls", ())
        ),
    )
