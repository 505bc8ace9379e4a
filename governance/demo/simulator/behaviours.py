"""How a simulated route behaves: frozen values, and the draws that follow from them.

Reading them from JSON is in ``shapes``; which of them holds for a route is in ``book``.
"""

import math
import random
from dataclasses import dataclass, field
from enum import StrEnum


class FailureKind(StrEnum):
    """The ways in which a simulated provider can fail."""

    RATE_LIMITED = "429"
    INSUFFICIENT_QUOTA = "insufficient_quota"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    UNAUTHORIZED = "401"
    NOT_FOUND = "404"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    TIMEOUT = "timeout"
    RESET = "reset"
    GARBAGE = "garbage"
    TRUNCATED = "truncated"
    ERROR_FRAME = "error_frame"
    NO_USAGE = "no_usage"
    EMPTY = "empty"


class FailureTarget(StrEnum):
    """Which requests a failure applies to: model calls, the ``GET models`` endpoints, or both."""

    CALLS = "calls"
    MODELS = "models"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Times in milliseconds; a spread is the standard deviation of a log-normal distribution."""

    mean_ms: float = 0.0
    spread_ms: float = 0.0
    first_chunk_ms: float | None = None
    first_chunk_spread_ms: float = 0.0

    def draw_total(self, rng: random.Random) -> float:
        """Seconds until a whole answer, or until the end of a stream."""
        return draw(mean=self.mean_ms, spread=self.spread_ms, rng=rng) / 1000.0

    def draw_first_chunk(self, total: float, rng: random.Random) -> float:
        """Seconds until the first frame of a stream that takes ``total`` seconds."""
        if self.first_chunk_ms is None:
            return total / 4.0
        return draw(mean=self.first_chunk_ms, spread=self.first_chunk_spread_ms, rng=rng) / 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUse:
    """Token counts to report; ``completion`` includes ``reasoning``, ``prompt`` includes ``cached``."""

    prompt: int | None = None
    completion: int = 32
    completion_spread: float = 0.0
    cached: int = 0
    reasoning: int = 0

    def draw_completion(self, rng: random.Random) -> int:
        """The length of one answer in tokens, at least one unless the mean is zero."""
        if not self.completion_spread or not self.completion:
            return self.completion
        return max(1, round(draw(mean=self.completion, spread=self.completion_spread, rng=rng)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One way to fail and how often."""

    kind: FailureKind
    rate: float | None = None
    fail_next: int | None = None
    retry_after: str | None = None
    retry_after_ms: str | None = None
    after_ms: float = 0.0
    after_chunks: int = 1
    abrupt: bool = False
    on: FailureTarget = FailureTarget.CALLS

    @property
    def effective_rate(self) -> float:
        """The share of requests that fail: all by default, none by default beside ``fail_next``."""
        if self.rate is not None:
            return self.rate
        return 1.0 if self.fail_next is None else 0.0

    def concerns(self, target: FailureTarget) -> bool:
        """Whether this failure applies to requests of that kind."""
        return self.on is FailureTarget.ALL or self.on is target


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Everything that can be set about one provider and model."""

    latency: Latency = field(default_factory=Latency)
    tokens: TokenUse = field(default_factory=TokenUse)
    failures: tuple[Failure, ...] = ()
    down: bool = False
    offered: bool = True
    chunk_tokens: int = 4
    dimensions: int = 256


def draw(*, mean: float, spread: float, rng: random.Random) -> float:
    """One value of the log-normal distribution with this mean and standard deviation.

    With m the mean and s the deviation: sigma² = ln(1 + s²/m²), mu = ln m - sigma²/2. Without a spread, or
    with a mean of zero, the mean itself and no draw.
    """
    if not spread or not mean:
        return mean
    variance = math.log(1.0 + (spread / mean) ** 2)
    return rng.lognormvariate(math.log(mean) - variance / 2.0, math.sqrt(variance))
