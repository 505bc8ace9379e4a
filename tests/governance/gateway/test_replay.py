"""A call that its caller names is made once, however often it comes."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson
import pytest
from django.db import OperationalError

from governance import replays, tasks
from governance.changes.settings import store_setting
from governance.gateway import kept_answers
from governance.models import ContentKind, NamedCall, StoredContent
from governance.replays import Claim, Kept, OtherRequest
from telemetry.health import read_health
from tests.authors import SOMEBODY
from tests.governance.gateway.conftest import World, relist
from tests.governance.gateway.harness import Conversation, Reply, question
from tests.governance.gateway.upstream import ANSWER, DONE, ROLE, STOP, answers, chunk_of, fails, streams
from tests.servers.fake_provider import Close, Pause, Reset, Script, Stall, chunk, events
from tests.servers.web import wait_until

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LEASE = timedelta(minutes=21)


def begin(world: World, name: str = "order-17", *, key: str | None = None, **members: Any) -> Conversation:
    return world.gateway.begin(question(**members), key=key, headers={"idempotency-key": name})


def ask(world: World, name: str = "order-17", *, key: str | None = None, **members: Any) -> Reply:
    return begin(world, name, key=key, **members).reply()


def test_the_same_name_gets_the_same_answer(world: World) -> None:
    world.script(answers())
    first, again = ask(world), ask(world)
    assert (first.status, again.status, world.asked) == (200, 200, [1, 0, 0])
    assert again.body == first.body
    assert "x-signalbox-replay-of" not in first.headers
    assert again.headers["x-signalbox-replay-of"] == first.headers["x-signalbox-call"]
    made, given = world.calls()
    assert (made.cache_hit, made.requests_sent, made.served_model) == (False, 1, "fast")
    assert (given.cache_hit, given.requests_sent, given.served_model, given.success) == (True, 0, "", True)
    assert (made.replay_of, given.replay_of) == (None, made.pk)
    assert read_health(now=datetime.now(UTC))["openai"].samples == 1
    assert ANSWER.encode() not in b"".join(bytes(each.sealed) for each in StoredContent.objects.all())


def test_a_name_belongs_to_a_key_and_is_bound_to_what_was_asked(world: World) -> None:
    world.script(answers())
    ask(world)
    assert "x-signalbox-replay-of" not in ask(world, key=world.issue()).headers
    assert "x-signalbox-replay-of" not in ask(world, "order-18").headers
    other = ask(world, text="When?")
    assert (other.status, other.error["code"], other.error["param"]) == (
        422,
        "idempotency_key_reused",
        "Idempotency-Key",
    )
    assert other.headers["x-should-retry"] == "false"
    assert world.asked == [3, 0, 0]


def test_twins_wait_for_the_one(world: World) -> None:
    world.script([Pause(0.3), *answers()])
    replies = [each.reply() for each in [begin(world, "twin") for _ in range(5)]]
    assert ([each.status for each in replies], world.asked) == ([200] * 5, [1, 0, 0])
    assert len({each.body for each in replies}) == 1


def test_a_call_has_its_name_for_longer_than_it_may_take(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its twin would be sent while it is still under way."""
    taken: list[timedelta] = []
    claim = replays.claim

    def watch(*, lease: timedelta, **rest: Any) -> Claim | Kept | None:
        taken.append(lease)
        return claim(lease=lease, **rest)

    monkeypatch.setattr(replays, "claim", watch)
    store_setting("gateway.deadlineSeconds", 3000, author=SOMEBODY)
    world.gateway.refresh()
    world.script(answers())
    assert ask(world).status == 200
    assert timedelta(seconds=3000) < taken[0] <= timedelta(seconds=3060)


