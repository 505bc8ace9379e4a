"""What operators see and change: one module per subject. Importing the package registers everything."""

from governance.admin import (
    access,
    alerts,
    audit,
    budgets,
    calls,
    configurations,
    evaluations,
    language_models,
    people,
    providers,
    settings,
    submissions,
)

__all__ = [
    "access",
    "alerts",
    "audit",
    "budgets",
    "calls",
    "configurations",
    "evaluations",
    "language_models",
    "people",
    "providers",
    "settings",
    "submissions",
]
