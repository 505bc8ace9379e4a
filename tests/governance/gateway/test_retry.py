"""How often a provider is asked for one call, how long is waited, and when the time of a call is up.

Requests are counted at the provider, so that a repetition nobody ordered shows; waits are read from the rows, since
nobody sleeps here.
"""

import asyncio
import threading
import time
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import format_datetime
from itertools import product

import orjson
import pytest

from governance.changes.settings import store_setting
from governance.gateway.middleware import retry
from governance.models import SettingValue
from routing.core.failures import FAILURES, FailureKind
from telemetry.models import Call
from tests.authors import SOMEBODY
from tests.governance.gateway.conftest import World, relist
from tests.governance.gateway.test_fall_through import FAULTS, impatient
from tests.governance.gateway.upstream import DONE, ROLE, answers, chunk_of, fails, streams
from tests.servers.fake_provider import Close, Reset, Script, Stall, events, head

REPEATED = {FailureKind.RATE_LIMITED, FailureKind.TRANSIENT}


@pytest.fixture(autouse=True)
def default_policy(world: World) -> None:
    """The policy as it is installed: two attempts at each route, the first included."""
    SettingValue.objects.filter(key="retry.attempts").delete()
    world.gateway.refresh()


def setting(world: World, key: str, value: int) -> None:
    store_setting(key, value, author=SOMEBODY)
    world.gateway.refresh()


def repeat_timeouts(world: World) -> None:
    world.configuration.repeats_timeouts = True
    world.configuration.save()
    world.gateway.refresh()


def waits(call: Call) -> list[float]:
    """The seconds that were waited before each request of a call."""
    return [each.waited_ms / 1000 for each in call.attempts.filter(skip_reason="").order_by("index")]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What would have been slept."""
    slept: list[float] = []

    async def note(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(retry, "sleep", note)
    return slept


# --- How many requests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAULTS)
def test_how_often_a_provider_is_asked(world: World, name: str) -> None:
    """Exactly what the policy says for every kind of failure, at a route and at those that follow it."""
    fault = FAULTS[name]
    times = 2 if fault.kind in REPEATED else 1
    impatient(world.models[0])
    world.gateway.refresh()
    for stream in (False, True):
        world.forget()
        world.script(fault.script, *[streams() if stream else answers()] * 2)
        reply = world.gateway.chat(stream=stream)
        assert world.asked == [times, *(int(at in fault.follows) for at in (1, 2))]
        assert reply.headers["x-signalbox-attempts"] == str(sum(world.asked))
        assert reply.status == (200 if fault.follows else fault.status)
        call = world.calls()[-1]
        assert (call.requests_sent, call.retries) == (sum(world.asked), times - 1)
        assert call.first_failure_kind == fault.kind


@pytest.mark.parametrize("name", ["away", "rate limit", "reset", "cut off", "silent", "our key", "invalid", "quota"])
def test_retries_are_not_multiplied(world: World, name: str) -> None:
    """Routes times attempts, and not one request more, even where time-outs are repeated too."""
    fault = FAULTS[name]
    for model in world.models:
        impatient(model)
    repeat_timeouts(world)
    for attempts in (1, 3):
        world.forget()
        world.script(*[fault.script] * 3)
        setting(world, "retry.attempts", attempts)
        assert world.gateway.chat().status == fault.status
        times = attempts if fault.kind in {*REPEATED, FailureKind.TIMEOUT} else 1
        assert world.asked == [times, *[times if fault.follows else 0] * 2]
        assert world.calls()[-1].requests_sent == sum(world.asked)


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASKED_FOR = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
OUTCOMES: dict[str, Script] = {"away": fails(503), "unfit": answers(text="Ulm"), "fit": answers(text='{"city": "Ulm"}')}


def requests_by_policy(outcomes: tuple[str, ...], *, attempts: int) -> tuple[int, bool]:
    """How many requests a route is sent if it does this in turn, and whether the last of them served: what is away is
    repeated while repetitions are left, and what does not fit may be mended once."""
    repetitions, repairs = attempts - 1, 1
    for number, outcome in enumerate(outcomes, start=1):
        if outcome == "fit":
            return number, True
        if outcome == "away" and repetitions:
            repetitions -= 1
        elif outcome == "unfit" and repairs:
            repairs -= 1
        else:
            return number, False
    raise AssertionError("the policy allows more requests than there are outcomes")


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_how_often_a_provider_is_asked_where_answers_are_repaired(world: World, attempts: int) -> None:
    """Every order in which a route can be away, miss the schema and fit: the policy's number, and one to repair."""
    relist(world.configuration, world.models[:1])
    world.configuration.repairs_output = True
    world.configuration.save()
    setting(world, "retry.attempts", attempts)
    for outcomes in product(OUTCOMES, repeat=attempts + 1):
        world.forget()
        world.let_rest()
        world.upstreams[0].answer_in_turn(*[OUTCOMES[each] for each in outcomes])
        expected, serves = requests_by_policy(outcomes, attempts=attempts)
        reply = world.gateway.chat(response_format=ASKED_FOR)
        assert (world.asked, reply.status == 200) == ([expected, 0, 0], serves), outcomes
        assert reply.headers["x-signalbox-attempts"] == str(expected)
        assert expected <= attempts + 1
    assert {each.requests_sent for each in world.calls()} == set(range(1, attempts + 2))


