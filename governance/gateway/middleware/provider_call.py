"""One attempt at one route: endpoint, adapter, network. The cost is computed here, once, and travels on the attempt.

The price is that of the model that serves, in force when the call began, for the class of service that the provider
says it served; unless it says itself what it charged: an aggregator serves one model id from many hosts, each at its
own price.

A route can be asked again, or replaced, until the caller has seen something, and never afterwards: a stream's frames
are held back until the first generated token, or its end. What goes wrong before is the attempt's failure, as it would
be for a whole answer.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from governance.gateway.context import Answer, Attempt, CallContext, FrameStream, Proceed
from governance.gateway.deadline import out_of_time, seconds_left
from governance.trace import note
from routing.core.calls import GENERATED, CallReply, Event, Frame, Started, Stopped, StopReason, UsageReported
from routing.core.catalogue import ModelSpec
from routing.core.failures import CallFailed, Failure, FailureKind, RouteUnusable, internal_failure
from routing.core.plan import RouteSkipped, Step
from routing.core.pricing import cost, price_at
from routing.core.vocabulary import Enforcement, ServiceTier, SkipReason
from routing.providers.base import Endpoint
from routing.providers.registry import api_for
from routing.slots import Slot

logger = logging.getLogger(__name__)

REQUEST_ID_HEADER = "x-client-request-id"
MOST_QUIET_BYTES = 1024 * 1024
"""What a stream may have sent before its first generated token: it is kept in memory until then."""

QUIET = Failure(FailureKind.UNREADABLE, "the answer has no content", code="no_content")
REFUSED = Failure(FailureKind.REFUSED, "the model declined to answer")
CANCELLED = Failure(FailureKind.CANCELLED, "the caller hung up")
SLOW_READER = Failure(
    FailureKind.CANCELLED,
    "the answer was read too slowly: for most of the time that an answer may take, the provider was not let go on",
    code="slow_reader",
)
_BY_WAITING = (FailureKind.TIMEOUT, FailureKind.TRANSIENT)  # how a provider fails that was kept from going on


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Send the request to the route of the context. Nothing lies behind this layer.

    Raises:
        RouteUnusable: the provider cannot be called as it is set up; nothing was sent.
        RouteSkipped: it carries as many requests as it may; nothing was sent.
        OutOfTime: the call's time was up before the provider answered.
        CallFailed: there is no answer.
    """
    step = context.step
    if step is None:
        raise RuntimeError("provider_call runs behind fall_through")
    endpoint = context.services.endpoint_of(context.standing, step.model.provider.identifier)
    slot = context.services.slots.take(endpoint.provider, limit=endpoint.max_concurrent)
    if slot is None:
        detail = f"provider {endpoint.provider} carries {endpoint.max_concurrent} requests, as many as it may at once"
        raise RouteSkipped(SkipReason.SATURATED, detail)
    try:
        answer = await _attempt(context, step, endpoint, slot)
    except BaseException:
        slot.give_back()
        raise
    if isinstance(answer, CallReply):
        slot.give_back()
    return answer


async def _attempt(context: CallContext, step: Step, endpoint: Endpoint, slot: Slot) -> Answer:
    """One request, noted as it goes. A stream gives the slot back when it is over."""
    if context.before_sending is not None:
        await context.before_sending()
    endpoint = _within_deadline(context, endpoint)
    notes = context.notes
    attempt = Attempt(step=step, started_at=datetime.now(UTC), started=time.monotonic(), waited=context.waited)
    notes.attempts.append(attempt)
    note(provider=step.model.provider.identifier, model=step.model.identifier)
    notes.failure = None  # whatever an attempt before this one left
    try:
        endpoint = _with_request_id(endpoint, request_id=f"{context.call_id}-{len(notes.attempts)}")
        answer = await _send(context, attempt, endpoint, slot)
    except RouteUnusable:
        notes.attempts.pop()  # nothing was sent, so it is none
        raise
    except CallFailed as failed:
        ended = _as_it_ended(context, failed)
        attempt.end(ended.failure)
        if ended is failed:
            raise
        raise ended from failed
    except asyncio.CancelledError:
        attempt.end(CANCELLED)
        raise
    except Exception as error:
        attempt.end(internal_failure(error))
        raise
    if isinstance(answer, CallReply):
        attempt.end(notes.failure)
    return answer


async def _send(context: CallContext, attempt: Attempt, endpoint: Endpoint, slot: Slot) -> Answer:
    """The provider's answer; a stream once its first generated token is there."""
    model = attempt.step.model
    api = api_for(endpoint.adapter_type, context.request, declared=_declared(context, model))
    attempt.protocol = api.protocol
    if context.request.stream:
        stream = await api.open_stream(
            endpoint=endpoint,
            model_id=model.model_id,
            request=context.request,
            transport=context.services.transport,
            max_output=model.max_output,
        )
        return await _begun(context, attempt, _Metered(context, attempt, stream, slot, endpoint.timeouts.total / 2))
    reply = await api.call(
        endpoint=endpoint,
        model_id=model.model_id,
        request=context.request,
        transport=context.services.transport,
        max_output=model.max_output,
    )
    _observe(context, attempt, reply.events)
    return reply