def test_whoever_leaves_while_a_name_is_taken_does_not_keep_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the same call could not be made again before its lease is over."""
    began, may_go_on = threading.Event(), threading.Event()
    claim = replays.claim

    def slow(**asked: Any) -> Claim | Kept | None:
        began.set()
        may_go_on.wait(10)
        return claim(**asked)

    monkeypatch.setattr(replays, "claim", slow)
    conversation = begin(world)
    assert began.wait(10)
    conversation.hang_up()
    conversation.finish()
    may_go_on.set()
    wait_until(lambda: not world.gateway.service.services.owed)
    assert not NamedCall.objects.exists()
    world.script(answers())
    assert (ask(world).status, world.asked) == (200, [1, 0, 0])


def test_a_failure_gives_the_name_back(world: World) -> None:
    world.script(fails(503), fails(503), fails(503))
    assert ask(world).status == 503
    assert not NamedCall.objects.exists()
    world.script(answers())
    assert ask(world).status == 200


@pytest.mark.parametrize("vector", ["idempotency-005"])
def test_vectors(world: World, vector: str) -> None:
    """Of nr-llm: failures are not stored, so that a provider is asked for each of two calls of one name."""
    relist(world.configuration, world.models[:1])
    world.gateway.refresh()
    for asked in (1, 2):
        world.script(fails(503))
        assert (ask(world, vector).status, world.asked) == (503, [asked, 0, 0])


SAID = [{"role": "user", "content": "Hello"}]
TEXT = chunk_of({"content": "Left "})
REST = events(STOP, DONE)[1:]  # without the head
STREAMED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": SAID},  # the provider's own protocol: its bytes
    "/v1/messages": {"messages": SAID, "max_tokens": 9},  # and others, in which the answer is written anew
    "/v1/responses": {"input": "Hello"},
    "/v1/completions": {"prompt": "Hello"},
}


@pytest.mark.parametrize("path", STREAMED)
def test_a_stream_is_given_again_as_it_was(world: World, path: str) -> None:
    world.script(streams())
    body = orjson.dumps({"model": "support-chat", "stream": True, **STREAMED[path]})
    first, again = (world.gateway.request(body, path=path, headers={"idempotency-key": "order-17"}) for _ in range(2))
    assert (first.status, again.status, world.asked) == (200, 200, [1, 0, 0])
    assert again.body == first.body != b""
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers["x-signalbox-replay-of"] == first.headers["x-signalbox-call"]
    made, given = world.calls()
    assert (given.cache_hit, given.replay_of, given.success, given.streamed) == (True, made.pk, True, True)
    assert (given.requests_sent, given.actual_cost_nanos, given.first_token_ms) == (0, None, None)
    content = StoredContent.objects.get()
    assert (content.kind, content.owner) == ("replay", made.application)


def test_a_twin_of_a_stream_waits_for_its_end(world: World) -> None:
    begun = events(ROLE, TEXT, end=[Pause(0.4), *REST])
    world.script(begun)
    first = begin(world, "twin", stream=True)
    first.wait_for(b"Left")
    twin = begin(world, "twin", stream=True)
    replies = [first.reply(), twin.reply()]
    assert ([each.status for each in replies], world.asked) == ([200, 200], [1, 0, 0])
    assert replies[0].frames[-1] == DONE
    assert replies[1].body == replies[0].body


@pytest.mark.parametrize("ending", [[Reset()], [Close()]], ids=["reset", "cut"])
def test_a_stream_that_breaks_gives_the_name_back(world: World, ending: Script) -> None:
    """What its caller got is no answer: asking again is why it was named."""
    world.script(events(ROLE, TEXT, end=ending))
    broken = ask(world, stream=True)
    assert (broken.status, b"error" in broken.frames[-1]) == (200, True)
    wait_until(lambda: not NamedCall.objects.exists())
    world.script(streams())
    assert (ask(world, stream=True).frames[-1], world.asked) == (DONE, [2, 0, 0])
    assert "x-signalbox-replay-of" in ask(world, stream=True).headers


def test_a_stream_whose_caller_leaves_gives_the_name_back(world: World) -> None:
    world.script(events(ROLE, TEXT, end=[Stall()]))
    left = begin(world, stream=True)
    left.wait_for(b"Left")
    left.hang_up()
    left.finish()
    assert not NamedCall.objects.exists()
    assert not StoredContent.objects.exists()


def test_a_stream_that_is_too_long_is_made_once_and_cannot_be_given_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "MOST_OF_A_STREAM", 50)
    world.script(streams())
    assert ask(world, stream=True).frames[-1] == DONE
    again = ask(world, stream=True)
    assert (again.status, again.error["code"], world.asked) == (409, "idempotency_key_in_use", [1, 0, 0])
    assert "too long" in again.error["message"]


@pytest.mark.parametrize("odd", [b"event: \xff\n", b"id: \xff\n"], ids=["name", "id"])
def test_a_stream_that_is_no_text_is_passed_on_and_cannot_be_given_again(world: World, odd: bytes) -> None:
    """A provider may put anything into what nobody reads."""
    world.script(events(ROLE, TEXT, end=[chunk(odd + b'data: {"choices":[]}\n\n'), *REST]))
    first = ask(world, stream=True)
    assert (first.body.endswith(DONE + b"\n\n"), odd in first.body) == (True, True)
    assert (ask(world, stream=True).status, world.asked) == (409, [1, 0, 0])


@pytest.mark.parametrize("name", ["two words", "x" * 256])
def test_what_is_no_name(world: World, name: str) -> None:
    reply = ask(world, name)
    assert (reply.status, reply.error["param"], world.asked) == (400, "Idempotency-Key", [0, 0, 0])


def test_without_the_database_nothing_is_sent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**_: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(replays, "claim", away)
    reply = ask(world)
    assert (reply.status, reply.headers["retry-after"], world.asked) == (503, "1", [0, 0, 0])


# --- Names -----------------------------------------------------------------------------------------------------------


def take(request: str = "asked", *, now: datetime = NOW) -> Claim | Kept | None:
    return replays.claim(key="name", request=request, now=now, lease=LEASE, kept=DAY)


@pytest.mark.django_db
def test_a_name_is_taken_kept_and_free_again() -> None:
    held = take()
    assert isinstance(held, Claim)
    assert take() is None
    with pytest.raises(OtherRequest):
        take("something else")
    call = uuid4()
    assert replays.keep(held, call=call, answer=b"{}", kind=ContentKind.REPLAY, owner="helpdesk", now=NOW, kept=DAY)
    assert take() == Kept(call, b"{}")
    replays.release(held)  # too late
    assert take(now=NOW + timedelta(hours=23)) == Kept(call, b"{}")
    assert isinstance(take("something else", now=NOW + DAY), Claim)


@pytest.mark.django_db
def test_a_name_is_kept_for_as_long_as_its_call_may_take_whatever_is_kept_of_content() -> None:
    """A call may take a day, and content may be kept for an hour: it is made once all the same."""
    hours = [timedelta(hours=each) for each in (1, 2, 24)]
    taken = [
        replays.claim(key="name", request="asked", now=NOW + since, lease=hours[2], kept=hours[0])
        for since in (timedelta(0), hours[0], hours[1])
    ]
    assert isinstance(taken[0], Claim)
    assert taken[1:] == [None, None]


@pytest.mark.django_db
def test_a_name_whose_process_was_lost_is_taken_over() -> None:
    lost = take()
    assert isinstance(lost, Claim)
    late = NOW + LEASE
    assert take(now=late - timedelta(seconds=1)) is None
    held = take(now=late)
    assert isinstance(held, Claim)
    assert not replays.keep(
        lost, call=uuid4(), answer=b"{}", kind=ContentKind.REPLAY, owner="helpdesk", now=late, kept=DAY
    )
    replays.release(lost)
    assert not StoredContent.objects.exists()
    assert take(now=late) is None


@pytest.mark.django_db
def test_names_that_are_over_are_removed() -> None:
    take(now=datetime.now(UTC) - 2 * DAY)
    tasks.remove_old()
    assert not NamedCall.objects.exists()
