"""Which tiers of budgets are in force for a call, by what was crossed in the accounts that it counts in.

Asked for every call where any budget has tiers, so it reads no database: what was crossed is in the process's memory.
A tier in force is one for the whole window, whatever becomes of the limit afterwards.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from budgets.crossings import Crossed, Crossings
from budgets.scopes import BudgetBook, BudgetSpec, Subject, Tier
from routing.core.tiers import BudgetTier


def tiers_for(
    book: BudgetBook, subjects: Iterable[Subject], crossings: Crossings, *, moment: datetime
) -> tuple[BudgetTier, ...]:
    """The tiers in force for a call that counts as each of these subjects: every strict one, and of the advisory ones
    that with the highest threshold, of equal ones the first by its budget's identifier.

    Args:
        book: the budgets in force.
        subjects: who asks, for the configuration asked for and, behind it, for one that it falls back to. Which
            provider serves is not known yet, so a budget that names one has no tiers.
        crossings: what was crossed.
        moment: when the call began.
    """
    if not book.has_tiers:
        return ()
    found: dict[str, BudgetTier] = {}
    for subject in subjects:
        for budget in book.applying_to(subject):
            tier = _tier(budget, subject, crossings, moment=moment) if budget.tiers else None
            known = found.get(budget.identifier)
            if tier is not None and (known is None or known.threshold < tier.threshold):
                found[budget.identifier] = tier
    ordered = sorted(found.values(), key=lambda each: each.budget)
    advisory = max((each for each in ordered if not each.is_strict), key=lambda each: each.threshold, default=None)
    return tuple(each for each in ordered if each.is_strict or each is advisory)


def _tier(budget: BudgetSpec, subject: Subject, crossings: Crossings, *, moment: datetime) -> BudgetTier | None:
    """The step of a budget's ladder that is in force for a subject; ``None`` if none is.

    Where it was never read what is crossed, a strict ladder allows nobody.
    """
    limit, is_strict = budget.limit_at(moment), budget.enforces_targets
    if limit > 0 and not crossings.is_read:
        return BudgetTier(budget.identifier, budget.tiers[0].threshold, None, (), is_strict) if is_strict else None
    crossed = crossings.of(budget.account_of(subject, moment=moment).identity, budget.identifier)
    reached = step_of(budget, crossed, limit=limit)
    if reached is None:
        return None
    tier, percent = reached
    return BudgetTier(budget.identifier, tier.threshold, percent, tier.targets, is_strict)


def step_of(budget: BudgetSpec, crossed: Sequence[Crossed], *, limit: int) -> tuple[Tier, int] | None:
    """The highest step of a budget's ladder that is in force in an account, and how many per cent were used up when it
    was reached first; ``None`` if none is.

    A step is in force once its threshold, or a higher one that is not in the ladder any more, was crossed. What may
    cost nothing is used up from the beginning.

    Args:
        budget: the budget.
        crossed: what it has crossed there, ascending by threshold.
        limit: its limit of the moment.
    """
    if limit <= 0 and budget.tiers:
        return budget.tiers[-1], 100
    for tier in reversed(budget.tiers):
        by = [each for each in crossed if each.threshold >= tier.threshold]
        if by:
            return tier, by[0].percent
    return None
