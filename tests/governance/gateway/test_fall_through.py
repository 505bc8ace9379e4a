"""Which failures lead to the next route, what is recorded of them, and what the caller is told.

How often a provider is asked is counted at the provider, so that a repetition nobody ordered shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import orjson
import pytest
from pytest_django import Settings

from governance.gateway.middleware import provider_call
from routing.core.breaker import Admission
from routing.core.failures import Failure, FailureKind
from routing.core.vocabulary import ListedOrder
from routing.credentials import store_key
from routing.models import Configuration, LanguageModel
from routing.vault import Vault
from telemetry.health import read_health
from telemetry.models import Call
from tests.factories import ConfigurationFactory, FallbackLinkFactory
from tests.governance.gateway.conftest import World, relist
from tests.governance.gateway.upstream import (
    ANSWER,
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
from tests.servers.fake_provider import Close, Pause, Reset, Script, Send, Stall, Step, chunk, events, head, whole

TEXT = chunk_of({"content": "Left "})


@dataclass(frozen=True)
class Fault:
    """A provider's way to fail: the kind it is, the status a caller gets of it, and which routes may follow."""

    script: Script
    kind: FailureKind
    status: int
    follows: Sequence[int] = (1,)


FAULTS = {
    "rate limit": Fault(fails(429), FailureKind.RATE_LIMITED, 429),
    "quota": Fault(fails(429, code="insufficient_quota"), FailureKind.QUOTA_EXHAUSTED, 429),
    "no money": Fault(fails(402), FailureKind.QUOTA_EXHAUSTED, 429),
    "forbidden for quota": Fault(fails(403, code="quota_exceeded"), FailureKind.QUOTA_EXHAUSTED, 429),
    "broken": Fault(fails(500), FailureKind.TRANSIENT, 503),
    "away": Fault(fails(503), FailureKind.TRANSIENT, 503),
    "overloaded": Fault(fails(529), FailureKind.TRANSIENT, 503),
    "reset": Fault([Reset()], FailureKind.TRANSIENT, 503),
    "cut off": Fault([head(length=900), Send(b'{"id":'), Close()], FailureKind.TRANSIENT, 503),
    "too slow": Fault(fails(408), FailureKind.TIMEOUT, 504),
    "silent": Fault([Stall()], FailureKind.TIMEOUT, 504),
    "our key": Fault(fails(401), FailureKind.AUTH, 502),
    "our permission": Fault(fails(403), FailureKind.AUTH, 502),
    "no such model": Fault(fails(404), FailureKind.NOT_FOUND, 502),
    "redirect": Fault(whole(b"", 307, {"location": "http://127.0.0.1:1/"}), FailureKind.NOT_FOUND, 502),
    "web page": Fault(whole(b"<html>", content_type="text/html"), FailureKind.UNREADABLE, 502),
    "nothing": Fault(whole(b""), FailureKind.UNREADABLE, 502),
    "invalid": Fault(fails(400), FailureKind.INVALID_REQUEST, 400, ()),
    "unprocessable": Fault(fails(422), FailureKind.INVALID_REQUEST, 400, ()),
    "too long": Fault(fails(400, code="context_length_exceeded"), FailureKind.CONTEXT_EXCEEDED, 400, (2,)),
    "too large": Fault(fails(413), FailureKind.CONTEXT_EXCEEDED, 400, (2,)),
}  # fmt: skip


def impatient(model: LanguageModel) -> None:
    """Let a model's provider be waited for a moment only."""
    provider = model.provider
    provider.first_event_timeout = provider.between_events_timeout = provider.total_timeout = Decimal("0.2")
    provider.save()


