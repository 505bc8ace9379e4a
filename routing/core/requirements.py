"""What a request is, measured before any model is chosen, and what it needs from whichever serves it.

Read once per call by the entry point; everything after it (rules, rates, reservation, telemetry) uses these
values. What the caller and the installation allow, as opposed to what the request needs, is in :class:`Limits`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from routing.core.calls import CallRequest
from routing.core.conversation import INSTRUCTING, FilePart, ImagePart, Message, OpaquePart, Part, Role, TextPart
from routing.core.embeddings import Input
from routing.core.money import Money, round_half_up
from routing.core.tiers import BudgetTier
from routing.core.vocabulary import OPERATION_CAPABILITY, Capability, Operation, ServiceTier

BYTES_PER_TOKEN = 4
"""A token is taken as four bytes of UTF-8, which on mixed text errs by about one per cent."""

_CARRIED_IMAGES = frozenset({"image", "input_image"})
_CARRIED_FILES = frozenset({"document", "file", "input_file", "input_audio", "container_upload", "video_url"})
"""What parts are called whose content is at the vendor, or in no form that is read here."""


class Shape(StrEnum):
    """The outline of a conversation."""

    SINGLE_TURN = "singleTurn"
    MULTI_TURN = "multiTurn"
    TOOL_ASSISTED = "toolAssisted"


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """Sizes of a request: messages, turns (messages that are not system), tools offered, bytes of message text,
    estimated prompt tokens (tool definitions and tool calls included), and the conversation's shape."""

    messages: int
    turns: int
    tools: int
    payload_bytes: int
    token_estimate: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a call needs.

    Attributes:
        operation: the one operation of the request; ``None`` only where a page asks without one.
        needs: capabilities besides the operation's own.
        prompt_tokens: estimated tokens of the prompt; ``None`` where nothing was measured.
        max_output: the most output tokens the caller allows; ``None`` if not said.
        at_once: estimated tokens that have to fit a context at once, where the prompt has parts that each stand alone;
            ``None`` where all of it has to.
        service_tier: the class of service asked for; another one may be served.
        choices: how many answers are asked for at once, each of which may be as long as ``max_output``.
        images: images of the prompt, which are in no estimate: a vendor's rule says how many tokens they are.
        files: documents, recordings and the like, of which as little is known.
    """

    operation: Operation | None = None
    needs: frozenset[str] = frozenset()
    prompt_tokens: int | None = None
    max_output: int | None = None
    at_once: int | None = None
    service_tier: ServiceTier = ServiceTier.STANDARD
    choices: int = 1
    images: int = 0
    files: int = 0

    @property
    def fitting_tokens(self) -> int | None:
        """Estimated tokens that have to fit a model's context; ``None`` where nothing was measured."""
        return self.prompt_tokens if self.at_once is None else self.at_once

    @property
    def capabilities(self) -> frozenset[str]:
        """Everything the call needs a model to declare, the operation's own capability included."""
        own = OPERATION_CAPABILITY[self.operation] if self.operation is not None else None
        return self.needs if own is None else self.needs | {own}


@dataclass(frozen=True, slots=True)
class Assumed:
    """Tokens taken for the most where nobody knows: of an answer for which neither the caller nor the model has a
    limit, of one image, and of one document or recording."""

    max_output: int = 4096
    image_tokens: int = 5_000
    file_tokens: int = 100_000


USUALLY_ASSUMED = Assumed()


@dataclass(frozen=True, slots=True)
class Limits:
    """What the caller's key, its budgets and its content allow. ``None`` and ``False`` mean "not limited".

    Attributes:
        allowed_models: identifiers of the models the key may use.
        budget_targets: one set of model identifiers for each of the strict tiers of which no more is known.
        tiers: the tiers of budgets that are in force: the strict ones, and an advisory one.
        internal_only: a content rule demands an internal destination.
        on_device: the caller demands that data stays on-device.
        regions: the regions the call may go to.
        cost_ceiling: the most the caller lets one call cost.
    """

    allowed_models: frozenset[str] | None = None
    budget_targets: tuple[frozenset[str], ...] = ()
    tiers: tuple[BudgetTier, ...] = ()
    internal_only: bool = False
    on_device: bool = False
    regions: frozenset[str] | None = None
    cost_ceiling: Money | None = None


UNLIMITED = Limits()


def operation_of(request: CallRequest) -> Operation:
    """The one operation of a request: embeddings, legacy completion, streamed with tools, streamed, with tools, with
    images, or chat."""
    if request.embedding is not None:
        return Operation.EMBED
    if request.prompts:
        return Operation.COMPLETE
    if request.stream:
        return Operation.STREAM_TOOLS if request.tools else Operation.STREAM
    if request.tools:
        return Operation.TOOLS
    return Operation.VISION if _has_images(request) else Operation.CHAT


