"""Everything that can go wrong on the wire, at once: 200 calls, half of them to providers that misbehave.

Each of them ends with an answer or with a typed error, within its deadline; leaves one row; and leaves nothing else: no
task, no connection, no place at a provider, and no reservation, three budgets being in force: what was held is settled,
given back, or uncertain where nobody knows what is charged.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal

import orjson
import pytest

from budgets.models import Account, Entry, Hold
from budgets.proof import check
from budgets.scopes import EACH
from governance.changes.settings import store_setting
from routing.core.failures import FailureKind
from routing.models import LanguageModel
from tests.authors import SOMEBODY
from tests.factories import BudgetFactory, ConfigurationFactory, FallbackLinkFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Conversation, Reply
from tests.governance.gateway.upstream import ANSWER, DONE, ROLE, answers, chunk_of, completion, fails, streams
from tests.servers.fake_provider import Close, Pause, Reset, Script, Send, Stall, events, head, whole
from tests.servers.web import wait_until

CALLS = 200
LEAVING = 60
DEADLINE = 2
OF_MANY = 10
"""Seconds that a call may take, by itself and among so many on whatever machine this is. Nothing here waits for it."""

TEXT = chunk_of({"content": "Left "})
BUSY = orjson.dumps({"error": {"message": "busy", "code": "server_error"}})

FAULTS: dict[str, Script] = {
    "stalls": [Stall()],
    "stalls after the head": [head(chunked=True), Stall()],
    "stalls after the first word": events(ROLE, TEXT, end=[Stall()]),
    "drips": [head(length=900), *[step for _ in range(200) for step in (Send(b" "), Pause(0.05))], Close()],
    "resets": [Reset()],
    "resets after the head": [head(chunked=True), Reset()],
    "resets after the first word": events(ROLE, TEXT, end=[Reset()]),
    "closes without a word": [Close()],
    "cuts in the middle of a chunk": [head(chunked=True), Send(b'40\r\ndata: {"id"'), Close()],
    "lies about a chunk": [head(chunked=True), Send(b"zz\r\n"), Stall()],
    "says more than there is": whole(completion(), lie=77),
    "says less than there is": whole(completion(), lie=-77),
    "answers garbage": whole(b"\x00\xff garbage"),
    "answers a web page": whole(b"<html>busy</html>", content_type="text/html"),
    "speaks no HTTP": [Send(b"SSH-2.0-OpenSSH_9.7\r\n"), Close()],
    "answers nothing": whole(b""),
    "an error of status 200": whole(BUSY),
    "an error in the stream": events(ROLE, BUSY),
    "an error after the first word": events(ROLE, TEXT, BUSY),
    "broken compression": whole(b"no gzip", headers={"content-encoding": "gzip"}),
    "an end that comes too early": events(ROLE, TEXT),
    "a redirect": whole(b"", 307, {"location": "http://127.0.0.1:1/"}),
    "rate limits": fails(429, headers={"retry-after": "1"}),
    "rate limits for longer than the call has": fails(429, headers={"retry-after": "60"}),
    "is away": fails(503),
    "is busy": fails(529),
    "refuses our key": fails(401),
    "knows no such model": fails(404),
    "finds the request wrong": fails(400),
}  # fmt: skip
CHARGES_NOTHING = {
    "an error of status 200", "an error in the stream", "a redirect", "rate limits",
    "rate limits for longer than the call has", "is away", "is busy", "refuses our key", "knows no such model",
    "finds the request wrong",
}  # fmt: skip
"""An error is the whole answer, to whoever asked for a stream or for none. Of every other fault nobody knows what is
charged."""

TYPES = {kind.value for kind in FailureKind}


@pytest.fixture
def faulty(world: World) -> World:
    """Three ways to be served: by a provider that works, by one that does not, by one that does not and then another.

    All names differ from the world's own, so that nothing is served by chance.
    """
    fast, wise, huge = world.models
    store_setting("retry.attempts", 2, author=SOMEBODY)
    store_setting("gateway.deadlineSeconds", DEADLINE, author=SOMEBODY)
    for model in (fast, wise):
        provider = model.provider
        provider.first_event_timeout = provider.between_events_timeout = provider.total_timeout = Decimal("0.5")
        provider.max_concurrent = 500
        provider.save()
    only(fast, "broken")
    rescued = only(wise, "rescued")
    FallbackLinkFactory(configuration=rescued, fallback=only(huge, "sound"))
    world.gateway.refresh()
    return world


@pytest.fixture
def budgeted(faulty: World) -> World:
    """Three budgets that apply to every call and have room for all: two hard ones, and a soft one for each user."""
    much = 10**15
    BudgetFactory(identifier="everything", application="", limit=much)
    BudgetFactory(identifier="desk-month", limit=much)
    BudgetFactory(identifier="each-user", application="", user=EACH, window="day", is_hard=False, limit=1)
    faulty.gateway.refresh()
    return faulty


def assert_adds_up(world: World) -> None:
    """What is spent is what the rows say was paid; what is held is uncertain; and each attempt ended once."""
    settled(lambda: not world.gateway.service.services.owed)
    assert check().flaws == ()
    assert not Hold.objects.filter(is_uncertain=False).exists()
    paid = sum(each.actual_cost_nanos or 0 for each in world.calls())
    assert [(each.spent, each.reserved) for each in Account.objects.all()] == [(paid, 0)] * 3
    ended = Counter(Entry.objects.exclude(kind="reserved").values_list("attempt", "account"))
    assert ended == Counter(Entry.objects.filter(kind="reserved").values_list("attempt", "account"))


def only(model: LanguageModel, identifier: str) -> object:
    return ConfigurationFactory(identifier=identifier, fixed=True, fixed_model=model)


def settled(check: Callable[[], bool]) -> None:
    wait_until(check, seconds=5.0)


def tasks_of(world: World) -> set["asyncio.Task[object]"]:
    async def look() -> set["asyncio.Task[object]"]:
        return asyncio.all_tasks() - {asyncio.current_task()}

    return world.gateway.threads.run(look())


def verdict(reply: Reply, *, stream: bool) -> str:
    """How a call ended as its caller sees it: ``answered``, or the type of the error. Anything else fails."""
    if reply.status != 200:
        kind: str = reply.error["type"]
        assert reply.headers["x-should-retry"] == "false"
        return kind
    if not stream:
        assert reply.json["choices"][0]["message"]["content"] == ANSWER
        return "answered"
    if reply.frames[-1] == DONE:
        return "answered"
    return str(orjson.loads(reply.frames[-1])["error"]["type"])


@pytest.mark.parametrize("has_budgets", [False, True], ids=["", "three budgets"])
@pytest.mark.parametrize("rests", [False, True], ids=["each call meets its fault", "routes rest"])
def test_two_hundred_calls_half_of_them_to_providers_that_misbehave(
    faulty: World, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, rests: bool, has_budgets: bool
) -> None:
    world, gateway = faulty, faulty.gateway
    if has_budgets:
        request.getfixturevalue("budgeted")
    if not rests:
        monkeypatch.setattr(gateway.service.circuits, "failed", lambda *_: None)
    store_setting("gateway.deadlineSeconds", OF_MANY, author=SOMEBODY)
    gateway.refresh()
    scripts = list(FAULTS.values())
    world.upstreams[0].answer_by_turns(scripts)
    world.upstreams[1].answer_by_turns(scripts)
    gateway.chat("sound")  # whatever is made once is there
    gateway.flush()
    before = tasks_of(world)
    world.upstreams[2].answer_by_body({b'"stream":true': streams(), b"": answers()})
    asked = [("broken", "sound", "rescued", "sound")[at % 4] for at in range(CALLS)]
    begun = time.monotonic()
    calls: list[Conversation] = [
        gateway.begin_chat(model, stream=at % 8 >= 4, text=f"Question {at}") for at, model in enumerate(asked)
    ]
    replies = [call.reply() for call in calls]
    took = time.monotonic() - begun
    verdicts = [verdict(reply, stream=at % 8 >= 4) for at, reply in enumerate(replies)]
    verdicts = [verdict(reply, stream=at % 8 >= 4) for at, reply in enumerate(replies)]
    ended = Counter(zip(asked, verdicts, strict=True))
    # Every call has an answer or a typed error, and in time; those to a sound provider are none the worse for it.
    assert ended[("sound", "answered")] == CALLS // 2
    assert set(verdicts) <= {"answered", *TYPES}
    assert ended[("rescued", "answered")] > ended[("broken", "answered")]
    assert took < OF_MANY + 5.0
    rows = world.calls()[1:]
    assert [row.latency_ms for row in rows if row.latency_ms > (OF_MANY + 2) * 1000] == []
    # One row each, which says the same as the caller was told.
    told = dict(zip((each.headers["x-signalbox-call"] for each in replies), verdicts, strict=True))
    assert {str(row.pk): row.failure_kind or "answered" for row in rows} == told
    assert len(rows) == len(told) == CALLS
    # No provider was sent what no row tells of. (A connection that was not made in time is told of, and not received.)
    assert sum(len(each.requests) for each in world.upstreams) - 1 <= sum(row.requests_sent for row in rows)
    assert max(row.requests_sent for row in rows) <= 4
    # And nothing is left behind.
    settled(lambda: tasks_of(world) <= before)
    assert gateway.service.calls_under_way == 0
    assert +gateway.service.services.slots.taken == Counter()
    settled(lambda: sum(each.busy_connections for each in world.upstreams) == 0)
    if has_budgets:
        assert_adds_up(world)
        assert Account.objects.count() == 3
        attempts = Entry.objects.values("attempt").distinct().count()
        assert (
            sum(len(each.requests) for each in world.upstreams)
            <= attempts
            <= sum(r.requests_sent for r in world.calls())
        )


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_by_itself(budgeted: World, name: str) -> None:
    """Whole and streamed: a typed error in the caller's protocol, or an answer where the fault spares it; never a
    hang, what was sent is counted, and what was held for it is given back or becomes uncertain."""
    world = budgeted
    for stream in (False, True):
        world.forget()
        world.let_rest()
        world.upstreams[0].answer(*FAULTS[name])
        begun = time.monotonic()
        reply = world.gateway.chat("broken", stream=stream)
        assert time.monotonic() - begun < DEADLINE + 1.0
        how = verdict(reply, stream=stream)
        assert how in {"answered", *TYPES} - {"internal_error", "cancelled"}
        row = world.calls()[-1]
        assert (row.failure_kind or "answered") == how
        assert row.requests_sent == len(world.upstreams[0].requests) <= 2
        settled(lambda: not world.gateway.service.services.owed)
        kinds = Entry.objects.filter(call=row.pk).exclude(kind="reserved").values_list("kind", flat=True)
        is_free = name in CHARGES_NOTHING and (stream or name != "an error in the stream")
        expected = "settled" if how == "answered" else "released" if is_free else "uncertain"
        assert Counter(kinds) == {expected: 3 * row.requests_sent}
    assert_adds_up(world)
    assert +world.gateway.service.services.slots.taken == Counter()


def test_callers_that_leave_at_any_moment(budgeted: World) -> None:
    """While something is reserved, sent, waited for or streamed: nothing stays behind but what nobody knows."""
    world, gateway = budgeted, budgeted.gateway
    gateway.chat("sound")
    gateway.flush()
    before = tasks_of(world)
    world.upstreams[0].answer(*events(ROLE, TEXT, end=[Stall()]))
    world.upstreams[2].answer(Pause(0.01), *answers())
    calls: list[Conversation] = []
    for at in range(LEAVING):
        calls.append(gateway.begin_chat("broken" if at % 2 else "sound", stream=bool(at % 2)))
        time.sleep(0.0005 * (at % 8))  # each is somewhere else when it goes
        calls[at // 2].hang_up()
    for call in calls:
        call.hang_up()
    for call in calls:
        call.finish()
    assert_adds_up(world)
    settled(lambda: tasks_of(world) <= before)
    rows = world.calls()[1:]
    assert LEAVING // 2 < len(rows) <= LEAVING  # who had left before its request was read made no call
    assert {row.pk for row in rows} >= {each.call for each in Entry.objects.all()} - {world.calls()[0].pk}
    assert {row.failure_kind for row in rows} <= {"", "cancelled"}
    assert gateway.service.calls_under_way == 0
    assert +gateway.service.services.slots.taken == Counter()
    settled(lambda: sum(each.busy_connections for each in world.upstreams) == 0)
