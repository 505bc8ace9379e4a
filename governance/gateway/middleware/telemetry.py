"""Times everything and hands over exactly one record, however a call ends: answered, failed, or left by its caller.

A streamed call is over when its body closes, not when the view returns.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence

from governance.gateway.context import Answer, Attempt, CallContext, FrameStream, PassedOver, Proceed, Withdrawn
from governance.trace import note
from routing.core.calls import CallReply, Coverage, Frame
from routing.core.failures import CallFailed, Failure, FailureKind, internal_failure
from routing.core.requirements import complexity
from telemetry.records import (
    NO_ROUTE,
    AttemptRecord,
    CallRecord,
    DecisionSummary,
    FactsRecord,
    RouteName,
    TokenCounts,
)

logger = logging.getLogger(__name__)

HUNG_UP = Failure(FailureKind.CANCELLED, "the caller hung up")


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Time the call and record it."""
    note(call=str(context.call_id), application=context.caller.application)
    try:
        answer = await proceed(context)
    except CallFailed as failed:
        _settle(context, failed.failure)
        raise
    except asyncio.CancelledError:
        _settle(context, HUNG_UP)
        raise
    except Withdrawn:
        raise  # recorded by whoever makes the call
    except Exception as error:
        _settle(context, internal_failure(error))
        raise
    if isinstance(answer, CallReply):
        _settle(context, context.notes.failure)
        return answer
    return _RecordedStream(context, answer)


class _RecordedStream:
    """A stream that is recorded once, at its end: finished, broken off by the provider, or closed by the caller."""

    __slots__ = ("_context", "_settled", "_stream")

    def __init__(self, context: CallContext, stream: FrameStream) -> None:
        self._context = context
        self._stream = stream
        self._settled = False

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._settle(self._context.notes.failure)
            raise
        except CallFailed as failed:
            self._settle(failed.failure)
            raise
        except asyncio.CancelledError:
            self._leave()
            raise
        except Exception as error:
            self._settle(internal_failure(error))
            raise

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._leave()

    def _leave(self) -> None:
        """The caller goes. Once the model has stopped it has had its answer, whatever else was to come."""
        self._settle(self._context.notes.failure if self._context.has_whole_answer else HUNG_UP)

    def _settle(self, failure: Failure | None) -> None:
        if not self._settled:
            self._settled = True
            _settle(self._context, failure)


def _settle(context: CallContext, failure: Failure | None) -> None:
    """Hand the record over. A call that was answered stays answered, should this fail."""
    try:
        record = _record(context, failure)
        context.services.recorder.append(record, telemetry=context.standing.settings.routing.telemetry)
    except Exception:
        logger.exception("call %s could not be recorded", context.call_id)


def _record(context: CallContext, failure: Failure | None) -> CallRecord:
    notes, now = context.notes, time.monotonic()
    walked = [
        _passed_over(index, each) if isinstance(each, PassedOver) else _attempt(index, each, now, served=notes.served)
        for index, each in enumerate(notes.walked)
    ]
    first = notes.attempts[0] if notes.attempts else None
    served = notes.served
    usage = None if served is None else served.usage
    cost = None if served is None else served.cost
    model = None if served is None else served.step.model
    involved = None if model is None else complexity(context.facts, context_length=model.context_length)
    sent_to = {each.step.model.identifier for each in notes.attempts}
    return CallRecord(
        call_id=context.call_id,
        started_at=context.started_at,
        requested=context.request.target,
        operation=context.requirements.operation.value if context.requirements.operation else "",
        application=context.caller.application,
        key=context.caller.key,
        user=context.user,
        source=context.source,
        streamed=context.request.stream,
        first=NO_ROUTE if first is None else RouteName.of(first.step),
        served=RouteName.of(served.step) if served is not None else RouteName(configuration=_asked_for(context)),
        success=failure is None,
        failure_kind="" if failure is None else failure.kind.value,
        first_failure_kind="" if first is None else _first_failure(notes.attempts),
        error_class="" if failure is None else failure.code,
        latency_ms=_milliseconds(now - context.started),
        first_token_ms=None if notes.first_token is None else _milliseconds(notes.first_token - context.started),
        fallback_attempts=max(0, len(sent_to) - 1),
        retries=len(notes.attempts) - len(sent_to),
        requests_sent=len(notes.attempts),
        decision=_summary(context),
        facts=FactsRecord.of(context.facts),
        complexity_score=None if involved is None else involved.score,
        context_percent=None if involved is None else involved.context_percent,
        tokens=None if usage is None else TokenCounts.of(usage),
        coverage=Coverage.ABSENT.value if usage is None else usage.coverage.value,
        cost_nanos=None if cost is None else cost.nanos,
        cost_currency="" if cost is None else cost.currency,
        is_charged=served is None or served.charge is not None,
        response_model="" if served is None else served.response_model,
        requested_tier=context.request.service_tier,
        served_tier="" if served is None else served.service_tier,
        replay_of=notes.replay_of,
        attempts=tuple(walked),
    )


def _first_failure(attempts: Sequence[Attempt]) -> str:
    """How the first route ended, however often it was asked and whatever became of the call afterwards."""
    first = attempts[0].step.model.identifier
    failure = [each for each in attempts if each.step.model.identifier == first][-1].failure
    return "" if failure is None else failure.kind.value


def _asked_for(context: CallContext) -> str:
    ruling = context.notes.ruling
    return "" if ruling is None else ruling.decision.configuration


def _attempt(index: int, attempt: Attempt, now: float, *, served: Attempt | None) -> AttemptRecord:
    ended = now if attempt.ended is None else attempt.ended
    failure = attempt.failure
    return AttemptRecord(
        index=index,
        route=RouteName.of(attempt.step),
        started_at=attempt.started_at,
        latency_ms=_milliseconds(ended - attempt.started),
        waited_ms=_milliseconds(attempt.waited or 0.0),
        failure_kind="" if failure is None else failure.kind.value,
        error_code="" if failure is None else failure.code,
        tokens=None if attempt.usage is None else TokenCounts.of(attempt.usage),
        cost_nanos=None if attempt.cost is None else attempt.cost.nanos,
        cost_currency="" if attempt.cost is None else attempt.cost.currency,
        is_charged_besides=attempt.charge is not None and attempt is not served,
    )


def _passed_over(index: int, each: PassedOver) -> AttemptRecord:
    return AttemptRecord(
        index=index,
        route=RouteName.of(each.step),
        started_at=each.at,
        latency_ms=0.0,
        skip_reason=each.skip.reason.value,
    )


def _summary(context: CallContext) -> DecisionSummary | None:
    ruling, plan = context.notes.ruling, context.notes.plan
    if ruling is None:
        return None
    preference = "" if plan is None else plan.preference
    return DecisionSummary.of(ruling.decision, document=ruling.document, digest=ruling.digest, preference=preference)


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