@pytest.mark.parametrize("name", FAULTS)
def test_the_table_of_failures(world: World, name: str) -> None:
    fault = FAULTS[name]
    impatient(world.models[0])
    world.gateway.refresh()
    for stream in (False, True):
        world.forget()
        world.script(fault.script, *[streams() if stream else answers()] * 2)
        reply = world.gateway.chat(stream=stream)
        call = world.calls()[-1]
        assert call.first_failure_kind == fault.kind
        assert reply.headers["x-signalbox-call"] == str(call.pk)
        asked = [1, *(int(at in fault.follows) for at in (1, 2))]
        assert world.asked == asked
        assert reply.headers["x-signalbox-attempts"] == str(sum(asked))
        if fault.follows:
            assert reply.status == 200
            served = world.models[fault.follows[0]]
            route = f"{served.provider.identifier}/{served.identifier}"
            assert reply.headers["x-signalbox-route"] == route
            passed_over = ["prod-west/wise (contextNoLonger)"] if fault.follows == (2,) else []
            left = ", ".join([f"prod-east/fast ({fault.kind})", *passed_over])
            assert reply.headers["x-signalbox-fell-through"] == left
            assert ANSWER in (_text(reply.chunks) if stream else reply.json["choices"][0]["message"]["content"])
            assert (call.success, call.fallback_attempts, call.served_model) == (True, 1, served.identifier)
            sent = call.attempts.filter(skip_reason="").order_by("index")
            assert [each.failure_kind for each in sent] == [fault.kind, ""]
            assert call.attempts.count() == len(passed_over) + 2
        else:
            _is_told(reply.status, reply.error, reply.headers.get("x-should-retry"), call, fault)
            assert "x-signalbox-route" not in reply.headers
            assert "wise" not in reply.error["message"]  # it is about the request, and about no route
    # The same where there is no other route.
    relist(world.configuration, world.models[:1])
    world.gateway.refresh()
    for stream in (False, True):
        world.forget()
        world.script(fault.script)
        reply = world.gateway.chat(stream=stream)
        assert world.asked == [1, 0, 0]
        call = world.calls()[-1]
        _is_told(reply.status, reply.error, reply.headers.get("x-should-retry"), call, fault)
        assert call.first_failure_kind == fault.kind


def _is_told(status: int, error: dict[str, str], should_retry: str | None, call: Call, fault: Fault) -> None:
    assert status == fault.status
    assert error["type"] == fault.kind
    assert should_retry == "false"
    assert "prod-east" in error["message"]
    assert (call.success, call.failure_kind) == (False, fault.kind)


def _text(chunks: Sequence[dict[str, list[dict[str, dict[str, str]]]]]) -> str:
    return "".join(each["choices"][0]["delta"].get("content", "") for each in chunks if each["choices"])


def test_a_provider_that_is_down(world: World) -> None:
    world.gateway.threads.run(world.upstreams[0].__aexit__(None, None, None))
    assert world.gateway.chat().status == 200
    call = world.call()
    assert [(each.provider, each.failure_kind, each.error_code) for each in call.attempts.order_by("index")] == [
        ("prod-east", "transient", "not_connected"),
        ("prod-west", "", ""),
    ]
    assert call.served_provider == "prod-west"


def test_a_destination_that_is_not_allowed_is_never_asked(world: World) -> None:
    provider = world.models[0].provider
    provider.base_url = "http://169.254.169.254/v1"
    provider.save()
    world.gateway.refresh()
    assert world.gateway.chat().status == 200
    call = world.call()
    assert (call.first_failure_kind, call.served_provider) == ("not_found", "prod-west")