def test_the_kinds_that_are_counted_here_are_all_that_a_provider_can_cause() -> None:
    counted = {fault.kind for fault in FAULTS.values()}
    caused_elsewhere = {
        FailureKind.UNSUPPORTED, FailureKind.OVER_BUDGET, FailureKind.RATE_EXCEEDED, FailureKind.FORBIDDEN,
        FailureKind.CANCELLED, FailureKind.INTERNAL,
    }  # fmt: skip
    assert counted | caused_elsewhere | {FailureKind.REFUSED} == set(FAILURES)


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_not_asked_for_again(world: World, stream: bool) -> None:
    world.script(fails(400, code="content_filter"))
    assert world.gateway.chat(stream=stream).status == 200
    assert world.asked == [1, 0, 0]


@pytest.mark.parametrize("configured", [False, True])
def test_time_outs_are_repeated_where_the_configuration_says_so(world: World, configured: bool) -> None:
    impatient(world.models[0])
    if configured:
        repeat_timeouts(world)
    world.gateway.refresh()
    world.script([Stall()], answers())
    assert world.gateway.chat().status == 200
    assert world.asked == [2 if configured else 1, 1, 0]


def test_a_second_attempt_that_answers(world: World) -> None:
    """A call that its own route answered in the end did not fall back, and is no failure of the route."""
    world.upstreams[0].answer_in_turn(fails(503), answers())
    reply = world.gateway.chat()
    assert (reply.status, world.asked) == (200, [2, 0, 0])
    assert reply.headers["x-signalbox-route"] == "prod-east/fast"
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (transient)"
    call = world.call()
    assert (call.success, call.first_failure_kind, call.retries, call.fallback_attempts) == (True, "", 1, 0)
    assert [each.failure_kind for each in call.attempts.order_by("index")] == ["transient", ""]
    assert "fast" not in world.gateway.service.circuits.counts


TEXT = chunk_of({"content": "Left "})
BROKEN: dict[str, Script] = {
    "error of status 200": events(ROLE, orjson.dumps({"error": {"message": "no", "code": "server_error"}})),
    "cut after the role": events(ROLE, end=[Close()]),
    "reset after the role": events(ROLE, end=[Reset()]),
    "an end without content": events(ROLE),
    "status": fails(529),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_stream_is_asked_for_again_until_its_first_token(world: World, name: str) -> None:
    """As a whole answer is, and nothing of the first attempt reaches the caller."""
    world.upstreams[0].answer_in_turn(BROKEN[name], streams())
    reply = world.gateway.chat(stream=True)
    assert (reply.status, reply.frames[-1], world.asked) == (200, DONE, [2, 0, 0])
    assert reply.body.count(ROLE) == 1
    assert world.call().retries == 1


def test_a_stream_that_has_begun_is_not_repeated(world: World) -> None:
    world.upstreams[0].answer_in_turn(events(ROLE, TEXT, end=[Reset()]), streams())
    reply = world.gateway.chat(stream=True)
    assert orjson.loads(reply.frames[-1])["error"]["type"] == "transient"
    assert world.asked == [1, 0, 0]


# --- How long is waited ---------------------------------------------------------------------------------------------


def test_our_own_waits_double_and_vary(world: World, slept: list[float]) -> None:
    relist(world.configuration, world.models[:1])
    setting(world, "retry.attempts", 4)
    world.script(fails(503))
    world.gateway.chat()
    bounds = [(0.125, 0.25), (0.25, 0.5), (0.5, 1.0)]
    assert [least <= wait <= most for wait, (least, most) in zip(slept, bounds, strict=True)] == [True] * 3
    assert waits(world.call()) == pytest.approx([0.0, *slept], abs=1e-5)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "42"}, 42.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "42"}, 1.5),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Sat, 25 Jul 2015 12:05:00 GMT"}, None),
    ],
    ids=str,
)
def test_advice_is_kept_to(world: World, slept: list[float], headers: dict[str, str], expected: float | None) -> None:
    """Exactly, although our own waits are far shorter; without advice it is our own."""
    setting(world, "retry.longestWaitMilliseconds", 2)
    world.upstreams[0].answer_in_turn(fails(429, headers=headers), answers())
    assert world.gateway.chat().status == 200
    (wait,) = slept
    least, most = (0.001, 0.002) if expected is None else (expected, expected)
    assert least <= wait <= most


