"""Anthropic's messages, as callers read them: answers, events and errors out.

What a provider of the same protocol said is passed on as it is; what one of another said is written anew from its
events: one block at a time, in the order in which they came.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import orjson

from governance.gateway.errors import Problem
from governance.gateway.protocols.base import NOBODYS, Head, Untold
from governance.gateway.protocols.charges import charge, with_charge
from governance.gateway.protocols.seals import mark
from routing.core.calls import (
    Cited,
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
from routing.core.conversation import Protocol
from routing.core.money import Money

STOP_REASONS: Mapping[StopReason, str] = {
    StopReason.END: "end_turn",
    StopReason.STOP_TEXT: "stop_sequence",
    StopReason.LENGTH: "max_tokens",
    StopReason.TOOL_CALLS: "tool_use",
    StopReason.REFUSAL: "refusal",
    StopReason.OTHER: "end_turn",
}

ERROR_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}
"""The vendor's word for a status; ``api_error`` for those above 500, ``invalid_request_error`` for the rest."""

_WORDS = (Text, Refusal, Reasoning, ReasoningSealed)
_NO_CALL = -1  # where words wait
_THOUGHT: Mapping[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
_UNSAID = Usage(0, 0)  # what is not reported, to clients that read these figures without asking whether they are there


class AnthropicWriter:
    """See ``base.Writer``."""

    protocol = Protocol.ANTHROPIC
    has_refusals = True
    untold: Untold = MappingProxyType({Cited: "a page is cited by the vendor's own search", Opaque: NOBODYS})

    def problem(self, problem: Problem) -> bytes:
        return orjson.dumps(_error(problem))

    def problem_frame(self, problem: Problem) -> bytes:
        return _framed(_error(problem))

    def frame(self, frame: Frame, *, head: Head, cost: Money | None) -> bytes:
        """The provider's bytes. The event with the final usage says besides what the call cost."""
        is_last = any(isinstance(event, Stopped) for event in frame.events)
        if cost is None or not is_last or not any(isinstance(event, UsageReported) for event in frame.events):
            return frame.raw
        return with_charge(frame.raw, head=head, cost=cost)

    def refusal(self, message: str, *, head: Head, stream: bool) -> bytes:
        events: list[Event] = [Refusal(message), Stopped(StopReason.REFUSAL)]
        if not stream:
            return self.reply(events, head=head)
        writer = self.stream(head)
        return writer.write(events) + writer.end(None)

    def reply(self, events: Sequence[Event], *, head: Head) -> bytes:
        said = _Said(events, head)
        message = _message(head, said.started, content=said.content())
        stopped, usage = said.stopped, said.usage
        return orjson.dumps({**message, **_stop(stopped), "usage": _usage(usage or _UNSAID)})

    def stream(self, head: Head) -> "EventWriter":
        return EventWriter(head)


class EventWriter:
    """See ``base.StreamWriter``. Blocks do not overlap here, and nobody says when a call is complete, so whatever comes
    after the first call waits for the end."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._started: Started | None = None
        self._has_begun = False
        self._index = -1
        self._open = ""
        self._call: int | None = None
        self._waiting: dict[int, list[Event]] = {}
        self._stopped = Stopped(StopReason.END)
        self._usage: Usage | None = None

    def write(self, events: Sequence[Event]) -> bytes:
        return b"".join(map(self._event, events))

    def end(self, cost: Money | None) -> bytes:
        pieces = [self._begin(), self._close_all()]
        delta: dict[str, Any] = {"type": "message_delta", "delta": _stop(self._stopped)}
        delta["usage"] = _usage(self._usage or _UNSAID)
        if cost is not None:
            delta["signalbox"] = charge(self._head, cost)
        return b"".join([*pieces, _framed(delta), _framed({"type": "message_stop"})])

    def _event(self, event: Event) -> bytes:
        if self._call is not None and isinstance(event, _WORDS):
            self._waiting.setdefault(_NO_CALL, []).append(event)
            return b""
        match event:
            case Started():
                self._started = event
            case Text(text) | Refusal(text):
                return self._say("text", {"type": "text", "text": ""}, {"type": "text_delta", "text": text})
            case Reasoning(text) if self._head.tells_reasoning:
                return self._say("thinking", _THOUGHT, {"type": "thinking_delta", "thinking": text})
            case ReasoningSealed():
                return self._seal(event)
            case ToolCallStarted(index=index) | ToolArguments(index=index):
                return self._call_event(index, event)
            case Stopped():
                self._stopped = event
            case UsageReported(usage=usage):
                self._usage = usage
        return b""

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        message = {**_message(self._head, self._started, content=[]), "stop_reason": None, "stop_sequence": None}
        return _framed({"type": "message_start", "message": {**message, "usage": _usage(_UNSAID)}})

    def _say(self, kind: str, block: Mapping[str, Any], delta: dict[str, Any]) -> bytes:
        opened = b"" if self._open == kind else self._start(kind, block)
        return opened + self._delta(delta)

    def _seal(self, event: ReasoningSealed) -> bytes:
        kept = mark(event, spoken=Protocol.ANTHROPIC)
        if not event.is_hidden and (self._open == "thinking" or not self._head.tells_reasoning):
            return self._say("thinking", _THOUGHT, {"type": "signature_delta", "signature": kept}) + self._close()
        return self._start("redacted", {"type": "redacted_thinking", "data": kept}) + self._close()

    def _call_event(self, index: int, event: Event) -> bytes:
        if self._call is not None and index != self._call:
            self._waiting.setdefault(index, []).append(event)
            return b""
        if isinstance(event, ToolCallStarted):
            block = {"type": "tool_use", "id": event.call_id, "name": event.name, "input": {}}
            opened = self._start("call", block)
            self._call = index
            return opened
        if isinstance(event, ToolArguments) and self._open == "call":
            return self._delta({"type": "input_json_delta", "partial_json": event.fragment})
        return b""

    def _start(self, kind: str, block: Mapping[str, Any]) -> bytes:
        closed = self._begin() + self._close()
        self._index += 1
        self._open = kind
        return closed + _framed({"type": "content_block_start", "index": self._index, "content_block": block})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _framed({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self) -> bytes:
        if not self._open:
            return b""
        self._open, self._call = "", None
        return _framed({"type": "content_block_stop", "index": self._index})

    def _close_all(self) -> bytes:
        """Close what is open, and say what has waited for that."""
        pieces = [self._close()]
        for events in self._waiting.values():
            pieces += [self._event(each) for each in events]
            pieces.append(self._close())
        return b"".join(pieces)


class _Said:
    """A whole answer, gathered from its events."""

    def __init__(self, events: Sequence[Event], head: Head) -> None:
        self._tells_reasoning = head.tells_reasoning
        self.started: Started | None = None
        self.stopped = Stopped(StopReason.END)
        self.usage: Usage | None = None
        self._blocks: list[dict[str, Any]] = []
        self._calls: dict[int, dict[str, Any]] = {}
        for event in events:
            self._add(event)

    def content(self) -> list[dict[str, Any]]:
        return [
            {**block, "input": _input(block["input"])} if block["type"] == "tool_use" else block
            for block in self._blocks
        ]

    def _add(self, event: Event) -> None:
        match event:
            case Started():
                self.started = event
            case Text(text) | Refusal(text):
                self._join("text", "text", text)
            case Reasoning(text) if self._tells_reasoning:
                self._join("thinking", "thinking", text, signature="")
            case ReasoningSealed(is_hidden=hidden):
                kept = mark(event, spoken=Protocol.ANTHROPIC)
                if not hidden and not self._tells_reasoning:
                    self._blocks.append({**_THOUGHT, "signature": kept})
                elif hidden or not self._blocks or self._blocks[-1]["type"] != "thinking":
                    self._blocks.append({"type": "redacted_thinking", "data": kept})
                else:
                    self._blocks[-1]["signature"] = kept
            case ToolCallStarted(index=index, call_id=call_id, name=name):
                self._calls[index] = {"type": "tool_use", "id": call_id, "name": name, "input": ""}
                self._blocks.append(self._calls[index])
            case ToolArguments(index, fragment) if index in self._calls:
                self._calls[index]["input"] += fragment
            case Stopped():
                self.stopped = event
            case UsageReported(usage=usage):
                self.usage = usage

    def _join(self, kind: str, field: str, text: str, **members: str) -> None:
        last = self._blocks[-1] if self._blocks else None
        if last is None or last["type"] != kind or last.get("signature"):
            self._blocks.append({"type": kind, field: text, **members})
        else:
            last[field] += text


def write_models(names: Mapping[str, int]) -> bytes:
    """The list of names a caller may ask for."""
    data = [_listed(name, created) for name, created in names.items()]
    ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
    return orjson.dumps({"data": data, "has_more": False, **ends})


def write_model(name: str, created: int) -> bytes:
    """One entry of that list."""
    return orjson.dumps(_listed(name, created))


def write_count(tokens: int) -> bytes:
    """How many tokens a prompt has."""
    return orjson.dumps({"input_tokens": tokens})


def _listed(name: str, created: int) -> dict[str, Any]:
    moment = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
    return {"type": "model", "id": name, "display_name": name, "created_at": moment}


def _message(head: Head, started: Started | None, *, content: list[dict[str, Any]]) -> dict[str, Any]:
    reply_id = started.reply_id if started is not None and started.reply_id else f"msg_{head.call}"
    model = started.model if started is not None and started.model else head.model
    return {"id": reply_id, "type": "message", "role": "assistant", "model": model, "content": content}


def _stop(stopped: Stopped) -> dict[str, Any]:
    return {"stop_reason": STOP_REASONS[stopped.reason], "stop_sequence": stopped.text or None}


def _usage(usage: Usage) -> dict[str, Any]:
    """Usage as this protocol counts it: what was read from and written to caches beside the input."""
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }


def _input(arguments: str) -> dict[str, Any]:
    """A call's arguments as the object that the protocol wants; what is none is kept as it is, under ``raw``."""
    try:
        value = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return {"raw": arguments}
    return value if isinstance(value, dict) else {"raw": arguments}


def _framed(document: Any) -> bytes:
    return f"event: {document['type']}\ndata: ".encode() + orjson.dumps(document) + b"\n\n"


def _error(problem: Problem) -> dict[str, Any]:
    kind = ERROR_TYPES.get(problem.status, "invalid_request_error" if problem.status < 500 else "api_error")
    error = {"type": kind, "message": problem.message, "code": problem.code or None, "param": problem.parameter or None}
    told = {name: value for name, value in error.items() if value is not None}
    return {"type": "error", "error": {**told, **({"details": problem.details} if problem.details else {})}}
