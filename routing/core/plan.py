"""From decisions to the routes a call will walk: candidates in order, then the fallback configurations.

A class rule or a session pin may move one *eligible* candidate to the head, unless an advisory tier of a budget has put
another one there in the decision; none of them can make a refused one eligible. Fallback configurations are decided on
their own terms, one hop deep. What was passed over stands in the plan as a value, because a router that will not say
why it avoided something cannot be debugged at night.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from routing.core.catalogue import ModelSpec
from routing.core.decision import Candidate, Decision
from routing.core.failures import Failure, FailureKind
from routing.core.tiers import BudgetTier, wish_of
from routing.core.vocabulary import LABELS, SkipReason

PIN = "pin"
UNKNOWN_HEALTH = 0.5

BUDGET_TARGET_UNAVAILABLE = "budget_target_unavailable"
"""The code of a failure whose cause is that a strict tier leaves nobody who may serve."""

BUDGET_TARGET_CHANGED = "budget_target_changed"
"""The code of a failure whose cause is that a strict tier came into force while the call was under way."""

BUDGET_TIERS_UNREAD = "budget_tiers_unread"
"""The code of a failure whose cause is that nobody can tell whether a strict tier is in force."""


@dataclass(frozen=True, slots=True)
class Preference:
    """A wish to be served by one model.

    ``label`` is ``pin``, ``tier:`` with a budget's identifier, or a class rule's name; ``shadow`` means that the rule
    only says what it would have done.
    """

    model: str
    label: str
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    """A route or a fallback configuration that was passed over without being asked.

    ``again_in`` are the seconds until it may be asked, where that is known. ``failure`` is what a caller is told if
    that is what the call ends for; ``None`` if the reason says it all.
    """

    name: str
    reason: SkipReason
    detail: str
    again_in: float | None = None
    failure: Failure | None = None

    @classmethod
    def of(
        cls,
        name: str,
        reason: SkipReason,
        detail: str = "",
        *,
        again_in: float | None = None,
        failure: Failure | None = None,
    ) -> "Skip":
        """A skip whose sentence is the reason's label unless something more exact is known."""
        return cls(name, reason, detail or LABELS[reason], again_in, failure)


class RouteSkipped(Exception):
    """Raised right before anything is sent: a route that cannot be asked now, for a reason that passes.

    That is no failure of the route, and not repeated; the next route of the plan is asked instead.
    """

    def __init__(
        self,
        reason: SkipReason,
        detail: str = "",
        *,
        again_in: float | None = None,
        failure: Failure | None = None,
    ) -> None:
        super().__init__(detail or LABELS[reason])
        self.reason = reason
        self.detail = detail
        self.again_in = again_in
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Step:
    """One route of a plan and the configuration it stands for."""

    configuration: str
    model: ModelSpec


@dataclass(frozen=True, slots=True)
class Fallback:
    """A fallback configuration of the one asked for: its decision, or why there is none.

    ``limit`` is how many routes it may add; those that stand in the plan already do not count.
    """

    configuration: str
    decision: Decision | None = None
    limit: int = 3
    skip: SkipReason | None = None


def healthiest_first(
    fallbacks: Sequence[Fallback], *, health: Callable[[ModelSpec], float | None]
) -> tuple[Fallback, ...]:
    """Fallback configurations by the health of the route that each would ask first; of equal ones the order stays.

    Health is from 0 to 1. What is not known, and a configuration that nobody can serve, counts as 0.5.
    """

    def worst_last(fallback: Fallback) -> float:
        first = None if fallback.decision is None else fallback.decision.selected
        known = None if first is None else health(first.model)
        return -(UNKNOWN_HEALTH if known is None else known)

    return tuple(sorted(fallbacks, key=worst_last))


