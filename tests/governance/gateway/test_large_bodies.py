"""A large body is read aside: everybody else is answered meanwhile, and nothing about the call is different."""

import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from governance.gateway import aside
from governance.gateway.protocols import anthropic, openai_chat
from routing.core.calls import CallRequest
from telemetry.models import Call
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import question

LARGE = "x" * aside.LARGE_BODY
READERS: dict[str, Any] = {"/v1/chat/completions": openai_chat, "/v1/messages": anthropic}


class Reading:
    """Who has read a body, and when large ones may be read on."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.begun = threading.Event()
        self.may_go_on = threading.Event()


@pytest.fixture(params=READERS)
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reading(path: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    """Readers of bodies that wait with large ones until they may go on."""
    state = Reading()
    read = READERS[path].read_request

    def read_and_note(body: bytes, **settings: Any) -> CallRequest:
        state.threads.append(threading.current_thread().name.partition("_")[0])
        if len(body) >= aside.LARGE_BODY:
            state.begun.set()
            assert state.may_go_on.wait(10)
        return read(body, **settings)  # type: ignore[no-any-return]

    monkeypatch.setattr(READERS[path], "read_request", read_and_note)
    yield state
    state.may_go_on.set()


def body(text: str, **members: Any) -> bytes:
    """A request that both protocols know."""
    return question(text=text, max_tokens=100, **members)


def test_others_are_answered_while_a_large_body_is_read(world: World, reading: Reading, path: str) -> None:
    large = [world.gateway.begin(body(LARGE), path=path) for _ in range(2 * aside.THREADS)]
    assert reading.begun.wait(5)
    for _ in range(3):
        assert world.gateway.request(body("Hello"), path=path).status == 200
    assert not any(each.sent for each in large)
    reading.may_go_on.set()
    assert {each.reply().status for each in large} == {200}
    assert sorted(set(reading.threads)) == ["aside", "gateway-under-test"]
    assert reading.threads.count("aside") == len(large)
    sizes = sorted(call.facts_payload_bytes or 0 for call in world.calls())
    assert sizes == [len("Hello")] * 3 + [len(LARGE)] * len(large)


def test_what_is_wrong_with_a_large_body_is_said_as_ever(world: World, reading: Reading, path: str) -> None:
    reading.may_go_on.set()
    reply = world.gateway.request(body(LARGE, stream="maybe"), path=path)
    assert (reply.status, b"stream: true or false is needed" in reply.body) == (400, True)
    assert world.gateway.request(body(LARGE)[:-1], path=path).status == 400
    assert world.asked == [0, 0, 0]
    assert reading.threads == ["aside", "aside"]


def test_a_caller_that_hangs_up_meanwhile_has_made_no_call(world: World, reading: Reading, path: str) -> None:
    conversation = world.gateway.begin(body(LARGE), path=path)
    assert reading.begun.wait(5)
    conversation.hang_up()
    conversation.finish()  # whoever reads is not waited for
    reading.may_go_on.set()
    assert world.gateway.request(body("Hello"), path=path).status == 200
    assert Call.objects.count() <= 1
    assert len(world.calls()) == 1


def test_tokens_of_a_large_body_are_counted_aside_as_well(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    read = anthropic.read_request

    def read_and_note(body: bytes, **settings: Any) -> CallRequest:
        threads.append(threading.current_thread().name.partition("_")[0])
        return read(body, **settings)

    monkeypatch.setattr(anthropic, "read_request", read_and_note)
    reply = world.gateway.request(body(LARGE), path="/v1/messages/count_tokens")
    assert orjson.loads(reply.body)["input_tokens"] > len(LARGE) // 10
    assert threads == ["aside"]
