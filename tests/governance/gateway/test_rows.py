"""Exactly one row for each call, and what stands in it, by value.

In these tests every namespace has values of its own: adapter type ``openai``, provider ``prod-east``, model ``fast``,
model id ``gpt-x-mini``, configuration ``support-chat``.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import orjson
import pytest
from django.urls import reverse

from governance.changes.settings import store_setting
from governance.settings_store.registry import CALL_HISTORY, POLICY_MODE, TELEMETRY
from routing.core.decision import Decision
from routing.core.transcript import canonical, digest, document, restore
from routing.core.vocabulary import Selection
from routing.models import LanguageModel
from telemetry.health import read_health
from telemetry.history import read_history
from telemetry.models import Attempt, Call, DecisionRecord, UsageDay
from tests.authors import SOMEBODY
from tests.factories import ConfigurationFactory, LanguageModelFactory, PriceFactory, ProviderFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import question
from tests.governance.gateway.upstream import (
    DONE,
    ROLE,
    STOP,
    answers,
    chunk_of,
    completion,
    fails,
    streams,
    usage_chunk,
)
from tests.servers.fake_provider import Pause, Reset, Script, Stall, events, whole


def only(world: World) -> Call:
    """The one call recorded; and it is one in the usage of the day as well."""
    call = world.call()
    assert sum(UsageDay.objects.values_list("requests", flat=True)) == 1
    return call


def test_an_answered_call(world: World) -> None:
    before = datetime.now(UTC)
    reply = world.gateway.request(
        question(user="agent-17", tools=[{"type": "function", "function": {"name": "look_up", "parameters": {}}}]),
        headers={"x-signalbox-source": "web-shop"},
    )
    assert reply.status == 200
    call = only(world)
    assert str(call.pk) == reply.headers["x-signalbox-call"]
    assert before <= call.started_at <= datetime.now(UTC)
    assert (call.requested, call.operation, call.streamed) == ("support-chat", "tools", False)
    assert (call.application, call.user, call.source) == ("helpdesk", "agent-17", "web-shop")
    assert call.key == str(world.configuration_key)
    assert (call.first_provider, call.first_adapter_type) == ("prod-east", "openai")
    assert (call.first_model, call.first_model_id) == ("fast", "gpt-x-mini")
    assert (call.served_configuration, call.served_provider) == ("support-chat", "prod-east")
    assert (call.served_adapter_type, call.served_model, call.served_model_id) == ("openai", "fast", "gpt-x-mini")
    assert call.response_model == "gpt-x-mini-2026-05-01"
    assert (call.success, call.failure_kind, call.first_failure_kind, call.error_class) == (True, "", "", "")
    assert (call.fallback_attempts, call.retries, call.requests_sent, call.cache_hit) == (0, 0, 1, False)
    assert 0 < call.latency_ms < 5000
    assert call.first_token_ms is None
    assert (call.policy_mode, call.candidates, call.rejection_reasons) == ("listed:asListed", 3, "")
    assert call.preference == ""
    assert call.facts_messages == call.facts_turns == call.facts_tools == 1
    assert call.facts_payload_bytes == len("Hello")
    assert call.facts_token_estimate is not None
    assert call.facts_token_estimate > 2
    assert call.facts_shape == "toolAssisted"
    assert (call.complexity_score, call.context_percent) == (11, 0)
    assert (call.actual_input_tokens, call.actual_cache_read_tokens, call.actual_cache_write_tokens) == (1000, 200, 0)
    assert (call.actual_output_tokens, call.actual_reasoning_tokens) == (340, 40)
    assert call.usage_coverage == "exact"
    # 1000 at 2.50, 200 at 0.25 and 340 at 10.00 a million.
    assert (call.actual_cost_nanos, call.cost_currency) == (2_500_000 + 50_000 + 3_400_000, "USD")
    assert reply.headers["x-signalbox-cost"] == "0.00595 USD"
    assert not Attempt.objects.exists()  # a single attempt is the call itself


@pytest.mark.parametrize("prefix", ["", "/llm"])
def test_where_a_call_is_explained(world: World, prefix: str) -> None:
    reply = world.gateway.request(question(), prefix=prefix)
    assert reply.headers["x-signalbox-decision"] == prefix + reverse(
        "admin:telemetry_call_change", args=[only(world).pk]
    )


def test_a_streamed_call(world: World) -> None:
    world.script([*events(ROLE, end=[Pause(0.05)]), *streams("Left on ", "Monday.")[1:]])
    reply = world.gateway.chat(stream=True)
    assert reply.frames[-1] == DONE
    call = only(world)
    assert (call.operation, call.streamed, call.success) == ("stream", True, True)
    assert call.first_token_ms is not None
    assert 50 <= call.first_token_ms <= call.latency_ms
    assert call.actual_output_tokens == 340  # asked for by us, since the caller did not
    assert call.actual_cost_nanos == 5_950_000
    assert "x-signalbox-cost" not in reply.headers


@pytest.mark.parametrize("stream", [False, True])
def test_usage_that_is_not_reported_is_not_zero(world: World, stream: bool) -> None:
    world.script(streams(usage=None) if stream else answers(usage=None))
    assert world.gateway.chat(stream=stream).status == 200
    call = only(world)
    assert (call.success, call.usage_coverage) == (True, "absent")
    assert call.actual_input_tokens is None
    assert call.actual_cache_read_tokens is None
    assert call.actual_cache_write_tokens is None
    assert call.actual_output_tokens is None
    assert call.actual_reasoning_tokens is None
    assert (call.actual_cost_nanos, call.cost_currency) == (None, "")
    day = UsageDay.objects.get()
    assert (day.requests, day.failures, day.unpriced_requests, day.cost_nanos) == (1, 0, 1, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_the_class_that_was_served_is_charged_and_both_are_stored(world: World, stream: bool) -> None:
    PriceFactory(model=world.models[0], service_tier="priority", input_rate=5_000_000_000, output_rate=20_000_000_000)
    world.gateway.refresh()
    for served in ("default", "priority"):
        if stream:
            last = orjson.loads(usage_chunk()) | {"service_tier": served}
            world.script(events(ROLE, chunk_of({"content": "Hi"}), STOP, orjson.dumps(last), DONE))
        else:
            world.script(answers(service_tier=served))
        assert world.gateway.chat(stream=stream, service_tier="priority").status == 200
    downgraded, priority = world.calls()
    assert (downgraded.requested_tier, downgraded.served_tier) == ("priority", "default")
    assert (priority.requested_tier, priority.served_tier) == ("priority", "priority")
    assert downgraded.actual_cost_nanos == 2_500_000 + 50_000 + 3_400_000
    assert priority.actual_cost_nanos == 1_200 * 5_000 + 340 * 20_000  # no rate for what is cached: no discount


@pytest.mark.parametrize(("priced", "cost"), [(True, 0), (False, None)])
def test_free_is_not_unpriced(world: World, priced: bool, cost: int | None) -> None:
    world.models[0].prices.all().delete()
    if priced:
        PriceFactory(model=world.models[0], input_rate=0, output_rate=0, currency="EUR")
    world.gateway.refresh()
    reply = world.gateway.chat()
    call = only(world)
    assert (call.actual_input_tokens, call.actual_cost_nanos) == (1000, cost)
    assert call.cost_currency == ("EUR" if priced else "")
    assert reply.headers.get("x-signalbox-cost") == ("0 EUR" if priced else None)


def test_the_price_is_that_of_the_beginning(world: World) -> None:
    """A price that comes into force while the answer is waited for is not this call's."""
    PriceFactory(
        model=world.models[0],
        valid_from=datetime.now(UTC) + timedelta(seconds=0.4),
        input_rate=1_000_000_000_000,
        output_rate=1_000_000_000_000,
    )
    world.gateway.refresh()
    world.script([Pause(0.7), *answers()])
    world.gateway.chat()
    world.script(answers())
    world.gateway.chat()
    early, late = world.calls()
    assert early.actual_cost_nanos == 5_950_000
    assert late.actual_cost_nanos == 1_540_000_000  # nobody had to look at the records again


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        # A first frame with a preview of the usage: the last one counts.
        ([{"completion_tokens": 4}, {"prompt_tokens": 10, "completion_tokens": 252, "total_tokens": 262}], (10, 252)),
        # Nothing sensible: taken for zero, and told to be partly known.
        ([{"prompt_tokens": -5, "completion_tokens": 7, "total_tokens": 2}], (0, 7)),
    ],
    ids=["preview", "negative"],
)
def test_usage_in_a_stream(world: World, usage: list[dict[str, int]], expected: tuple[int, int]) -> None:
    first, *rest = usage
    frames = [chunk_of({"role": "assistant"}, usage=first), chunk_of({"content": "Hi"}), STOP]
    world.script(events(*frames, *(orjson.dumps({"choices": [], "usage": each}) for each in rest), DONE))
    world.gateway.chat(stream=True)
    call = only(world)
    assert (call.actual_input_tokens, call.actual_output_tokens) == expected
    assert call.usage_coverage == ("exact" if rest else "partial")


