"""Budgets as bars: what of a limit is spent, reserved and uncertain, with the figures that say the same in words."""

from collections.abc import Container
from dataclasses import dataclass

from django.urls import reverse

from budgets.readouts import Standing
from budgets.scopes import BudgetSpec, Tier
from budgets.tiers import step_of
from governance.spelling import spell_cost


@dataclass(frozen=True, slots=True)
class BudgetBar:
    """A budget in one account. Parts of the limit are in per cent, and together at most 100; ``address`` leads to the
    account, ``None`` of one in which nothing was ever reserved. ``tier`` says which step of the ladder is in force."""

    standing: Standing
    scope: str
    spent_percent: int
    reserved_percent: int
    uncertain_from: int
    uncertain_percent: int
    spent: str
    reserved: str
    uncertain: str
    left: str
    limit: str
    address: str | None
    has_thresholds: bool
    tier: str


def bar_of(standing: Standing, budget: BudgetSpec) -> BudgetBar:
    """What a bar shows of a budget in one account."""
    spent = standing.percent(standing.spent)
    reserved = min(100 - spent, standing.percent(standing.reserved))
    spelled = {
        part: spell_cost(getattr(standing, part), standing.currency)
        for part in ("spent", "reserved", "uncertain", "left", "limit")
    }
    return BudgetBar(
        standing=standing,
        scope=str(standing.scope),
        spent_percent=spent,
        reserved_percent=reserved,
        uncertain_from=spent + reserved,
        uncertain_percent=min(100 - spent - reserved, standing.percent(standing.uncertain)),
        address=None if standing.pk is None else reverse("admin:budgets_account_change", args=[standing.pk]),
        has_thresholds=bool(budget.thresholds),
        tier=_tier(standing, budget),
        **spelled,
    )


def _tier(standing: Standing, budget: BudgetSpec) -> str:
    reached = step_of(budget, standing.crossed, limit=standing.limit)
    if reached is None:
        return ""
    tier, _ = reached
    return f"Tier from {tier.threshold} % in force: {_step(tier, budget)}"


def ladder_words(budget: BudgetSpec, *, in_service: Container[str]) -> str:
    """What its ladder leads to, and which of its models nobody can be led to now; empty without one."""
    if not budget.tiers:
        return ""
    steps = "; ".join(f"from {tier.threshold} % on {_step(tier, budget)}" for tier in budget.tiers)
    named = dict.fromkeys(target for tier in budget.tiers for target in tier.targets)
    missing = ", ".join(each for each in named if each not in in_service)
    return f"{steps[:1].upper()}{steps[1:]}." + (f" Not in service: {missing}." if missing else "")


def _step(tier: Tier, budget: BudgetSpec) -> str:
    targets = ", ".join(tier.targets)
    return f"only {targets} may serve" if budget.enforces_targets else f"{targets} goes first"