@dataclass(frozen=True, slots=True)
class Plan:
    """The routes in the order they will be asked, what was passed over, and whose preference headed it.

    ``preference`` is empty, ``pin``, ``tier:`` with a budget's identifier, a class rule's name, or such a name followed
    by ``(shadow)``.
    """

    steps: tuple[Step, ...]
    skips: tuple[Skip, ...] = ()
    preference: str = ""


def plan(
    decision: Decision,
    *,
    limit: int,
    preference: Preference | None = None,
    fallbacks: Sequence[Fallback] = (),
    allowed_models: frozenset[str] | None = None,
) -> Plan:
    """Lay out the routes of a call.

    Args:
        decision: of the configuration asked for.
        limit: how many of its candidates may be walked (at least one).
        preference: moves its model to the head if that model is eligible; a shadow moves nothing. What a tier of a
            budget wishes goes before it, and stands at the head already.
        fallbacks: the configuration's fallbacks in order; their own fallbacks are never followed.
        allowed_models: what the caller's key may use; a skip's words name no others.
    """
    ordered, applied = _preferred(decision.eligible, tier_preference(decision) or preference)
    steps = [Step(decision.configuration, each.model) for each in ordered[: max(1, limit)]]
    planned = {step.model.identifier for step in steps}
    skips: list[Skip] = []
    for fallback in fallbacks:
        if fallback.decision is None:
            skips.append(Skip.of(fallback.configuration, fallback.skip or SkipReason.CONFIGURATION_MISSING))
            continue
        if not fallback.decision.eligible:
            detail = fallback.decision.refusal(allowed_models=allowed_models)
            skips.append(Skip.of(fallback.configuration, SkipReason.NOTHING_ELIGIBLE, detail))
        room = max(1, fallback.limit)
        for each in fallback.decision.eligible:
            if room == 0:
                break
            if each.model.identifier in planned:
                skips.append(Skip.of(each.model.route, SkipReason.ALREADY_PLANNED))
                continue
            room -= 1
            planned.add(each.model.identifier)
            steps.append(Step(fallback.configuration, each.model))
    return Plan(tuple(steps), tuple(skips), applied)


def tier_preference(decision: Decision) -> Preference | None:
    """What an advisory tier wishes for, and the decision has put first; ``None`` if none does."""
    wish = wish_of(decision.tiers, [each.model.identifier for each in decision.eligible])
    return None if wish is None else Preference(wish[1], f"tier:{wish[0].budget}")


def tier_failure(tiers: Sequence[BudgetTier], message: str, *, code: str, may_know: frozenset[str] | None) -> Failure:
    """The failure of a call that strict tiers leave nobody for, with the first tier's figures.

    Where it cannot be read whether they are in force, the call may be made again in a moment.
    """
    strict = [each for each in tiers if each.is_strict]
    unread = next((each for each in strict if each.percent is None), None)
    if unread is not None:
        message = f"{unread.told}, and nothing is sent until it can: {message}"
        return Failure(FailureKind.TRANSIENT, message, code=BUDGET_TIERS_UNREAD, retry_after=1.0)
    details: dict[str, str | None] = {}
    if strict:
        first = strict[0]
        known = [each for each in first.targets if may_know is None or each in may_know]
        details = {
            "budget": first.budget,
            "threshold": str(first.threshold),
            "percent": str(first.percent),
            "targets": ", ".join(known) or None,
        }
        message = f"{'; '.join(each.told for each in strict)}: {message}"
    return Failure(FailureKind.OVER_BUDGET, message, code=code, details=details)