@pytest.mark.parametrize(
    "change",
    [
        {"adapter_type": "nonesuch"},
        {"total_timeout": Decimal(0)},
        {"sealed_key": b"no key of this installation"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_provider_that_cannot_be_used_is_passed_over(
    world: World, change: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    provider = world.models[0].provider
    for name, value in change.items():
        setattr(provider, name, value)
    provider.save()
    world.gateway.refresh()
    caplog.clear()
    replies = [world.gateway.chat() for _ in range(3)]
    assert {each.status for each in replies} == {200}
    assert {each.headers["x-signalbox-attempts"] for each in replies} == {"1"}
    assert {each.headers["x-signalbox-fell-through"] for each in replies} == {"prod-east/fast (unusable)"}
    assert world.asked == [0, 3, 0]
    assert caplog.text.count("calls pass over the routes of provider prod-east") == 1  # and not once per call
    call = world.calls()[0]
    # What was not sent to is not the first route sent to, nor one that the call fell back from.
    assert (call.success, call.first_provider, call.served_provider) == (True, "prod-west", "prod-west")
    assert (call.requests_sent, call.fallback_attempts, call.retries) == (1, 0, 0)
    passed, served = call.attempts.order_by("index")
    assert (passed.provider, passed.model, passed.configuration) == ("prod-east", "fast", "support-chat")
    assert (passed.skip_reason, passed.failure_kind, passed.latency_ms) == ("unusable", "", 0.0)
    assert (served.provider, served.skip_reason, served.output_tokens) == ("prod-west", "", 340)
    assert "prod-east" not in read_health(now=datetime.now(UTC))
    assert "fast" not in world.gateway.service.circuits.counts


def test_routes_none_of_which_can_be_used(world: World) -> None:
    """It is the operator's fault and not the caller's, who is told which and why."""
    for model in world.models:
        model.provider.sealed_key = b"no key of this installation"
        model.provider.save()
    world.gateway.refresh()
    reply = world.gateway.chat()
    assert (reply.status, reply.error["type"]) == (500, "internal_error")
    assert reply.headers["x-signalbox-attempts"] == "0"
    for route in ("prod-east/fast", "prod-west/wise", "lab/huge"):
        assert f"{route}: provider {route.partition('/')[0]}: its key does not open" in reply.error["message"]
    call = world.call()
    assert (call.failure_kind, call.requests_sent, call.first_provider) == ("internal_error", 0, "")
    assert [each.skip_reason for each in call.attempts.order_by("index")] == ["unusable"] * 3
    assert world.asked == [0, 0, 0]


def test_a_key_that_no_header_can_carry_is_not_sent(world: World, settings: Settings) -> None:
    """Said by the adapter, which is asked last; nothing was sent for all that."""
    provider = world.models[0].provider
    store_key(provider, "sk-übermut", vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS))
    provider.save()
    world.gateway.refresh()
    assert world.gateway.chat().headers["x-signalbox-fell-through"] == "prod-east/fast (unusable)"
    call = world.call()
    assert (call.requests_sent, call.first_provider, world.asked) == (1, "prod-west", [0, 1, 0])


def test_a_stream_without_content_is_not_held_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_call, "MOST_QUIET_BYTES", 10 * len(ROLE))
    world.script(events(*[ROLE] * 40, end=[Stall()]), streams())
    reply = world.gateway.chat(stream=True)
    assert (reply.status, world.asked) == (200, [1, 1, 0])
    call = world.call()
    assert (call.success, call.first_failure_kind, call.served_provider) == (True, "unreadable", "prod-west")
    assert call.attempts.get(index=0).error_code == "no_content"


# --- Which error wins -----------------------------------------------------------------------------------------------


def test_the_last_error_wins_and_says_what_was_tried(world: World) -> None:
    world.script(fails(503), fails(401), fails(429, headers={"retry-after": "7"}))
    reply = world.gateway.chat()
    assert reply.status == 429
    assert reply.headers["retry-after"] == "7"
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (transient), prod-west/wise (auth)"
    message = reply.error["message"]
    assert message.startswith("lab answered HTTP 429")
    assert "prod-east/fast: transient: prod-east answered HTTP 503" in message
    assert "prod-west/wise: auth: prod-west answered HTTP 401" in message
    assert "lab/huge" not in message


@pytest.mark.parametrize("script", [answers(), fails(400), fails(503), fails(400, code="content_filter")], ids=range(4))
def test_nothing_fell_through_where_only_one_route_was_asked(world: World, script: Script) -> None:
    relist(world.configuration, world.models[:1])
    world.gateway.refresh()
    world.script(script)
    assert "x-signalbox-fell-through" not in world.gateway.chat().headers


def test_a_fault_of_the_request_says_what_was_tried_before_it(world: World) -> None:
    world.script(fails(503), fails(400, message="temperature is too high"))
    reply = world.gateway.chat()
    assert (reply.status, world.asked) == (400, [1, 1, 0])
    assert reply.error["message"].startswith("prod-west answered HTTP 400")
    assert "temperature is too high" in reply.error["message"]
    assert "prod-east/fast: transient" in reply.error["message"]


def test_a_prompt_that_is_too_long_is_only_sent_where_there_is_more_room(world: World) -> None:
    """And remembered, when the route with more room fails for another reason."""
    fast, wise, huge = world.models
    relist(world.configuration, [fast, huge, wise])
    world.gateway.refresh()
    world.script(fails(400, code="context_length_exceeded"), answers(), fails(503))
    reply = world.gateway.chat()
    assert (reply.status, world.asked) == (503, [1, 0, 1])
    assert "prod-west/wise: Its context is no longer than the one that was exceeded" in reply.error["message"]
    assert "prod-east/fast: context_exceeded" in reply.error["message"]
    assert reply.headers["x-signalbox-fell-through"] == (
        "prod-east/fast (context_exceeded), prod-west/wise (contextNoLonger)"
    )
    walked = world.call().attempts.order_by("index")
    assert [(each.model, each.failure_kind, each.skip_reason) for each in walked] == [
        ("fast", "context_exceeded", ""),
        ("huge", "transient", ""),
        ("wise", "", "contextNoLonger"),
    ]


def test_a_context_of_unknown_length_is_no_longer_one(world: World) -> None:
    huge = world.models[2]
    huge.context_length = 0
    huge.save()
    world.gateway.refresh()
    world.script(fails(413))
    assert world.gateway.chat().status == 400
    assert world.asked == [1, 0, 0]


# --- Refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_a_refusal_is_an_answer_and_not_shopped_around(world: World, code: str) -> None:
    """Also where the host says it by an error: the caller gets what its protocol has for it."""
    world.script(fails(400, code=code))
    reply = world.gateway.chat()
    assert (reply.status, world.asked) == (200, [1, 0, 0])
    (choice,) = reply.json["choices"]
    assert choice["finish_reason"] == "content_filter"
    assert choice["message"]["content"] is None
    assert choice["message"]["refusal"].startswith("prod-east answered HTTP 400")
    streamed = world.gateway.chat(stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert streamed.frames[-1] == DONE
    assert [each["choices"][0]["finish_reason"] for each in streamed.chunks] == [None, "content_filter"]
    assert streamed.chunks[0]["choices"][0]["delta"]["refusal"].startswith("prod-east answered HTTP 400")
    assert [(each.success, each.failure_kind) for each in world.calls()] == [(False, "refused")] * 2


def test_a_refusal_in_an_answer_passes_as_it_came(world: World) -> None:
    message = {"role": "assistant", "content": None, "refusal": "I cannot."}
    body = completion(choices=[{"index": 0, "message": message, "finish_reason": "stop"}])
    world.script(whole(body))
    assert world.gateway.chat().body == body
    assert world.asked == [1, 0, 0]


# --- Streams --------------------------------------------------------------------------------------------------------

ERROR = orjson.dumps({"error": {"message": "quota", "code": "insufficient_quota"}, "choices": []})

BUSY: list[Step] = [chunk(b": busy\n\n"), Pause(0.05)]

BEFORE: dict[str, tuple[Script, str]] = {
    "error at once": (events(ERROR), "quota_exhausted"),
    "error after the role": (events(ROLE, ERROR), "quota_exhausted"),
    "cut after the role": (events(ROLE, end=[Close()]), "transient"),
    "reset after the role": (events(ROLE, end=[Reset()]), "transient"),
    "the role and no more": (events(ROLE), "transient"),
    "silence after the role": (events(ROLE, end=[Stall()]), "timeout"),
    "keep-alives only": ([head(chunked=True), *BUSY * 8, Stall()], "timeout"),
    "terminator only": (events(DONE), "unreadable"),
    "nothing": (events(), "transient"),
    "no JSON": (events(b"{"), "unreadable"),
    "an error of status 200": (whole(ERROR), "quota_exhausted"),
}


@pytest.mark.parametrize("name", BEFORE)
def test_a_stream_is_replaced_until_its_first_token(world: World, name: str) -> None:
    impatient(world.models[0])
    world.gateway.refresh()
    script, kind = BEFORE[name]
    world.script(script, streams())
    reply = world.gateway.chat(stream=True)
    assert reply.status == 200
    assert (_text(reply.chunks), reply.frames[-1]) == (ANSWER, DONE)
    assert b"quota" not in reply.body  # nothing of the route that was left
    call = world.call()
    assert (call.first_failure_kind, call.served_provider, world.asked) == (kind, "prod-west", [1, 1, 0])


AFTER: dict[str, tuple[Script, str, str | None]] = {
    "error": (events(ROLE, TEXT, ERROR), "quota_exhausted", "insufficient_quota"),
    "close": (events(ROLE, TEXT, end=[Close()]), "transient", None),
    "reset": (events(ROLE, TEXT, end=[Reset()]), "transient", "connection_broken"),
    "end": (events(ROLE, TEXT), "transient", "cut_off"),
    "silence": (events(ROLE, TEXT, end=[Stall()]), "timeout", None),
    "no JSON": (events(ROLE, TEXT, b"{"), "unreadable", "unreadable"),
    "tool call": (
        events(ROLE, chunk_of({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}), ERROR),
        "quota_exhausted",
        "insufficient_quota",
    ),
}


@pytest.mark.parametrize("name", AFTER)
def test_after_the_first_token_an_error_is_a_frame(world: World, name: str) -> None:
    impatient(world.models[0])
    world.gateway.refresh()
    script, kind, code = AFTER[name]
    world.script(script)
    reply = world.gateway.chat(stream=True)
    assert reply.status == 200
    assert world.asked == [1, 0, 0]
    error = orjson.loads(reply.frames[-1])["error"]
    assert error["type"] == kind
    assert code is None or error["code"] == code
    assert "prod-east" in error["message"]
    assert DONE not in reply.frames
    if name != "tool call":
        assert _text(reply.chunks[:-1]) == "Left "
    call = world.call()
    assert (call.success, call.failure_kind, call.served_provider) == (False, kind, "prod-east")


def test_an_error_of_our_own_in_a_stream_is_a_frame_as_well(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("a fault of ours, distinctly")

    # Pricing happens where usage passes by, which is after the text.
    monkeypatch.setattr("governance.gateway.middleware.provider_call.price_at", fail)
    world.script(streams())
    reply = world.gateway.chat(stream=True)
    assert orjson.loads(reply.frames[-1])["error"]["code"] == "internal_error"
    assert b"distinctly" not in reply.body
    assert (world.call().success, world.call().error_class) == (False, "LookupError")
    assert world.gateway.service.calls_under_way == 0


def test_an_answer_without_content_is_an_answer(world: World) -> None:
    world.script(events(ROLE, STOP, usage_chunk(), DONE))
    reply = world.gateway.chat(stream=True)
    assert (reply.frames[-1], world.asked) == (DONE, [1, 0, 0])
    call = world.call()
    assert (call.success, call.first_token_ms, call.actual_output_tokens) == (True, None, 340)


def test_a_stream_may_end_without_a_terminator(world: World) -> None:
    world.script(events(ROLE, TEXT, STOP))
    reply = world.gateway.chat(stream=True)
    assert b"error" not in reply.body
    assert world.call().success


# --- Fallback configurations ----------------------------------------------------------------------------------------


def fixed(model: LanguageModel, identifier: str, **settings: object) -> Configuration:
    """A configuration of one model."""
    configuration: Configuration = ConfigurationFactory(
        identifier=identifier, fixed=True, fixed_model=model, **settings
    )
    return configuration


def test_a_fallback_configuration_serves(world: World) -> None:
    fast, wise, huge = world.models
    asked_for = fixed(fast, "careful")
    fallback = fixed(wise, "plain")
    FallbackLinkFactory(configuration=asked_for, fallback=fallback)
    FallbackLinkFactory(configuration=fallback, fallback=fixed(huge, "beyond"))
    world.gateway.refresh()
    world.script(fails(503))
    assert world.gateway.chat("careful").status == 200
    call = world.call()
    assert (call.requested, call.served_configuration, call.served_model) == ("careful", "plain", "wise")
    assert [each.configuration for each in call.attempts.order_by("index")] == ["careful", "plain"]
    # One hop deep: the fallback's own fallbacks are not followed.
    world.script(fails(503), fails(503))
    assert world.gateway.chat("careful").status == 503
    assert world.asked == [2, 2, 0]


def test_fallback_configurations_that_are_passed_over_are_named(world: World) -> None:
    fast, wise, huge = world.models
    asked_for = fixed(fast, "careful")
    gone = fixed(wise, "gone")
    gone.retired_at = datetime.now(UTC)
    gone.save()
    unfit = ConfigurationFactory(identifier="unfit", criteria=True, capabilities=["vision"])
    twice = ConfigurationFactory(identifier="twice", listed=True, models=[fast])
    off, forbidden = fixed(wise, "off", is_active=False), fixed(wise, "forbidden")
    for position, fallback in enumerate((gone, off, forbidden, unfit, twice, fixed(huge, "last"))):
        FallbackLinkFactory(configuration=asked_for, fallback=fallback, position=position)
    secret = world.issue(allowed_configurations=["careful", "gone", "off", "unfit", "twice", "last"])
    world.gateway.secret = secret
    world.script(fails(503), answers(), fails(500))
    reply = world.gateway.chat("careful")
    assert (reply.status, world.asked) == (503, [1, 0, 1])
    message = reply.error["message"]
    assert message.startswith("lab answered HTTP 500")
    for told in (
        "prod-east/fast: transient",
        "gone: The fallback configuration does not exist",
        "off: The fallback configuration is switched off",
        "fallback configurations that the key does not allow: 1",
        "unfit: unfit: every candidate was refused",
        "prod-east/fast: The route already stands earlier in the plan",
    ):
        assert told in message
    assert "forbidden" not in message  # its name, which is not the key's to know
    world.script(fails(503), answers(), answers())
    assert world.gateway.chat("careful").status == 200
    assert world.calls()[-1].served_configuration == "last"


def test_a_plan_has_its_limit(world: World) -> None:
    world.configuration.plan_limit = 2
    world.configuration.save()
    world.gateway.refresh()
    world.script(fails(503), fails(503))
    assert world.gateway.chat().status == 503
    assert world.asked == [1, 1, 0]


# --- Failures in a row ----------------------------------------------------------------------------------------------


def test_the_healthiest_order_hears_of_failures_at_once(world: World) -> None:
    world.configuration.listed_order = ListedOrder.HEALTHIEST.value
    world.configuration.save()
    world.gateway.refresh()
    circuits = world.gateway.service.circuits

    def served(stream: bool = False) -> str:
        assert world.gateway.chat(stream=stream).status == 200
        return world.calls()[-1].served_model

    world.script(fails(503), answers(), answers())
    assert served() == "wise"
    assert circuits.counts == {"fast": 1}
    assert served() == "wise"  # asked first, although nothing was read again
    assert world.asked == [1, 2, 0]
    world.script(answers(), fails(503), answers())
    assert served() == "huge"
    assert circuits.counts == {"fast": 1, "wise": 1}
    world.script(answers(), fails(503), fails(503))
    assert served() == "fast"  # the first of three with a failure each, once the last of them has failed
    assert circuits.counts == {"wise": 1, "huge": 1}


def test_what_counts_as_a_failure_in_a_row(world: World) -> None:
    relist(world.configuration, world.models[:1])
    world.gateway.refresh()
    circuits = world.gateway.service.circuits
    refusal = completion(choices=[{"index": 0, "message": {"refusal": "No."}, "finish_reason": "stop"}])
    for script, stream, expected in (
        (fails(400), False, 1),  # of any kind
        (whole(refusal), False, 2),  # refusals too
        (events(ROLE, chunk_of({"refusal": "No."}), STOP, DONE), True, 3),
        (events(ROLE, TEXT, end=[Reset()]), True, 4),
        (streams(), True, 0),
        (fails(503), True, 1),
        (answers(), False, 0),
    ):
        world.script(script)
        world.gateway.chat(stream=stream)
        assert circuits.counts.get("fast", 0) == expected


@pytest.mark.parametrize("finished", [1, 2])
def test_the_end_of_one_choice_is_not_the_end_of_all(world: World, finished: int) -> None:
    """A caller that hangs up when one of two answers is complete has not had what was asked for."""

    def part(index: int, delta: dict[str, str], finish: str | None = None) -> bytes:
        return orjson.dumps({"id": "c", "choices": [{"index": index, "delta": delta, "finish_reason": finish}]})

    first = [part(0, {"content": "One "}), part(0, {}, "stop")]
    second = [part(1, {"content": "Two "}), part(1, {}, "stop")]
    world.script(events(*first, *(second if finished == 2 else second[:1]), end=[Stall()]))
    conversation = world.gateway.begin_chat(stream=True, n=2)
    conversation.wait_for(second[finished - 1])
    conversation.hang_up()
    conversation.finish()
    assert world.call().failure_kind == ("" if finished == 2 else "cancelled")


def test_a_stream_that_ends_behind_the_first_of_two_choices_is_cut_off(world: World) -> None:
    world.script(events(ROLE, TEXT, STOP))
    reply = world.gateway.chat(stream=True, n=2)
    assert orjson.loads(reply.frames[-1])["error"]["code"] == "cut_off"
    world.script(events(ROLE, TEXT, STOP, DONE))  # a host that gives one answer whatever it was asked for
    assert world.gateway.chat(stream=True, n=2).frames[-1] == DONE


@pytest.mark.parametrize("stop", [False, True])
def test_a_caller_that_hangs_up_says_nothing_about_the_route(world: World, stop: bool) -> None:
    """Unless it has had the whole answer."""
    circuits = world.gateway.service.circuits
    circuits.failed("fast", Admission(0), Failure(FailureKind.UNREADABLE, "garbage"))
    world.script(events(ROLE, TEXT, *([STOP, DONE] if stop else []), end=[Stall()]))
    conversation = world.gateway.begin_chat(stream=True)
    conversation.wait_for(DONE if stop else b"Left")
    conversation.hang_up()
    conversation.finish()
    assert circuits.counts.get("fast", 0) == (0 if stop else 1)
