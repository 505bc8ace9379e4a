"""`/v1/embeddings`: the same stack as every call, from the key to the row."""

from typing import Any

import orjson
import pytest

from governance.changes.settings import store_setting
from routing.models import Price
from tests.authors import SOMEBODY
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Reply
from tests.governance.gateway.upstream import fails
from tests.servers.fake_provider import Script, whole

PATH = "/v1/embeddings"
VECTORS = [[0.5, -2.0, 0.25], [1.0, 0.0, -0.5]]
ENCODED = ["AAAAPwAAAMAAAIA+", "AACAPwAAAAAAAAC/"]


def vectors(*, said: Any = VECTORS, usage: Any = None, **members: Any) -> bytes:
    """An answer of a host that speaks OpenAI's protocol."""
    data = [{"object": "embedding", "embedding": each, "index": index} for index, each in enumerate(said)]
    counted = usage or {"prompt_tokens": 1200, "total_tokens": 1200}
    return orjson.dumps({"object": "list", "data": data, "model": "vector-x-2026", "usage": counted, **members})


def answers(**settings: Any) -> Script:
    return whole(vectors(**settings))


def embed(world: World, model: str = "support-chat", **members: Any) -> Reply:
    return world.gateway.request(orjson.dumps({"model": model, "input": ["Ulm", "Bern"], **members}), path=PATH)


@pytest.fixture
def vector_world(world: World) -> World:
    """The usual world, whose providers answer with vectors."""
    world.script(*(answers() for _ in world.upstreams))
    return world


def turn_into(world: World, index: int, adapter_type: str) -> None:
    provider = world.models[index].provider
    provider.adapter_type = adapter_type
    provider.save()
    world.gateway.refresh()


# --- Through the whole stack ----------------------------------------------------------------------------------------


def test_an_answer_its_headers_and_its_row(vector_world: World) -> None:
    reply = embed(vector_world, user="ann@example.com")
    assert (reply.status, reply.body) == (200, vectors())
    assert reply.headers["x-signalbox-route"] == "prod-east/fast"
    assert reply.headers["x-signalbox-attempts"] == "1"
    assert reply.headers["x-signalbox-cost"] == "0.003 USD"  # 1,200 tokens at 2.50 a million, and no output
    call = vector_world.call()
    assert str(call.pk) == reply.headers["x-signalbox-call"]
    assert (call.operation, call.streamed, call.success) == ("embed", False, True)
    assert (call.actual_input_tokens, call.actual_output_tokens) == (1200, 0)
    assert (call.actual_cost_nanos, call.usage_coverage) == (3_000_000, "exact")
    assert (call.response_model, call.user) == ("vector-x-2026", "ann@example.com")
    assert call.decision_id is not None
    request = vector_world.upstreams[0].requests[0]
    assert request.line == "POST /v1/embeddings HTTP/1.1"
    assert request.headers["x-client-request-id"] == f"{call.pk}-1"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"support-chat","input":["Ulm","Bern"],"encoding_format":"base64","x":[1.50]}',
        b' {"input" : [ [15, 3], [9] ] ,\n "model": "support-chat", "dimensions":3, "user":"a\\u0000b" }\n',
    ],
    ids=["compact", "spelled"],
)
def test_a_request_arrives_as_it_was_but_for_the_model(vector_world: World, body: bytes) -> None:
    assert vector_world.gateway.request(body, path=PATH).status == 200
    assert vector_world.upstreams[0].requests[0].body == body.replace(b"support-chat", b"gpt-x-mini")


def test_base64_of_a_host_that_answers_in_numbers(vector_world: World) -> None:
    reply = embed(vector_world, encoding_format="base64")
    assert [each["embedding"] for each in reply.json["data"]] == ENCODED
    assert reply.json["model"] == "vector-x-2026"


def test_the_next_route_answers(vector_world: World) -> None:
    vector_world.script(fails(503), answers())
    reply = embed(vector_world)
    assert reply.headers["x-signalbox-route"] == "prod-west/wise"
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (transient)"
    call = vector_world.call()
    assert (call.fallback_attempts, call.first_failure_kind) == (1, "transient")


def test_another_vendors_vectors_are_written_in_the_callers_protocol(vector_world: World) -> None:
    turn_into(vector_world, 0, "gemini")
    vector_world.script(whole(orjson.dumps({"embeddings": [{"values": each} for each in VECTORS]})))
    reply = embed(vector_world, encoding_format="base64", dimensions=3)
    data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(ENCODED)]
    assert reply.json == {"object": "list", "data": data, "model": "support-chat"}
    sent = orjson.loads(vector_world.upstreams[0].requests[0].body)["requests"]
    asked = {"model": "models/gpt-x-mini", "outputDimensionality": 3}
    assert sent == [{**asked, "content": {"parts": [{"text": text}]}} for text in ("Ulm", "Bern")]
    call = vector_world.call()
    assert (call.actual_input_tokens, call.actual_cost_nanos, call.usage_coverage) == (None, None, "absent")
    assert "x-signalbox-cost" not in reply.headers


