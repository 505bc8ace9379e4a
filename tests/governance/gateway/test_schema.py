"""Whole answers are held to the schema that was asked for, and may be repaired once where that is configured."""

from typing import Any

import orjson
import pytest

from telemetry.models import Attempt
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Reply, question
from tests.governance.gateway.upstream import answers, completion, fails, streams
from tests.servers.fake_provider import Script, whole

pytestmark = pytest.mark.django_db(transaction=True)

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
GOOD, BAD = '{"city": "Ulm"}', '{"city": 7}'
FAULT = "$.city: string is needed"


def ask(world: World, **members: Any) -> Reply:
    return world.gateway.chat(response_format=FORMAT, **members)


def repairing(world: World) -> None:
    world.configuration.repairs_output = True
    world.configuration.save()
    world.gateway.refresh()


def attempts(world: World) -> list[tuple[str, str, str, int | None]]:
    rows = Attempt.objects.filter(call=world.call()).order_by("index")
    return [(row.model, row.failure_kind, row.error_code, row.cost_nanos) for row in rows]


def test_an_answer_that_fits_passes_as_it_is(world: World) -> None:
    answer = completion(text=f"  {GOOD}\n")
    world.script(whole(answer))
    assert ask(world).body == answer
    assert world.asked == [1, 0, 0]


@pytest.mark.parametrize("text", [BAD, "I would say Ulm.", "", f"```json\n{GOOD}\n```", "[]"])
def test_after_one_that_does_not_the_next_route_is_asked(world: World, text: str) -> None:
    world.script(answers(text=text), answers(text=GOOD))
    reply = ask(world)
    assert (reply.status, reply.headers["x-signalbox-route"]) == (200, "prod-west/wise")
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (unreadable)"
    assert attempts(world) == [("fast", "unreadable", "schema_mismatch", 5_950_000), ("wise", "", "", 5_950_000)]


def test_if_nobody_s_answer_fits_the_caller_is_told_where(world: World) -> None:
    world.script(*[answers(text=BAD)] * 3)
    reply = ask(world)
    assert (reply.status, reply.error["code"]) == (502, "schema_mismatch")
    assert FAULT in reply.error["message"]
    call = world.call()
    assert (call.success, call.failure_kind, call.error_class) == (False, "unreadable", "schema_mismatch")


def test_a_repair_is_a_request_of_its_own_at_the_same_route(world: World) -> None:
    repairing(world)
    world.upstreams[0].answer_in_turn(answers(text=BAD), answers(text=GOOD))
    sent = question(response_format=FORMAT, new_member={"kept": True})
    reply = world.gateway.request(sent)
    assert (reply.status, reply.headers["x-signalbox-attempts"]) == (200, "2")
    assert reply.json["choices"][0]["message"]["content"] == GOOD
    assert world.asked == [2, 0, 0]
    first, second = (orjson.loads(each.body) for each in world.upstreams[0].requests)
    assert second | {"messages": []} == first | {"messages": []}
    *before, said, told = second["messages"]
    assert before == first["messages"]
    assert said == {"role": "assistant", "content": BAD}
    assert (told["role"], FAULT in told["content"]) == ("user", True)
    assert attempts(world) == [("fast", "unreadable", "schema_mismatch", 5_950_000), ("fast", "", "", 5_950_000)]
    call = world.call()
    assert (call.success, call.retries, call.fallback_attempts, call.requests_sent) == (True, 1, 0, 2)


def test_there_is_one_repair_for_each_route(world: World) -> None:
    repairing(world)
    world.script(answers(text=BAD), answers(text=GOOD))
    assert ask(world).headers["x-signalbox-route"] == "prod-west/wise"
    assert world.asked == [2, 1, 0]


def test_an_answer_without_words_can_be_repaired(world: World) -> None:
    repairing(world)
    world.upstreams[0].answer_in_turn(answers(text=""), answers(text=GOOD))
    assert ask(world).status == 200
    _, again = (orjson.loads(each.body)["messages"] for each in world.upstreams[0].requests)
    assert again[-2]["content"] == "(nothing)"


@pytest.mark.parametrize(
    ("failing", "kind"),
    [
        (fails(400, code="invalid_value"), "invalid_request"),
        (fails(400, code="context_length_exceeded"), "context_exceeded"),
        (fails(503), "transient"),
    ],
    ids=["invalid", "long", "down"],
)
def test_a_repair_that_fails_costs_the_route_and_not_the_call(world: World, failing: Script, kind: str) -> None:
    repairing(world)
    world.upstreams[0].answer_in_turn(answers(text=BAD), failing)
    world.upstreams[1].answer_in_turn(answers(text=GOOD))
    assert ask(world).headers["x-signalbox-route"] == "prod-west/wise"
    assert [each[1] for each in attempts(world)][:2] == ["unreadable", kind]


def broken_off(text: str, reason: str) -> Script:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    return whole(completion(choices=[choice]))


def calling() -> Script:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    return whole(completion(choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}]))


@pytest.mark.parametrize(
    ("script", "members"),
    [
        (broken_off('{"city": "U', "length"), {}),
        (broken_off("", "content_filter"), {}),
        (calling(), {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}),
        (answers(text=BAD), {"n": 2}),
        (answers(text=BAD), {"response_format": {"type": "json_object"}}),
        (streams(BAD), {"stream": True}),
    ],
    ids=["length", "refusal", "tools", "several", "object", "stream"],
)
def test_what_is_not_looked_at(world: World, script: Script, members: dict[str, Any]) -> None:
    repairing(world)
    world.script(script)
    reply = world.gateway.chat(**{"response_format": FORMAT, **members})
    assert reply.status == 200
    assert world.asked == [1, 0, 0]


def test_a_repair_crosses_protocols(world: World) -> None:
    repairing(world)
    world.upstreams[0].answer_in_turn(answers(text=BAD), answers(text=GOOD))
    sent = {
        "model": "support-chat",
        "max_tokens": 50,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Where?"}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    }
    reply = world.gateway.request(orjson.dumps(sent), path="/v1/messages")
    assert reply.json["content"] == [{"type": "text", "text": GOOD}]
    _, again = (orjson.loads(each.body)["messages"] for each in world.upstreams[0].requests)
    assert [each["role"] for each in again] == ["system", "user", "assistant", "user"]
