"""Tiers of budgets that are in force for a call: what was used up, and which models are to serve instead.

Which tiers are in force is the business of whoever knows budgets; here is what they mean to a decision. An advisory
tier wishes for its targets, a strict one allows no others. Strict tiers that name different targets leave none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BudgetTier:
    """One tier in force.

    Attributes:
        budget: the identifier of the budget.
        threshold: the per cent of the limit from which on it is in force.
        percent: how much was used up when that was crossed; ``None`` where nobody could tell, and then a strict tier
            names no targets.
        targets: identifiers of the models that are to serve, the best first.
        is_strict: whether nothing else may serve.
    """

    budget: str
    threshold: int
    percent: int | None
    targets: tuple[str, ...]
    is_strict: bool

    @property
    def told(self) -> str:
        """What is the matter with the budget. Models are not named: whoever reads it may not know them all."""
        if self.percent is None:
            return f"whether the budget {self.budget} is past a strict tier cannot be read just now"
        return f"{self.percent} % of the budget {self.budget} are used up, which is past its tier at {self.threshold} %"

    @property
    def meaning(self) -> str:
        """What follows from it, models named."""
        targets = ", ".join(self.targets) or "nobody"
        return f"only {targets} may serve" if self.is_strict else f"{targets} goes first where it may serve"


def strict_targets(tiers: Iterable[BudgetTier]) -> frozenset[str] | None:
    """The only models that strict tiers allow; ``None`` if there is none of them."""
    named = [frozenset(each.targets) for each in tiers if each.is_strict]
    return frozenset.intersection(*named) if named else None


def substitutes(tiers: Iterable[BudgetTier]) -> tuple[str, ...]:
    """The models that tiers name, each once, in their order."""
    return tuple(dict.fromkeys(target for each in tiers for target in each.targets))


def wish_of(tiers: Iterable[BudgetTier], eligible: Sequence[str]) -> tuple[BudgetTier, str] | None:
    """The first advisory tier whose wish can be met, and the model that goes first by it.

    That is the target that would go first anyway, else the best target of those that may serve.

    Args:
        tiers: the tiers in force.
        eligible: the models that may serve, in order.
    """
    for tier in tiers:
        targets = [] if tier.is_strict else [each for each in tier.targets if each in eligible]
        if targets:
            return tier, eligible[0] if eligible[0] in targets else targets[0]
    return None
