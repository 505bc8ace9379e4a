"""Answers on the wire of OpenAI's responses, whole and streamed, as events.

A stream says everything twice: in pieces, and whole when an item is done. The pieces count; what a host sent only
whole is taken from there.
"""

from collections.abc import Mapping
from typing import Any

from routing.core.calls import (
    CallReply,
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
    ToolArguments,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from routing.core.conversation import Protocol, ToolKind
from routing.core.failures import CallFailed
from routing.providers.base import Endpoint
from routing.providers.dialects.documents import Counts, object_of, parse_json, text_of
from routing.providers.dialects.openai_chat_replies import cited_in
from routing.providers.dialects.tools import ToolNames
from routing.providers.errors import ProviderFailed, classify_error_object, cut_off, unreadable
from routing.providers.sse import ServerEvent

INCOMPLETE: Mapping[str, StopReason] = {
    "max_output_tokens": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSAL,
}
_CALLS = {"function_call": ("arguments", ToolKind.FUNCTION), "custom_tool_call": ("input", ToolKind.CUSTOM)}


def read_reply(body: bytes, *, endpoint: Endpoint, tools: ToolNames) -> CallReply:
    """Read a whole reply of status 200. Raises ``CallFailed`` for an error inside, or for anything else."""
    try:
        document = parse_json(body)
    except ValueError:
        raise unreadable("the answer is not JSON", endpoint=endpoint) from None
    if not isinstance(document, dict):
        raise unreadable("the answer is no JSON object", endpoint=endpoint)
    _raise_for_error(document, endpoint)
    output = document.get("output")
    if not isinstance(output, list):
        raise unreadable("the answer has no output", endpoint=endpoint)
    items = _Items(tools)
    events: list[Event] = [_started(document)]
    for index, item in enumerate(output):
        events += items.done(index, object_of(item))
    events += items.end(document)
    return CallReply(Protocol.OPENAI_RESPONSES, body, tuple(events))


class EventReader:
    """The codec of a streamed answer; see ``stream.Codec``."""

    def __init__(self, *, endpoint: Endpoint, tools: ToolNames) -> None:
        self._endpoint = endpoint
        self._items = _Items(tools)
        self.is_done = False

    def read(self, event: ServerEvent) -> Frame | None:
        """The frame an event is. Raises ``CallFailed``."""
        data = event.data.strip()
        if not data or data.startswith(b":") or data == b"[DONE]":
            return None
        try:
            document = parse_json(data)
        except ValueError:
            if not event.is_terminated:
                raise cut_off("the connection was closed within an event", endpoint=self._endpoint) from None
            raise unreadable("an event of the answer is not JSON", endpoint=self._endpoint) from None
        if not isinstance(document, dict):
            raise unreadable("an event of the answer is no JSON object", endpoint=self._endpoint)
        return Frame(event.raw, tuple(self._events(text_of(document.get("type")) or event.name, document)))

    def fault_at_end(self) -> CallFailed | None:
        """A stream ends with the whole response, and no other way."""
        return cut_off("the answer ended before the response was complete", endpoint=self._endpoint)

    def _events(self, kind: str, document: Mapping[str, Any]) -> list[Event]:
        index = document.get("output_index")
        number = index if type(index) is int else 0
        delta = text_of(document.get("delta"))
        items = self._items
        match kind:
            case "response.created":
                return [_started(object_of(document.get("response")))]
            case "response.output_item.added":
                return items.added(number, object_of(document.get("item")))
            case "response.output_text.delta":
                return items.piece(number, Text(delta))
            case "response.output_text.annotation.added":
                return cited_in([object_of(document.get("annotation"))])
            case "response.refusal.delta":
                return items.piece(number, Refusal(delta))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return items.piece(number, Reasoning(delta))
            case "response.reasoning_summary_part.added" if document.get("summary_index"):
                return items.piece(number, Reasoning("\n\n"))
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                return items.arguments(number, delta)
            case "response.output_item.done":
                return items.done(number, object_of(document.get("item")))
            case "response.completed" | "response.incomplete":
                self.is_done = True
                return items.end(object_of(document.get("response")))
            case "response.failed":
                raise _failed(object_of(document.get("response")).get("error"), self._endpoint)
            case "error":
                raise _failed(document.get("error") or document, self._endpoint)
        _raise_for_error(document, self._endpoint)
        return []


def read_usage(block: object) -> Usage | None:
    """The normalised usage of a ``usage`` member; ``None`` if it reports nothing. The vendor's input includes what was
    read from and written to the cache."""
    if not isinstance(block, dict) or (block.get("input_tokens") is None and block.get("output_tokens") is None):
        return None
    counts = Counts()
    prompt, output = counts.required(block.get("input_tokens")), counts.required(block.get("output_tokens"))
    details = object_of(block.get("input_tokens_details"))
    read, write = counts.optional(details.get("cached_tokens")), counts.optional(details.get("cache_write_tokens"))
    reasoning = counts.optional(object_of(block.get("output_tokens_details")).get("reasoning_tokens"))
    if read + write > prompt or reasoning > output:
        counts.are_whole = False
        read = min(read, prompt)
        write = min(write, prompt - read)
        reasoning = min(reasoning, output)
    return Usage(
        input=prompt - read - write,
        output=output,
        cache_read=read,
        cache_write=write,
        reasoning=reasoning,
        coverage=Coverage.EXACT if counts.are_whole else Coverage.PARTIAL,
    )


class _Items:
    """The output items of one answer, which may come in pieces. Tool calls are numbered in the order they begin in."""

    def __init__(self, tools: ToolNames) -> None:
        self._tools = tools
        self._calls: dict[int, int] = {}
        self._said: set[int] = set()
        self._refused = False

    def added(self, index: int, item: Mapping[str, Any]) -> list[Event]:
        """An item begins."""
        return self._start_call(index, item) if text_of(item.get("type")) in _CALLS else []

    def piece(self, index: int, event: Text | Refusal | Reasoning) -> list[Event]:
        """A piece of an item's text."""
        self._said.add(index)
        self._refused |= isinstance(event, Refusal)
        return [event] if event.text else []

    def arguments(self, index: int, fragment: str) -> list[Event]:
        """A piece of a call's arguments."""
        if index not in self._calls or not fragment:
            return []
        self._said.add(index)
        return [ToolArguments(self._calls[index], fragment)]

    def done(self, index: int, item: Mapping[str, Any]) -> list[Event]:
        """An item is complete; what was not said in pieces is said now."""
        kind = text_of(item.get("type"))
        if kind == "message":
            return [] if index in self._said else self._message(index, item)
        if kind == "reasoning":
            return self._reasoning(index, item)
        if kind in _CALLS:
            started = [] if index in self._calls else self._start_call(index, item)
            field, _ = _CALLS[kind]
            return [*started, *([] if index in self._said else self.arguments(index, text_of(item.get(field))))]
        return [Opaque(kind)]

    def end(self, response: Mapping[str, Any]) -> list[Event]:
        """The response is complete: why the model stopped, and what it used."""
        reason = StopReason.TOOL_CALLS if self._calls else StopReason.END
        if response.get("status") == "incomplete":
            why = text_of(object_of(response.get("incomplete_details")).get("reason"))
            reason = INCOMPLETE.get(why, StopReason.OTHER)
        if self._refused:
            reason = StopReason.REFUSAL
        usage = read_usage(response.get("usage"))
        reported = [] if usage is None else [UsageReported(usage, service_tier=text_of(response.get("service_tier")))]
        return [Stopped(reason), *reported]

    def _start_call(self, index: int, item: Mapping[str, Any]) -> list[Event]:
        number = self._calls[index] = len(self._calls)
        called = self._tools.of(text_of(item.get("name")))
        _, kind = _CALLS[text_of(item.get("type"))]
        namespace = text_of(item.get("namespace")) or called.namespace
        return [ToolCallStarted(number, text_of(item.get("call_id")), called.name, kind, namespace)]

    def _message(self, index: int, item: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        content = item.get("content")
        for part in content if isinstance(content, list) else []:
            part = object_of(part)
            if part.get("type") == "refusal":
                events += self.piece(index, Refusal(text_of(part.get("refusal"))))
            else:
                events += self.piece(index, Text(text_of(part.get("text"))))
                events += cited_in(map(object_of, _list(part, "annotations")))
        return events

    def _reasoning(self, index: int, item: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        if index not in self._said:
            texts = [
                text_of(object_of(each).get("text")) for each in (*_list(item, "summary"), *_list(item, "content"))
            ]
            joined = "\n\n".join(each for each in texts if each)
            events += self.piece(index, Reasoning(joined)) if joined else []
        sealed = text_of(item.get("encrypted_content"))
        if sealed:
            hidden = index not in self._said
            item_id = text_of(item.get("id"))
            events.append(ReasoningSealed(sealed, Protocol.OPENAI_RESPONSES, item_id, is_hidden=hidden))
        return events


def _list(item: Mapping[str, Any], member: str) -> list[Any]:
    value = item.get(member)
    return value if isinstance(value, list) else []


def _started(response: Mapping[str, Any]) -> Started:
    return Started(text_of(response.get("id")), text_of(response.get("model")))


def _raise_for_error(document: Mapping[str, Any], endpoint: Endpoint) -> None:
    if document.get("error") or document.get("status") == "failed":
        raise _failed(document.get("error"), endpoint)


def _failed(error: object, endpoint: Endpoint) -> ProviderFailed:
    return ProviderFailed(classify_error_object(error, endpoint=endpoint), provider=endpoint.provider)