def requirements_of(request: CallRequest, facts: RequestFacts) -> Requirements:
    """What the request needs: its operation, and the capabilities its fields demand besides."""
    if request.embedding is not None:
        return Requirements(
            operation=Operation.EMBED,
            prompt_tokens=facts.token_estimate,
            max_output=0,
            at_once=max(map(_input_tokens, request.embedding.inputs), default=None),
        )
    needs: set[str] = set()
    if request.tools:
        needs.add(Capability.TOOLS)
    if request.structured_output is not None:
        needs.add(Capability.STRUCTURED_OUTPUT)
    if request.reasoning is not None and request.reasoning.is_on:
        needs.add(Capability.REASONING)
    if request.prompt_caching:
        needs.add(Capability.PROMPT_CACHING)
    if _has_images(request):
        needs.add(Capability.VISION)
    return Requirements(
        operation=operation_of(request),
        needs=frozenset(needs),
        prompt_tokens=facts.token_estimate,
        max_output=request.max_output,
        at_once=max(map(_input_tokens, request.prompts), default=None),
        service_tier=ServiceTier.named(request.service_tier),
        choices=request.choices,
        images=sum(_is_image(part) for part in _parts(request)),
        files=sum(_is_file(part) for part in _parts(request)),
    )


def measure(request: CallRequest) -> RequestFacts:
    """Measure a request. Only text counts as payload; images, audio and files have no size in tokens here."""
    if request.embedding is not None:
        return _measure_inputs(request.embedding.inputs)
    if request.prompts:
        return _measure_inputs(request.prompts)
    payload = calls = turns = 0
    assisted = bool(request.tools)
    for message in request.messages:
        payload += _text_bytes(message)
        if message.role not in INSTRUCTING:
            turns += 1
        if message.tool_calls:
            calls += sum(_bytes(call.name) + _bytes(call.arguments) for call in message.tool_calls)
        if message.tool_calls or message.role is Role.TOOL:
            assisted = True
    read = payload + calls + sum(tool.schema_bytes for tool in request.tools)
    shape = Shape.MULTI_TURN if turns > 1 else Shape.SINGLE_TURN
    return RequestFacts(
        messages=len(request.messages),
        turns=turns,
        tools=len(request.tools),
        payload_bytes=payload,
        token_estimate=_tokens(read),
        shape=Shape.TOOL_ASSISTED if assisted else shape,
    )


@dataclass(frozen=True, slots=True)
class Complexity:
    """How involved a call was for the model that served it: 0 to 100, and the share of its context in per cent
    (``None`` where the context is unknown; above 100 where the estimate overflows it)."""

    score: int
    context_percent: int | None


def complexity(facts: RequestFacts, *, context_length: int | None) -> Complexity:
    """Complexity of a call: 40 points for eight turns, 30 for five tools, 30 for a full context.

    Observed only; nothing routes on it. Each term saturates and is rounded half up on its own.
    """
    percent = None
    if context_length is not None and context_length > 0:
        percent = round_half_up(facts.token_estimate * 100, context_length)
    score = (
        round_half_up(40 * min(facts.turns, 8), 8)
        + round_half_up(30 * min(facts.tools, 5), 5)
        + round_half_up(30 * min(percent or 0, 100), 100)
    )
    return Complexity(score=score, context_percent=percent)


def _measure_inputs(inputs: Sequence[Input]) -> RequestFacts:
    """Inputs count as messages of one turn: none of them answers another."""
    payload = sum(_bytes(each) for each in inputs if isinstance(each, str))
    tokens = sum(len(each) for each in inputs if not isinstance(each, str))
    return RequestFacts(
        messages=len(inputs),
        turns=1,
        tools=0,
        payload_bytes=payload,
        token_estimate=_tokens(payload) + tokens,
        shape=Shape.SINGLE_TURN,
    )


def _input_tokens(each: Input) -> int:
    return _tokens(_bytes(each)) if isinstance(each, str) else len(each)


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def _has_images(request: CallRequest) -> bool:
    return any(isinstance(part, ImagePart) for part in _parts(request))


def _parts(request: CallRequest) -> Iterator[Part]:
    return (part for message in request.messages for part in message.parts)


def _is_image(part: Part) -> bool:
    return isinstance(part, ImagePart) or (isinstance(part, OpaquePart) and part.kind in _CARRIED_IMAGES)


def _is_file(part: Part) -> bool:
    return isinstance(part, FilePart) or (isinstance(part, OpaquePart) and part.kind in _CARRIED_FILES)


def _text_bytes(message: Message) -> int:
    return sum(_bytes(part.text) for part in message.parts if isinstance(part, TextPart))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
