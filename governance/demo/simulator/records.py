"""What the simulator remembers of the requests it received: counts, and the last hundred of them.

Credentials are never kept; bodies only where it was asked for at the start.
"""

import base64
import hashlib
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

_KEPT = 100
_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"})
_WITHHELD = "(withheld)"


class _RouteCounts:
    """The counts of one provider and model."""

    __slots__ = ("cancelled", "outcomes", "received")

    def __init__(self) -> None:
        self.received = 0
        self.cancelled = 0
        self.outcomes: Counter[str] = Counter()


class Statistics:
    """Requests by provider, model and outcome; how many are being answered; how many callers hung up."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], _RouteCounts] = {}
        self.in_flight = 0
        self.peak_in_flight = 0

    def reset(self) -> None:
        """Forget all counts; how a request that is being answered now ends will not be counted."""
        self._routes.clear()
        self.peak_in_flight = self.in_flight

    def begin(self, provider: str, model: str) -> "Tally":
        """Count a request as received."""
        counts = self._routes.get((provider, model))
        if counts is None:
            counts = self._routes[(provider, model)] = _RouteCounts()
        counts.received += 1
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        return Tally(self, counts)

    def as_mapping(self) -> dict[str, Any]:
        """The JSON shape of ``GET /_simulator/stats``."""
        providers: dict[str, dict[str, Any]] = {}
        outcomes: Counter[str] = Counter()
        for (provider, model), counts in self._routes.items():
            outcomes.update(counts.outcomes)
            providers.setdefault(provider, {})[model] = {
                "received": counts.received,
                "cancelled": counts.cancelled,
                "outcomes": dict(counts.outcomes),
            }
        return {
            "received": sum(counts.received for counts in self._routes.values()),
            "cancelled": sum(counts.cancelled for counts in self._routes.values()),
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "outcomes": dict(outcomes),
            "providers": providers,
        }


class Tally:
    """One received request, to be settled once."""

    __slots__ = ("_counts", "_settled", "_statistics")

    def __init__(self, statistics: Statistics, counts: _RouteCounts) -> None:
        self._statistics = statistics
        self._counts = counts
        self._settled = False

    def settle(self, outcome: str, *, cancelled: bool = False) -> None:
        """Count the outcome, and whether the caller hung up; only the first call counts."""
        if self._settled:
            return
        self._settled = True
        self._statistics.in_flight -= 1
        self._counts.outcomes[outcome] += 1
        if cancelled:
            self._counts.cancelled += 1


class RequestLog:
    """The last hundred requests to the provider endpoints, oldest first."""

    def __init__(self, *, record_bodies: bool) -> None:
        self._record_bodies = record_bodies
        self._entries: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def add(
        self,
        *,
        method: str,
        path: str,
        provider: str,
        model: str,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes,
    ) -> None:
        """Keep a request's digest and headers without credentials, and its body if that was asked for."""
        entry: dict[str, Any] = {
            "method": method,
            "path": path,
            "provider": provider,
            "model": model,
            "headers": _without_credentials(headers),
            "bytes": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        if self._record_bodies:
            entry["body"] = body
        self._entries.append(entry)

    def as_list(self) -> list[dict[str, Any]]:
        """The JSON shape of ``GET /_simulator/requests``; bodies as ``body_base64``."""
        return [_as_json(entry) for entry in self._entries]


def _as_json(entry: dict[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in entry.items() if name != "body"}
    if "body" in entry:
        shown["body_base64"] = base64.b64encode(entry["body"]).decode("ascii")
    return shown


def _without_credentials(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by lower-case name, repeated ones joined, credentials replaced by a mark."""
    kept: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        value = _WITHHELD if name in _CREDENTIALS else raw_value.decode("latin-1")
        kept[name] = f"{kept[name]}, {value}" if name in kept else value
    return kept