# --- Who cannot -----------------------------------------------------------------------------------------------------


def test_routes_that_make_no_embeddings_are_passed_over(vector_world: World) -> None:
    turn_into(vector_world, 0, "anthropic")
    reply = embed(vector_world)
    assert reply.headers["x-signalbox-route"] == "prod-west/wise"
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (notCarried)"
    assert reply.headers["x-signalbox-attempts"] == "1"
    assert vector_world.asked == [0, 1, 0]


def test_nobody_makes_embeddings(vector_world: World) -> None:
    for index in range(3):
        turn_into(vector_world, index, "anthropic")
    reply = embed(vector_world)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, "unsupported_conversion", "model")
    assert reply.error["message"].count("make no embeddings") == 3
    assert reply.headers["x-should-retry"] == "false"
    assert vector_world.asked == [0, 0, 0]
    assert vector_world.call().failure_kind == "unsupported"


def test_a_model_that_declares_something_else_is_not_asked(vector_world: World) -> None:
    """The vendor would refuse it as it refuses a key, and the route would rest for everybody."""
    model = vector_world.models[0]
    model.capabilities = ["chat"]
    model.save()
    vector_world.gateway.refresh()
    assert embed(vector_world).headers["x-signalbox-route"] == "prod-west/wise"
    store_setting("routing.operationCapabilityEnforcement", "observe", author=SOMEBODY)
    vector_world.gateway.refresh()
    assert embed(vector_world).headers["x-signalbox-route"] == "prod-east/fast"


def test_tokens_are_no_texts_to_another_vendor(vector_world: World) -> None:
    for index in range(3):
        turn_into(vector_world, index, "gemini")
    reply = embed(vector_world, input=[15, 3])
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, "unsupported_conversion", "input")


def test_a_content_filter_is_an_error(vector_world: World) -> None:
    error = {"error": {"message": "no", "type": "invalid_request_error", "code": "content_filter"}}
    vector_world.script(whole(orjson.dumps(error), 400))
    reply = embed(vector_world)
    assert (reply.status, reply.error["code"]) == (400, "content_filter")
    assert vector_world.call().failure_kind == "refused"
    assert vector_world.asked == [1, 0, 0]  # a refusal is not shopped around


@pytest.mark.parametrize(
    ("members", "parameter"),
    [
        ({"input": []}, "input"),
        ({"input": None}, "input"),
        ({"input": 7}, "input"),
        ({"input": ["a", 7]}, "input"),
        ({"input": [[1], []]}, "input"),
        ({"input": [True]}, "input"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": "3"}, "dimensions"),
        ({"api_base": "http://x/"}, "api_base"),
    ],
)
def test_what_is_no_request(vector_world: World, members: Any, parameter: str) -> None:
    reply = embed(vector_world, **members)
    assert (reply.status, reply.error["param"]) == (400, parameter)
    assert vector_world.asked == [0, 0, 0]
    assert vector_world.calls() == []


def test_a_request_with_another_method(vector_world: World) -> None:
    reply = vector_world.gateway.request(path=PATH, method="GET")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


# --- Sizes and money ------------------------------------------------------------------------------------------------


def test_each_input_alone_has_to_fit(vector_world: World) -> None:
    """Contexts are of 8,000 tokens; together the inputs have 15,000."""
    vector_world.script(answers(said=[VECTORS[0]] * 3))
    assert embed(vector_world, input=["a" * 20_000] * 3).headers["x-signalbox-route"] == "prod-east/fast"
    vector_world.script(fails(500), fails(500), answers(said=[VECTORS[0]]))
    reply = embed(vector_world, input="a" * 36_000)
    assert reply.headers["x-signalbox-route"] == "lab/huge"
    assert reply.headers["x-signalbox-attempts"] == "1"


def test_a_ceiling_is_of_all_inputs_and_of_no_output(vector_world: World) -> None:
    for price in Price.objects.all():
        price.input_rate, price.output_rate = 1_000_000_000, 900_000_000_000
        price.save()
    vector_world.gateway.refresh()
    body = orjson.dumps({"model": "support-chat", "input": ["a" * 4000] * 2})  # 2,000 tokens at 1.00 a million
    affordable = vector_world.gateway.request(body, path=PATH, headers={"x-signalbox-max-cost": "0.002"})
    assert affordable.status == 200
    refused = vector_world.gateway.request(body, path=PATH, headers={"x-signalbox-max-cost": "0.0019"})
    assert (refused.status, "ceiling" in refused.error["message"]) == (400, True)
