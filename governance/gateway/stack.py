"""What a call walks through, outermost first. A test holds the order."""

from functools import partial

from governance.gateway.context import Answer, CallContext, Layer, Proceed
from governance.gateway.middleware import (
    admission,
    budget,
    cache,
    circuit,
    decide,
    fall_through,
    provider_call,
    replay,
    retry,
    schema,
    telemetry,
)

STACK: tuple[Layer, ...] = (
    telemetry.handle,
    replay.handle,
    admission.handle,
    decide.handle,
    cache.handle,
    fall_through.handle,
    circuit.handle,
    schema.handle,
    retry.handle,
    budget.handle,
    provider_call.handle,
)


async def _nothing_behind(context: CallContext) -> Answer:
    raise RuntimeError(f"the innermost layer went on with call {context.call_id}")


def compose(layers: tuple[Layer, ...]) -> Proceed:
    """The layers as one function."""
    call: Proceed = _nothing_behind
    for layer in reversed(layers):
        call = partial(layer, proceed=call)  # type: ignore[call-arg]
    return call


run = compose(STACK)
"""Runs a call through the whole stack."""
