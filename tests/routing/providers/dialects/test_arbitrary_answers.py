"""Whatever a provider answers is an answer or a failure, and never an error of ours."""

import contextlib
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.core.failures import CallFailed
from routing.providers.base import Endpoint
from routing.providers.dialects import (
    anthropic_replies,
    gemini_replies,
    ollama_replies,
    openai_chat_replies,
    openai_responses_replies,
)
from routing.providers.dialects.tools import NO_NAMES
from routing.providers.sse import ServerEvent
from tests.routing.core.feature_samples import plain
from tests.routing.providers.vendors import WIRES, Vendor

ENDPOINT = Endpoint(provider="prod-east", adapter_type="custom", base_url="https://api.example.com/v1")
READERS = {
    "openai": openai_chat_replies.read_reply,
    "anthropic": anthropic_replies.read_reply,
    "openai_responses": openai_responses_replies.read_reply,
    "gemini": gemini_replies.read_reply,
    "ollama": ollama_replies.read_reply,
}

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats(-2, 2) | st.sampled_from(["", "text", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def broken(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a document with something else in one place."""
    if not path:
        return value
    key, *rest = path
    copy = document.copy()
    copy[key] = broken(document[key], tuple(rest), value)
    return copy


@pytest.mark.parametrize("vendor", WIRES, ids=str)
@given(data=st.data())
def test_whole_answers(vendor: Vendor, data: st.DataObject) -> None:
    document = data.draw(st.sampled_from([vendor.whole, vendor.calls_whole]))
    document = broken(document, data.draw(st.sampled_from(places(document))), data.draw(ANYTHING))
    with contextlib.suppress(CallFailed):
        READERS[vendor.adapter_type](orjson.dumps(document), endpoint=ENDPOINT, tools=NO_NAMES)


@pytest.mark.parametrize("vendor", WIRES, ids=str)
@given(data=st.data())
def test_streams(vendor: Vendor, data: st.DataObject) -> None:
    frames = [*vendor.stream, *vendor.calls_stream, vendor.error_frame]
    documents = [orjson.loads(each[each.index(b"{") :]) for each in frames if b"[DONE]" not in each]
    codec = vendor.codec(ENDPOINT, plain())
    for _ in range(data.draw(st.integers(1, 5))):
        document = data.draw(st.sampled_from(documents))
        document = broken(document, data.draw(st.sampled_from(places(document))), data.draw(ANYTHING))
        payload = orjson.dumps(document)
        with contextlib.suppress(CallFailed):
            codec.read(ServerEvent(data.draw(st.sampled_from(["", "error", "x"])), payload, payload))
    codec.fault_at_end()
