"""Budgets as bars: what of a limit is spent, reserved and uncertain, with the figures that say the same in words."""

from dataclasses import dataclass

from django.urls import reverse

from budgets.readouts import Standing
from governance.spelling import spell_cost


@dataclass(frozen=True, slots=True)
class BudgetBar:
    """A budget in one account. Parts of the limit are in per cent, and together at most 100; ``address`` leads to the
    account, ``None`` of one in which nothing was ever reserved."""

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


def bar_of(standing: Standing) -> BudgetBar:
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
        **spelled,
    )
