"""The canonical call: what every protocol is read into and every adapter writes from, and what comes back.

A protocol module or an adapter that cannot carry a field says so; nothing is dropped in silence. Where the
protocol in and the protocol out are the same, :class:`Original` travels along and its bytes are forwarded.
What a conversation is made of is in ``conversation``, what a request can ask for, by name, in ``features``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from routing.core.conversation import (
    Message,
    OutputFormat,
    Protocol,
    ReasoningWish,
    Sampling,
    Tool,
    ToolChoice,
    ToolKind,
)
from routing.core.embeddings import Embedded, EmbeddingWish, Input
from routing.core.money import Money


@dataclass(frozen=True, slots=True)
class Original:
    """The request as it arrived.

    Attributes:
        protocol: the protocol it was written in.
        body: the bytes, into which a change has to be spliced; ``None`` where writing ``document`` compactly gives
            them again, byte for byte. Then a changed copy is simply written, and the bytes are not kept besides.
        document: the parsed body; never changed in place.
        names: what the protocol calls each feature (a member of ``features.Feature``), for messages to the caller.
        betas: names of features of the protocol that the caller turned on by a header; they are a part of the request.
    """

    protocol: Protocol
    body: bytes | None
    document: Mapping[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)
    betas: str = ""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """One call, in no vendor's words.

    Attributes:
        target: what the caller asked for: a configuration's identifier, or ``provider/model``.
        messages: the conversation, oldest first.
        tools: the tools offered.
        stream: whether the answer is wanted as it is written.
        wants_usage: whether the caller asked for usage in the stream.
        structured_output: the shape demanded of the answer; ``None`` for free text.
        reasoning: what is said about reasoning; ``None`` if nothing is.
        prompt_caching: whether the request marks parts for caching.
        max_output: the most tokens the caller allows in the answer; ``None`` if not said.
        tool_choice: how freely the model chooses among tools; ``None`` if not said.
        parallel_calls: whether several tools may be called at once; ``None`` if not said.
        sampling: how tokens are drawn.
        stop: texts that end the answer.
        choices: how many answers are asked for at once.
        verbosity: how wordy the answer should be; empty if not said.
        user: the end user the caller names; empty if none.
        metadata: labels the caller wants kept at the provider.
        service_tier: the class of service asked for; empty if not said.
        cache_key: groups requests that share a prompt prefix, for the provider's cache; empty if none.
        prompts: what is to be written on from, as legacy completions do; a single text is the one message as well.
            Empty where a conversation is to be answered.
        embedding: what is to be embedded; ``None`` where an answer is wanted. There are no messages then.
        uncarried: fields of the original that nothing above holds, in the caller's words. Only the protocol the
            request came in by can carry them.
        original: the request as it arrived.
    """

    target: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    stream: bool = False
    wants_usage: bool = False
    structured_output: OutputFormat | None = None
    reasoning: ReasoningWish | None = None
    prompt_caching: bool = False
    max_output: int | None = None
    tool_choice: ToolChoice | None = None
    parallel_calls: bool | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    choices: int = 1
    verbosity: str = ""
    user: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    service_tier: str = ""
    cache_key: str = ""
    prompts: tuple[Input, ...] = ()
    embedding: EmbeddingWish | None = None
    uncarried: tuple[str, ...] = ()
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
        cache_write_hour: the part of ``cache_write`` that is kept for an hour, where the provider sells that apart.
        output: tokens generated, reasoning included.
        reasoning: the part of ``output`` spent on reasoning.
        coverage: how far the figures can be trusted.
    """

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    cache_write_hour: int = 0
    reasoning: int = 0
    coverage: Coverage = Coverage.EXACT

    @property
    def is_credible(self) -> bool:
        """Whether the figures can be true at all."""
        counts = (
            self.input, self.output, self.cache_read, self.cache_write, self.cache_write_hour, self.reasoning,
        )  # fmt: skip
        return min(counts) >= 0 and max(counts) <= MAX_TOKENS

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.input + self.cache_read + self.cache_write


class StopReason(StrEnum):
    """Why the model stopped."""

    END = "end"
    STOP_TEXT = "stop_text"
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
class ReasoningSealed:
    """The end of a piece of reasoning: the signature of the vendor it can be handed back to.

    ``item`` is the vendor's id of it, where it has one; ``is_hidden`` says that nothing of it may be read.
    """

    signature: str
    issuer: Protocol
    item: str = ""
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A piece of the words with which the model declines."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model begins a tool call; ``index`` tells parallel calls apart."""

    index: int
    call_id: str
    name: str
    kind: ToolKind = ToolKind.FUNCTION
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """A piece of a tool call's argument text."""

    index: int
    fragment: str


@dataclass(frozen=True, slots=True)
class Cited:
    """A page that the answer rests on; ``title`` is empty where nobody says it."""

    url: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something generated that has no canonical form (a hosted tool's result, audio): ``kind`` names it."""

    kind: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The model stopped; of several answers asked for at once, it stopped writing the one that ``choice`` numbers.

    ``text`` is the stop text it ran into, where the provider says which.
    """

    reason: StopReason
    choice: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class UsageReported:
    """The provider reported usage. In a stream the last report counts.

    ``cost`` is what the provider says it charges, ``service_tier`` the class of service it says it served.
    """

    usage: Usage
    cost: Money | None = None
    service_tier: str = ""


Event = (
    Started
    | Text
    | Reasoning
    | ReasoningSealed
    | Refusal
    | ToolCallStarted
    | ToolArguments
    | Embedded
    | Cited
    | Opaque
    | Stopped
    | UsageReported
)

GENERATED = (Text, Reasoning, ReasoningSealed, Refusal, ToolCallStarted, ToolArguments, Opaque)
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
