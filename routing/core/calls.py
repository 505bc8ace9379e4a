"""The canonical call: what every protocol is read into and every adapter writes from, and what comes back.

A protocol module or an adapter that cannot carry a field says so; nothing is dropped in silence. Where the
protocol in and the protocol out are the same, :class:`Original` travels along and its bytes are forwarded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Protocol(StrEnum):
    """A wire protocol that callers speak to us, or that we speak to a provider."""

    OPENAI_CHAT = "openai_chat"


class Role(StrEnum):
    """Who said a message."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Plain text inside a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image, by link or as a data URL."""

    url: str


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """A part this installation carries without reading it (audio, files, unknown kinds): ``kind`` names it."""

    kind: str


Part = TextPart | ImagePart | OpaquePart


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for: ``arguments`` is the JSON text exactly as the model wrote it."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its parts, the tool calls it makes, or the tool call it answers."""

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    answers_call: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool offered to the model: ``schema_bytes`` is the size of its definition on the wire."""

    name: str
    schema_bytes: int


@dataclass(frozen=True, slots=True)
class Original:
    """The request as it arrived.

    Attributes:
        protocol: the protocol it was written in.
        body: the bytes.
        document: the parsed body; never changed in place.
        canonical: whether writing ``document`` compactly gives ``body`` again, byte for byte. Then a changed
            copy can simply be written; otherwise the change has to be spliced into the bytes.
    """

    protocol: Protocol
    body: bytes
    document: Mapping[str, Any]
    canonical: bool


@dataclass(frozen=True, slots=True)
class CallRequest:
    """One call, in no vendor's words.

    Attributes:
        target: what the caller asked for: a configuration's identifier, or ``provider/model``.
        messages: the conversation, oldest first.
        tools: the tools offered.
        stream: whether the answer is wanted as it is written.
        wants_usage: whether the caller asked for usage in the stream.
        structured_output: whether an answer in a given shape is demanded.
        reasoning: whether the request turns reasoning on.
        prompt_caching: whether the request marks parts for caching.
        max_output: the most tokens the caller allows in the answer; ``None`` if not said.
        choices: how many answers are asked for at once.
        original: the request as it arrived.
    """

    target: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    stream: bool = False
    wants_usage: bool = False
    structured_output: bool = False
    reasoning: bool = False
    prompt_caching: bool = False
    max_output: int | None = None
    choices: int = 1
    original: Original | None = None


MAX_TOKENS = 10**9
"""The most tokens of one class that an answer can have; a provider that reports more is not believed."""


class Coverage(StrEnum):
    """How well a usage is known. Absent is never zero."""

    EXACT = "exact"
    PARTIAL = "partial"
    ESTIMATED = "estimated"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer, normalised: the parts do not overlap, but ``reasoning`` is a part of ``output``.

    Attributes:
        input: prompt tokens billed at the input rate: neither read from nor written to a cache.
        cache_read: prompt tokens read from the provider's cache.
        cache_write: prompt tokens written to the provider's cache.
        output: tokens generated, reasoning included.
        reasoning: the part of ``output`` spent on reasoning.
        coverage: how far the figures can be trusted.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    coverage: Coverage = Coverage.EXACT

    @property
    def is_credible(self) -> bool:
        """Whether the figures can be true at all."""
        counts = (self.input, self.output, self.cache_read, self.cache_write, self.reasoning)
        return min(counts) >= 0 and max(counts) <= MAX_TOKENS

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.input + self.cache_read + self.cache_write


class StopReason(StrEnum):
    """Why the model stopped."""

    END = "end"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    REFUSAL = "refusal"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Started:
    """The answer begins: the provider's id for it and the model it names."""

    reply_id: str
    model: str


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of visible reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model begins a tool call; ``index`` tells parallel calls apart."""

    index: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """A piece of a tool call's argument text."""

    index: int
    fragment: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The model stopped; of several answers asked for at once, it stopped writing the one that ``choice`` numbers."""

    reason: StopReason
    choice: int = 0


@dataclass(frozen=True, slots=True)
class UsageReported:
    """The provider reported usage. In a stream the last report counts."""

    usage: Usage


Event = Started | Text | Reasoning | ToolCallStarted | ToolArguments | Stopped | UsageReported

GENERATED = (Text, Reasoning, ToolCallStarted, ToolArguments)
"""The events that are content: the first of them is the first token."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a streamed answer: its bytes on the provider's wire, and what they say.

    ``hidden`` marks a frame the caller did not ask for (usage we asked for ourselves).
    """

    raw: bytes
    events: tuple[Event, ...] = ()
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class CallReply:
    """A whole answer: its bytes on the provider's wire, and what they say."""

    protocol: Protocol
    body: bytes
    events: Sequence[Event] = field(default=())

    @property
    def usage(self) -> Usage | None:
        """The last usage reported, or ``None``."""
        return last_usage(self.events)

    @property
    def stop(self) -> StopReason | None:
        """Why the model stopped, or ``None`` if the answer does not say."""
        return next((event.reason for event in reversed(self.events) if isinstance(event, Stopped)), None)


def last_usage(events: Sequence[Event]) -> Usage | None:
    """The last usage among events, or ``None``: the last report of a stream is the complete one."""
    return next((event.usage for event in reversed(events) if isinstance(event, UsageReported)), None)
