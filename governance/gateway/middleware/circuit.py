"""Passes over a route that rests, and tells the route's circuit once how the call went, however many attempts it took:
at the call's end, or when it is about to wait for long.

A stream is told of when it is over; one that is the probe of a route that had rested is, with its first token, proof
enough that the route serves again.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from governance.gateway.context import Answer, CallContext, FrameStream, Proceed
from governance.gateway.deadline import patience
from routing.circuits import Circuits, RouteState
from routing.core.breaker import Admission
from routing.core.calls import CallReply, Frame
from routing.core.failures import CallFailed, Failure, FailureKind
from routing.core.plan import RouteSkipped
from routing.core.vocabulary import SkipReason

TRIED_SECONDS = 1.0
"""When to ask again for a route that another call is trying."""


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Ask the route of the context, unless it rests."""
    if context.step is None:
        raise RuntimeError("circuit runs behind fall_through")
    model = context.step.model.identifier
    hearing = _Hearing(context.standing.circuits, model, await _admitted(context, model))
    try:
        answer = await proceed(replace(context, route_failed=hearing.of_failure))
    except CallFailed as failed:
        hearing.of_failure(failed.evidence)
        raise
    except BaseException:
        hearing.of_nothing()
        raise
    if isinstance(answer, CallReply):
        hearing.of_end(context)
    elif hearing.is_probe:
        hearing.of_service()
    else:
        return _HeardStream(context, answer, hearing)
    return answer


async def _admitted(context: CallContext, model: str) -> Admission:
    circuits = context.standing.circuits
    admission = circuits.admit(model)
    if admission is None:
        raise _resting(circuits.state(model))
    if admission.probe and not await _is_the_only_one(context, model, admission):
        raise _resting(circuits.state(model))
    return admission


async def _is_the_only_one(context: CallContext, model: str, probe: Admission) -> bool:
    """Whether no other process tries the route; while the store does not answer, each goes by what it knows itself."""
    circuits, services = context.standing.circuits, context.services

    async def give_back(_: bool) -> None:
        circuits.unheard(model, probe)

    try:
        async with asyncio.timeout(patience(context)):
            return await services.take(services.bridge.cross(circuits.confirm, model, probe), give_back)
    except TimeoutError:
        return True
    except Exception:
        circuits.unheard(model, probe)
        raise


def _resting(route: RouteState) -> RouteSkipped:
    return RouteSkipped(SkipReason.RESTING, route.told, again_in=route.remaining or TRIED_SECONDS)


class _Hearing:
    """What the circuit is told of one call: one word, the first."""

    __slots__ = ("_admission", "_circuits", "_is_over", "_model")

    def __init__(self, circuits: Circuits, model: str, admission: Admission) -> None:
        self._circuits = circuits
        self._model = model
        self._admission = admission
        self._is_over = False

    @property
    def is_probe(self) -> bool:
        """Whether the call tries a route that has rested."""
        return bool(self._admission.probe)

    def of_end(self, context: CallContext) -> None:
        """It came to its end; a model that declined has failed."""
        if context.notes.failure is None:
            self.of_service()
        else:
            self.of_failure(context.notes.failure)

    def of_service(self) -> None:
        if self._begin():
            self._circuits.served(self._model, self._admission)

    def of_failure(self, failure: Failure | None) -> None:
        """A caller that hangs up, or reads no further, says nothing of the route."""
        if failure is None or failure.kind is FailureKind.CANCELLED:
            self.of_nothing()
        elif self._begin():
            self._circuits.failed(self._model, self._admission, failure)

    def of_nothing(self) -> None:
        if self._begin():
            self._circuits.unheard(self._model, self._admission)

    def _begin(self) -> bool:
        was_over, self._is_over = self._is_over, True
        return not was_over


class _HeardStream:
    """A stream whose end the circuit hears of."""

    __slots__ = ("_context", "_hearing", "_stream")

    def __init__(self, context: CallContext, stream: FrameStream, hearing: _Hearing) -> None:
        self._context = context
        self._stream = stream
        self._hearing = hearing

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._hearing.of_end(self._context)
            raise
        except CallFailed as failed:
            self._hearing.of_failure(failed.evidence)
            raise

    async def aclose(self) -> None:
        """Let go of the route. One that had finished its answer has served, whether or not the end was read."""
        await self._stream.aclose()
        if self._context.has_whole_answer:
            self._hearing.of_end(self._context)
        else:
            self._hearing.of_nothing()
