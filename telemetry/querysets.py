"""Questions that are asked of calls, by name."""

from datetime import datetime
from typing import TYPE_CHECKING

from django.db import models

from routing.core.failures import FAILURES

if TYPE_CHECKING:
    from telemetry.models import Call  # noqa: F401  # named in the base class below


_ANSWERED_OR_AT_FAULT = ("", *(kind.value for kind, rule in FAILURES.items() if rule.provider_fault))


class CallQuerySet(models.QuerySet["Call"]):
    """Calls, filtered the ways rules and pages ask for."""

    def since(self, moment: datetime) -> "CallQuerySet":
        """Calls that started at or after a moment."""
        return self.filter(started_at__gte=moment)

    def between(self, first: datetime, last: datetime) -> "CallQuerySet":
        """Calls that started between two moments, both included."""
        return self.filter(started_at__gte=first, started_at__lte=last)

    def answered(self) -> "CallQuerySet":
        """Answered by a model, whichever route it took, and not from a cache."""
        return self.filter(success=True, cache_hit=False)

    def first_attempts(self) -> "CallQuerySet":
        """The health population: the first route sent to answered, or was at fault itself.

        Faults of the caller, refusals by the model, our own refusals, cache hits and client aborts say nothing of it.
        """
        sent = self.filter(cache_hit=False, first_failure_kind__in=_ANSWERED_OR_AT_FAULT)
        return sent.exclude(first_adapter_type="")

    def self_served(self) -> "CallQuerySet":
        """The history population: answered by the first route itself, by a model and not from a cache."""
        return self.filter(success=True, fallback_attempts=0, cache_hit=False)

    def decided(self) -> "CallQuerySet":
        """Calls for which something was decided."""
        return self.exclude(policy_mode="")
