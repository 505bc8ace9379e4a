"""What answers took and used, drawn from a profile.

Means of a stated profile are exact over :func:`mirrored` draws: one of the two lies as far above every mean as the
other lies below. Latencies differ by eighths of a millisecond, which floats add without rounding.
"""

import random
from dataclasses import dataclass

from governance.demo.profiles import Profile
from routing.core.calls import Usage
from routing.core.requirements import RequestFacts, Shape
from routing.core.vocabulary import Operation


@dataclass(frozen=True, slots=True)
class Draw:
    """One answer."""

    latency_ms: float
    first_token_ms: float
    usage: Usage


def drawn(profile: Profile, rng: random.Random) -> Draw:
    """An answer spread as answers are: many short ones, few long ones."""
    prompt, output = rng.lognormvariate(-0.03, 0.25), rng.lognormvariate(-0.06, 0.35)
    return Draw(
        latency_ms=round(profile.latency_ms * (0.4 + 0.6 * output) * rng.uniform(0.92, 1.08), 3),
        first_token_ms=round(profile.first_token_ms * rng.uniform(0.8, 1.2), 3),
        usage=usage_of(profile, prompt=prompt, output=output),
    )


def mirrored(profile: Profile, rng: random.Random) -> tuple[Draw, Draw]:
    """Two answers whose means are the profile's, to the token and to the last bit of the latency."""
    away = rng.uniform(-0.42, 0.42)
    latency = round(profile.latency_ms * 8 * (0.6 * away + rng.uniform(-0.06, 0.06))) / 8
    prompt, output = round(profile.prompt * rng.uniform(-0.35, 0.35)), round(profile.output * away)

    def draw(sign: int) -> Draw:
        return Draw(
            latency_ms=profile.latency_ms + sign * latency,
            first_token_ms=profile.first_token_ms,
            usage=Usage(
                input=profile.prompt + sign * prompt,
                output=profile.output + sign * output,
                reasoning=profile.reasoning // 2,
            ),
        )

    return draw(1), draw(-1)


def usage_of(profile: Profile, *, prompt: float = 1.0, output: float = 1.0) -> Usage:
    """The profile's tokens, scaled."""
    cached = round(profile.cached * prompt)
    generated = max(1, round(profile.output * output))
    return Usage(
        input=max(1, round(profile.prompt * prompt) - cached),
        cache_read=cached,
        output=generated,
        reasoning=min(generated, round(profile.reasoning * output)),
    )


def facts_of(operation: Operation, prompt: int, rng: random.Random) -> RequestFacts:
    """A request that would have had so many tokens of prompt."""
    assisted = operation in (Operation.TOOLS, Operation.STREAM_TOOLS)
    turns = 2 * rng.choice((0, 0, 0, 1, 1, 2, 3)) + 1
    tools = rng.randint(2, 6) if assisted else 0
    shape = Shape.MULTI_TURN if turns > 1 else Shape.SINGLE_TURN
    estimate = max(1, round(prompt * rng.uniform(0.97, 1.03)))
    return RequestFacts(
        messages=turns + 1,
        turns=turns,
        tools=tools,
        payload_bytes=max(1, 4 * estimate - 900 * tools),
        token_estimate=estimate,
        shape=Shape.TOOL_ASSISTED if assisted else shape,
    )
