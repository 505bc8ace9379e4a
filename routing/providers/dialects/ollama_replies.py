"""Answers on the wire of Ollama's own API, whole and streamed, as events.

A stream is one JSON object a line, each with a piece of the message; the last one is ``done`` and has the counts. Calls
of tools come whole. The host counts the prompt with what it had in its cache, and thoughts as output.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from routing.core.calls import (
    CallReply,
    Coverage,
    Event,
    Frame,
    Reasoning,
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
from routing.providers.dialects.vectors import object_in
from routing.providers.errors import ProviderFailed, classify_error_object, cut_off, unreadable
from routing.providers.sse import ServerEvent

STOP_REASONS: Mapping[str, StopReason] = {"stop": StopReason.END, "length": StopReason.LENGTH}


def read_reply(body: bytes, *, endpoint: Endpoint, tools: ToolNames) -> CallReply:
    """Read a whole reply of status 200. Raises ``CallFailed`` for an error inside, or for anything else."""
    reader = _Answer(tools, endpoint)
    events = reader.read(object_in(body, endpoint=endpoint))
    if not reader.has_stopped:
        raise unreadable("the answer does not say that it is done", endpoint=endpoint)
    return CallReply(Protocol.OLLAMA, body, tuple(events))


class LineCodec:
    """The codec of a streamed answer; see ``stream.Codec``. The line that is ``done`` is the end mark."""

    def __init__(self, *, endpoint: Endpoint, tools: ToolNames) -> None:
        self._endpoint = endpoint
        self._answer = _Answer(tools, endpoint)

    @property
    def is_done(self) -> bool:
        """Whether the last line was read."""
        return self._answer.has_stopped

    def read(self, event: ServerEvent) -> Frame | None:
        """The frame a line is. Raises ``CallFailed``."""
        try:
            document = parse_json(event.data)
        except ValueError:
            if not event.is_terminated:
                raise cut_off("the connection was closed within a line", endpoint=self._endpoint) from None
            raise unreadable("a line of the answer is not JSON", endpoint=self._endpoint) from None
        if not isinstance(document, dict):
            raise unreadable("a line of the answer is no JSON object", endpoint=self._endpoint)
        return Frame(event.raw, tuple(self._answer.read(document)))

    def fault_at_end(self) -> CallFailed | None:
        """A stream that was not done is none."""
        return cut_off("the answer ended before the model stopped", endpoint=self._endpoint)


def raise_for_error(document: Mapping[str, Any], endpoint: Endpoint) -> None:
    """Raise for an error in place of an answer."""
    if document.get("error"):
        failure = classify_error_object(document["error"], endpoint=endpoint)
        raise ProviderFailed(failure, provider=endpoint.provider)


def read_usage(document: Mapping[str, Any]) -> Usage | None:
    """The usage that a last line reports; ``None`` if it reports nothing.

    A host that had the whole prompt in its cache may leave its count out, which then is not known.
    """
    prompt, output = document.get("prompt_eval_count"), document.get("eval_count")
    if prompt is None and output is None:
        return None
    counts = Counts()
    usage = Usage(input=counts.required(prompt), output=counts.required(output))
    return usage if counts.are_whole else Usage(usage.input, usage.output, coverage=Coverage.PARTIAL)


class _Answer:
    """One answer, whole or in pieces."""

    def __init__(self, tools: ToolNames, endpoint: Endpoint) -> None:
        self._calls = CallReader(tools)
        self._endpoint = endpoint
        self._has_started = False
        self._count = 0
        self.has_stopped = False

    def read(self, document: Mapping[str, Any]) -> list[Event]:
        """The events of a document."""
        raise_for_error(document, self._endpoint)
        message = document.get("message")
        if not isinstance(message, dict):
            raise unreadable("the answer has no message", endpoint=self._endpoint)
        events: list[Event] = []
        if not self._has_started:
            self._has_started = True
            events.append(Started("", text_of(document.get("model"))))
        thinking, content = text_of(message.get("thinking")), text_of(message.get("content"))
        if thinking:
            events.append(Reasoning(thinking))
        if content:
            events.append(Text(content))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            events += self._call(object_of(call))
        return [*events, *self._end(document)] if document.get("done") is True else events

    def _call(self, call: Mapping[str, Any]) -> list[Event]:
        """A call; one without an id, as older hosts send it, gets one that no other call of a conversation has."""
        called, index = object_of(call.get("function")), self._count
        self._count += 1
        call_id = text_of(call.get("id")) or f"call_{uuid4().hex}"
        started = self._calls.start(index, call_id, text_of(called.get("name")))
        return [started, *self._calls.more(index, dumps(called.get("arguments") or {})), *self._calls.end(index)]

    def _end(self, document: Mapping[str, Any]) -> list[Event]:
        self.has_stopped = True
        reason = STOP_REASONS.get(text_of(document.get("done_reason")) or "stop", StopReason.OTHER)
        if reason is StopReason.END and self._count:
            reason = StopReason.TOOL_CALLS
        usage = read_usage(document)
        return [Stopped(reason), *([] if usage is None else [UsageReported(usage)])]
