"""Answers on the wire of Gemini's generateContent, whole and streamed, as events.

A stream is a row of whole answers, each with a piece of the content and the usage so far. The vendor counts thoughts
beside the answer and what was cached inside the prompt. It has no end mark: the connection ends after a reason.
"""

from collections.abc import Mapping
from typing import Any

from routing.core.calls import (
    CallReply,
    Cited,
    Coverage,
    Event,
    Frame,
    Opaque,
    Reasoning,
    ReasoningSealed,
    Started,
    Stopped,
    StopReason,
    Text,
    Usage,
    UsageReported,
)
from routing.core.conversation import Protocol
from routing.core.failures import CallFailed
from routing.providers.base import Endpoint
from routing.providers.dialects.documents import Counts, dumps, object_of, parse_json, text_of
from routing.providers.dialects.tools import CallReader, ToolNames
from routing.providers.errors import ProviderFailed, classify_error_object, cut_off, unreadable
from routing.providers.sse import ServerEvent

STOP_REASONS: Mapping[str, StopReason] = {
    "STOP": StopReason.END,
    "MAX_TOKENS": StopReason.LENGTH,
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE"),
        StopReason.REFUSAL,
    ),
}
_KNOWN = frozenset({"text", "thought", "thoughtSignature", "functionCall"})


def read_reply(body: bytes, *, endpoint: Endpoint, tools: ToolNames) -> CallReply:
    """Read a whole reply of status 200. Raises ``CallFailed`` for an error inside, or for anything else."""
    try:
        document = parse_json(body)
    except ValueError:
        raise unreadable("the answer is not JSON", endpoint=endpoint) from None
    if not isinstance(document, dict):
        raise unreadable("the answer is no JSON object", endpoint=endpoint)
    reader = _Answer(tools, endpoint)
    events = reader.read(document)
    if not reader.has_stopped:
        raise unreadable("the answer has no candidates", endpoint=endpoint)
    return CallReply(Protocol.GEMINI, body, tuple(events))


class EventReader:
    """The codec of a streamed answer; see ``stream.Codec``."""

    is_done = False

    def __init__(self, *, endpoint: Endpoint, tools: ToolNames) -> None:
        self._endpoint = endpoint
        self._answer = _Answer(tools, endpoint)

    def read(self, event: ServerEvent) -> Frame | None:
        """The frame an event is. Raises ``CallFailed``."""
        data = event.data.strip()
        if not data or data.startswith(b":"):
            return None
        try:
            document = parse_json(data)
        except ValueError:
            if not event.is_terminated:
                raise cut_off("the connection was closed within an event", endpoint=self._endpoint) from None
            raise unreadable("an event of the answer is not JSON", endpoint=self._endpoint) from None
        if isinstance(document, list) and document:
            document = document[0]  # an error, as this vendor wraps it
        if not isinstance(document, dict):
            raise unreadable("an event of the answer is no JSON object", endpoint=self._endpoint)
        return Frame(event.raw, tuple(self._answer.read(document)))

    def fault_at_end(self) -> CallFailed | None:
        """A stream ends after the model said why it stopped."""
        if self._answer.has_stopped:
            return None
        return cut_off("the answer ended before the model stopped", endpoint=self._endpoint)


def read_usage(block: object, *, is_final: bool = True) -> Usage | None:
    """The normalised usage of ``usageMetadata``; ``None`` if it reports nothing.

    What tools that the vendor runs put into the prompt is counted beside it.
    """
    if not isinstance(block, dict) or block.get("promptTokenCount") is None:
        return None
    counts = Counts()
    prompt = counts.required(block.get("promptTokenCount")) + counts.optional(block.get("toolUsePromptTokenCount"))
    read = counts.optional(block.get("cachedContentTokenCount"))
    thoughts = counts.optional(block.get("thoughtsTokenCount"))
    output = counts.optional(block.get("candidatesTokenCount")) + thoughts
    if read > prompt:
        counts.are_whole, read = False, prompt
    return Usage(
        input=prompt - read,
        output=output,
        cache_read=read,
        reasoning=thoughts,
        coverage=Coverage.EXACT if counts.are_whole and is_final else Coverage.PARTIAL,
    )


class _Answer:
    """One answer, whole or in pieces. Calls come whole; where the vendor gives them no id they get one."""

    def __init__(self, tools: ToolNames, endpoint: Endpoint) -> None:
        self._calls = CallReader(tools)
        self._endpoint = endpoint
        self._reply_id = ""
        self._has_started = False
        self._count = 0
        self._urls: set[str] = set()
        self.has_stopped = False

    def read(self, document: Mapping[str, Any]) -> list[Event]:
        """The events of a document."""
        if document.get("error"):
            failure = classify_error_object(document["error"], endpoint=self._endpoint)
            raise ProviderFailed(failure, provider=self._endpoint.provider)
        events: list[Event] = []
        if not self._has_started:
            self._has_started = True
            self._reply_id = text_of(document.get("responseId"))
            events.append(Started(self._reply_id, text_of(document.get("modelVersion"))))
        candidates = document.get("candidates")
        for candidate in candidates[:1] if isinstance(candidates, list) else []:
            events += self._candidate(object_of(candidate))
        if object_of(document.get("promptFeedback")).get("blockReason"):
            self.has_stopped = True
            events.append(Stopped(StopReason.REFUSAL))
        usage = read_usage(document.get("usageMetadata"), is_final=self.has_stopped)
        return events if usage is None else [*events, UsageReported(usage)]

    def _candidate(self, candidate: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        parts = object_of(candidate.get("content")).get("parts")
        for part in parts if isinstance(parts, list) else []:
            events += self._part(object_of(part))
        events += self._cited(candidate)
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason:
            self.has_stopped = True
            stopped = STOP_REASONS.get(reason, StopReason.OTHER)
            if stopped is StopReason.END and self._count:
                stopped = StopReason.TOOL_CALLS
            events.append(Stopped(stopped))
        return events

    def _cited(self, candidate: Mapping[str, Any]) -> list[Event]:
        """The pages that the vendor's search found, or that the model repeats: each once."""
        found = object_of(candidate.get("groundingMetadata")).get("groundingChunks")
        pages = [object_of(object_of(each).get("web")) for each in (found if isinstance(found, list) else [])]
        repeated = object_of(candidate.get("citationMetadata")).get("citationSources")
        pages += [object_of(each) for each in (repeated if isinstance(repeated, list) else [])]
        urls = {text_of(each.get("uri")): text_of(each.get("title")) for each in pages}
        new = [Cited(url, title) for url, title in urls.items() if url and url not in self._urls]
        self._urls |= urls.keys()
        return [*new]

    def _part(self, part: Mapping[str, Any]) -> list[Event]:
        text, called = text_of(part.get("text")), part.get("functionCall")
        events: list[Event] = []
        signature = text_of(part.get("thoughtSignature"))
        if signature:
            events.append(ReasoningSealed(signature, Protocol.GEMINI, is_hidden=True))
        if text:
            events.append(Reasoning(text) if part.get("thought") is True else Text(text))
        if isinstance(called, dict):
            events += self._call(called)
        return [*events, *(Opaque(kind) for kind in part if kind not in _KNOWN)]

    def _call(self, called: Mapping[str, Any]) -> list[Event]:
        index = self._count
        self._count += 1
        call_id = text_of(called.get("id")) or f"call_{self._reply_id or 'x'}_{index}"
        started = self._calls.start(index, call_id, text_of(called.get("name")))
        return [started, *self._calls.more(index, dumps(called.get("args") or {})), *self._calls.end(index)]
