"""What the views ask of a caller's protocol: how it spells answers, frames and errors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from governance.gateway.errors import Problem
from routing.core import conversation
from routing.core.calls import (
    CallReply,
    CallRequest,
    Cited,
    Event,
    Frame,
    Opaque,
    Reasoning,
    ReasoningSealed,
    ToolArguments,
    ToolCallStarted,
)
from routing.core.money import Money


class Asked(Protocol):
    """What of a call its answer speaks of; the gateway's context has it."""

    @property
    def call_id(self) -> UUID:
        """The call's id."""

    @property
    def started_at(self) -> datetime:
        """When it began."""

    @property
    def request(self) -> CallRequest:
        """What was asked."""


@dataclass(frozen=True, slots=True)
class Head:
    """What an answer says of itself: the call's id, the name that was asked for, the second it began in, and whether
    the caller wants usage in a stream and the text of reasoning."""

    call: str
    model: str
    created: int
    wants_usage: bool = True
    tells_reasoning: bool = True

    @classmethod
    def of(cls, context: Asked) -> "Head":
        """What the answer of a call says of itself."""
        return cls(
            call=str(context.call_id),
            model=context.request.target,
            created=int(context.started_at.timestamp()),
            wants_usage=context.request.wants_usage,
            tells_reasoning=context.request.reasoning is None or context.request.reasoning.is_told,
        )


class StreamWriter(Protocol):
    """Writes one streamed answer anew, from events of another protocol."""

    def write(self, events: Sequence[Event]) -> bytes:
        """What events are on this wire; empty where they are nothing."""

    def end(self, cost: Money | None) -> bytes:
        """The regular end, with what the answer cost where that is known."""


Untold = Mapping[type[Event], str]

_PLAIN = re.compile(r"\A[A-Za-z0-9_.-]{1,64}\Z")

NOBODYS = "no other protocol has it"
"""Why nobody is told of what has no canonical form."""


class Writer(Protocol):
    """One protocol's way of answering."""

    @property
    def protocol(self) -> conversation.Protocol:
        """The protocol."""

    @property
    def has_refusals(self) -> bool:
        """Whether an answer can say that the model declined; where none can, that is told as an error."""

    @property
    def untold(self) -> Untold:
        """What answers of other protocols can carry and this one has no place for, each with the reason."""

    def problem(self, problem: Problem) -> bytes:
        """The error envelope."""

    def problem_frame(self, problem: Problem) -> bytes:
        """An error inside a stream that has begun: a frame of its own, and no regular end after it."""

    def frame(self, frame: Frame, *, head: Head, cost: Money | None) -> bytes:
        """A frame of a provider of the same protocol."""

    def refusal(self, message: str, *, head: Head, stream: bool) -> bytes:
        """The answer of a model that declined by an error: the same refusal that others answer with."""

    def reply(self, events: Sequence[Event], *, head: Head) -> bytes:
        """A whole answer, written anew from another protocol's events."""

    def stream(self, head: Head) -> StreamWriter:
        """A streamed one."""


def whole_answer(reply: CallReply, *, writer: Writer, head: Head) -> bytes:
    """A whole answer for the caller: the provider's own bytes where it speaks the caller's protocol."""
    return reply.body if reply.protocol is writer.protocol else writer.reply(reply.events, head=head)


def untold_in(reply: CallReply, *, writer: Writer) -> tuple[str, ...]:
    """What a whole answer carries and the caller's protocol has no place for, by name; nothing where it is passed on.

    The names are words of ours, or a vendor's name for what only it has, as far as a header can hold that.
    """
    if reply.protocol is writer.protocol:
        return ()
    left_out = (event for event in reply.events if type(event) in writer.untold)
    return tuple(dict.fromkeys(map(_name, left_out)))


def _name(event: Event) -> str:
    return event.kind if isinstance(event, Opaque) and _PLAIN.match(event.kind) else NAMES[type(event)]


NAMES: Mapping[type[Event], str] = {
    Reasoning: "reasoning",
    ReasoningSealed: "signature",
    Cited: "citations",
    ToolCallStarted: "tool calls",
    ToolArguments: "tool calls",
    Opaque: "what only one vendor has",
}
"""What of an answer can be left out, in words."""
