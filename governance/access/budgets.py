"""The budgets in force, as values: which of them apply to a call costs no query."""

from budgets.scopes import BudgetBook, BudgetSpec, Scope, Unpriced
from budgets.windows import WindowKind
from governance.models import AccessVersion, Budget
from routing.snapshots import Polled


def load_budgets() -> BudgetBook:
    """Read all budgets in force: one query."""
    return BudgetBook.of(spec_of(row) for row in Budget.objects.filter(is_active=True, retired_at=None))


def budget_poll() -> Polled[BudgetBook]:
    """A poll of the budgets, for one process."""
    return Polled(name="budgets", read_version=AccessVersion.read, load=load_budgets)


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
    )
