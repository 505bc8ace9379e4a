"""Whatever JSON, or bytes, somebody sends: an answer or a clear refusal, and never a fault of our own."""

from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.governance.gateway.conftest import World

NAMES = st.sampled_from(
    [
        "model", "messages", "role", "content", "type", "text", "refusal", "image_url", "url", "tool_calls", "function",
        "custom", "name", "arguments", "input", "id", "tool_call_id", "tools", "functions", "parameters", "stream",
        "stream_options", "include_usage", "response_format", "json_schema", "reasoning_effort", "max_tokens",
        "max_completion_tokens", "user", "safety_identifier", "cache_control", "metadata", "n", "tool_choice",
    ]
)  # fmt: skip
WORDS = st.sampled_from(
    ["user", "assistant", "tool", "function", "system", "text", "image_url", "custom", "json_schema", "none", "x", ""]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), WORDS, st.text(max_size=9)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=25,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": WORDS},
        optional={"content": VALUES, "tool_calls": VALUES, "tool_call_id": VALUES, "refusal": VALUES, "name": VALUES},
    ),
    max_size=3,
)
OPTIONAL = (
    "tools", "functions", "stream", "stream_options", "response_format", "reasoning_effort", "max_tokens",
    "max_completion_tokens", "user", "safety_identifier", "metadata", "tool_choice",
)  # fmt: skip
REQUESTS = st.fixed_dictionaries(
    {"model": st.just("support-chat"), "messages": MESSAGES | VALUES}, optional=dict.fromkeys(OPTIONAL, VALUES)
)
ALLOWED = {200, 400, 403, 404}

as_it_is = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@as_it_is
@given(document=REQUESTS | VALUES, indented=st.booleans())
def test_any_document(world: World, document: Any, indented: bool) -> None:
    reply = world.gateway.request(orjson.dumps(document, option=orjson.OPT_INDENT_2 if indented else None))
    assert reply.status in ALLOWED
    if reply.status != 200:
        assert reply.error["message"]


@as_it_is
@given(body=st.binary(max_size=60))
def test_any_bytes(world: World, body: bytes) -> None:
    assert world.gateway.request(body).status in ALLOWED
    assert world.gateway.request(b'{"model":"support-chat","messages":[' + body + b"]}").status in ALLOWED


@as_it_is
@given(
    fields=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    b"content-type", b"content-length", b"authorization", b"x-api-key", b"x-signalbox-on-device",
                    b"x-signalbox-max-cost", b"x-signalbox-source", b"x-request-id", b"cookie", b"host", b"accept",
                ]
            ),
            st.binary(max_size=30) | st.sampled_from([b"a/b; charset*=x''y", b"0.5", b"true", b"multipart/form-data"]),
        ),
        max_size=5,
    )
)  # fmt: skip
def test_any_headers(world: World, fields: list[tuple[bytes, bytes]]) -> None:
    reply = world.gateway.request(b"{}", headers=fields)
    assert reply.status in {400, 401, 413}
    assert world.gateway.request(path="/v1/models", method="GET", headers=fields).status in {200, 400, 401}
