"""Pages that an answer rests on, as each vendor names them; and that nobody gets to ask for what cannot be told."""

from typing import Any

import orjson
import pytest

from governance.gateway.protocols import anthropic, openai_chat, openai_completions, openai_responses
from routing.core.calls import Cited, Event, Opaque
from routing.core.conversation import Protocol
from routing.providers.base import Endpoint
from routing.providers.dialects import (
    anthropic_replies,
    gemini_replies,
    openai_chat_replies,
    openai_chat_requests,
    openai_responses_replies,
)
from routing.providers.dialects.carrying import NotCarried
from routing.providers.dialects.tools import NO_NAMES
from routing.providers.registry import ADAPTER_TYPES
from routing.providers.sse import EventReader
from routing.providers.stream import Codec
from tests.routing.providers.vendors import ANTHROPIC, GEMINI, OPENAI, RESPONSES, sse

ENDPOINT = Endpoint(provider="prod-east", adapter_type="openai", base_url="https://api.example.com/v1")
URL, TITLE = "https://pages.example/ulm", "Ulm"
FOUND = [Cited(URL, TITLE)]


def cited(events: Any) -> list[Event]:
    return [each for each in events if isinstance(each, Cited | Opaque)]


def streamed(codec: Codec, *frames: bytes) -> list[Event]:
    reader = EventReader()
    read = [codec.read(each) for frame in frames for each in reader.feed(frame)]
    return cited(event for frame in read if frame is not None for event in frame.events)


def test_annotations_of_a_chat() -> None:
    page = {"type": "url_citation", "url_citation": {"url": URL, "title": TITLE, "start_index": 0, "end_index": 4}}
    message = {"role": "assistant", "content": "Ulm.", "annotations": [page, {"type": "file"}, 7]}
    whole = {**OPENAI.whole, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    reply = openai_chat_replies.read_reply(orjson.dumps(whole), endpoint=ENDPOINT)
    assert cited(reply.events) == FOUND
    delta = sse({"id": "r", "choices": [{"index": 0, "delta": {"annotations": [page]}, "finish_reason": None}]})
    assert streamed(openai_chat_replies.ChunkReader(endpoint=ENDPOINT, hides_usage=False), delta) == FOUND


def test_pages_of_a_host_that_searches_by_itself() -> None:
    """It names all of them in every piece, with titles and without."""
    beside = {"search_results": [{"url": URL, "title": TITLE}], "citations": [URL, "https://pages.example/bern", 7]}
    expected = [*FOUND, Cited("https://pages.example/bern")]
    reply = openai_chat_replies.read_reply(orjson.dumps({**OPENAI.whole, **beside}), endpoint=ENDPOINT)
    assert cited(reply.events) == expected
    piece = sse({"id": "r", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}], **beside})
    assert streamed(openai_chat_replies.ChunkReader(endpoint=ENDPOINT, hides_usage=False), piece, piece) == expected


def test_annotations_of_a_response() -> None:
    page = {"type": "url_citation", "url": URL, "title": TITLE, "start_index": 0, "end_index": 4}
    part = {"type": "output_text", "text": "Ulm.", "annotations": [page, {"type": "file_citation", "file_id": "f"}]}
    item = {"id": "m", "type": "message", "role": "assistant", "content": [part]}
    whole = orjson.dumps({**RESPONSES.whole, "output": [item]})
    assert cited(openai_responses_replies.read_reply(whole, endpoint=ENDPOINT, tools=NO_NAMES).events) == FOUND
    frames = [
        sse({"type": "response.output_text.delta", "output_index": 0, "delta": "Ulm."}),
        sse({"type": "response.output_text.annotation.added", "output_index": 0, "annotation": page}),
        sse({"type": "response.output_item.done", "output_index": 0, "item": item}),
    ]
    assert streamed(openai_responses_replies.EventReader(endpoint=ENDPOINT, tools=NO_NAMES), *frames) == FOUND


def test_citations_of_a_message() -> None:
    page = {"type": "web_search_result_location", "url": URL, "title": TITLE, "encrypted_index": "e", "cited_text": "U"}
    place = {"type": "char_location", "document_index": 0, "cited_text": "U"}
    block = {"type": "text", "text": "Ulm.", "citations": [page, place]}
    expected = [*FOUND, Opaque("citations")]  # a place in a document that only its own protocol can send
    whole = orjson.dumps({**ANTHROPIC.whole, "content": [block]})
    assert cited(anthropic_replies.read_reply(whole, endpoint=ENDPOINT, tools=NO_NAMES).events) == expected
    deltas = [
        sse({"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": each}})
        for each in (page, place)
    ]
    assert streamed(anthropic_replies.EventReader(endpoint=ENDPOINT, tools=NO_NAMES), *deltas) == expected


