"""Reserves the most that an attempt can cost before it is sent, and books what it did cost afterwards.

Every request to a provider is an attempt of its own, repetitions included. A call that no budget applies to asks the
database nothing. Where the ledger cannot be reached, nothing is sent under a hard budget; a soft one is then not
booked, since it must not make a call fail. No connection is held while the provider is waited for, and no answer waits
for its booking.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError

from budgets.crossings import Spending, watches_of
from budgets.ledger import Claim, Closed, Outcome, OverBudget, Reservation
from budgets.scopes import BudgetSpec, Subject, Unpriced
from governance.decisions import within_tiers
from governance.gateway.context import Answer, Attempt, CallContext, Proceed, Services
from governance.gateway.deadline import seconds_left
from governance.gateway.streams import EndedStream
from routing.core.calls import CallReply
from routing.core.catalogue import ModelSpec
from routing.core.failures import Failure, FailureKind
from routing.core.money import Money, format_nanos
from routing.core.plan import BUDGET_TARGET_CHANGED, RouteSkipped, Step, tier_failure
from routing.core.pricing import price_at
from routing.core.tiers import strict_targets
from routing.core.vocabulary import SkipReason
from telemetry.records import new_call_id

logger = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that the ledger may take before it counts as not reachable; fewer if the call has fewer left."""

MARGIN = timedelta(minutes=2)
"""How much longer than the provider's time-out an attempt may hold what it has reserved."""

