"""How the demo's models behave when called: how long they take, what they use, how often they fail.

One table for the seeded history and for the simulator, so that what is called now looks like what was called before.

Three figures are stated, and exact: the mean latency and cost of a chat call to either model of ``support-chat``
and the mean cost of a tool turn of the faster one. The seeded calls hit them in every window (``chronicle`` says
how), and the simulator answers those two models without any spread, so that new calls leave the means where they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from governance.demo.cast import DEEP, MODELS, PROVIDERS, SWIFT, VECTORS
from routing.core.vocabulary import Operation

GATEWAY_MS = 5.0
"""What a call takes beside the provider's time, roughly: the two hops and the gateway. A stated latency is that of
the whole call."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A model at one operation: means.

    Attributes:
        latency_ms: the whole call.
        first_token_ms: of a streamed answer.
        prompt: tokens of the prompt, the cached ones included.
        output: tokens generated, reasoning included.
        cached: tokens of the prompt read from the provider's cache.
        reasoning: tokens of the output spent on reasoning.
        stated: whether the means are figures that somebody was told.
    """

    latency_ms: float
    prompt: int
    output: int
    first_token_ms: float = 300.0
    cached: int = 0
    reasoning: int = 0
    stated: bool = False


_CHAT, _STREAM, _VISION = Operation.CHAT, Operation.STREAM, Operation.VISION
_TOOLS, _STREAM_TOOLS = Operation.TOOLS, Operation.STREAM_TOOLS

PROFILES: Mapping[tuple[str, Operation], Profile] = {
    (SWIFT, _CHAT): Profile(4259, 1000, 420, first_token_ms=620, stated=True),
    (SWIFT, _STREAM): Profile(4310, 1040, 430, first_token_ms=620),
    (SWIFT, _TOOLS): Profile(7480, 7600, 1000, first_token_ms=700, stated=True),
    (SWIFT, _STREAM_TOOLS): Profile(7610, 7400, 980, first_token_ms=700),
    (DEEP, _CHAT): Profile(9094, 1000, 900, first_token_ms=1450, reasoning=260, stated=True),
    (DEEP, _STREAM): Profile(9240, 1020, 910, first_token_ms=1450, reasoning=260),
    (DEEP, _TOOLS): Profile(13_800, 7100, 1650, first_token_ms=1900, reasoning=600),
    (DEEP, _STREAM_TOOLS): Profile(14_050, 7200, 1680, first_token_ms=1900, reasoning=600),
    (VECTORS, Operation.EMBED): Profile(190, 24, 0),
    ("borealis-coder", _TOOLS): Profile(2150, 5200, 310, first_token_ms=340, cached=3100),
    ("borealis-coder", _STREAM_TOOLS): Profile(2230, 5300, 320, first_token_ms=340, cached=3200),
    ("borealis-coder", _CHAT): Profile(1980, 2400, 290, first_token_ms=330, cached=1200),
    ("borealis-scribe", _CHAT): Profile(1350, 2900, 240, first_token_ms=280),
    ("dynamo-spark", _CHAT): Profile(410, 3100, 210, first_token_ms=90),
    ("dynamo-lens", _VISION): Profile(830, 1450, 120, first_token_ms=210),
    ("cellar-steady", _CHAT): Profile(1720, 640, 180, first_token_ms=390),
    ("cellar-small", _CHAT): Profile(690, 520, 130, first_token_ms=160),
}
_PLAIN = Profile(1200, 900, 220)

_PLAYED_AS = {"borealis-coder": _TOOLS, "dynamo-lens": _VISION, VECTORS: Operation.EMBED}
"""The operation whose profile the simulator plays, where it is not chat: it has one for each model."""

FAULT_RATES: Mapping[str, float] = {
    "atlas-cloud": 0.012,
    "borealis-eu": 0.016,
    "citadel-cellar": 0.006,
    "dynamo-express": 0.028,
}
"""Share of the seeded calls whose first request meets a fault of the provider, by provider."""
FAULT_RATE = 0.01
"""That share for a provider that is not named."""

_PLAYED_FAULTS: Mapping[str, list[dict[str, Any]]] = {
    "borealis": [{"kind": "503", "rate": 0.02}],
    "dynamo": [{"kind": "429", "rate": 0.03, "retry_after": 1}],
}
"""The failures that the simulator plays. The two models that visitors call first never fail."""


def profile_of(model: str, operation: Operation) -> Profile:
    """The profile of a model at an operation; of a model nobody wrote a part for, a plain one."""
    found = PROFILES.get((model, operation)) or PROFILES.get((model, _CHAT))
    return found or PROFILES.get((model, _PLAYED_AS.get(model, _CHAT)), _PLAIN)


def behaviours(*, speed: float = 1.0) -> dict[str, Any]:
    """What the simulator is told, by pattern ``path/model id``. ``speed`` divides every time."""
    told: dict[str, Any] = {}
    paths = {provider.spec.identifier: provider.path for provider in PROVIDERS}
    for model in MODELS:
        spec = model.spec
        played = profile_of(spec.identifier, _PLAYED_AS.get(spec.identifier, _CHAT))
        path = paths[spec.provider.identifier]
        told[f"{path}/{spec.model_id}"] = _behaviour(played, failures=_PLAYED_FAULTS.get(path, []), speed=speed)
    return told


def _behaviour(played: Profile, *, failures: list[dict[str, Any]], speed: float) -> dict[str, Any]:
    latency = max(0.0, played.latency_ms - GATEWAY_MS) / speed
    first = played.first_token_ms / speed
    spread = 0.0 if played.stated else 0.25
    return {
        "latency": {
            "mean_ms": latency,
            "spread_ms": latency * spread,
            "first_chunk_ms": first,
            "first_chunk_spread_ms": first * spread,
        },
        "tokens": {
            "prompt": played.prompt,
            "completion": played.output,
            "completion_spread": round(played.output * spread),
            "cached": played.cached,
            "reasoning": played.reasoning,
        },
        "failures": failures,
    }
