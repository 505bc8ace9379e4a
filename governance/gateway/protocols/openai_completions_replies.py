"""OpenAI's legacy completions, as callers read them: answers and frames out.

A text and why it ended is all that a completion can say. Reasoning has no place in it and is not told.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import orjson

from governance.gateway.protocols.base import NOBODYS, Head, Untold
from governance.gateway.protocols.charges import charge
from governance.gateway.protocols.openai_chat_replies import (
    DONE,
    FINISH_REASONS,
    OpenAIChatWriter,
    framed,
    usage_of,
)
from routing.core.calls import (
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
from routing.core.money import Money


class OpenAICompletionsWriter(OpenAIChatWriter):
    """See ``base.Writer``; errors, and a provider's own frames, are those of a chat."""

    protocol = Protocol.OPENAI_COMPLETIONS
    untold: Untold = MappingProxyType(
        {
            **dict.fromkeys((Reasoning, ReasoningSealed, Cited), "a completion is a text, and why it ended"),
            **dict.fromkeys((ToolCallStarted, ToolArguments), "no tools can be offered"),
            Opaque: NOBODYS,
        }
    )

    def refusal(self, message: str, *, head: Head, stream: bool) -> bytes:
        events: list[Event] = [Refusal(message), Stopped(StopReason.REFUSAL)]
        if not stream:
            return self.reply(events, head=head)
        return CompletionWriter(head).write(events) + DONE

    def reply(self, events: Sequence[Event], *, head: Head) -> bytes:
        writer = CompletionWriter(head)
        texts: list[str] = []
        finish = "stop"
        for event in events:
            writer.note(event)
            match event:
                case Text(text) | Refusal(text):
                    texts.append(text)
                case Stopped(reason=reason):
                    finish = FINISH_REASONS[reason]
        usage = {} if writer.usage is None else {"usage": usage_of(writer.usage)}
        return orjson.dumps({**writer.completion("".join(texts), finish), **usage})

    def stream(self, head: Head) -> "CompletionWriter":
        return CompletionWriter(head)


class CompletionWriter:
    """See ``base.StreamWriter``."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._common: dict[str, Any] = {
            "id": f"cmpl-{head.call}",
            "object": "text_completion",
            "created": head.created,
            "model": head.model,
        }
        self.usage: Usage | None = None

    def note(self, event: Event) -> None:
        """Keep what an event says of the whole answer: who wrote it, and what was used."""
        if isinstance(event, Started):
            self._common["id"] = event.reply_id or self._common["id"]
            self._common["model"] = event.model or self._common["model"]
        elif isinstance(event, UsageReported):
            self.usage = event.usage

    def write(self, events: Sequence[Event]) -> bytes:
        return b"".join(map(self._event, events))

    def end(self, cost: Money | None) -> bytes:
        if self.usage is None or not self._head.wants_usage:
            return DONE
        chunk = {**self._common, "choices": [], "usage": usage_of(self.usage)}
        if cost is not None:
            chunk["signalbox"] = charge(self._head, cost)
        return framed(chunk) + DONE

    def completion(self, text: str, finish: str | None = None) -> dict[str, Any]:
        """A completion, or a piece of one."""
        choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}
        return {**self._common, "choices": [choice]}

    def _event(self, event: Event) -> bytes:
        self.note(event)
        match event:
            case Text(text) | Refusal(text):
                return framed(self.completion(text))
            case Stopped(reason=reason):
                return framed(self.completion("", FINISH_REASONS[reason]))
        return b""