def final_failure(
    *,
    decision: Decision,
    last: Failure | None,
    skips: Sequence[Skip],
    tried: Sequence[str] = (),
    allowed_models: frozenset[str] | None = None,
    not_carried: Failure | None = None,
) -> Failure:
    """The failure a caller gets when nothing answered.

    The last provider error, since it is real and has its own advice; else ``over_budget`` if a route was skipped for
    money, and ``transient`` if its budget could not be asked, each in the words of the first such route; else
    ``transient`` if one was resting or saturated; else ``internal_error`` if one cannot be used as it is set up; else
    ``over_budget`` if a strict tier of a budget left nobody; else ``forbidden`` if only the key stood in the way; else
    ``unsupported``. Every skip and every refusal is listed. If routes only rest, it says after how long the first of
    them may be asked.

    Args:
        decision: of the configuration asked for.
        last: the last failure of a route that was asked, if any was.
        skips: what was passed over, planned or at the last moment.
        tried: one line for each request before the last one, in order; each of them failed.
        allowed_models: what the caller's key may use. What it may not is counted, and not named.
        not_carried: of the routes whose protocol has no place for a field, the first one's words; it names the field.
    """
    skipped = _told(skips)
    refusals = decision.refusals(allowed_models=allowed_models)
    if last is not None:
        before = "; ".join([*tried, *skipped, *refusals])
        message = f"{last.message} (not answered either: {before})" if before else last.message
        return replace(last, message=message)
    reasons = {skip.reason for skip in skips}
    for reason in (SkipReason.BUDGET_TARGET_ONLY, SkipReason.NOT_AFFORDABLE, SkipReason.LEDGER_UNREACHABLE):
        first = next((skip.failure for skip in skips if skip.reason is reason and skip.failure is not None), None)
        if first is not None:
            listing = "; ".join([*skipped, *refusals])
            return replace(first, message=f"{first.message}. {listing}")
    if SkipReason.NOT_AFFORDABLE in reasons:
        kind, message, passed = FailureKind.OVER_BUDGET, "no route is affordable", refusals
    elif reasons & {SkipReason.RESTING, SkipReason.SATURATED}:
        kind, message, passed = FailureKind.TRANSIENT, "every route left is resting or busy", refusals
    elif SkipReason.UNUSABLE in reasons:
        kind, message, passed = FailureKind.INTERNAL, "no route can be used as it is set up", refusals
    elif decision.is_for_targets_only:
        words = "; ".join([decision.refusal(allowed_models=allowed_models), *skipped])
        return tier_failure(decision.tiers, words, code=BUDGET_TARGET_UNAVAILABLE, may_know=allowed_models)
    elif decision.eligible:
        kind, message, passed = FailureKind.UNSUPPORTED, "no route can serve the request", refusals
    else:
        kind = FailureKind.FORBIDDEN if decision.is_forbidden else FailureKind.UNSUPPORTED
        message, passed = decision.refusal(allowed_models=allowed_models), ()  # which lists them itself
    listing = "; ".join([*skipped, *passed])
    message = f"{message}. {listing}" if listing else message
    if kind is FailureKind.UNSUPPORTED and not_carried is not None:
        return replace(not_carried, message=message)
    waits = [skip.again_in for skip in skips if skip.again_in is not None]
    return Failure(kind, message, retry_after=min(waits, default=None) if kind is FailureKind.TRANSIENT else None)


def _told(skips: Sequence[Skip]) -> list[str]:
    """Skips in words. Configurations that the key does not allow are counted: their names are not its to know."""
    told = [f"{each.name}: {each.detail}" for each in skips if each.reason is not SkipReason.CONFIGURATION_FORBIDDEN]
    unnamed = len(skips) - len(told)
    return [*told, *([f"fallback configurations that the key does not allow: {unnamed}"] if unnamed else [])]


def _preferred(eligible: tuple[Candidate, ...], preference: Preference | None) -> tuple[tuple[Candidate, ...], str]:
    """The eligible candidates with the preferred one first, and the words a row records of it."""
    if preference is None:
        return eligible, ""
    wanted = [each for each in eligible if each.model.identifier == preference.model]
    if not wanted:
        return eligible, ""
    if preference.shadow:
        return eligible, f"{preference.label} (shadow)"
    rest = tuple(each for each in eligible if each.model.identifier != preference.model)
    return (*wanted, *rest), preference.label
