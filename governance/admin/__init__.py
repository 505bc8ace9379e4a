"""What operators see and change: one module per subject. Importing the package registers everything."""

from governance.admin import (
    access,
    calls,
    configurations,
    evaluations,
    language_models,
    providers,
    settings,
)

__all__ = ["access", "calls", "configurations", "evaluations", "language_models", "providers", "settings"]
