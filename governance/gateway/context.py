"""What travels with a call: the frozen context, and the notes that survive the unwinding."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar
from typing import Protocol as Interface
from uuid import UUID

from budgets import limits
from budgets.ledger import OverBudget
from budgets.refusals import Refusals
from governance.access.directory import Caller
from governance.decisions import Ruling, Standing
from governance.gateway.bookkeeper import Bookkeeper
from governance.gateway.bridge import Bridge
from routing.core.calls import CallReply, CallRequest, Frame, Usage
from routing.core.conversation import Protocol
from routing.core.failures import Failure, FailureKind
from routing.core.money import Money
from routing.core.plan import Plan, Skip, Step
from routing.core.requirements import Limits, RequestFacts, Requirements, measure, requirements_of
from routing.core.sharing import SharedStore
from routing.providers.base import Endpoint, Transport
from routing.slots import Slots
from telemetry.recorder import Recorder
from telemetry.records import fitting_text, new_call_id

Done = TypeVar("Done")


class FrameStream(Interface):
    """A streamed answer on its way out. Closing it early closes everything behind it."""

    def __aiter__(self) -> AsyncIterator[Frame]:
        """The stream itself."""

    async def __anext__(self) -> Frame:
        """The next frame."""

    async def aclose(self) -> None:
        """Stop, at once. May be called repeatedly."""


Answer = CallReply | FrameStream


class Withdrawn(Exception):
    """The call is not ours to make any more: somebody else makes it, and records it. Nothing is sent for it here."""


class Postponed(Withdrawn):
    """A limit is reached, and whoever makes the call has time: it is made later. Nothing was sent or counted.

    Attributes:
        wait: the seconds until there is room for it.
    """

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


@dataclass(slots=True)
class Attempt:
    """One request sent to a provider, as it went. ``cost`` is computed where the answer arrives, and only there.

    ``charge`` is what it is known to have cost once it has ended, for the ledger and for usage alike: a usage that came
    before an answer broke off is not yet what is charged.

    ``waited`` are the seconds that were waited before it, if it is a repetition. ``stopped`` holds the choices that the
    model has finished: once it has finished all that were asked for, a caller that hangs up has had its answer.
    ``protocol`` is that of the answer's bytes, ``service_tier`` the provider's word for the class of service in which
    it served.
    """

    step: Step
    started_at: datetime
    started: float
    waited: float | None = None
    ended: float | None = None
    failure: Failure | None = None
    usage: Usage | None = None
    cost: Money | None = None
    charge: Money | None = None
    service_tier: str = ""
    response_model: str = ""
    stopped: set[int] = field(default_factory=set)
    protocol: Protocol | None = None

    def end(self, failure: Failure | None) -> None:
        """Note how it ended; the first word counts."""
        if self.ended is None:
            self.ended = time.monotonic()
            self.failure = failure
            self.charge = self.cost if failure is None or failure.kind is FailureKind.REFUSED else None


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A route of the plan that was not asked, and why. ``moment`` is on the clock of ``Attempt.started``."""

    step: Step
    at: datetime
    moment: float
    skip: Skip


class CacheOutcome(StrEnum):
    """What came of looking for an answer that is kept."""

    HIT = "hit"
    MISS = "miss"


@dataclass(slots=True)
class CallNotes:
    """The scratchpad of one call: what layers find out on the way, for the row and the headers.

    ``replay_of`` is the call whose answer was given again; ``cache`` what came of looking for one, where that was done.
    ``served`` has the cost's last word: the attempt that served. ``standings`` are the limits that the call was
    admitted by, or refused. ``refusals`` are the budgets that had no room for an attempt. ``told`` is what the caller
    of a stream has been sent, where somebody keeps that.
    """

    ruling: Ruling | None = None
    plan: Plan | None = None
    attempts: list[Attempt] = field(default_factory=list)
    passed_over: list[PassedOver] = field(default_factory=list)
    served: Attempt | None = None
    first_token: float | None = None
    failure: Failure | None = None
    replay_of: UUID | None = None
    cache: CacheOutcome | None = None
    standings: tuple[limits.Standing, ...] = ()
    refusals: list[OverBudget] = field(default_factory=list)
    told: bytearray | None = None

    @property
    def walked(self) -> list[Attempt | PassedOver]:
        """The routes in the order in which they were asked or passed over."""
        if not self.passed_over:
            return [*self.attempts]
        return sorted((*self.attempts, *self.passed_over), key=_moment)


def _moment(each: Attempt | PassedOver) -> float:
    return each.started if isinstance(each, Attempt) else each.moment


