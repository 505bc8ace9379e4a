"""The demo's past: calls as they would have been recorded, between two moments.

Every call is walked through the plan of its decision (``world``) and carries that decision, so that its page explains
it. Nothing is written here and nothing is left to chance: the calls of an hour follow from the hour alone, so the same
stretch of time always holds the same calls.

**Stated means** (``profiles``) come out exactly, in every window and not just at the moment of seeding. Successful
calls that count towards them come in twos, a moment apart, one as far above each mean as the other is below. Their
costs follow from tokens and price as those of every call do.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from governance.demo.cast import SOURCE
from governance.demo.draws import Draw, drawn, facts_of, mirrored
from governance.demo.habits import HABITS, Habit
from governance.demo.profiles import profile_of
from governance.demo.world import BAD_BURST, SEED, Choice, Choices, World
from routing.core.calls import Coverage
from routing.core.failures import FAILURES, FailureKind, Retry
from routing.core.plan import Step
from routing.core.pricing import cost, price_at
from routing.core.requirements import complexity
from routing.core.vocabulary import Operation
from telemetry.records import AttemptRecord, CallRecord, FactsRecord, RouteName, TokenCounts, call_id_of

BUSY_END = timedelta(minutes=15)
"""The end of the past in which every habit has just happened, so that every provider has calls that health counts."""

_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)
_INVALID_RATE = 0.004
_NO_USAGE_RATE = 0.05  # of the streams of our own machines
_RESCUE_RATE = 0.93
_RECOVERY_RATE = 0.55


@dataclass(frozen=True, slots=True)
class _Fault:
    kind: FailureKind
    code: str
    latency_ms: float
    share: float


_FAULTS = (
    _Fault(FailureKind.TRANSIENT, "server_error", 420.0, 0.55),
    _Fault(FailureKind.RATE_LIMITED, "rate_limit_exceeded", 95.0, 0.3),
    _Fault(FailureKind.TIMEOUT, "timeout", 30_000.0, 0.15),
)
_SHARES = [fault.share for fault in _FAULTS]


def calls_between(start: datetime, end: datetime, *, world: World) -> Iterator[CallRecord]:
    """Calls that started after ``start`` and had ended by ``end``, oldest first. Twos stay together."""
    choices = Choices(world)
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    busy = max(start, end - BUSY_END)
    hour = start.replace(minute=0, second=0, microsecond=0)
    while hour <= end:
        groups = [group for index in range(len(HABITS)) for group in _calls_of_hour(index, hour, choices)]
        if hour + _HOUR > busy:
            groups += _calls_of_busy_end(max(hour, busy), min(hour + _HOUR, end), choices)
        within = [
            record
            for group in groups
            if all(start < record.started_at and _end(record) <= end for record in group)
            for record in group
        ]
        yield from sorted(within, key=lambda record: (record.started_at, record.call_id))
        hour += _HOUR


def _calls_of_hour(index: int, hour: datetime, choices: Choices) -> Iterator[list[CallRecord]]:
    """The calls of one habit in one hour, those that belong together as one list."""
    habit = HABITS[index]
    rng = random.Random(f"{SEED}/{index}/{hour.isoformat()}")
    expected = habit.expected(hour)
    if profile_of(habit.usually, habit.operation).stated:
        expected /= 2  # they come in twos
    usual = choices.world.snapshot.catalogue.by_identifier.get(habit.usually)
    if usual is not None and choices.world.is_bad(usual.provider.identifier, hour):
        expected *= BAD_BURST
    for _ in range(math.floor(expected) + (rng.random() < expected % 1)):
        yield _Asking(habit, hour + rng.random() * _HOUR, choices, rng).calls()


def _calls_of_busy_end(start: datetime, end: datetime, choices: Choices) -> Iterator[list[CallRecord]]:
    """A habit a minute, each in its turn."""
    minute = start.replace(second=0, microsecond=0)
    while minute < end:
        number = int(minute.timestamp()) // 60
        rng = random.Random(f"{SEED}/minute/{number}")
        yield _Asking(HABITS[number % len(HABITS)], minute + rng.random() * _MINUTE, choices, rng).calls()
        minute += _MINUTE


@dataclass(slots=True)
class _Asking:
    """An application asks at a moment: what became of it."""

    habit: Habit
    moment: datetime
    choices: Choices
    rng: random.Random
    attempts: list[AttemptRecord] = field(default_factory=list)

    def calls(self) -> list[CallRecord]:
        """One call, or the two that together stand at stated means, or none if the configuration is gone."""
        choice = self.choices.of(self.habit, self.moment)
        if choice is None:
            return []
        if not choice.plan.steps:
            return [self._unserved(choice)]
        step, point = choice.plan.steps[0], self.rng.random()
        rate = self.choices.world.fault_rate(step.model.provider.identifier, self.moment)
        if point < rate:
            return [self._troubled(choice)]
        if point < rate + _INVALID_RATE:
            return [self._invalid(choice)]
        profile = profile_of(step.model.identifier, self.habit.operation)
        if not profile.stated:
            return [self._served(choice, step, drawn(profile, self.rng))]
        above, below = mirrored(profile, self.rng)
        first = self._served(choice, step, above)
        self.moment += timedelta(microseconds=self.rng.randint(300, 3000))
        return [first, self._served(choice, step, below)]

    def _blank(self, choice: Choice) -> CallRecord:
        """The call before anything was sent."""
        habit = self.habit
        user = f"{habit.application}-{self.rng.randint(1, habit.users):02d}" if habit.users else ""
        return CallRecord(
            call_id=call_id_of(milliseconds=int(self.moment.timestamp() * 1000), noise=self.rng.getrandbits(80)),
            started_at=self.moment,
            requested=habit.configuration,
            operation=habit.operation.value,
            application=habit.application,
            key=self.choices.world.keys[habit.application],
            user=user,
            source=SOURCE,
            streamed=habit.operation in (Operation.STREAM, Operation.STREAM_TOOLS),
            first=RouteName(),
            served=RouteName(configuration=habit.configuration),
            success=False,
            failure_kind="",
            first_failure_kind="",
            error_class="",
            latency_ms=2.0,
            decision=choice.summary,
        )

    def _served(self, choice: Choice, step: Step, draw: Draw, *, waited_ms: float = 0.0) -> CallRecord:
        """Answered by this step, after the attempts so far and a wait."""
        record, route = self._blank(choice), RouteName.of(step)
        before = sum(each.waited_ms + each.latency_ms for each in self.attempts) + waited_ms
        first = self.attempts[0].route if self.attempts else route
        asked = {each.route for each in self.attempts} | {route}
        record = self._priced(record, step, draw)
        answered = AttemptRecord(
            index=len(self.attempts),
            route=route,
            started_at=self.moment + timedelta(milliseconds=before),
            latency_ms=draw.latency_ms,
            waited_ms=waited_ms,
            tokens=record.tokens,
            cost_nanos=record.cost_nanos,
            cost_currency=record.cost_currency,
        )
        return replace(
            record,
            first=first,
            served=route,
            success=True,
            first_failure_kind="" if first == route else self._ending(first),
            latency_ms=before + draw.latency_ms,
            first_token_ms=before + draw.first_token_ms if record.streamed else None,
            fallback_attempts=len(asked) - 1,
            retries=len(self.attempts) + 1 - len(asked),
            requests_sent=len(self.attempts) + 1,
            response_model=route.model_id,
            attempts=(*self.attempts, answered),
        )

    def _troubled(self, choice: Choice) -> CallRecord:
        """The first request met a fault: asked again, rescued by another route, or lost."""
        world, rng = self.choices.world, self.rng
        for number, step in enumerate(choice.plan.steps):
            profile = profile_of(step.model.identifier, self.habit.operation)
            bad = world.is_bad(step.model.provider.identifier, self.moment)
            if number and not bad and rng.random() < _RESCUE_RATE:
                return self._served(choice, step, drawn(profile, rng))
            (fault,) = rng.choices(_FAULTS, weights=_SHARES)
            self._fail(step, fault)
            if FAILURES[fault.kind].retry not in (Retry.AFTER_STATED_WAIT, Retry.BACKING_OFF):
                continue
            wait = 1000.0 if fault.kind is FailureKind.RATE_LIMITED else 250.0
            # A second try would count towards a stated mean, so there it never helps.
            if not bad and not profile.stated and rng.random() < _RECOVERY_RATE:
                return self._served(choice, step, drawn(profile, rng), waited_ms=wait)
            self._fail(step, fault, waited_ms=wait)
        return self._lost(choice)

    def _fail(self, step: Step, fault: _Fault, *, waited_ms: float = 0.0) -> None:
        passed = sum(each.waited_ms + each.latency_ms for each in self.attempts) + waited_ms
        self.attempts.append(
            AttemptRecord(
                index=len(self.attempts),
                route=RouteName.of(step),
                started_at=self.moment + timedelta(milliseconds=passed),
                latency_ms=round(fault.latency_ms * self.rng.uniform(0.8, 1.3), 3),
                waited_ms=waited_ms,
                failure_kind=fault.kind.value,
                error_code=fault.code,
            )
        )

    def _lost(self, choice: Choice) -> CallRecord:
        """Nobody answered."""
        first, last = self.attempts[0], self.attempts[-1]
        asked = {each.route for each in self.attempts}
        return replace(
            self._measured(self._blank(choice), choice.plan.steps[0]),
            first=first.route,
            failure_kind=last.failure_kind,
            first_failure_kind=self._ending(first.route),
            error_class=last.error_code,
            latency_ms=sum(each.waited_ms + each.latency_ms for each in self.attempts),
            fallback_attempts=len(asked) - 1,
            retries=len(self.attempts) - len(asked),
            requests_sent=len(self.attempts),
            attempts=tuple(self.attempts),
        )

    def _invalid(self, choice: Choice) -> CallRecord:
        """The provider took the request for the caller's mistake."""
        step, kind = choice.plan.steps[0], FailureKind.INVALID_REQUEST.value
        return replace(
            self._measured(self._blank(choice), step),
            first=RouteName.of(step),
            failure_kind=kind,
            first_failure_kind=kind,
            error_class="invalid_request_error",
            latency_ms=round(self.rng.uniform(60, 180), 3),
            requests_sent=1,
        )

    def _unserved(self, choice: Choice) -> CallRecord:
        """Nobody may serve it, as when somebody switched a model off."""
        kind = FailureKind.UNSUPPORTED.value
        return replace(self._blank(choice), failure_kind=kind)

    def _ending(self, route: RouteName) -> str:
        """How a route that did not answer ended."""
        return [each.failure_kind for each in self.attempts if each.route == route][-1]

    def _measured(self, record: CallRecord, step: Step, *, prompt: int | None = None) -> CallRecord:
        """With the sizes of the request, as if it had so many tokens of prompt."""
        if prompt is None:
            prompt = profile_of(step.model.identifier, self.habit.operation).prompt
        facts = facts_of(self.habit.operation, prompt, self.rng)
        measured = complexity(facts, context_length=step.model.context_length)
        return replace(
            record,
            facts=FactsRecord.of(facts),
            complexity_score=measured.score,
            context_percent=measured.context_percent,
        )

    def _priced(self, record: CallRecord, step: Step, draw: Draw) -> CallRecord:
        """With what the answer used and cost."""
        usage, model = draw.usage, step.model
        record = self._measured(record, step, prompt=usage.prompt)
        if record.streamed and model.provider.reach.is_on_device and self.rng.random() < _NO_USAGE_RATE:
            return record
        price = price_at(model.prices, record.started_at)
        paid = None if price is None else cost(usage, price)
        return replace(
            record,
            tokens=TokenCounts.of(usage),
            coverage=Coverage.EXACT.value,
            cost_nanos=None if paid is None else paid.nanos,
            cost_currency="" if paid is None else paid.currency,
        )


def _end(record: CallRecord) -> datetime:
    return record.started_at + timedelta(milliseconds=record.latency_ms)