@pytest.mark.parametrize("stream", [False, True])
def test_a_usage_that_cannot_be_true_is_not_believed(
    world: World, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    """It is taken for not reported, neither cut nor charged; and the calls after it are written like any other."""
    absurd = {"prompt_tokens": 10**18, "completion_tokens": 5, "total_tokens": 10**18 + 5}
    world.script(streams(usage=absurd) if stream else answers(usage=absurd))
    reply = world.gateway.chat(stream=stream)
    assert (reply.status, "x-signalbox-cost" in reply.headers) == (200, False)
    call = only(world)
    assert (call.success, call.usage_coverage) == (True, "absent")
    assert (call.actual_input_tokens, call.actual_output_tokens, call.actual_cost_nanos) == (None, None, None)
    assert "a usage was reported that cannot be true" in caplog.text
    world.script(streams() if stream else answers())
    world.gateway.chat(stream=stream)
    assert world.calls()[-1].actual_cost_nanos == 5_950_000
    assert UsageDay.objects.get(currency="USD").cost_nanos == 5_950_000


def test_a_name_that_is_refused(world: World) -> None:
    world.gateway.secret = world.issue(allowed_configurations=["another"])
    assert world.gateway.chat().status == 403
    call = only(world)
    assert (call.requested, call.success, call.failure_kind) == ("support-chat", False, "forbidden")
    assert (call.first_provider, call.served_provider, call.served_configuration) == ("", "", "")
    assert (call.policy_mode, call.candidates, call.decision_id) == ("", None, None)
    assert (call.requests_sent, call.facts_messages) == (0, 1)
    assert world.asked == [0, 0, 0]


def test_a_name_that_is_unknown(world: World) -> None:
    reply = world.gateway.chat("suport-chat")
    assert (reply.status, reply.error["code"], reply.error["param"]) == (404, "model_not_found", "model")
    assert "Did you mean support-chat?" in reply.error["message"]
    call = only(world)
    assert (call.requested, call.failure_kind, call.error_class) == ("suport-chat", "unsupported", "model_not_found")


def test_nobody_may_serve(world: World) -> None:
    for model in world.models:
        model.capabilities = ["chat"]
        model.save()
    world.gateway.refresh()
    reply = world.gateway.chat(tools=[{"type": "function", "function": {"name": "look_up"}}])
    assert reply.status == 400
    for route in ("prod-east/fast", "prod-west/wise", "lab/huge"):
        assert f"{route}: operationCapabilityMissing" in reply.error["message"]
    call = only(world)
    assert (call.failure_kind, call.rejection_reasons) == ("unsupported", "operationCapabilityMissing")
    assert (call.candidates, call.served_configuration, call.served_provider) == (3, "support-chat", "")
    assert call.decision is not None
    assert world.asked == [0, 0, 0]


def test_a_rescued_call(world: World) -> None:
    world.script(fails(429, code="rate_limit_exceeded"), answers())
    reply = world.gateway.chat()
    assert reply.status == 200
    call = only(world)
    assert (call.success, call.failure_kind, call.first_failure_kind) == (True, "", "rate_limited")
    assert (call.first_provider, call.first_adapter_type, call.first_model_id) == ("prod-east", "openai", "gpt-x-mini")
    assert (call.served_provider, call.served_adapter_type, call.served_model) == ("prod-west", "custom", "wise")
    assert call.served_model_id == "gpt-x-pro"
    assert (call.fallback_attempts, call.retries, call.requests_sent) == (1, 0, 2)
    first, second = call.attempts.order_by("index")
    assert (first.provider, first.model, first.model_id, first.adapter_type) == (
        "prod-east",
        "fast",
        "gpt-x-mini",
        "openai",
    )
    assert (first.failure_kind, first.error_code, first.output_tokens, first.cost_nanos) == (
        "rate_limited",
        "rate_limit_exceeded",
        None,
        None,
    )
    assert (second.provider, second.model, second.configuration) == ("prod-west", "wise", "support-chat")
    assert (second.failure_kind, second.output_tokens, second.cost_nanos) == ("", 340, 5_950_000)
    assert first.started_at <= second.started_at
    assert first.latency_ms + second.latency_ms <= call.latency_ms
    assert UsageDay.objects.get().provider == "prod-west"


def test_a_call_that_nobody_answers(world: World) -> None:
    world.script(fails(503), fails(500), fails(401))
    assert world.gateway.chat().status == 502
    call = only(world)
    assert (call.success, call.failure_kind, call.first_failure_kind) == (False, "auth", "transient")
    assert (call.fallback_attempts, call.requests_sent) == (2, 3)
    assert (call.served_configuration, call.served_provider) == ("support-chat", "")
    assert [each.failure_kind for each in call.attempts.order_by("index")] == ["transient", "transient", "auth"]
    day = UsageDay.objects.get()
    assert (day.requests, day.failures, day.unpriced_requests) == (1, 1, 0)


def test_a_stream_that_breaks_off(world: World) -> None:
    world.script(streams("The parcel ", end=[Reset()]))
    reply = world.gateway.chat(stream=True)
    assert orjson.loads(reply.frames[-1])["error"]["code"] == "connection_broken"
    call = only(world)
    assert (call.success, call.failure_kind, call.first_failure_kind) == (False, "transient", "transient")
    assert call.served_provider == "prod-east"  # it was the one, and could not be replaced any more
    assert call.first_token_ms is not None
    assert call.actual_output_tokens is None


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_declines(world: World, stream: bool) -> None:
    """It is an answer, and no success; nobody else is asked."""
    if stream:
        world.script(events(ROLE, chunk_of({"refusal": "I cannot."}), STOP, DONE))
    else:
        message = {"role": "assistant", "content": None, "refusal": "I cannot."}
        world.script(whole(completion(choices=[{"index": 0, "message": message, "finish_reason": "stop"}])))
    assert world.gateway.chat(stream=stream).status == 200
    call = only(world)
    assert (call.success, call.failure_kind, call.first_failure_kind) == (False, "refused", "refused")
    assert (call.served_provider, world.asked) == ("prod-east", [1, 0, 0])
    assert call.actual_output_tokens == (None if stream else 340)


def test_a_refusal_of_a_replaced_route_is_not_the_calls(world: World) -> None:
    filtered = chunk_of({}, finish="content_filter")
    world.script(events(ROLE, filtered, b'{"error":{"message":"overloaded","code":"server_error"}}'), streams())
    reply = world.gateway.chat(stream=True)
    assert reply.status == 200
    assert world.asked == [1, 1, 0]
    call = only(world)
    assert (call.success, call.failure_kind, call.first_failure_kind) == (True, "", "transient")


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_of_our_own(world: World, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a fault of ours, distinctly")

    monkeypatch.setattr(world.gateway.service._endpoints, "of", fail)
    object.__setattr__(world.gateway.service.services, "endpoint_of", fail)
    reply = world.gateway.chat(stream=stream)
    assert (reply.status, reply.error["type"], reply.error["code"]) == (500, "internal_error", "internal_error")
    assert "distinctly" not in reply.error["message"]
    call = only(world)
    assert reply.headers["x-signalbox-call"] == str(call.pk)
    assert (call.success, call.failure_kind, call.error_class) == (False, "internal_error", "LookupError")
    assert (call.first_failure_kind, call.requests_sent, world.asked) == ("", 0, [0, 0, 0])  # nothing was sent


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_of_our_own_says_nothing_about_a_provider(
    world: World, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Wherever it happens: before anything is sent, when the answer is priced, after a route that did fail."""

    def fail(*_: object, **__: object) -> None:
        raise LookupError("a fault of ours")

    circuits = world.gateway.service.circuits
    script = streams() if stream else answers()
    for place in ("registry", "price"):
        with monkeypatch.context() as patched:
            name = {"registry": "api_for", "price": "price_at"}[place]
            patched.setattr(f"governance.gateway.middleware.provider_call.{name}", fail)
            world.script(script)
            world.gateway.chat(stream=stream)
            assert world.calls()[-1].first_failure_kind == "internal_error"
            assert "fast" not in circuits.counts
    assert "openai" not in read_health(now=datetime.now(UTC))
    with monkeypatch.context() as patched:
        patched.setattr("governance.gateway.middleware.provider_call.price_at", fail)
        world.script(fails(503), script)
        world.gateway.chat(stream=stream)
    call = world.calls()[-1]
    assert (call.failure_kind, call.first_failure_kind) == ("internal_error", "transient")
    kinds = [(each.failure_kind, each.error_code) for each in call.attempts.order_by("index")]
    assert kinds[1] == ("internal_error", "LookupError")
    assert circuits.counts == {"fast": 1}
    assert list(read_health(now=datetime.now(UTC))) == ["openai"]
    assert not read_history(now=datetime.now(UTC), currency="USD")


def test_an_error_of_our_own_lets_the_provider_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("a fault of ours")

    monkeypatch.setattr("governance.gateway.middleware.provider_call.price_at", fail)
    begun = chunk_of({"role": "assistant"}, usage={"prompt_tokens": 1, "completion_tokens": 0})
    world.script(events(begun, end=[Stall()]))
    assert world.gateway.chat(stream=True).status == 500
    world.gateway.threads.run(world.upstreams[0].requests[0].client_closed.wait(), seconds=1.0)
    assert only(world).error_class == "LookupError"


# --- Callers that hang up -------------------------------------------------------------------------------------------


def test_hanging_up_while_waiting(world: World) -> None:
    world.script([Stall()])
    conversation = world.gateway.begin_chat()
    upstream = world.upstreams[0]
    world.wait_for_request(0)
    conversation.hang_up()
    conversation.finish()
    world.gateway.threads.run(upstream.requests[0].client_closed.wait(), seconds=1.0)
    assert conversation.sent == []
    call = only(world)
    assert (call.success, call.failure_kind, call.first_failure_kind) == (False, "cancelled", "cancelled")
    assert (call.first_provider, call.served_provider, call.requests_sent) == ("prod-east", "", 1)
    assert world.asked == [1, 0, 0]


def test_hanging_up_before_the_first_token(world: World) -> None:
    world.script(events(ROLE, end=[Stall()]))
    conversation = world.gateway.begin_chat(stream=True)
    world.wait_for_request(0)
    conversation.hang_up()
    conversation.finish()
    world.gateway.threads.run(world.upstreams[0].requests[0].client_closed.wait(), seconds=1.0)
    assert conversation.sent == []  # no byte leaves before the first token
    call = only(world)
    assert (call.failure_kind, call.first_token_ms, call.streamed) == ("cancelled", None, True)


def test_hanging_up_in_the_middle(world: World) -> None:
    world.script(streams("Left ", "on ", end=[Stall()]))
    conversation = world.gateway.begin_chat(stream=True)
    conversation.wait_for(b"on ")
    conversation.hang_up()
    conversation.finish()
    world.gateway.threads.run(world.upstreams[0].requests[0].client_closed.wait(), seconds=1.0)
    call = only(world)
    assert (call.success, call.failure_kind, call.served_provider) == (False, "cancelled", "prod-east")
    assert call.first_token_ms is not None
    assert (call.actual_output_tokens, call.actual_cost_nanos) == (None, None)
    assert world.gateway.service.calls_under_way == 0


def test_hanging_up_in_the_middle_keeps_what_was_reported(world: World) -> None:
    """Hosts that report usage with every frame: the best known figures count."""
    usage = {"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 32}
    world.script(events(ROLE, chunk_of({"content": "Left "}, usage=usage), end=[Stall()]))
    conversation = world.gateway.begin_chat(stream=True)
    conversation.wait_for(b"Left ")
    conversation.hang_up()
    conversation.finish()
    call = only(world)
    assert (call.failure_kind, call.actual_input_tokens, call.actual_output_tokens) == ("cancelled", 30, 2)
    assert call.actual_cost_nanos == 30 * 2_500 + 2 * 10_000


def test_hanging_up_after_the_end(world: World) -> None:
    """Clients close as soon as they have read the terminator, and have had everything."""
    script = streams("Monday.")
    world.script([*script[:-1], Stall()])  # everything but the end of the body
    conversation = world.gateway.begin_chat(stream=True)
    conversation.wait_for(DONE)
    conversation.hang_up()
    conversation.finish()
    call = only(world)
    assert (call.success, call.failure_kind, call.first_failure_kind) == (True, "", "")
    assert (call.actual_output_tokens, call.actual_cost_nanos) == (340, 5_950_000)


def test_hanging_up_in_the_second_route(world: World) -> None:
    world.script(fails(500), [Stall()])
    conversation = world.gateway.begin_chat()
    world.wait_for_request(1)
    conversation.hang_up()
    conversation.finish()
    call = only(world)
    assert (call.failure_kind, call.first_failure_kind) == ("cancelled", "transient")
    assert [each.failure_kind for each in call.attempts.order_by("index")] == ["transient", "cancelled"]
    assert world.asked == [1, 1, 0]


def test_hanging_up_while_sending_the_body(world: World) -> None:
    conversation = world.gateway.begin([b'{"model":'], is_complete=False)
    conversation.hang_up()
    conversation.finish()
    assert conversation.sent == []
    world.gateway.flush()
    assert not Call.objects.exists()


# --- Callers that read slowly ---------------------------------------------------------------------------------------


ENDINGS: dict[str, Script] = {
    "a stream that goes on for too long": streams("Left ", end=[Stall()]),
    "a provider that has had enough": streams("Left ", end=[Pause(0.45), Reset()]),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_caller_that_does_not_read_on_is_not_the_providers_failure(world: World, ending: str) -> None:
    """It sat idle for more than half of what an answer may take, since nobody took what it had sent."""
    impatient(world, total="0.6")
    world.script(ENDINGS[ending])
    reply = world.gateway.request(question(stream=True), rests=[0.5])
    error = orjson.loads(reply.frames[-1])["error"]
    assert (error["type"], error["code"]) == ("cancelled", "slow_reader")
    call = only(world)
    assert (call.success, call.failure_kind, call.error_class) == (False, "cancelled", "slow_reader")
    assert (call.first_failure_kind, call.served_provider) == ("cancelled", "prod-east")
    assert "fast" not in world.gateway.service.circuits.counts
    assert not read_health(now=datetime.now(UTC))


def test_what_caller_and_provider_share_in_is_the_providers(world: World) -> None:
    """As long as the caller has not taken more than half of the time. The rests count together."""
    impatient(world, total="0.8")
    world.script(streams("One ", "two ", end=[Stall()]))
    reply = world.gateway.request(question(stream=True), rests=[0.1, 0.1])
    assert orjson.loads(reply.frames[-1])["error"]["code"] == "total_timeout"
    assert world.call().first_failure_kind == "timeout"
    assert world.gateway.service.circuits.counts == {"fast": 1}
    world.gateway.service.circuits.clear("fast")
    reply = world.gateway.request(question(stream=True), rests=[0.25, 0.25])
    assert orjson.loads(reply.frames[-1])["error"]["code"] == "slow_reader"
    assert not world.gateway.service.circuits.counts


def test_a_slow_caller_that_gets_everything_has_had_its_answer(world: World) -> None:
    impatient(world, total="0.6")
    world.script(streams("Left ", "on Monday."))
    reply = world.gateway.request(question(stream=True), rests=[0.5, 0.3])
    assert reply.frames[-1] == DONE
    assert only(world).success


def test_a_slow_reader_does_not_hide_what_the_provider_said(world: World) -> None:
    impatient(world, total="0.6")
    world.script(streams("Left ", end=[*events(b"{")[1:]]))
    reply = world.gateway.request(question(stream=True), rests=[0.5])
    assert orjson.loads(reply.frames[-1])["error"]["type"] == "unreadable"


def impatient(world: World, *, total: str) -> None:
    """Let the first provider have so many seconds for a whole answer."""
    provider = world.models[0].provider
    provider.total_timeout = Decimal(total)
    provider.save()
    world.gateway.refresh()


# --- What is no call ------------------------------------------------------------------------------------------------


def test_strangers_and_unreadable_bodies_are_counted_and_not_recorded(world: World) -> None:
    world.gateway.request(question(), key="sb-unknown")
    world.gateway.request(question(), key="")
    world.gateway.request(b"{")
    world.gateway.request(b'{"model":"support-chat"}')
    world.gateway.flush()
    assert not Call.objects.exists()
    assert not UsageDay.objects.exists()
    assert world.gateway.service.turned_away == {
        "invalid_api_key": 1,
        "missing_api_key": 1,
        "invalid_json": 1,
        "invalid_value": 1,
    }


def test_without_telemetry_only_usage_is_counted(world: World) -> None:
    store_setting(TELEMETRY.key, False, author=SOMEBODY)
    world.gateway.refresh()
    world.gateway.chat()
    world.gateway.flush()
    assert not Call.objects.exists()
    assert not DecisionRecord.objects.exists()
    day = UsageDay.objects.get()
    assert (day.requests, day.output_tokens, day.cost_nanos, day.application) == (1, 340, 5_950_000, "helpdesk")


def test_texts_from_outside_are_cut_and_lose_their_nul_characters(world: World) -> None:
    world.gateway.request(question("a\x00b" * 200, user="u\x00" * 200), headers={"x-signalbox-source": "s" * 500})
    call = only(world)
    assert call.requested == ("ab" * 200)[:300]
    assert call.user == "u" * 128
    assert call.source == "s" * 64


# --- Decision records -----------------------------------------------------------------------------------------------


def test_a_decision_is_stored_once_for_all_calls_that_share_it(world: World) -> None:
    conversations = [world.gateway.begin_chat(text=f"Question {number}") for number in range(50)]
    for conversation in conversations:
        assert conversation.reply().status == 200
    world.gateway.flush()
    record = DecisionRecord.objects.get()
    assert Call.objects.filter(decision=record).count() == 50


def test_the_record_is_what_was_decided(world: World) -> None:
    store_setting(POLICY_MODE.key, "balanced", author=SOMEBODY)
    store_setting(CALL_HISTORY.key, True, author=SOMEBODY)
    ConfigurationFactory(identifier="ranked", criteria=True)
    world.gateway.refresh()
    world.gateway.chat("ranked")
    call = world.call()
    record = call.decision
    assert record is not None
    decision: Decision = restore(record.document)
    assert document(decision) == record.document
    assert digest(canonical(record.document)) == record.digest
    assert decision.configuration == "ranked"
    assert decision.selection is Selection.CRITERIA
    assert decision.selected is not None
    assert decision.selected.model.identifier == call.first_model
    assert [each.model.identifier for each in decision.eligible] == ["fast", "huge", "wise"]
    assert call.policy_mode == decision.recorded_mode == "balanced"


def test_another_policy_is_another_decision(world: World) -> None:
    ConfigurationFactory(identifier="ranked", criteria=True)
    for mode in ("balanced", "economy", "balanced"):
        store_setting(POLICY_MODE.key, mode, author=SOMEBODY)
        world.gateway.refresh()
        world.gateway.chat("ranked")
    first, second, third = world.calls()
    assert first.policy_mode == third.policy_mode == "balanced"
    assert second.policy_mode == "economy"
    # The first call has a health of its own behind it by the time of the third.
    assert first.decision_id != second.decision_id != third.decision_id
    # Without quality, health or history only the list price is a signal.
    assert [second.routing_signal_cost, second.routing_signal_quality] == [True, False]
    assert not any((first.routing_signal_cost, first.routing_signal_latency, first.routing_signal_call_cost))


def test_naming_a_model_is_recorded_without_a_mode(world: World) -> None:
    world.gateway.secret = world.issue(may_name_models=True)
    world.gateway.chat("prod-west/wise")
    call = only(world)
    assert (call.requested, call.policy_mode, call.served_model, call.candidates) == ("prod-west/wise", "", "wise", 1)
    assert call.served_configuration == ""


def test_reasons_are_distinct_and_sorted(world: World) -> None:
    stranger: LanguageModel = LanguageModelFactory(
        provider=ProviderFactory(identifier="elsewhere", base_url=world.upstreams[0].url), identifier="other"
    )
    ConfigurationFactory(identifier="ranked", criteria=True, capabilities=["chat"], min_context_length=200_000)
    world.gateway.refresh()
    world.gateway.chat("ranked")
    call = only(world)
    assert stranger.capabilities == ["chat", "tools"]
    assert call.rejection_reasons == "capabilityMissing,contextTooSmall"
    assert call.candidates == 4
