import json
from dataclasses import replace

import pytest

from routing.core.configuration import Criteria, override
from routing.core.decision import Decision
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.requirements import Limits, Requirements
from routing.core.signals import HealthFigure
from routing.core.transcript import VERSION, TranscriptError, canonical, digest, document, outline, restore
from routing.core.vocabulary import Enforcement, ListedOrder, Operation
from tests.routing.core.samples import (
    at,
    criteria,
    decided,
    figures,
    fixed,
    history,
    listed,
    model,
    price,
    ranked,
)

FAST = model("fast", prices=[price("2.50", "10")])
SLOW = model("slow", provider=at("anthropic"), prices=[price("3", "15", currency="EUR")], context_length=None)
KNOWN = figures(
    quality={"fast": 0.8},
    health={"fast": HealthFigure(20, 19, 800.0), "slow": HealthFigure(3, 0, None)},
    chat={"fast": history(latency=4259, cost="0.0067"), "slow": history(latency=9094, cost="0.0184", currency="EUR")},
    failures={"slow": 2},
)
DECISIONS = {
    "economy": ranked(FAST, SLOW, mode=PolicyMode.ECONOMY, prefer_lowest_cost=True, known=KNOWN),
    "provider-priority": ranked(FAST, SLOW, mode=PolicyMode.PROVIDER_PRIORITY, known=KNOWN),
    "partly-refused": decided(
        criteria(Criteria(adapter_types=("anthropic",), max_cost_input=2_500_000_001)), FAST, SLOW, known=KNOWN
    ),
    "observed": decided(
        criteria(),
        FAST,
        requirements=Requirements(operation=Operation.TOOLS),
        policy=RoutingPolicy(mode=PolicyMode.QUALITY, enforcement=Enforcement.OBSERVE),
    ),
    "listed": decided(listed("slow", "gone", "fast", order=ListedOrder.HEALTHIEST), FAST, SLOW, known=KNOWN),
    "fixed-none": decided(fixed(), FAST),
    "override": decided(override("fast"), FAST, limits=Limits(allowed_models=frozenset())),
    "empty": decided(criteria(), requirements=Requirements()),
}


@pytest.mark.parametrize("decision", DECISIONS.values(), ids=DECISIONS.keys())
def test_a_document_leads_back_to_its_decision(decision: Decision) -> None:
    content = document(decision)
    read = json.loads(canonical(content))
    assert read == content  # plain values only
    restored = restore(read)
    assert document(restored) == content
    assert outline(restored) == outline(decision)
    assert (restored.state, restored.recorded_mode) == (decision.state, decision.recorded_mode)
    assert restored.refusal() == decision.refusal()


def test_what_a_document_holds() -> None:
    content = document(DECISIONS["economy"])
    assert content["version"] == VERSION
    assert content["selected"] == "fast"
    assert content["basis"] == "callCost"
    fast = content["candidates"][0]
    assert (fast["identifier"], fast["model_id"]) == ("fast", "gpt-x-fast")
    assert (fast["provider"], fast["adapter_type"]) == ("prod-east", "openai")
    assert fast["figures"]["history"] == {
        "calls": 10,
        "mean_latency_ms": 4259,
        "priced_calls": 10,
        "mean_cost": "0.0067",
        "currency": "USD",
    }
    assert fast["figures"]["price"] == {
        "valid_from": "2025-01-01T00:00:00+00:00",
        "currency": "USD",
        "input": "2.5",
        "output": "10",
    }
    assert set(fast["signals"]) == {"quality", "health", "cost", "latency", "callCost"}


def test_absence_is_null_and_not_collected_is_no_key() -> None:
    slow = document(DECISIONS["economy"])["candidates"][1]
    assert slow["signals"]["quality"] is None
    assert slow["signals"]["callCost"] is None  # its cost is in euros
    assert slow["figures"]["history"]["mean_cost"] == "0.0184"
    assert document(DECISIONS["provider-priority"])["candidates"][0]["signals"] == {}


def test_a_document_is_enough_to_work_the_score_out_again() -> None:
    content = document(ranked(FAST, SLOW, model("unmeasured"), known=KNOWN))
    for each in content["candidates"]:
        pairs = []
        for name, weight in content["weights"].items():
            value = each["signals"][name]
            if value is None and name in content["neutral_for_absent"]:
                value = 0.5
            if value is not None:
                pairs.append((weight, value))
        mean = sum(weight * value for weight, value in pairs) / sum(weight for weight, _ in pairs)
        assert each["score"] == pytest.approx(mean, abs=1e-9)


def test_refused_candidates_keep_their_figures_and_have_no_score() -> None:
    refused = document(DECISIONS["partly-refused"])["candidates"][1]
    assert refused["reason"] == "adapterNotAllowed"
    assert refused["detail"] == "adapter type openai is not among anthropic"
    assert (refused["score"], refused["signals"]) == (None, {})
    assert refused["figures"]["quality"] == 0.8


def test_canonical_has_one_spelling() -> None:
    assert canonical({"b": 1, "a": ["ü", None, 0.5]}) == '{"a":["ü",null,0.5],"b":1}'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": float("nan")})


def test_equal_decisions_have_one_digest_and_others_another() -> None:
    first, again = (digest(canonical(document(ranked(FAST, SLOW, known=KNOWN)))) for _ in range(2))
    other = digest(canonical(document(ranked(FAST, known=KNOWN))))
    assert first == again != other
    assert len(first) == 64


def test_one_call_s_estimate_is_in_no_document() -> None:
    sizes = [
        document(decided(criteria(), FAST, requirements=Requirements(operation=Operation.CHAT, prompt_tokens=tokens)))
        for tokens in (10, 20)
    ]
    assert sizes[0] == sizes[1]


def test_an_outline_is_short() -> None:
    content = outline(replace(DECISIONS["partly-refused"]))
    assert content == {
        "selected": "slow",
        "order": ["slow"],
        "state": "decided",
        "mode": "providerPriority",
        "basis": None,
        "signals_used": [],
        "candidates": [
            {"identifier": "slow", "score": 0.5, "signals": {}, "reason": None},
            {
                "identifier": "fast",
                "reason": "adapterNotAllowed",
                "detail": "adapter type openai is not among anthropic",
            },
        ],
    }


def test_an_outline_tells_what_was_observed() -> None:
    assert outline(DECISIONS["observed"])["candidates"][0]["observed"] == ["tools"]


@pytest.mark.parametrize("content", [{}, {"version": 0}, {"version": "1"}, {"version": VERSION + 1}])
def test_other_versions_are_not_read(content: dict[str, object]) -> None:
    with pytest.raises(TranscriptError, match="version"):
        restore(content)


def test_half_a_document_is_not_read() -> None:
    content = document(DECISIONS["economy"])
    for key in ("candidates", "selection", "criteria"):
        with pytest.raises(TranscriptError, match="not a whole decision document"):
            restore({name: value for name, value in content.items() if name != key})
    with pytest.raises(TranscriptError):
        restore({**content, "mode": "cheapest-possible"})
    with pytest.raises(TranscriptError):
        restore({**content, "candidates": [3]})