def test_a_date_is_waited_for(world: World, slept: list[float]) -> None:
    until = datetime.fromtimestamp(int(time.time()) + 30, tz=UTC)
    world.upstreams[0].answer_in_turn(
        fails(503, headers={"retry-after": format_datetime(until, usegmt=True)}), answers()
    )
    assert world.gateway.chat().status == 200
    assert 25 < slept[0] <= 30


@pytest.mark.parametrize(("seconds", "rests"), [("95", True), ("29", False)])
def test_nobody_else_waits_as_long_as_a_provider_states(
    world: World, monkeypatch: pytest.MonkeyPatch, seconds: str, rests: bool
) -> None:
    """One call finds out that a route wants to be left alone for long; the others are served elsewhere meanwhile."""
    waiting, goes_on = threading.Event(), threading.Event()

    async def wait(_: float) -> None:
        waiting.set()
        while not goes_on.is_set():
            await asyncio.sleep(0.01)

    monkeypatch.setattr(retry, "sleep", wait)
    world.upstreams[0].answer_in_turn(fails(429, headers={"retry-after": seconds}), answers())
    world.upstreams[1].answer(*answers())
    first = world.gateway.begin_chat()
    assert waiting.wait(5.0)
    other = world.gateway.chat()
    assert other.headers["x-signalbox-route"] == ("prod-west/wise" if rests else "prod-east/fast")
    assert ("prod-east/fast (resting)" in other.headers.get("x-signalbox-fell-through", "")) is rests
    goes_on.set()
    reply = first.reply()
    assert (reply.status, reply.headers["x-signalbox-route"]) == (200, "prod-east/fast")
    assert world.gateway.service.circuits.counts == ({"fast": 1} if rests else {})  # heard once, whatever came after
    assert [each.first_failure_kind for each in world.calls()] == ["", ""]


# --- The time of a whole call ---------------------------------------------------------------------------------------


def test_a_wait_beyond_the_deadline_ends_the_call(world: World, slept: list[float]) -> None:
    """At once, whatever routes are left: whether time or every route ran out is what the caller has to be told."""
    setting(world, "gateway.deadlineSeconds", 20)
    world.script(fails(429, headers={"retry-after": "20"}))
    reply = world.gateway.chat()
    assert (reply.status, reply.error["type"], reply.error["code"]) == (504, "timeout", "deadline")
    assert (world.asked, slept) == ([1, 0, 0], [])
    assert "within the 20 s that a call may take" in reply.error["message"]
    assert "the next attempt would be 20 s away" in reply.error["message"]
    assert "prod-east/fast: rate_limited: prod-east answered HTTP 429" in reply.error["message"]
    call = world.call()
    assert (call.failure_kind, call.error_class, call.first_failure_kind) == ("timeout", "deadline", "rate_limited")
    assert world.gateway.service.circuits.counts == {"fast": 1}


def test_a_wait_within_the_deadline_is_waited(world: World, slept: list[float]) -> None:
    setting(world, "gateway.deadlineSeconds", 20)
    world.upstreams[0].answer_in_turn(fails(429, headers={"retry-after": "19"}), answers())
    assert world.gateway.chat().status == 200
    assert slept == [19.0]


@pytest.mark.parametrize("stream", [False, True])
def test_an_attempt_may_take_what_is_left(world: World, stream: bool) -> None:
    """The provider's own limit is a minute; the call's is a second."""
    setting(world, "gateway.deadlineSeconds", 1)
    world.script([Stall()])
    begun = time.monotonic()
    reply = world.gateway.chat(stream=stream)
    assert 0.9 < time.monotonic() - begun < 2.0
    assert (reply.status, reply.error["code"], world.asked) == (504, "deadline", [1, 0, 0])
    assert "prod-east/fast: timeout" in reply.error["message"]
    call = world.call()
    assert (call.failure_kind, call.requests_sent) == ("timeout", 1)
    assert "fast" not in world.gateway.service.circuits.counts  # whose time was up says nothing of it


def test_a_stream_ends_with_the_calls_time(world: World) -> None:
    setting(world, "gateway.deadlineSeconds", 1)
    world.script(events(ROLE, TEXT, end=[Stall()]))
    reply = world.gateway.chat(stream=True)
    error = orjson.loads(reply.frames[-1])["error"]
    assert (reply.status, error["type"], error["code"]) == (200, "timeout", "deadline")
    call = world.call()
    assert (call.success, call.failure_kind, call.served_provider) == (False, "timeout", "prod-east")