@dataclass(frozen=True, slots=True)
class Services:
    """The ways out of the gateway that layers need. ``owed`` are the errands under way (:meth:`owe`)."""

    transport: Transport
    slots: Slots
    recorder: Recorder
    endpoint_of: Callable[[Standing, str], Endpoint]
    bridge: Bridge
    bookkeeper: Bookkeeper
    shared: SharedStore
    refusals: Refusals = field(default_factory=Refusals)
    owed: set["asyncio.Task[object]"] = field(default_factory=set)

    def owe(self, errand: Coroutine[Any, Any, Done]) -> "asyncio.Task[Done]":
        """Do something to its end, whatever becomes of the call. A process that closes waits for it.

        Whoever waits for the task shields it: else being cancelled would cancel the errand.
        """
        task = asyncio.create_task(errand)
        self.owed.add(task)
        task.add_done_callback(self.owed.discard)
        return task

    async def finish(self, errand: Coroutine[Any, Any, Done], *, seconds: float) -> None:
        """Do something to its end, and wait for that so many seconds at the most. A failure within them is raised."""
        task = self.owe(errand)
        await asyncio.wait([task], timeout=seconds)
        if task.done():
            task.result()

    async def take(
        self, errand: Coroutine[Any, Any, Done], give_back: Callable[[Done], Coroutine[Any, Any, object]]
    ) -> Done:
        """Take something for a call. If its caller leaves meanwhile, it is given back once it was taken."""
        taking = self.owe(errand)
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            self.owe(_return(taking, give_back))
            raise


async def _return(taking: "asyncio.Task[Done]", give_back: Callable[[Done], Coroutine[Any, Any, object]]) -> None:
    await asyncio.wait([taking])
    if not taking.cancelled() and taking.exception() is None:
        await give_back(taking.result())


@dataclass(frozen=True, slots=True)
class CallContext:
    """One call. ``step`` is the route being asked, set for each candidate by ``fall_through``; ``waited`` are the
    seconds that were waited before it is asked once more, set by ``retry``. ``route_failed``, set by ``circuit``,
    lets the route rest although the call goes on with it.

    ``started`` is on the monotonic clock, in seconds; every duration of the call is measured from it.
    ``before_sending`` is awaited before each request to a provider, and may raise :class:`Withdrawn`. ``name`` is what
    the caller calls it, if it may come again; ``waits_until`` until when whoever makes it would rather wait for a limit
    than have it refused (:class:`Postponed`); ``written`` gives the bytes that a whole answer is for the caller, if it
    gets bytes.
    """

    call_id: UUID
    started_at: datetime
    started: float
    caller: Caller
    request: CallRequest
    facts: RequestFacts
    requirements: Requirements
    limits: Limits
    standing: Standing
    services: Services
    notes: CallNotes
    user: str = ""
    source: str = ""
    step: Step | None = None
    waited: float | None = None
    route_failed: Callable[[Failure | None], None] | None = None
    before_sending: Callable[[], Awaitable[None]] | None = None
    name: str = ""
    waits_until: datetime | None = None
    written: "Callable[[CallContext, CallReply], bytes] | None" = None

    @property
    def has_whole_answer(self) -> bool:
        """Whether the model that serves has finished everything that was asked for."""
        served = self.notes.served
        return served is not None and len(served.stopped) >= self.request.choices

    @classmethod
    def begin(
        cls,
        *,
        caller: Caller,
        request: CallRequest,
        limits: Limits,
        standing: Standing,
        services: Services,
        user: str = "",
        source: str = "",
        call_id: UUID | None = None,
        before_sending: Callable[[], Awaitable[None]] | None = None,
        name: str = "",
        waits_until: datetime | None = None,
        written: "Callable[[CallContext, CallReply], bytes] | None" = None,
    ) -> "CallContext":
        """A call that begins now, with the facts and needs of its request read once. Its id is new unless given."""
        facts = measure(request)
        return cls(
            call_id=call_id or new_call_id(),
            started_at=datetime.now(UTC),
            started=time.monotonic(),
            caller=caller,
            request=request,
            facts=facts,
            requirements=requirements_of(request, facts),
            limits=limits,
            standing=standing,
            services=services,
            notes=CallNotes(),
            user=fitting_text(user, 128),
            source=source,
            before_sending=before_sending,
            name=name,
            waits_until=waits_until,
            written=written,
        )


Proceed = Callable[[CallContext], Awaitable[Answer]]
Layer = Callable[[CallContext, Proceed], Awaitable[Answer]]
