"""What the log says of calls: whose they were, where they went, how they ended; and nothing that was said."""

import logging
from typing import Any

import orjson
import pytest

from governance.gateway.bridge import Bridge
from governance.trace import marks, note, traced
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import question
from tests.governance.gateway.overheard import Overheard
from tests.governance.gateway.upstream import answers, fails, streams
from tests.servers.fake_provider import Stall

ACCESS = "governance.gateway.access"


def entries(heard: Overheard, logger: str = ACCESS) -> list[dict[str, Any]]:
    """The lines of a logger, as JSON writes them, without their time."""
    found = [orjson.loads(line) for line in heard.lines if line.startswith("{")]
    return [
        {name: value for name, value in each.items() if name != "time"} for each in found if each["logger"] == logger
    ]


def access(heard: Overheard) -> list[dict[str, Any]]:
    """The access lines without what differs from run to run."""
    varying = ("milliseconds", "level", "logger", "call", "correlation")
    return [{name: value for name, value in each.items() if name not in varying} for each in entries(heard)]


def test_a_call_is_one_line_that_says_whose_it_was_and_where_it_went(world: World, heard: Overheard) -> None:
    reply = world.gateway.request(question(), headers={"x-request-id": "order-7"})
    (entry,) = entries(heard)
    assert isinstance(entry.pop("milliseconds"), float)
    assert entry == {
        "level": "INFO",
        "logger": ACCESS,
        "correlation": "order-7",
        "call": reply.headers["x-signalbox-call"],
        "application": "helpdesk",
        "configuration": "support-chat",
        "provider": "prod-east",
        "model": "fast",
        "status": 200,
        "message": "POST /v1/chat/completions",
    }


@pytest.mark.parametrize("stream", [False, True])
def test_the_provider_that_was_asked_last_is_named(world: World, heard: Overheard, stream: bool) -> None:
    world.script(fails(500), streams() if stream else answers())
    world.gateway.chat(stream=stream)
    assert access(heard) == [
        {
            "application": "helpdesk",
            "configuration": "support-chat",
            "provider": "prod-west",
            "model": "wise",
            "status": 200,
            "message": "POST /v1/chat/completions",
        }
    ]


def test_lines_of_adapters_and_transport_name_the_call(world: World, heard: Overheard) -> None:
    world.gateway.threads.run(world.upstreams[0].__aexit__(None, None, None))
    reply = world.gateway.chat()
    (line,) = entries(heard, "routing.providers.transport")
    assert (line["call"], line["provider"], line["model"]) == (reply.headers["x-signalbox-call"], "prod-east", "fast")


def test_what_never_became_a_call(world: World, heard: Overheard) -> None:
    """No line repeats the path, in which callers put keys."""
    gateway = world.gateway
    gateway.request(question(), key="")
    gateway.request(path=f"/v1/{gateway.secret}/chat/completions")
    gateway.request(path=f"/v1/models/{gateway.secret}", method="GET")
    gateway.request(b'{"model": "quokka')
    gateway.chat("what-a-prompt-looks-like")
    assert access(heard) == [
        {"status": 401, "message": "POST /v1/chat/completions"},
        {"status": 404, "message": "POST (unknown path)"},
        {"status": 404, "message": "GET /v1/models/<path:name>"},
        {"status": 400, "message": "POST /v1/chat/completions"},
        {"status": 404, "message": "POST /v1/chat/completions", "application": "helpdesk"},
    ]
    assert "what-a-prompt" not in "".join(heard.lines)


def test_a_caller_that_leaves(world: World, heard: Overheard) -> None:
    world.script(streams(end=[Stall()]))
    conversation = world.gateway.begin_chat(stream=True)
    conversation.wait_for(b"parcel")
    conversation.hang_up()
    conversation.finish()
    assert [(each["status"], each["provider"]) for each in access(heard)] == [(499, "prod-east")]


def test_calls_at_the_same_time_are_not_mixed_up(world: World, heard: Overheard) -> None:
    world.gateway.secret = world.issue(may_name_models=True)
    names = [f"{model.provider.identifier}/{model.identifier}" for model in world.models] * 5
    conversations = [world.gateway.begin_chat(name) for name in names]
    replies = {each.reply().headers["x-signalbox-call"]: name for each, name in zip(conversations, names, strict=True)}
    seen = {each["call"]: f"{each['provider']}/{each['model']}" for each in entries(heard)}
    assert seen == replies


async def test_what_crosses_to_an_engine_belongs_to_the_same_request() -> None:
    bridge = Bridge(threads=1)

    def note_in_the_engine() -> dict[str, str]:
        note(call="call-1")
        return dict(marks())

    with traced(correlation="order-7"):
        assert await bridge.cross(note_in_the_engine) == {"correlation": "order-7", "call": "call-1"}
        assert dict(marks()) == {"correlation": "order-7", "call": "call-1"}
    assert await bridge.cross(lambda: dict(marks())) == {}
    bridge.close()


def test_a_request_to_a_provider_names_the_call_and_its_own_number(world: World) -> None:
    """What a vendor's support asks for; and nothing that the caller wrote."""
    world.script(fails(500), answers())
    world.gateway.request(question(), headers={"x-request-id": "order-of-alice", "x-client-request-id": "alice"})
    call = world.call()
    sent = [each.requests[0].headers["x-client-request-id"] for each in world.upstreams[:2]]
    assert sent == [f"{call.pk}-1", f"{call.pk}-2"]
    assert not any(b"alice" in each.requests[0].head for each in world.upstreams[:2])


@pytest.mark.parametrize(
    "leak", ["sk-of-the-provider-0001", "sb-abcdefghijklmnop", "Where is quokka?", "The \\u00c4cker"]
)
def test_a_leak_would_be_found(heard: Overheard, leak: str) -> None:
    heard.hear(question(text="Where is quokka?"), "")
    heard.hear(question(text="The \u00c4cker"), "")
    logging.getLogger("anything").debug("said: %s", leak.encode().decode("unicode_escape"))
    assert heard.leaks()
    heard.forget()