def _declared(context: CallContext, model: ModelSpec) -> frozenset[str]:
    """What the model is believed to be able to; where declarations are only observed, nothing is known."""
    is_enforced = context.standing.settings.routing.enforcement is Enforcement.ENFORCE
    return model.capabilities if is_enforced else frozenset()


def _within_deadline(context: CallContext, endpoint: Endpoint) -> Endpoint:
    """The endpoint with no longer a time-out than what the call has left."""
    left = seconds_left(context)
    if left <= 0:
        raise out_of_time(context)
    if left >= endpoint.timeouts.total:
        return endpoint
    return replace(endpoint, timeouts=replace(endpoint.timeouts, total=left))


def _as_it_ended(context: CallContext, failed: CallFailed) -> CallFailed:
    """What ended an attempt: a provider that is waited for until the call's time is up is not what ended it."""
    if failed.failure.kind is FailureKind.TIMEOUT and seconds_left(context) <= 0:
        return out_of_time(context)
    return failed


def _with_request_id(endpoint: Endpoint, *, request_id: str) -> Endpoint:
    """The endpoint as this one request needs it: naming itself, so that a vendor's logs can be searched for it.

    It is the call's id and the number of the request, and never the id that the caller sent: what a caller wrote there
    is none of the provider's business.
    """
    if any(name.lower() == REQUEST_ID_HEADER for name, _ in endpoint.headers):
        return endpoint
    return replace(endpoint, headers=(*endpoint.headers, (REQUEST_ID_HEADER, request_id)))


async def _begun(context: CallContext, attempt: Attempt, stream: FrameStream) -> FrameStream:
    """The stream once its first generated token is there."""
    held: deque[Frame] = deque()
    size = 0
    try:
        while (frame := await anext(stream, None)) is not None:
            held.append(frame)
            if any(isinstance(event, GENERATED) for event in frame.events):
                context.notes.first_token = time.monotonic()
                break
            size += len(frame.raw)
            if size > MOST_QUIET_BYTES:
                attempt.end(QUIET)
                raise CallFailed(QUIET)
    except BaseException:
        await stream.aclose()
        raise
    return _Begun(held, stream)


class _Begun:
    """What was held back of a stream, then the rest."""

    __slots__ = ("_held", "_rest")

    def __init__(self, held: deque[Frame], rest: FrameStream) -> None:
        self._held = held
        self._rest = rest

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        return self._held.popleft() if self._held else await self._rest.__anext__()

    async def aclose(self) -> None:
        await self._rest.aclose()


class _Metered:
    """A provider's stream whose usage, cost and end are noted as they pass.

    Nothing is read of it while the caller has not taken what was read before. Where that has cost more than
    ``patience`` seconds in all, a stream that then takes too long, or breaks, is the caller's doing.
    """

    __slots__ = ("_attempt", "_context", "_handed_over", "_idle", "_patience", "_slot", "_stream")

    def __init__(
        self, context: CallContext, attempt: Attempt, stream: FrameStream, slot: Slot, patience: float
    ) -> None:
        self._context = context
        self._attempt = attempt
        self._stream = stream
        self._slot = slot
        self._patience = patience
        self._idle = 0.0
        self._handed_over: float | None = None

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        if self._handed_over is not None:
            self._idle += time.monotonic() - self._handed_over
        try:
            frame = await self._stream.__anext__()
            if frame.events:
                _observe(self._context, self._attempt, frame.events)
        except StopAsyncIteration:
            self._end(self._context.notes.failure)
            raise
        except CallFailed as failed:
            ended = self._as_it_ended(failed)
            self._end(ended.failure)
            if ended is failed:
                raise
            raise ended from failed
        except asyncio.CancelledError:
            self._leave()
            raise
        except Exception as error:
            self._end(internal_failure(error))
            raise
        self._handed_over = time.monotonic()
        return frame

    async def aclose(self) -> None:
        self._leave()
        await self._stream.aclose()

    def _leave(self) -> None:
        has_answer = len(self._attempt.stopped) >= self._context.request.choices
        self._end(self._context.notes.failure if has_answer else CANCELLED)

    def _as_it_ended(self, failed: CallFailed) -> CallFailed:
        if self._idle > self._patience and failed.failure.kind in _BY_WAITING:
            return CallFailed(SLOW_READER)
        return _as_it_ended(self._context, failed)

    def _end(self, failure: Failure | None) -> None:
        self._attempt.end(failure)
        self._slot.give_back()


def _observe(context: CallContext, attempt: Attempt, events: Sequence[Event]) -> None:
    for event in events:
        if isinstance(event, UsageReported):
            if not event.usage.is_credible:  # taken for not reported: what is guessed at would be charged
                logger.warning("a usage was reported that cannot be true; it is left out")
                continue
            attempt.usage = event.usage
            attempt.service_tier = event.service_tier or attempt.service_tier
            price = price_at(attempt.step.model.prices, context.started_at)
            if price is not None:
                price = price.of(ServiceTier.named(attempt.service_tier))
            attempt.cost = event.cost or (None if price is None else cost(event.usage, price))
        elif isinstance(event, Started) and event.model:
            attempt.response_model = event.model
        elif isinstance(event, Stopped):
            attempt.stopped.add(event.choice)
            if event.reason is StopReason.REFUSAL:
                context.notes.failure = REFUSED
