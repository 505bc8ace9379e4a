"""OpenAI's chat completions, as callers read them: answers, frames and errors out.

What a provider of the same protocol said is passed on as it is; what one of another said is written anew from its
events.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson

from governance.gateway.errors import Problem
from governance.gateway.protocols.base import NOBODYS, Head, StreamWriter, Untold
from governance.gateway.protocols.charges import charge, with_charge
from governance.gateway.protocols.reasoning_details import Details
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

FINISH_REASONS: Mapping[StopReason, str] = {
    StopReason.END: "stop",
    StopReason.STOP_TEXT: "stop",
    StopReason.LENGTH: "length",
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.REFUSAL: "content_filter",
    StopReason.OTHER: "stop",
}

DONE = b"data: [DONE]\n\n"


class OpenAIChatWriter:
    """See ``base.Writer``."""

    protocol = Protocol.OPENAI_CHAT
    has_refusals = True
    untold: Untold = MappingProxyType({Opaque: NOBODYS})

    def problem(self, problem: Problem) -> bytes:
        return orjson.dumps({"error": _error(problem)})

    def problem_frame(self, problem: Problem) -> bytes:
        return framed({"error": _error(problem)})

    def frame(self, frame: Frame, *, head: Head, cost: Money | None) -> bytes:
        """The provider's bytes. The usage frame says besides what the call cost."""
        if cost is None or not any(isinstance(event, UsageReported) for event in frame.events):
            return frame.raw
        return with_charge(frame.raw, head=head, cost=cost)

    def refusal(self, message: str, *, head: Head, stream: bool) -> bytes:
        if not stream:
            said = {"role": "assistant", "content": None, "refusal": message}
            return _completion(f"chatcmpl-{head.call}", head.model, head, said, "content_filter")
        writer = self.stream(head)
        return writer.write([Refusal(message), Stopped(StopReason.REFUSAL)]) + DONE

    def reply(self, events: Sequence[Event], *, head: Head) -> bytes:
        said = _Said(events)
        usage = {} if said.usage is None else {"usage": usage_of(said.usage)}
        reply_id, model = said.started.reply_id or f"chatcmpl-{head.call}", said.started.model or head.model
        return _completion(reply_id, model, head, said.message(), said.finish, **usage)

    def stream(self, head: Head) -> StreamWriter:
        return ChunkWriter(head)


