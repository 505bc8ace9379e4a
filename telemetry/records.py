"""What is written about a call: scalars only. No field here could hold a prompt or an answer.

``CallRecord`` is what the gateway hands over when a call has ended; ``telemetry.recorder`` turns it into rows.
``None`` is "not measured" or "not reported", never zero.
"""

import os
import time
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from routing.core.calls import MAX_TOKENS, Usage
from routing.core.decision import Decision
from routing.core.plan import Step
from routing.core.requirements import RequestFacts


def new_call_id() -> UUID:
    """A new id: it sorts by the millisecond it was made in."""
    return call_id_of(milliseconds=time.time_ns() // 1_000_000, noise=int.from_bytes(os.urandom(10)))


def call_id_of(*, milliseconds: int, noise: int) -> UUID:
    """A UUID of version 7 (RFC 9562): a moment in milliseconds since 1970, and 80 bits of noise besides."""
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | noise
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)


def fitting_text(value: str, length: int) -> str:
    """A text that came from outside as a column can hold it: cut, and without NUL characters."""
    return value.replace("\x00", "")[:length]


@dataclass(frozen=True, slots=True)
class RouteName:
    """Which route: identifiers of configuration, provider and model, the adapter type, the id sent upstream."""

    configuration: str = ""
    provider: str = ""
    adapter_type: str = ""
    model: str = ""
    model_id: str = ""

    @classmethod
    def of(cls, step: Step) -> "RouteName":
        """The name of a plan's step."""
        model = step.model
        return cls(
            configuration=step.configuration,
            provider=model.provider.identifier,
            adapter_type=model.provider.adapter_type,
            model=model.identifier,
            model_id=model.model_id,
        )


NO_ROUTE = RouteName()


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one answer as the provider reported them: ``input`` is the prompt without its cached parts."""

    input: int
    cache_read: int
    cache_write: int
    output: int
    reasoning: int

    @property
    def are_credible(self) -> bool:
        """Whether they can be true at all."""
        counts = (self.input, self.cache_read, self.cache_write, self.output, self.reasoning)
        return min(counts) >= 0 and max(counts) <= MAX_TOKENS

    @classmethod
    def of(cls, usage: Usage) -> "TokenCounts":
        """The tokens of a usage."""
        return cls(
            input=usage.input,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            output=usage.output,
            reasoning=usage.reasoning,
        )


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One route of a call: a request sent to it, or, where ``skip_reason`` says why, one that was passed over.

    ``failure_kind`` is empty if it answered; ``error_code`` is the vendor's short code, never a message.
    ``is_charged_besides`` if its cost is charged although it is not what served: usage counts it by itself.
    """

    index: int
    route: RouteName
    started_at: datetime
    latency_ms: float
    waited_ms: float = 0.0
    failure_kind: str = ""
    error_code: str = ""
    skip_reason: str = ""
    tokens: TokenCounts | None = None
    cost_nanos: int | None = None
    cost_currency: str = ""
    is_charged_besides: bool = False


@dataclass(frozen=True, slots=True)
class FactsRecord:
    """Sizes of the request, measured before any model was chosen."""

    messages: int
    turns: int
    tools: int
    payload_bytes: int
    token_estimate: int
    shape: str

    @classmethod
    def of(cls, facts: RequestFacts) -> "FactsRecord":
        """The facts of a request."""
        return cls(
            messages=facts.messages,
            turns=facts.turns,
            tools=facts.tools,
            payload_bytes=facts.payload_bytes,
            token_estimate=facts.token_estimate,
            shape=facts.shape.value,
        )


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """Why this model, in scalars: what the record under ``digest`` says at length.

    ``document`` is the canonical decision document; it is stored once per digest.
    """

    mode: str
    candidates: int
    rejection_reasons: tuple[str, ...]
    preference: str
    signals_used: frozenset[str]
    digest: str
    document: bytes

    @classmethod
    def of(cls, decision: Decision, *, document: bytes, digest: str, preference: str = "") -> "DecisionSummary":
        """The summary of a decision, with its canonical document and whose preference headed the plan."""
        return cls(
            mode=decision.recorded_mode,
            candidates=len(decision.eligible) + len(decision.refused),
            rejection_reasons=tuple(reason.value for reason in decision.rejection_reasons),
            preference=preference,
            signals_used=frozenset(name.value for name in decision.signals_used),
            digest=digest,
            document=document,
        )


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call, as it ended.

    Attributes:
        requested: what the caller named.
        first: the route first sent to; empty names if nothing was sent.
        served: the route that answered; the requested configuration's name alone if none did.
        first_failure_kind: how the first route ended; empty if it answered.
        failure_kind: how the call ended; empty on success.
        error_class: the exception's class or the vendor's code; never a message.
        latency_ms: the whole call, waits included; a stream's runs to its end.
        first_token_ms: until the first generated token; ``None`` unless streamed.
        replay_of: the call whose answer was given again; ``None`` if a model was asked.
        fallback_attempts: routes sent to before the serving one; skips do not count.
        retries: repetitions at one route.
        requests_sent: requests sent to providers.
        attempts: the routes in the order in which they were asked or passed over.
        coverage: how well the tokens are known.
        is_charged: whether the cost is what is charged; of an answer that broke off it is what was reported so far.
        response_model: the model the provider names in its answer.
        requested_tier: the class of service asked for, in the caller's word; empty if none.
        served_tier: the class of service the provider says it served, in its word.
    """

    call_id: UUID
    started_at: datetime
    requested: str
    operation: str
    application: str
    key: str
    user: str
    source: str
    streamed: bool
    first: RouteName
    served: RouteName
    success: bool
    failure_kind: str
    first_failure_kind: str
    error_class: str
    latency_ms: float
    first_token_ms: float | None = None
    replay_of: UUID | None = None
    fallback_attempts: int = 0
    retries: int = 0
    requests_sent: int = 0
    decision: DecisionSummary | None = None
    facts: FactsRecord | None = None
    complexity_score: int | None = None
    context_percent: int | None = None
    tokens: TokenCounts | None = None
    coverage: str = "absent"
    cost_nanos: int | None = None
    cost_currency: str = ""
    is_charged: bool = True
    response_model: str = ""
    requested_tier: str = ""
    served_tier: str = ""
    attempts: tuple[AttemptRecord, ...] = ()

    @property
    def cache_hit(self) -> bool:
        """Whether the answer is one that was there."""
        return self.replay_of is not None
