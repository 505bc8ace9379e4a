"""Answers on the wire of Anthropic's messages, whole and streamed, as events.

Usage is normalised here: the vendor's ``input_tokens`` leaves out what was read from and written to the cache, and its
output includes thinking. A stream reports in parts, each cumulative; the last figure of each counts.
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
    Refusal,
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
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.STOP_TEXT,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "tool_use": StopReason.TOOL_CALLS,
    "refusal": StopReason.REFUSAL,
}


def read_reply(body: bytes, *, endpoint: Endpoint, tools: ToolNames) -> CallReply:
    """Read a whole reply of status 200. Raises ``CallFailed`` for an error inside, or for anything else."""
    try:
        document = parse_json(body)
    except ValueError:
        raise unreadable("the answer is not JSON", endpoint=endpoint) from None
    if not isinstance(document, dict):
        raise unreadable("the answer is no JSON object", endpoint=endpoint)
    _raise_for_error(document, endpoint)
    content = document.get("content")
    if not isinstance(content, list):
        raise unreadable("the answer has no content", endpoint=endpoint)
    blocks = _Blocks(tools)
    events: list[Event] = [Started(text_of(document.get("id")), text_of(document.get("model")))]
    for index, block in enumerate(content):
        if not isinstance(block, dict):
            raise unreadable("a block of the answer is no JSON object", endpoint=endpoint)
        events += blocks.start(index, block)
        events += blocks.stop(index)
    events += _stop(document)
    usage = read_usage(document.get("usage"))
    if usage is not None:
        events.append(usage)
    return CallReply(Protocol.ANTHROPIC, body, tuple(events))


class EventReader:
    """The codec of a streamed answer; see ``stream.Codec``."""

    def __init__(self, *, endpoint: Endpoint, tools: ToolNames) -> None:
        self._endpoint = endpoint
        self._blocks = _Blocks(tools)
        self._usage: dict[str, Any] = {}
        self._has_stopped = False
        self._has_begun = False
        self.is_done = False

    def read(self, event: ServerEvent) -> Frame | None:
        """The frame an event is. Raises ``CallFailed``."""
        try:
            document = parse_json(event.data)
        except ValueError:
            return self._no_json(event)
        if not isinstance(document, dict):
            raise unreadable("an event of the answer is no JSON object", endpoint=self._endpoint)
        if event.name == "error":
            raise _failed(document.get("error") or document, self._endpoint)
        _raise_for_error(document, self._endpoint)
        return Frame(event.raw, tuple(self._events(text_of(document.get("type")), document)))

    def fault_at_end(self) -> CallFailed | None:
        """A stream may end without ``message_stop`` if the model said why it stopped."""
        if self._has_stopped:
            return None
        return cut_off("the answer ended before the model stopped", endpoint=self._endpoint)

    def _no_json(self, event: ServerEvent) -> Frame | None:
        if not event.data.strip() or event.data.lstrip().startswith(b":"):
            return None
        if not event.is_terminated:
            raise cut_off("the connection was closed within an event", endpoint=self._endpoint)
        raise unreadable("an event of the answer is not JSON", endpoint=self._endpoint)

    def _events(self, kind: str, document: Mapping[str, Any]) -> list[Event]:
        index = document.get("index")
        number = index if type(index) is int else 0
        match kind:
            case "message_start":
                self._has_begun = True
                message = object_of(document.get("message"))
                started = Started(text_of(message.get("id")), text_of(message.get("model")))
                return [started, *self._metered(message.get("usage"))]
            case "content_block_start":
                return self._blocks.start(number, object_of(document.get("content_block")))
            case "content_block_delta":
                return self._blocks.more(number, object_of(document.get("delta")))
            case "content_block_stop":
                return self._blocks.stop(number)
            case "message_delta":
                delta = object_of(document.get("delta"))
                self._has_stopped |= delta.get("stop_reason") is not None
                return [*_stop(delta), *self._metered(document.get("usage"))]
            case "message_stop":
                if not self._has_begun:
                    raise unreadable("the answer ended without any content", endpoint=self._endpoint)
                self.is_done = True
        return []

    def _metered(self, block: object) -> list[Event]:
        """Usage so far: until the model has stopped it is known in part only."""
        self._usage |= {name: value for name, value in object_of(block).items() if value is not None}
        usage = read_usage(self._usage, is_final=self._has_stopped)
        return [] if usage is None else [usage]


def read_usage(block: object, *, is_final: bool = True) -> UsageReported | None:
    """The normalised usage of a ``usage`` member; ``None`` if it reports nothing."""
    if not isinstance(block, dict) or (block.get("input_tokens") is None and block.get("output_tokens") is None):
        return None
    counts = Counts()
    prompt, output = counts.required(block.get("input_tokens")), counts.required(block.get("output_tokens"))
    read = counts.optional(block.get("cache_read_input_tokens"))
    write = counts.optional(block.get("cache_creation_input_tokens"))
    hour = counts.optional(object_of(block.get("cache_creation")).get("ephemeral_1h_input_tokens"))
    reasoning = counts.optional(object_of(block.get("output_tokens_details")).get("thinking_tokens"))
    if reasoning > output or hour > write:
        counts.are_whole, reasoning, hour = False, min(reasoning, output), min(hour, write)
    usage = Usage(
        input=prompt,
        output=output,
        cache_read=read,
        cache_write=write,
        cache_write_hour=hour,
        reasoning=reasoning,
        coverage=Coverage.EXACT if counts.are_whole and is_final else Coverage.PARTIAL,
    )
    is_fast = block.get("speed") == "fast"  # sold at a price of its own, as a tier is
    return UsageReported(usage, service_tier="fast" if is_fast else text_of(block.get("service_tier")))


class _Blocks:
    """The blocks of one answer, which may come in pieces. Tool calls are numbered in the order they begin in."""

    def __init__(self, tools: ToolNames) -> None:
        self._calls = CallReader(tools)
        self._number: dict[int, int] = {}
        self._unsaid: set[int] = set()

    def start(self, index: int, block: Mapping[str, Any]) -> list[Event]:
        match block.get("type"):
            case "text":
                citations = block.get("citations")
                cited = [each for one in citations for each in _cited(one)] if isinstance(citations, list) else []
                return [*_said(Text, block.get("text")), *cited]
            case "thinking":
                return [*_said(Reasoning, block.get("thinking")), *_sealed(block.get("signature"))]
            case "redacted_thinking":
                return [ReasoningSealed(text_of(block.get("data")), Protocol.ANTHROPIC, is_hidden=True)]
            case "tool_use":
                return self._start_call(index, block)
            case kind:
                return [Opaque(text_of(kind))]

    def more(self, index: int, delta: Mapping[str, Any]) -> list[Event]:
        match delta.get("type"):
            case "text_delta":
                return _said(Text, delta.get("text"))
            case "thinking_delta":
                return _said(Reasoning, delta.get("thinking"))
            case "signature_delta":
                return _sealed(delta.get("signature"))
            case "citations_delta":
                return _cited(delta.get("citation"))
            case "input_json_delta":
                fragment = text_of(delta.get("partial_json"))
                number = self._number.get(index)
                if not fragment or number is None:
                    return []
                self._unsaid.discard(index)
                return self._calls.more(number, fragment)
            case kind:
                return [Opaque(text_of(kind))]

    def stop(self, index: int) -> list[Event]:
        """A block is complete. A call without arguments is one with none: an empty object."""
        number = self._number.get(index)
        if number is None:
            return []
        nothing = self._calls.more(number, "{}") if index in self._unsaid else []
        self._unsaid.discard(index)
        return [*nothing, *self._calls.end(number)]

    def _start_call(self, index: int, block: Mapping[str, Any]) -> list[Event]:
        number = self._number[index] = len(self._number)
        started = self._calls.start(number, text_of(block.get("id")), text_of(block.get("name")))
        arguments = block.get("input")
        if not arguments:
            self._unsaid.add(index)
            return [started]
        return [started, *self._calls.more(number, dumps(arguments))]


def _said(kind: type[Text] | type[Reasoning], text: object) -> list[Event]:
    return [kind(text)] if isinstance(text, str) and text else []


def _cited(citation: object) -> list[Event]:
    """A page that was cited; a place in a document of the request has no address."""
    said = object_of(citation)
    url = text_of(said.get("url"))
    return [Cited(url, text_of(said.get("title"))) if url else Opaque("citations")]


def _sealed(signature: object) -> list[Event]:
    return [ReasoningSealed(signature, Protocol.ANTHROPIC)] if isinstance(signature, str) and signature else []


def _stop(holder: Mapping[str, Any]) -> list[Event]:
    """Why the model stopped, and the words with which it declined where it did."""
    reason = holder.get("stop_reason")
    if not isinstance(reason, str):
        return []
    stopped = Stopped(STOP_REASONS.get(reason, StopReason.OTHER), text=text_of(holder.get("stop_sequence")))
    words = text_of(object_of(holder.get("stop_details")).get("explanation"))
    return [Refusal(words), stopped] if words and stopped.reason is StopReason.REFUSAL else [stopped]


def _raise_for_error(document: Mapping[str, Any], endpoint: Endpoint) -> None:
    if document.get("type") == "error" or document.get("error"):
        raise _failed(document.get("error") or document, endpoint)


def _failed(error: object, endpoint: Endpoint) -> ProviderFailed:
    return ProviderFailed(classify_error_object(error, endpoint=endpoint), provider=endpoint.provider)
