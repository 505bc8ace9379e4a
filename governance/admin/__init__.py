"""What operators see and change: one module per subject. Importing the package registers everything."""

from governance.admin import (
    access,
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
