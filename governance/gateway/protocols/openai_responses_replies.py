"""OpenAI's responses, as callers read them: answers, events and errors out.

What a provider of the same protocol said is passed on as it is; what one of another said is written anew from its
events, as items: a message, a piece of reasoning, a call. Nothing is kept, so ids lead nowhere.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson

from governance.gateway.errors import Problem
from governance.gateway.protocols.base import NOBODYS, Head, Untold
from governance.gateway.protocols.charges import charge, with_charge
from governance.gateway.protocols.openai_chat_replies import OpenAIChatWriter
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
from routing.core.conversation import Protocol, ToolKind
from routing.core.money import Money

INCOMPLETE: Mapping[StopReason, str] = {
    StopReason.LENGTH: "max_output_tokens",
    StopReason.REFUSAL: "content_filter",
}
"""Why an answer is not complete; a refusal in words is complete all the same."""

_CHAT = OpenAIChatWriter()


class OpenAIResponsesWriter:
    """See ``base.Writer``."""

    protocol = Protocol.OPENAI_RESPONSES
    has_refusals = True
    untold: Untold = MappingProxyType({Opaque: NOBODYS})

    def problem(self, problem: Problem) -> bytes:
        return _CHAT.problem(problem)  # one vendor, one envelope

    def problem_frame(self, problem: Problem) -> bytes:
        """A response that failed: clients of this protocol look for that, and pass over an ``error`` event."""
        error = {"code": problem.code or problem.kind, "message": problem.message}
        response = {"object": "response", "status": "failed", "error": error, "output": []}
        return _framed({"type": "response.failed", "response": response})

    def frame(self, frame: Frame, *, head: Head, cost: Money | None) -> bytes:
        """The provider's bytes. The event that ends the response says besides what the call cost."""
        if cost is None or not any(isinstance(event, Stopped) for event in frame.events):
            return frame.raw
        return with_charge(frame.raw, head=head, cost=cost)

    def refusal(self, message: str, *, head: Head, stream: bool) -> bytes:
        events: list[Event] = [Refusal(message), Stopped(StopReason.REFUSAL)]
        if not stream:
            return self.reply(events, head=head)
        writer = self.stream(head)
        return writer.write(events) + writer.end(None)

    def reply(self, events: Sequence[Event], *, head: Head) -> bytes:
        writer = EventWriter(head)
        writer.write(events)
        writer.end(None)
        return orjson.dumps(writer.response)

    def stream(self, head: Head) -> "EventWriter":
        return EventWriter(head)


class _Item:
    """An item of the output that is being written."""

    def __init__(self, kind: str, document: dict[str, Any]) -> None:
        self.kind = kind
        self.document = document
        self.text = ""
        self.annotations: list[dict[str, Any]] = []