BUDGET_EXCEEDED = "budget_exceeded"
LEDGER_UNREACHABLE = Failure(
    FailureKind.TRANSIENT,
    "the ledger of budgets cannot be reached, and a hard budget applies: nothing was sent",
    code="ledger_unreachable",
    retry_after=1.0,
)
_AGAIN = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # seconds between two tries to book an outcome


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Reserve, go on, book."""
    step = context.step
    if step is None:
        raise RuntimeError("budget runs behind fall_through")
    _refuse_what_no_tier_allows(context, step)
    subject = _subject(context, step)
    budgets = context.standing.budgets.applying_to(subject)
    if not budgets:
        return await proceed(context)
    booking = _Booking(context, budgets, subject)
    await booking.reserve(_claims(context, step.model, budgets, subject))
    try:
        answer = await proceed(context)
    except BaseException:
        await booking.close()
        raise
    if isinstance(answer, CallReply):
        await booking.close()
        return answer
    return EndedStream(answer, booking.close)


def _refuse_what_no_tier_allows(context: CallContext, step: Step) -> None:
    """Look once more, before every attempt, whether strict tiers allow the route: one may have come into force since.

    Raises:
        RouteSkipped: one has, and does not.
    """
    ruling, standing = context.notes.ruling, context.standing
    if ruling is None or not standing.budgets.has_tiers:
        return
    who = _subject(context, step)
    asked = (ruling.decision.configuration, step.configuration)
    tiers = within_tiers(standing, context.limits, who, *asked, now=context.started_at).tiers
    targets = strict_targets(tiers)
    if targets is not None and step.model.identifier not in targets:
        told = f"{step.model.route} was planned before"
        failure = tier_failure(tiers, told, code=BUDGET_TARGET_CHANGED, may_know=context.limits.allowed_models)
        raise RouteSkipped(SkipReason.BUDGET_TARGET_ONLY, failure=failure)


class _Booking:
    """What one attempt holds, until its outcome is booked."""

    __slots__ = ("_already_sent", "_attempt", "_budgets", "_context", "_holding", "_subject")

    def __init__(self, context: CallContext, budgets: Sequence[BudgetSpec], subject: Subject) -> None:
        self._context = context
        self._budgets = budgets
        self._subject = subject
        self._attempt = new_call_id()
        self._already_sent = len(context.notes.attempts)
        self._holding: asyncio.Task[None] | None = None

    async def reserve(self, claims: Sequence[Claim]) -> None:
        """Hold what the attempt can cost.

        Raises:
            RouteSkipped: a hard budget has no room for it, or the ledger cannot be reached.
        """
        context, now = self._context, datetime.now(UTC)
        services, expires_at = context.services, now + _longest(context) + MARGIN
        reservation = Reservation(self._attempt, context.call_id, claims, now, expires_at)
        self._holding = services.owe(services.bookkeeper.reserve(reservation))
        try:
            async with asyncio.timeout(min(PATIENCE, max(0.0, seconds_left(context)))):
                await asyncio.shield(self._holding)
        except OverBudget as refused:
            context.notes.refusals.append(refused)
            failure = _over_budget(context, refused, now=now)
            told = f"can cost up to {_needed(refused)}, and {refused.claim.budget} has {_left(refused)} left"
            raise RouteSkipped(SkipReason.NOT_AFFORDABLE, told, failure=failure) from None
        except asyncio.CancelledError:
            self._leave(now)
            raise
        except (DatabaseFault, TimeoutError) as error:
            logger.warning("the ledger cannot be reached (%s)", type(error).__name__)
            if any(claim.limit is not None for claim in claims):
                self._leave(now)
                raise RouteSkipped(
                    SkipReason.LEDGER_UNREACHABLE, LEDGER_UNREACHABLE.message, failure=LEDGER_UNREACHABLE
                ) from None

    async def close(self) -> None:
        """Let the outcome be booked, whoever leaves. The answer does not wait for it."""
        self._close(self._outcome())

    def _leave(self, now: datetime) -> None:
        """Hold nothing: nothing is sent."""
        if not self._context.services.bookkeeper.withdraw(self._attempt):
            self._close(Outcome(self._attempt, now, was_sent=False))

    def _close(self, outcome: Outcome) -> None:
        services, holding = self._context.services, self._holding
        if holding is not None and not holding.done():  # the call left before it was known what it holds
            services.owe(self._book_after(holding, outcome))
            return
        # Said before the answer is given: the program may end with it.
        services.owe(self._book(outcome, services.bookkeeper.close(outcome)))

    async def _book_after(self, holding: "asyncio.Task[None]", outcome: Outcome) -> None:
        await asyncio.gather(holding, return_exceptions=True)
        await self._book(outcome, self._context.services.bookkeeper.close(outcome))

    async def _book(self, outcome: Outcome, booking: "asyncio.Future[Closed]") -> None:
        closed = await _booked(self._context.services, outcome, booking)
        if closed is not None:
            await self._note_crossings(closed)

    async def _note_crossings(self, closed: Closed) -> None:
        """Note which thresholds of its budgets the outcome has crossed. What cannot be noted the next look finds."""
        context, now = self._context, datetime.now(UTC)
        watches = watches_of(self._budgets, self._subject, began=context.started_at, now=now)
        if not watches:
            return
        crossings = context.standing.crossings
        spendings = {name: Spending(each.spent, each.uncertain) for name, each in closed.balances.items()}
        news = crossings.news(watches, spendings, now=now)
        if news:
            try:
                await context.services.bridge.begin(partial(crossings.note, news))
            except DatabaseFault as error:
                logger.warning("crossed thresholds cannot be noted yet (%s)", type(error).__name__)

    def _outcome(self) -> Outcome:
        """What is to be said to the ledger."""
        attempts, now = self._context.notes.attempts, datetime.now(UTC)
        sent = attempts[-1] if len(attempts) > self._already_sent else None
        if sent is None or self._is_free(sent):
            return Outcome(self._attempt, now, was_sent=False)
        return Outcome(self._attempt, now, sent.charge)

    def _is_free(self, sent: Attempt) -> bool:
        """Whether it is certain that nothing is charged: never sent, or answered with an error before any token."""
        return sent.failure is not None and sent.failure.is_free and self._context.notes.first_token is None


async def _booked(services: Services, outcome: Outcome, booking: "asyncio.Future[Closed]") -> Closed | None:
    """What the outcome came to. Where the ledger is away for long the attempt becomes an orphan, and its bound
    uncertain."""
    for seconds in (*_AGAIN, None):
        try:
            return await booking
        except DatabaseFault as error:
            logger.warning("an outcome waits to be booked: the ledger cannot be reached (%s)", type(error).__name__)
        except Exception:
            logger.exception("an outcome cannot be booked; what was reserved for it becomes uncertain")
            return None
        if seconds is not None:
            await asyncio.sleep(seconds)
            booking = services.bookkeeper.close(outcome)
    return None


def _subject(context: CallContext, step: Step) -> Subject:
    return Subject(
        application=context.caller.application,
        key=context.caller.key,
        user=context.user,
        configuration=step.configuration,
        provider=step.model.provider.identifier,
    )


def _longest(context: CallContext) -> timedelta:
    """How long the provider is waited for at most."""
    step = context.step
    provider = None if step is None else context.standing.snapshot.providers.get(step.model.provider.identifier)
    return timedelta(hours=1) if provider is None else timedelta(seconds=float(provider.total_timeout))


def _claims(context: CallContext, model: ModelSpec, budgets: Sequence[BudgetSpec], subject: Subject) -> list[Claim]:
    """What the attempt needs of each budget.

    Raises:
        RouteSkipped: a hard budget cannot be compared with what the route costs.
    """
    bounds = _bounds(context, model)
    claims = []
    for budget in budgets:
        incomparable = _incomparable(budget, model, bounds)
        if incomparable and budget.is_hard:
            failure = Failure(FailureKind.OVER_BUDGET, incomparable, code=BUDGET_EXCEEDED)
            raise RouteSkipped(SkipReason.NOT_AFFORDABLE, incomparable, failure=failure)
        is_counted = bounds and all(bound.currency == budget.currency for bound in bounds)
        claims.append(
            Claim(
                budget=budget.identifier,
                account=budget.account_of(subject, moment=context.started_at),
                amount=max(bound.nanos for bound in bounds) if is_counted else None,
                limit=budget.limit_at(context.started_at) if budget.is_hard else None,
            )
        )
    return claims


def _bounds(context: CallContext, model: ModelSpec) -> Sequence[Money]:
    """The most that the attempt can cost, by each price that it may be charged at; nothing of a model without one."""
    price = price_at(model.prices, context.started_at)
    policy = context.standing.settings.routing
    if price is None:
        return ()
    return model.upper_bounds(price, context.requirements, assumed=policy.assumed)


def _incomparable(budget: BudgetSpec, model: ModelSpec, bounds: Sequence[Money]) -> str:
    """Why a hard budget cannot tell whether it can afford the route; empty if it can, or does not ask."""
    if not bounds:
        refuses = budget.unpriced is Unpriced.REFUSE
        words = f"{model.route} has no price, and the budget {budget.identifier} refuses what has none"
        return words if refuses else ""
    other = next((bound.currency for bound in bounds if bound.currency != budget.currency), "")
    counts = f"the budget {budget.identifier} counts {budget.currency}"
    return f"{model.route} is priced in {other}, and {counts}" if other else ""


def _over_budget(context: CallContext, refused: OverBudget, *, now: datetime) -> Failure:
    """The refusal with everything that its reader needs: whose budget, how it stands, what was asked, until when."""
    claim, balance = refused.claim, refused.balance
    window, currency = claim.account.window, claim.account.currency
    spent, reserved, uncertain = map(format_nanos, (balance.spent, balance.reserved, balance.uncertain))
    prompt = context.requirements.prompt_tokens or 0
    message = (
        f"the budget {claim.budget} ({claim.account.scope}; {window.identity}) has {_left(refused)} left of "
        f"{format_nanos(claim.limit or 0)}: spent {spent}, reserved {reserved}, uncertain {uncertain}. The request can "
        f"cost up to {_needed(refused)}, with about {prompt} tokens of prompt and all the output that it allows"
    )
    told = {
        "budget": claim.budget,
        "scope": str(claim.account.scope),
        "window": window.identity,
        "currency": currency,
        "limit": format_nanos(claim.limit or 0),
        "spent": spent,
        "reserved": reserved,
        "uncertain": uncertain,
        "needed": None if claim.amount is None else format_nanos(claim.amount),
        "resets_at": None if window.ends is None else window.ends.isoformat(),
    }
    return Failure(
        FailureKind.OVER_BUDGET,
        message,
        code=BUDGET_EXCEEDED,
        retry_after=None if window.ends is None else max(0.0, (window.ends - now).total_seconds()),
        details=told,
    )


def _left(refused: OverBudget) -> str:
    claim = refused.claim
    left = max(0, (claim.limit or 0) - refused.balance.committed)
    return f"{format_nanos(left)} {claim.account.currency}"


def _needed(refused: OverBudget) -> str:
    claim = refused.claim
    return "nobody knows how much" if claim.amount is None else f"{format_nanos(claim.amount)} {claim.account.currency}"
