"""What a conversation with a model is made of, in no vendor's words: messages, their parts, tools and choices.

A value here is either understood or named: what is not understood is an :class:`OpaquePart` or a tool of kind
``HOSTED``, which only the protocol it came in by can carry on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Protocol(StrEnum):
    """A wire protocol that callers speak to us, or that we speak to a provider."""

    OPENAI_CHAT = "openai_chat"
    OPENAI_RESPONSES = "openai_responses"
    OPENAI_COMPLETIONS = "openai_completions"
    OPENAI_EMBEDDINGS = "openai_embeddings"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    GEMINI_EMBEDDINGS = "gemini_embeddings"
    OLLAMA = "ollama"
    OLLAMA_EMBEDDINGS = "ollama_embeddings"


class Role(StrEnum):
    """Who said a message."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


INSTRUCTING = frozenset({Role.SYSTEM, Role.DEVELOPER})
"""The roles whose messages instruct the model instead of talking to it."""


class CacheMark(StrEnum):
    """A wish that the provider keeps the prompt up to here in its cache, and for how long."""

    SHORT = "5m"
    LONG = "1h"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Plain text inside a message."""

    text: str
    mark: CacheMark | None = None


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image, by link or as a data URL; ``detail`` is how closely the model should look, empty if not said."""

    url: str
    detail: str = ""
    mark: CacheMark | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """A document, by link or as a data URL, with its name if it has one."""

    url: str
    name: str = ""
    mark: CacheMark | None = None


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """Reasoning of an earlier answer, handed back so that the model can go on from it.

    Attributes:
        text: what may be read of it; empty if it is sealed.
        signature: what the vendor sealed it with, without which the vendor does not take it back.
        issuer: whose signature it is; no other vendor can read it. ``None`` for reasoning nobody sealed.
        item: the vendor's id of it, where it has one.
        is_hidden: whether the vendor lets nobody read it, as opposed to leaving its text out.
    """

    text: str
    signature: str = ""
    issuer: Protocol | None = None
    item: str = ""
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """A part this installation carries without reading it (audio, files at a vendor, unknown kinds)."""

    kind: str


Part = TextPart | ImagePart | FilePart | ReasoningPart | OpaquePart


class ToolKind(StrEnum):
    """What a tool takes: a JSON object by a schema, free text, or whatever its vendor runs by itself."""

    FUNCTION = "function"
    CUSTOM = "custom"
    HOSTED = "hosted"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for: ``arguments`` is the JSON text (or the free text) exactly as the model wrote it."""

    call_id: str
    name: str
    arguments: str
    kind: ToolKind = ToolKind.FUNCTION
    namespace: str = ""
    mark: CacheMark | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its parts, the tool calls it makes, or the tool call it answers.

    ``has_failed`` says of a tool's answer that the tool did; ``name`` tells participants of one role apart.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    answers_call: str = ""
    has_failed: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool offered to the model.

    Attributes:
        name: what the model calls it; of a hosted tool, its kind.
        schema_bytes: the size of its definition on the wire.
        schema: the JSON schema of its arguments; never changed in place. ``None`` for no arguments.
        strict: whether arguments must obey the schema; ``None`` if not said.
        namespace: the group it belongs to; empty for none.
        grammar: what the free text it takes must look like, as OpenAI writes it: ``syntax`` and ``definition``.
    """

    name: str
    schema_bytes: int
    description: str = ""
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    strict: bool | None = None
    kind: ToolKind = ToolKind.FUNCTION
    namespace: str = ""
    mark: CacheMark | None = None
    grammar: Mapping[str, Any] | None = field(default=None, hash=False)


class ToolMode(StrEnum):
    """Whether the model has to call a tool."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """How freely the model chooses among tools; ``name`` is the one it has to call."""

    mode: ToolMode
    name: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """The shape demanded of the answer: JSON by a schema, or any JSON object where ``schema`` is ``None``."""

    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    name: str = ""
    description: str = ""
    strict: bool | None = None


class Effort(StrEnum):
    """How much reasoning is wanted, in words that vendors share."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class ReasoningWish:
    """What the request says about reasoning: an effort, a budget in tokens, or neither (as much as it takes).

    ``is_told`` says whether the answer is to hold its text, where there is one to tell.
    """

    effort: Effort | None = None
    budget: int | None = None
    is_told: bool = True

    @property
    def is_on(self) -> bool:
        """Whether reasoning is asked for, as opposed to turned off."""
        return self.effort is not Effort.NONE


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. ``None`` leaves it to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