class ChunkWriter:
    """See ``base.StreamWriter``."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._common: dict[str, Any] = {
            "id": f"chatcmpl-{head.call}",
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
        }
        self._has_begun = False
        self._details = Details()
        self._usage: Usage | None = None
        self._length = 0

    def write(self, events: Sequence[Event]) -> bytes:
        return b"".join(map(self._event, events))

    def end(self, cost: Money | None) -> bytes:
        usage = self._usage
        if usage is None or not self._head.wants_usage:
            return DONE
        chunk = {**self._common, "choices": [], "usage": usage_of(usage)}
        if cost is not None:
            chunk["signalbox"] = charge(self._head, cost)
        return framed(chunk) + DONE

    def _event(self, event: Event) -> bytes:
        match event:
            case Started(reply_id, model):
                self._common["id"] = reply_id or self._common["id"]
                self._common["model"] = model or self._common["model"]
                return b""
            case Text(text):
                self._length += len(text)
                return self._delta({"content": text})
            case Reasoning(text):
                self._details.add(text)
                return self._delta({"reasoning_content": text})
            case ReasoningSealed():
                return self._delta({"reasoning_details": [self._details.seal(event)]})
            case Refusal(text):
                return self._delta({"refusal": text})
            case Cited():
                return self._delta({"annotations": [annotation(event, self._length)]})
            case ToolCallStarted(index=index, call_id=call_id, name=name):
                function = {"name": name, "arguments": ""}
                call = {"index": index, "id": call_id, "type": "function", "function": function}
                return self._delta({"tool_calls": [call]})
            case ToolArguments(index, fragment):
                return self._delta({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]})
            case Stopped(reason=reason):
                return self._delta({}, FINISH_REASONS[reason])
            case UsageReported(usage=usage):
                self._usage = usage  # told once, at the end
        return b""

    def _delta(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        if not self._has_begun:
            self._has_begun = True
            delta = {"role": "assistant", **({} if delta else {"content": ""}), **delta}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return framed({**self._common, "choices": [choice]})


class _Said:
    """A whole answer, gathered from its events."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.started = Started("", "")
        self.usage: Usage | None = None
        self.finish = "stop"
        self._details = Details()
        self._sealed: list[dict[str, Any]] = []
        self._texts: dict[str, list[str]] = {"content": [], "reasoning_content": [], "refusal": []}
        self._calls: dict[int, dict[str, Any]] = {}
        self._cited: list[Cited] = []
        for event in events:
            self._add(event)

    def message(self) -> dict[str, Any]:
        joined = {name: "".join(texts) for name, texts in self._texts.items()}
        message: dict[str, Any] = {
            "role": "assistant",
            "content": joined["content"] or None,
            "refusal": joined["refusal"] or None,
        }
        if joined["reasoning_content"]:
            message["reasoning_content"] = joined["reasoning_content"]
        if self._cited:
            message["annotations"] = [annotation(each, len(joined["content"])) for each in self._cited]
        if self._sealed:
            message["reasoning_details"] = self._sealed
        if self._calls:
            message["tool_calls"] = list(self._calls.values())
        return message

    def _add(self, event: Event) -> None:
        match event:
            case Started():
                self.started = event
            case Text(text):
                self._texts["content"].append(text)
            case Reasoning(text):
                self._details.add(text)
                self._texts["reasoning_content"].append(text)
            case ReasoningSealed():
                self._sealed.append(self._details.seal(event))
            case Refusal(text):
                self._texts["refusal"].append(text)
            case Cited():
                self._cited.append(event)
            case ToolCallStarted(index=index, call_id=call_id, name=name):
                function = {"name": name, "arguments": ""}
                self._calls[index] = {"id": call_id, "type": "function", "function": function}
            case ToolArguments(index, fragment) if index in self._calls:
                self._calls[index]["function"]["arguments"] += fragment
            case Stopped(reason=reason):
                self.finish = FINISH_REASONS[reason]
            case UsageReported(usage=usage):
                self.usage = usage


def write_models(names: Mapping[str, int]) -> bytes:
    """The list of names a caller may ask for, each with the second it was made in."""
    return orjson.dumps({"object": "list", "data": [_listed(name, created) for name, created in names.items()]})


def write_model(name: str, created: int) -> bytes:
    """One entry of that list."""
    return orjson.dumps(_listed(name, created))


def _listed(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "signalbox"}


def _completion(reply_id: str, model: str, head: Head, message: Any, finish: str, **members: Any) -> bytes:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    document = {"id": reply_id, "object": "chat.completion", "created": head.created, "model": model}
    return orjson.dumps({**document, "choices": [choice], **members})


def annotation(cited: Cited, length: int) -> dict[str, Any]:
    """A page that the answer rests on, as one of all that was written so far: where exactly, vendors say in ways of
    their own."""
    citation = {"url": cited.url, "title": cited.title, "start_index": 0, "end_index": length}
    return {"type": "url_citation", "url_citation": citation}


def usage_of(usage: Usage) -> dict[str, Any]:
    """Usage as this protocol counts it: the prompt with what was read from and written to caches."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def framed(document: Any) -> bytes:
    """One frame of a stream."""
    return b"data: " + orjson.dumps(document) + b"\n\n"


def _error(problem: Problem) -> dict[str, Any]:
    return {
        "message": problem.message,
        "type": problem.kind,
        "param": problem.parameter or None,
        "code": problem.code or None,
        **({"details": problem.details} if problem.details else {}),
    }
