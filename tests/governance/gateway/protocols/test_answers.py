"""Whatever an answer may carry is told in the caller's protocol, or declared as having no place there. No third way."""

from typing import Any, get_args

import orjson
import pytest

from governance.gateway.protocols.base import NAMES, Head, Writer, untold_in
from governance.gateway.protocols.openai_embeddings_replies import OpenAIEmbeddingsWriter
from governance.gateway.protocols.page import WRITERS, page
from governance.gateway.views import _CHAT, _COMPLETIONS, _EMBEDDINGS, _MESSAGES, _RESPONSES
from routing.core.calls import (
    CallReply,
    Cited,
    Event,
    Opaque,
    Reasoning,
    ReasoningSealed,
    Refusal,
    Started,
    Stopped,
    StopReason,
    Text,
    ToolArguments,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from routing.core.conversation import Protocol
from routing.core.embeddings import Embedded

HEAD = Head(call="01a2", model="support-chat", created=1)
CALLED = ToolCallStarted(0, "call-1", "look_up")
CARRIED: dict[type[Event], Event] = {
    Started: Started("reply-77", "model-x"),
    Text: Text("Ulm."),
    Reasoning: Reasoning("Hm."),
    ReasoningSealed: ReasoningSealed("c2VhbA==", Protocol.GEMINI, is_hidden=True),
    Refusal: Refusal("I would rather not."),
    ToolCallStarted: CALLED,
    ToolArguments: ToolArguments(0, '{"city":"Ulm"}'),
    Cited: Cited("https://pages.example/ulm", "Ulm"),
    Opaque: Opaque("web_search_call"),
    Stopped: Stopped(StopReason.LENGTH),
    UsageReported: UsageReported(Usage(5, 7)),
}
NO_ANSWER = frozenset({Embedded})
"""What comes to those who ask for vectors, who get nothing else."""


def said(writer: Writer, events: list[Event], *, stream: bool) -> bytes:
    if not stream:
        return writer.reply(events, head=HEAD)
    written = writer.stream(HEAD)
    return written.write(events) + written.end(None)


def test_everything_that_an_answer_may_carry_is_tried() -> None:
    assert set(get_args(Event)) == CARRIED.keys() | NO_ANSWER
    assert {type(each) for each in WRITERS} | {OpenAIEmbeddingsWriter} == {
        type(each) for each in (_CHAT, _COMPLETIONS, _EMBEDDINGS, _MESSAGES, _RESPONSES)
    }


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", CARRIED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.protocol)
def test_it_is_told_or_declared_as_untold(writer: Writer, kind: type[Event], stream: bool) -> None:
    before: list[Event] = [Text("x"), *([CALLED] if kind is ToolArguments else [])]
    event = CARRIED[kind]
    with_it = said(writer, [event, *before] if kind is Started else [*before, event], stream=stream)
    assert (with_it == said(writer, before, stream=stream)) is (kind in writer.untold)


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.protocol)
def test_what_is_left_out_is_named(writer: Writer) -> None:
    assert writer.untold.keys() <= NAMES.keys()
    for kind in NAMES:
        reply = CallReply(Protocol.OLLAMA, b"{}", (Text("x"), CARRIED[kind], CARRIED[kind]))
        name = "web_search_call" if kind is Opaque else NAMES[kind]
        assert untold_in(reply, writer=writer) == ((name,) if kind in writer.untold else ())
        own = CallReply(writer.protocol, b"{}", reply.events)
        assert untold_in(own, writer=writer) == ()  # its bytes are passed on as they are
        assert f"| {NAMES[kind]} |" in page()


def test_a_vendors_name_for_something_is_held_to_what_a_header_holds() -> None:
    reply = CallReply(Protocol.GEMINI, b"{}", (Opaque("inlineData"), Opaque("x\r\nset-cookie: y"), Opaque("ü")))
    assert untold_in(reply, writer=_CHAT) == ("inlineData", NAMES[Opaque])


# --- Citations ------------------------------------------------------------------------------------------------------

CITED: list[Event] = [Text("Ulm lies on "), Text("the Danube."), CARRIED[Cited], Stopped(StopReason.END)]
WHERE = {"url": "https://pages.example/ulm", "title": "Ulm", "start_index": 0, "end_index": 23}


def frames(data: bytes) -> list[Any]:
    payloads = [line.removeprefix(b"data: ") for line in data.split(b"\n") if line.startswith(b"data: {")]
    return [orjson.loads(each) for each in payloads]


def test_citations_in_chat_completions() -> None:
    annotations = [{"type": "url_citation", "url_citation": WHERE}]
    (choice,) = orjson.loads(_CHAT.reply(CITED, head=HEAD))["choices"]
    assert choice["message"]["annotations"] == annotations
    deltas = [choice["delta"] for each in frames(said(_CHAT, CITED, stream=True)) for choice in each["choices"]]
    assert [each["annotations"] for each in deltas if "annotations" in each] == [annotations]


def test_citations_in_responses() -> None:
    annotation = {"type": "url_citation", **WHERE}
    (item,) = orjson.loads(_RESPONSES.reply(CITED, head=HEAD))["output"]
    assert item["content"][0]["annotations"] == [annotation]
    events = frames(said(_RESPONSES, CITED, stream=True))
    (added,) = [each for each in events if each["type"] == "response.output_text.annotation.added"]
    assert (added["annotation"], added["annotation_index"], added["output_index"]) == (annotation, 0, 0)
    done = [each for each in events if each["type"] == "response.content_part.done"]
    assert done[0]["part"]["annotations"] == [annotation]


def test_citations_after_the_text_is_closed_have_a_text_of_their_own() -> None:
    events: list[Event] = [Text("x"), CALLED, ToolArguments(0, "{}"), CARRIED[Cited]]
    output = orjson.loads(_RESPONSES.reply(events, head=HEAD))["output"]
    assert [each["type"] for each in output] == ["message", "function_call", "message"]
    assert output[2]["content"][0]["annotations"][0]["url"] == WHERE["url"]