def test_no_route_is_asked_once_the_time_is_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the first one, and what was not sent is no attempt."""
    monkeypatch.setattr(retry, "seconds_left", lambda context: 0.0)
    reply = world.gateway.chat()
    assert (reply.status, world.asked) == (504, [0, 0, 0])
    assert reply.headers["x-signalbox-attempts"] == "0"
    assert (world.call().failure_kind, world.call().first_provider) == ("timeout", "")


def test_a_providers_own_time_out_is_its_own(world: World) -> None:
    """It is shorter than the call's, so another route may serve, and the route is told of it."""
    impatient(world.models[0])
    world.gateway.refresh()
    world.script([Stall()], answers())
    assert world.gateway.chat().status == 200
    assert world.call().first_failure_kind == "timeout"
    assert world.gateway.service.circuits.counts == {"fast": 1}


# --- As many as a provider may carry --------------------------------------------------------------------------------


def limit(world: World, at: int, most: int) -> None:
    provider = world.models[at].provider
    provider.max_concurrent = most
    provider.save()
    world.gateway.refresh()


@pytest.mark.parametrize("stream", [False, True])
def test_a_saturated_provider_is_passed_over(world: World, stream: bool) -> None:
    limit(world, 0, 1)
    begun = events(ROLE, TEXT, end=[Stall()]) if stream else [Stall()]
    world.script(begun, streams() if stream else answers())
    first = world.gateway.begin_chat(stream=stream)
    world.wait_for_request(0)
    reply = world.gateway.chat(stream=stream)
    assert (reply.status, world.asked) == (200, [1, 1, 0])
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (saturated)"
    assert reply.headers["x-signalbox-attempts"] == "1"
    call = world.call()
    assert [each.skip_reason for each in call.attempts.order_by("index")] == ["saturated", ""]
    assert (call.first_provider, call.fallback_attempts) == ("prod-west", 0)
    first.hang_up()
    first.finish()
    world.script(streams() if stream else answers())
    assert world.gateway.chat(stream=stream).headers["x-signalbox-route"] == "prod-east/fast"


def test_where_every_provider_is_saturated(world: World) -> None:
    """The caller is told so, and that it may come again."""
    relist(world.configuration, world.models[:1])
    limit(world, 0, 1)
    world.script([Stall()])
    first = world.gateway.begin_chat()
    world.wait_for_request(0)
    reply = world.gateway.chat()
    assert (reply.status, reply.error["type"]) == (503, "transient")
    assert "prod-east carries 1 requests, as many as it may at once" in reply.error["message"]
    first.hang_up()
    first.finish()


def test_a_place_is_given_back_however_a_request_ends(world: World) -> None:
    taken = world.gateway.service.services.slots.taken
    endings: list[Script] = [fails(503), fails(400), [Reset()], [head(length=9), Close()], answers()]
    for ending in endings:
        for stream in (False, True):
            world.script(*[ending] * 3)
            world.gateway.chat(stream=stream)
            assert sum(taken.values()) == 0
    for ending in (events(ROLE, TEXT, end=[Reset()]), events(ROLE, TEXT), streams()):
        world.script(ending)
        world.gateway.chat(stream=True)
        assert sum(taken.values()) == 0


def test_waiting_takes_no_place(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    async def look(seconds: float) -> None:
        taken.append(world.gateway.service.services.slots.taken["prod-east"])

    monkeypatch.setattr(retry, "sleep", look)
    world.script(fails(503), answers())
    world.gateway.chat()
    assert taken == [0]


def test_a_provider_that_is_saturated_meanwhile_is_not_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it failed before is what the row says of it."""
    limit(world, 0, 1)
    slots = world.gateway.service.services.slots

    async def somebody_comes(seconds: float) -> None:
        slots.take("prod-east", limit=None)

    monkeypatch.setattr(retry, "sleep", somebody_comes)
    world.script(fails(503), answers())
    reply = world.gateway.chat()
    assert (reply.status, world.asked) == (200, [1, 1, 0])
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (transient)"


def test_time_outs_of_a_provider_are_its_own_numbers(world: World) -> None:
    """Each phase has its own, and the message says which it was."""
    provider = world.models[0].provider
    provider.first_event_timeout, provider.between_events_timeout = Decimal("0.2"), Decimal("0.3")
    provider.save()
    relist(world.configuration, world.models[:1])
    world.gateway.refresh()
    world.script([Stall()])
    assert "no event within 0.2 s" in world.gateway.chat(stream=True).error["message"]
    world.script(events(ROLE, TEXT, end=[Stall()]))
    frames = world.gateway.chat(stream=True).frames
    assert "no further event within 0.3 s" in orjson.loads(frames[-1])["error"]["message"]
    provider.total_timeout = Decimal("0.4")
    provider.save()
    world.gateway.refresh()
    world.script([Stall()])
    assert "no complete answer within 0.4 s" in world.gateway.chat().error["message"]