def test_pages_that_gemini_found_or_repeats() -> None:
    grounded = {"groundingMetadata": {"groundingChunks": [{"web": {"uri": URL, "title": TITLE}}, {"x": 1}]}}
    repeated = {"citationMetadata": {"citationSources": [{"uri": URL, "startIndex": 3}, {"license": "mit"}]}}
    candidate = {**GEMINI.whole["candidates"][0], **grounded}
    whole = {**GEMINI.whole, "candidates": [candidate]}
    assert cited(gemini_replies.read_reply(orjson.dumps(whole), endpoint=ENDPOINT, tools=NO_NAMES).events) == FOUND
    again = {**GEMINI.whole, "candidates": [{**candidate, **repeated}]}
    codec = gemini_replies.EventReader(endpoint=ENDPOINT, tools=NO_NAMES)
    assert streamed(codec, sse(whole), sse(again)) == FOUND
    alone = {**GEMINI.whole, "candidates": [{**GEMINI.whole["candidates"][0], **repeated}]}
    found = gemini_replies.read_reply(orjson.dumps(alone), endpoint=ENDPOINT, tools=NO_NAMES)
    assert cited(found.events) == [Cited(URL)]


# --- What is asked for ----------------------------------------------------------------------------------------------

CHAT: Any = {"model": "fast", "messages": [{"role": "user", "content": "Why?"}]}
MESSAGES: Any = {**CHAT, "max_tokens": 5}
RESPONSE: Any = {"model": "fast", "input": "Why?"}
DOCUMENT = {"type": "document", "source": {"type": "text", "data": "x"}, "citations": {"enabled": True}}
ASKS: list[tuple[Any, Any, dict[str, Any], str]] = [
    (openai_chat, CHAT, {"logprobs": True}, "logprobs"),
    (openai_chat, CHAT, {"top_logprobs": 3}, "top_logprobs"),
    (openai_chat, CHAT, {"modalities": ["text", "audio"]}, "modalities"),
    (openai_chat, CHAT, {"audio": {"voice": "a", "format": "wav"}}, "audio"),
    (openai_chat, CHAT, {"web_search_options": {}}, "web_search_options"),
    (openai_chat, CHAT, {"moderation": {}}, "moderation"),
    (openai_responses, RESPONSE, {"top_logprobs": 3}, "top_logprobs"),
    (openai_responses, RESPONSE, {"include": ["message.output_text.logprobs"]}, "include"),
    (openai_responses, RESPONSE, {"tools": [{"type": "web_search"}]}, "tools.type"),
    (anthropic, MESSAGES, {"messages": [{"role": "user", "content": [DOCUMENT]}]}, "messages[0].content[0].citations"),
    (anthropic, MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.type"),
    (openai_completions, {"model": "fast", "prompt": "Why?"}, {"logprobs": 0}, "logprobs"),
]
OWN = {
    openai_chat: Protocol.OPENAI_CHAT,
    openai_responses: Protocol.OPENAI_RESPONSES,
    anthropic: Protocol.ANTHROPIC,
    openai_completions: None,
}


@pytest.mark.parametrize("adapter_type", ["openai", "anthropic", "openai_responses", "gemini", "ollama"])
@pytest.mark.parametrize(
    ("protocol", "document", "wish", "field"), ASKS, ids=[f"{ask[3]}-{i}" for i, ask in enumerate(ASKS)]
)
async def test_nobody_asks_across_protocols_for_what_cannot_be_told(
    protocol: Any, document: Any, wish: dict[str, Any], field: str, adapter_type: str
) -> None:
    adapter = ADAPTER_TYPES[adapter_type].adapter
    if adapter.protocol is OWN[protocol]:
        return
    request = protocol.read_request(orjson.dumps({**document, **wish}))
    with pytest.raises(NotCarried) as caught:
        await adapter.call(endpoint=ENDPOINT, model_id="m", request=request, transport=None)  # type: ignore[arg-type]  # refused before anything is sent
    assert caught.value.failure.parameter == field


@pytest.mark.parametrize("adapter_type", ["groq", "mistral"])
@pytest.mark.parametrize("wish", [{"logprobs": True}, {"top_logprobs": 2}, {"logit_bias": {"1": 2}}])
async def test_a_host_that_refuses_a_field_of_its_own_protocol_is_not_asked(adapter_type: str, wish: Any) -> None:
    """It would answer with an error that ends the call; another route may know the field."""
    adapter = ADAPTER_TYPES[adapter_type].adapter
    request = openai_chat.read_request(orjson.dumps({**CHAT, **wish}))
    with pytest.raises(NotCarried) as caught:
        await adapter.call(endpoint=ENDPOINT, model_id="m", request=request, transport=None)  # type: ignore[arg-type]  # refused before anything is sent
    assert caught.value.failure.parameter == next(iter(wish))


def test_a_field_that_asks_for_nothing_is_no_reason() -> None:
    request = openai_chat.read_request(orjson.dumps({**CHAT, "logprobs": False, "logit_bias": {}, "top_logprobs": 0}))
    differences = openai_chat_requests.Differences(refuses=frozenset({"logprobs", "top_logprobs", "logit_bias"}))
    assert openai_chat_requests.request_body(request, model_id="m", stream=False, differences=differences)