class EventWriter:
    """See ``base.StreamWriter``. Texts and reasoning are done when something else begins, calls when all is said."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._number = 0
        self._items: list[_Item] = []
        self._open: int | None = None
        self._calls: dict[int, int] = {}
        self._stopped = StopReason.END
        self._has_begun = False
        self.response: dict[str, Any] = {
            "id": f"resp_{head.call}",
            "object": "response",
            "created_at": head.created,
            "status": "in_progress",
            "model": head.model,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "store": False,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": None,
        }

    def write(self, events: Sequence[Event]) -> bytes:
        return b"".join(map(self._event, events))

    def end(self, cost: Money | None) -> bytes:
        pieces = [self._begin(), self._close()]
        pieces += [self._finish(at) for at in self._calls.values()]
        said_no = any(item.kind == "refusal" for item in self._items)
        why = None if self._stopped is StopReason.REFUSAL and said_no else INCOMPLETE.get(self._stopped)
        status = "completed" if why is None else "incomplete"
        self.response |= {
            "status": status,
            "incomplete_details": None if why is None else {"reason": why},
            "output": [item.document for item in self._items],
        }
        charged = {} if cost is None else {"signalbox": charge(self._head, cost)}
        return b"".join([*pieces, self._emit(f"response.{status}", response=self.response, **charged)])

    def _event(self, event: Event) -> bytes:
        match event:
            case Started(reply_id, model):
                self.response["model"] = model or self.response["model"]
                self.response["id"] = reply_id or self.response["id"]
            case Text(text):
                return self._say("text", text)
            case Refusal(text):
                return self._say("refusal", text)
            case Reasoning(text):
                return self._think(text)
            case ReasoningSealed():
                return self._seal(event)
            case Cited():
                return self._cite(event)
            case ToolCallStarted():
                return self._start_call(event)
            case ToolArguments(index, fragment) if index in self._calls:
                return self._argue(self._calls[index], fragment)
            case Stopped(reason=reason):
                self._stopped = reason
            case UsageReported(usage=usage):
                self.response["usage"] = _usage(usage)
        return b""

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        created = self._emit("response.created", response=self.response)
        return created + self._emit("response.in_progress", response=self.response)

    def _say(self, kind: str, text: str) -> bytes:
        started = b""
        if self._open is None or self._items[self._open].kind != kind:
            item = {
                "type": "message",
                "id": self._id("msg"),
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
            started = self._start(kind, item)
            started += self._emit("response.content_part.added", **self._place(), content_index=0, part=_part(kind, ""))
        item_now = self._items[-1]
        item_now.text += text
        name = "output_text" if kind == "text" else "refusal"
        logprobs: dict[str, Any] = {"logprobs": []} if kind == "text" else {}
        return started + self._emit(f"response.{name}.delta", **self._place(), content_index=0, delta=text, **logprobs)

    def _cite(self, cited: Cited) -> bytes:
        """A page that the text rests on; a text begins where none is being written."""
        is_saying = self._open is not None and self._items[self._open].kind == "text"
        started = b"" if is_saying else self._say("text", "")
        item = self._items[-1]
        place = {"start_index": 0, "end_index": len(item.text)}
        item.annotations.append({"type": "url_citation", "url": cited.url, "title": cited.title, **place})
        return started + self._emit(
            "response.output_text.annotation.added",
            **self._place(),
            content_index=0,
            annotation_index=len(item.annotations) - 1,
            annotation=item.annotations[-1],
        )

    def _think(self, text: str) -> bytes:
        started = b""
        if self._open is None or self._items[self._open].kind != "reasoning":
            started = self._start("reasoning", {"type": "reasoning", "id": self._id("rs"), "summary": []})
            part = {"type": "summary_text", "text": ""}
            started += self._emit("response.reasoning_summary_part.added", **self._place(), summary_index=0, part=part)
        self._items[-1].text += text
        return started + self._emit(
            "response.reasoning_summary_text.delta", **self._place(), summary_index=0, delta=text
        )

    def _seal(self, event: ReasoningSealed) -> bytes:
        kept = mark(event, spoken=Protocol.OPENAI_RESPONSES)
        started = b""
        if event.is_hidden or self._open is None or self._items[self._open].kind != "reasoning":
            started = self._start("reasoning", {"type": "reasoning", "id": self._id("rs"), "summary": []})
        self._items[-1].document["encrypted_content"] = kept
        return started + self._close()

    def _start_call(self, event: ToolCallStarted) -> bytes:
        is_custom = event.kind is ToolKind.CUSTOM
        item = {
            "type": "custom_tool_call" if is_custom else "function_call",
            "id": self._id("ctc" if is_custom else "fc"),
            "call_id": event.call_id,
            "name": event.name,
            "input" if is_custom else "arguments": "",
            "status": "in_progress",
        }
        if event.namespace:
            item["namespace"] = event.namespace
        started = self._start("call", item)
        self._calls[event.index] = len(self._items) - 1
        self._open = None  # stays open beside whatever comes
        return started

    def _argue(self, at: int, fragment: str) -> bytes:
        item = self._items[at]
        item.text += fragment
        is_custom = item.document["type"] == "custom_tool_call"
        name = "custom_tool_call_input" if is_custom else "function_call_arguments"
        return self._emit(f"response.{name}.delta", **self._place(at), delta=fragment)

    def _start(self, kind: str, document: dict[str, Any]) -> bytes:
        closed = self._begin() + self._close()
        self._items.append(_Item(kind, document))
        self._open = len(self._items) - 1
        return closed + self._emit("response.output_item.added", output_index=self._open, item=document)

    def _close(self) -> bytes:
        """Finish the text or reasoning that is open."""
        at, self._open = self._open, None
        return b"" if at is None else self._finish(at)

    def _finish(self, at: int) -> bytes:
        """An item is complete: its text once more, whole, and then the item."""
        item, place = self._items[at], self._place(at)
        document, text = item.document, item.text
        said = b""
        match item.kind:
            case "text" | "refusal":
                document["content"] = [_part(item.kind, text, item.annotations)]
                name = "output_text" if item.kind == "text" else "refusal"
                whole = {"text": text, "logprobs": []} if item.kind == "text" else {"refusal": text}
                said = self._emit(f"response.{name}.done", **place, content_index=0, **whole)
                part = document["content"][0]
                said += self._emit("response.content_part.done", **place, content_index=0, part=part)
            case "reasoning" if text:
                document["summary"] = [{"type": "summary_text", "text": text}]
                said = self._emit("response.reasoning_summary_text.done", **place, summary_index=0, text=text)
                part = document["summary"][0]
                said += self._emit("response.reasoning_summary_part.done", **place, summary_index=0, part=part)
            case "call" if document["type"] == "custom_tool_call":
                document["input"] = text
                said = self._emit("response.custom_tool_call_input.done", **place, input=text)
            case "call":
                document["arguments"] = text
                name = document["name"]
                said = self._emit("response.function_call_arguments.done", **place, name=name, arguments=text)
        if item.kind != "reasoning":
            document["status"] = "completed"
        return said + self._emit("response.output_item.done", output_index=at, item=document)

    def _place(self, at: int | None = None) -> dict[str, Any]:
        index = len(self._items) - 1 if at is None else at
        return {"item_id": self._items[index].document["id"], "output_index": index}

    def _id(self, kind: str) -> str:
        return f"{kind}_{self._head.call}_{len(self._items)}"

    def _emit(self, kind: str, **members: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return _framed({"type": kind, "sequence_number": number, **members})


def _part(kind: str, text: str, annotations: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    if kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [*annotations], "logprobs": []}


def _usage(usage: Usage) -> dict[str, Any]:
    """Usage as this protocol counts it: the input with what was read from and written to caches."""
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.output,
    }


def _framed(document: Any) -> bytes:
    return f"event: {document['type']}\ndata: ".encode() + orjson.dumps(document) + b"\n\n"
