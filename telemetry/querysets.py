"""Questions that are asked of calls, by name."""

from datetime import datetime
from typing import TYPE_CHECKING

from django.db import models

if TYPE_CHECKING:
    from telemetry.models import Call  # noqa: F401  # named in the base class below


class CallQuerySet(models.QuerySet["Call"]):
    """Calls, filtered the ways rules and pages ask for."""

    def since(self, moment: datetime) -> "CallQuerySet":
        """Calls that started at or after a moment."""
        return self.filter(started_at__gte=moment)

    def self_served(self) -> "CallQuerySet":
        """The history population: answered by the first route itself, by a model and not from a cache."""
        return self.filter(success=True, fallback_attempts=0, cache_hit=False)

    def decided(self) -> "CallQuerySet":
        """Calls for which something was decided."""
        return self.exclude(policy_mode="")
