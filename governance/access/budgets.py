"""The budgets in force, as values: which of them apply to a call costs no query. And which of them a key is told of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from budgets.scopes import EACH, BudgetBook, BudgetSpec, Scope, Tier, Unpriced
from budgets.windows import WindowKind
from governance.access.directory import Caller
from governance.models import AccessVersion, Budget
from routing.snapshots import Polled


def load_budgets() -> BudgetBook:
    """Read all budgets in force, with their tiers: two queries."""
    rows = Budget.objects.filter(is_active=True, retired_at=None).prefetch_related("tiers")
    return BudgetBook.of(spec_of(row) for row in rows)


def budget_poll() -> Polled[BudgetBook]:
    """A poll of the budgets, for one process."""
    return Polled(name="budgets", read_version=AccessVersion.read, load=load_budgets)


@dataclass(frozen=True, slots=True)
class ToldBudget:
    """A budget that calls of a key count in, as its holder is told of it.

    ``budget`` has the part of the scope that the key's calls are in. ``is_own`` if nobody's calls count there but
    those of the key's application.
    """

    budget: BudgetSpec
    is_own: bool


def told_to(caller: Caller, budgets: Iterable[BudgetSpec], *, known: Mapping[str, str]) -> tuple[ToldBudget, ...]:
    """The budgets that a key is told of: those that its calls count in, without what is others' in them.

    What is named in a scope is told where the scope is the application's own. A budget over several applications is
    told unless it names a user, who may be one of another application; and none is told of that names a configuration
    which the key may not use.

    Args:
        caller: whose key it is.
        budgets: those in force.
        known: other columns of which one value alone is asked for.
    """
    found = []
    for budget in budgets:
        scope = budget.scope.within({**known, "application": caller.application, "key": caller.key})
        if scope is None:
            continue
        is_own = scope.application is not None or scope.key is not None
        names_another = not is_own and budget.scope.user not in (None, EACH)
        configuration = budget.scope.configuration
        may_ask = configuration in (None, EACH) or caller.may_ask_for(str(configuration))
        if may_ask and not names_another:
            found.append(ToldBudget(replace(budget, scope=scope), is_own))
    return tuple(found)


def spec_of(row: Budget) -> BudgetSpec:
    """A record as the value that calls are held to."""
    return BudgetSpec(
        identifier=row.identifier,
        scope=Scope(
            application=row.application or None,
            key=row.key or None,
            user=row.user or None,
            configuration=row.configuration or None,
            provider=row.provider or None,
        ),
        currency=row.currency,
        limit=row.limit,
        is_hard=row.is_hard,
        window=WindowKind(row.window),
        zone=row.zone,
        unpriced=Unpriced(row.unpriced),
        increase=row.increase or 0,
        increase_until=row.increase_until,
        alerts=tuple(sorted(row.alert_thresholds)),
        tiers=_ladder(row),
        enforces_targets=row.enforce_targets,
    )


def _ladder(row: Budget) -> tuple[Tier, ...]:
    """A budget's tiers, one for each per cent."""
    ladder: dict[int, list[str]] = {}
    for tier in row.tiers.all():
        ladder.setdefault(tier.threshold, []).append(tier.model)
    return tuple(Tier(threshold, tuple(models)) for threshold, models in ladder.items())
