"""Signals used: how often each signal moved a decision, by configuration and operation.

Counted are decided calls, those whose row names a mode, however they ended. A decision's mode is that of the
configuration asked for; what a fallback configuration decided afterwards is not on the row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from django.db.models import Count, Q

from routing.core.vocabulary import ListedOrder, SignalName
from telemetry.models import Call

COLUMNS: Mapping[SignalName, str] = MappingProxyType(
    {
        SignalName.QUALITY: "routing_signal_quality",
        SignalName.HEALTH: "routing_signal_health",
        SignalName.COST: "routing_signal_cost",
        SignalName.LATENCY: "routing_signal_latency",
        SignalName.CALL_COST: "routing_signal_call_cost",
    }
)
"""The column of a call that says whether a signal moved its decision."""

_NONE_MOVED = Q(**dict.fromkeys(COLUMNS.values(), False))
_LISTED = frozenset(f"listed:{order}" for order in ListedOrder)


@dataclass(frozen=True, slots=True)
class SignalCounts:
    """Decided calls, and what moved their decisions. Several signals may have moved one.

    Attributes:
        decided: calls.
        moved: calls whose decision the signal moved, for every signal.
        unmoved: ranked calls that no signal moved: provider priority and tie-breaks decided, or nobody could serve.
        listed: calls of a configuration that lists its models: its order decided, and signals take no part.
    """

    decided: int
    moved: Mapping[SignalName, int]
    unmoved: int
    listed: int

    @property
    def ranked(self) -> int:
        """Calls in whose decision a signal could have taken part."""
        return self.decided - self.listed


@dataclass(frozen=True, slots=True)
class SignalUse:
    """The decisions of one configuration for one operation; ``modes`` recorded, the most frequent first."""

    configuration: str
    operation: str
    modes: tuple[str, ...]
    counts: SignalCounts


@dataclass(frozen=True, slots=True)
class SignalReadout:
    """All decisions of a period; ``uses`` by configuration, then the busiest operation first."""

    total: SignalCounts
    uses: tuple[SignalUse, ...]


def read_signals(*, since: datetime, now: datetime) -> SignalReadout:
    """What moved the decisions between two moments: one query."""
    rows = (
        Call.objects.between(since, now)
        .decided()
        .order_by()
        .values_list("requested", "operation", "policy_mode")
        .annotate(
            decided=Count("started_at"),
            unmoved=Count("started_at", filter=_NONE_MOVED),
            **{signal.value: Count("started_at", filter=Q(**{column: True})) for signal, column in COLUMNS.items()},
        )
    )
    by_mode: dict[tuple[str, str], dict[str, SignalCounts]] = {}
    for configuration, operation, mode, decided, unmoved, *moved in rows:
        is_listed = mode in _LISTED
        by_mode.setdefault((configuration, operation), {})[mode] = SignalCounts(
            decided=decided,
            moved=dict(zip(COLUMNS, moved, strict=True)),
            unmoved=0 if is_listed else unmoved,
            listed=decided if is_listed else 0,
        )
    uses = [
        SignalUse(
            configuration=configuration,
            operation=operation,
            modes=tuple(sorted(found, key=lambda mode: (-found[mode].decided, mode))),
            counts=_sum(found.values()),
        )
        for (configuration, operation), found in by_mode.items()
    ]
    uses.sort(key=lambda use: (use.configuration, -use.counts.decided, use.operation))
    return SignalReadout(total=_sum(use.counts for use in uses), uses=tuple(uses))


def _sum(counts: Iterable[SignalCounts]) -> SignalCounts:
    found = list(counts)
    return SignalCounts(
        decided=sum(each.decided for each in found),
        moved={signal: sum(each.moved[signal] for each in found) for signal in COLUMNS},
        unmoved=sum(each.unmoved for each in found),
        listed=sum(each.listed for each in found),
    )
