"""What other systems make of failures, as far as ours shares it, as data: `tests/vectors/failing.json`.

Those that our rules contradict are not run; each is named there and in decision record 0075, with the reason.
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from governance.gateway.errors import problem_of
from governance.gateway.middleware import retry
from governance.gateway.protocols.anthropic_replies import AnthropicWriter
from governance.gateway.protocols.base import Head
from governance.gateway.protocols.openai_chat_replies import OpenAIChatWriter
from governance.models import SettingValue
from governance.settings_store.registry import REORDER_FALLBACK
from routing.core.calls import (
    Event,
    Reasoning,
    ReasoningSealed,
    Started,
    Stopped,
    StopReason,
    Text,
    ToolArguments,
    ToolCallStarted,
)
from routing.core.conversation import Protocol
from routing.core.failures import FAILURES, CircuitEffect, Failure, FailureKind, NextRoute
from routing.core.plan import Fallback, healthiest_first
from routing.core.retry import RetryPolicy, wait_before
from routing.core.signals import HealthFigure
from routing.core.vocabulary import LABELS, SkipReason
from routing.endpoints import endpoint_of
from routing.models import Configuration, LanguageModel, Provider
from routing.models.provider import base_url_problem
from routing.providers.base import Endpoint
from routing.providers.errors import classify_answer
from routing.providers.outbound import DestinationBlocked, OutboundPolicy
from routing.vault import Vault
from tests.factories import CallFactory, ConfigurationFactory, FallbackLinkFactory
from tests.governance.gateway.conftest import World, relist
from tests.governance.gateway.upstream import answers, fails, streams
from tests.routing.core.samples import at, decided, listed, model
from tests.servers.fake_provider import Reset, Script, Stall, whole

ROOT = Path(__file__).resolve().parents[3]
CONTENT: dict[str, Any] = json.loads((ROOT / "tests" / "vectors" / "failing.json").read_text(encoding="utf-8"))
VECTORS, EXCLUDED = CONTENT["vectors"], CONTENT["excluded"]
CALLS = [each for each in VECTORS if each["kind"] == "asked"]
VALUES = [each for each in VECTORS if each["kind"] != "asked"]

NOW = datetime(2026, 10, 21, 7, 0, tzinfo=UTC)
ENDPOINT = Endpoint(provider="prod-east", adapter_type="openai", base_url="https://api.example.com/v1")
HEAD = Head("5f0c7c0e", "support-chat", 7)


# --- Single values --------------------------------------------------------------------------------------------------


def wait(given: Mapping[str, Any], expect: Any) -> None:
    failure = Failure(FailureKind(given["failure"]["kind"]), "no", retry_after=given["failure"].get("retry_after"))
    names = {"attempts", "first_wait", "longest_wait"} & set(given)
    policy = RetryPolicy(**{name: given[name] for name in names})
    repeats = given.get("repeats_timeouts", False)
    found = [
        wait_before(given["next"], failure=failure, policy=policy, repeats_timeouts=repeats, lot=lot)
        for lot in (0.0, 0.999_999)
    ]
    if expect is None:
        assert found == [None, None]
    elif expect == "some":
        assert None not in found
    else:
        assert found == pytest.approx([expect["least"], expect["most"]], rel=1e-5)


def repeated(given: Mapping[str, Any], expect: Any) -> None:
    failure = Failure(FailureKind(given["kind"]), "no")
    found = wait_before(2, failure=failure, policy=RetryPolicy(), repeats_timeouts=False, lot=0.0)
    assert (found is not None) == expect


def status(given: Mapping[str, Any], expect: Any) -> None:
    headers = {name.lower(): value for name, value in given["headers"].items()}
    found = classify_answer(endpoint=ENDPOINT, status=given["status"], headers=headers, body=b"", now=NOW)
    assert (found.kind.value, found.retry_after) == (expect["kind"], expect["retry_after"])


def words(given: Mapping[str, Any], expect: Any) -> None:
    body = orjson.dumps(given["body"])
    found = classify_answer(endpoint=ENDPOINT, status=given["status"], headers={}, body=body, now=NOW)
    assert expect.get("contains", "") in found.message
    assert "lacks" not in expect or expect["lacks"] not in found.message


def leads_to(given: Mapping[str, Any], expect: Any) -> None:
    if "status" in given:
        kind = classify_answer(endpoint=ENDPOINT, status=given["status"], headers={}, body=b"", now=NOW).kind
    else:
        kind = FailureKind(given["kind"])
    rule = FAILURES[kind]
    found = {"next_route": rule.next_route is not NextRoute.NO, "rests": rule.circuit is not CircuitEffect.NONE}
    assert found == expect


def told(given: Mapping[str, Any], expect: Any) -> None:
    problem = problem_of(Failure(FailureKind(given["kind"]), "no", retry_after=given.get("retry_after")))
    assert problem.status == expect["status"]
    assert problem.headers.get("Retry-After") == expect.get("retry-after")


EVENTS: Mapping[str, Callable[..., Event]] = {
    "started": lambda: Started("r", "gpt-x-mini"),
    "text": Text,
    "reasoning": Reasoning,
    "sealed": lambda signature: ReasoningSealed(signature, Protocol.ANTHROPIC),
    "tool": lambda index, name: ToolCallStarted(index, f"id-{name}", name),
    "arguments": ToolArguments,
}


def events_of(given: Any) -> list[Event]:
    return [EVENTS[name](*values) for name, *values in given]


def said(given: Any, expect: Any) -> None:
    whole_answer = orjson.loads(AnthropicWriter().reply([*events_of(given), Stopped(StopReason.END)], head=HEAD))
    (block,) = whole_answer["content"]
    assert {key: block[key] for key in expect} == {**expect, "signature": block["signature"]}
    assert block["signature"].endswith(expect["signature"])


def chunks(given: Any, expect: Any) -> None:
    written = OpenAIChatWriter().stream(HEAD).write(events_of(given))
    deltas = [
        orjson.loads(each.removeprefix(b"data: "))["choices"][0]["delta"] for each in written.split(b"\n\n") if each
    ]
    if "role" in expect:
        assert deltas[0]["role"] == expect["role"]
    if "indexes" in expect:
        calls = [call["index"] for delta in deltas for call in delta.get("tool_calls", ())]
        assert calls == expect["indexes"]


def finish(given: str, expect: Any) -> None:
    whole_answer = OpenAIChatWriter().reply([Text("x"), Stopped(StopReason(given))], head=HEAD)
    assert orjson.loads(whole_answer)["choices"][0]["finish_reason"] == expect


def reorders(given: Any, expect: Any) -> None:
    assert REORDER_FALLBACK.read(given) == expect
    assert REORDER_FALLBACK.default == expect


def fallback_order(given: Mapping[str, Any], expect: Any) -> None:
    models = [model(name, provider=at(f"kind-{name}")) for name in given["chain"]]
    known = {name: HealthFigure(**figure) for name, figure in given["health"].items() if figure is not None}
    chain = [Fallback(name, decided(listed(name), *models)) for name in given["chain"]]
    if given["reorders"]:
        chain = list(healthiest_first(chain, health=lambda each: known[each.identifier].value))
    assert [each.configuration for each in chain] == expect


def total_timeout(given: int, expect: Any) -> None:
    row = Provider(identifier="prod-east", adapter_type="openai", total_timeout=Decimal(given))
    assert endpoint_of(row, vault=Vault([("k1", secrets.token_bytes(32))])).timeouts.total == expect


def base_url(given: str, expect: Any) -> None:
    """Whether calls may go there: it can be entered, and connections to it are allowed."""
    if base_url_problem(given) is None:
        with pytest.raises(DestinationBlocked):
            OutboundPolicy().destination(given, allow_http=False)
    assert expect is False


KINDS: Mapping[str, Callable[[Any, Any], None]] = {
    each.__name__: each
    for each in (
        wait, repeated, status, words, leads_to, told, said, chunks, finish, reorders, fallback_order, total_timeout,
        base_url,
    )
}  # fmt: skip


@pytest.mark.parametrize("vector", VALUES, ids=lambda vector: vector["id"])
def test_value(vector: Mapping[str, Any]) -> None:
    KINDS[vector["kind"]](vector["given"], vector["expect"])


# --- Calls ----------------------------------------------------------------------------------------------------------


def script_of(name: str, *, stream: bool) -> Script:
    scripts: dict[str, Script] = {
        "answers": streams() if stream else answers(),
        "transient": fails(503),
        "resets": [Reset()],
        "times out": [Stall()],
        "refuses": fails(400, code="content_filter"),
        "rate limit of 42 s": fails(429, headers={"retry-after": "42"}),
        "rate limit of 6 s": fails(429, headers={"retry-after": "6"}),
        "401": fails(401),
        "429": fails(429),
    }
    return scripts[name]


OUT_OF_SERVICE: Mapping[str, Mapping[str, Any]] = {"retired": {"retired_at": NOW}, "inactive": {"is_active": False}}


def chain_up(world: World, routes: list[Any]) -> None:
    """The configuration that is asked for falls back to one configuration for each further route."""
    relist(world.configuration, world.models[:1])
    for position, (route, row) in enumerate(zip(routes[1:], world.models[1:], strict=False)):
        out = OUT_OF_SERVICE.get(route if isinstance(route, str) else "", {})
        fallback = only(row, f"instead-{position}", **out)
        FallbackLinkFactory(configuration=world.configuration, fallback=fallback, position=position)


def only(row: LanguageModel, identifier: str, **state: Any) -> Configuration:
    configuration: Configuration = ConfigurationFactory(
        identifier=identifier, fixed=True, fixed_model=row, is_active=state.get("is_active", True)
    )
    if "retired_at" in state:
        configuration.retired_at = state["retired_at"]
        configuration.save()
    return configuration


def set_up(world: World, given: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The scene of a call; gives the waits that would have been slept."""
    stored = {
        "retry.attempts": given.get("attempts", 1),
        "retry.longestWaitMilliseconds": 1000 * given.get("longest_wait", 30),
        "gateway.deadlineSeconds": given.get("deadline", 900),
        "health.reorderFallback": "health" in given,
    }
    for key, value in stored.items():
        SettingValue.objects.update_or_create(key=key, defaults={"value": value})
    for row in world.models:
        row.provider.total_timeout = Decimal("0.3")
        row.provider.save()
    world.configuration.repeats_timeouts = given.get("repeats_timeouts", False)
    world.configuration.save()
    chain_up(world, given.get("routes", []))
    for row, score in zip(world.models, given.get("health", ()), strict=False):
        if score is not None:
            CallFactory.create_batch(
                10,
                started_at=datetime.now(UTC) - timedelta(minutes=1),
                first_adapter_type=row.provider.adapter_type,
                first_failure_kind="" if score > 0.5 else "transient",
                success=score > 0.5,
                requested="before",
            )
    world.gateway.refresh()
    slept: list[float] = []

    async def note(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(retry, "sleep", note)
    if "passed" in given:  # so many seconds ago the call began
        later = Later(lambda: time.monotonic() + given["passed"])
        monkeypatch.setattr("governance.gateway.deadline.time", later)
    return slept


class Later:
    """A clock that is ahead."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic


@pytest.mark.parametrize("vector", CALLS, ids=lambda vector: vector["id"])
def test_call(vector: Mapping[str, Any], world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    given, expect = vector["given"], vector["expect"]
    stream = given.get("stream", False)
    slept = set_up(world, given, monkeypatch)
    if "answer" in given:
        world.script(whole(given["answer"]["body"].encode(), given["answer"]["status"]))
    for upstream, route in zip(world.upstreams, given.get("routes", ()), strict=False):
        names = [route] if isinstance(route, str) else route
        if names[0] not in OUT_OF_SERVICE:
            upstream.answer_in_turn(*(script_of(name, stream=stream) for name in names))
    reply = world.gateway.chat(stream=stream)
    row = next(each for each in reversed(world.calls()) if each.requested == "support-chat")
    walked = [world.models.index(next(m for m in world.models if m.identifier == each.model)) for each in attempts(row)]
    served = [each.identifier for each in world.models].index(row.served_model) if row.served_model else None
    found = {
        "route": served,
        "kind": row.failure_kind,
        "requests": row.requests_sent,
        "asked": world.asked[: len(expect.get("asked", ()))],
        "order": walked,
        "retries": row.retries,
        "fallback_attempts": row.fallback_attempts,
        "fell_through": len([each for each in reply.headers.get("x-signalbox-fell-through", "").split(", ") if each]),
        "waits": slept,
        "waited": len(slept),
        "skipped": [each.value for each in SkipReason if LABELS[each] in reply.body.decode()],
    }
    assert {name: found[name] for name in expect} == expect
    assert sum(world.asked) == row.requests_sent


def attempts(row: Any) -> list[Any]:
    return list(row.attempts.order_by("index"))


# --- All of them ----------------------------------------------------------------------------------------------------


def test_every_vector_is_run_or_excluded_with_a_reason() -> None:
    known = sorted(
        (origin, name) for origin, areas in CONTENT["areas"].items() for names in areas.values() for name in names
    )
    assert sorted((each["origin"], each["id"]) for each in [*VECTORS, *EXCLUDED]) == known
    assert all(each["reason"].strip() for each in EXCLUDED)


def test_the_decision_record_names_every_excluded_vector_and_no_other() -> None:
    (record,) = (ROOT / "docs" / "decisions").glob("0075-*.md")
    text = record.read_text(encoding="utf-8")
    named = {name for name in text.split("`") if name in {each["id"] for each in [*VECTORS, *EXCLUDED]}}
    assert named == {each["id"] for each in EXCLUDED}
    assert all(f"| `{each['id']}` | {each['origin']} | {each['reason']} |" in text for each in EXCLUDED)
