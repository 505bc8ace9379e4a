"""How many requests each provider carries at the moment, and whether it may carry one more.

Counted by each process for itself: what a process cannot count any more, because it was killed, is nobody's burden.
"""

from collections import Counter


class Slot:
    """One request's place at a provider, until it is given back. All of a process's are handled on its event loop."""

    __slots__ = ("_provider", "_slots")

    def __init__(self, slots: "Slots", provider: str) -> None:
        self._slots: Slots | None = slots
        self._provider = provider

    def give_back(self) -> None:
        """The request is over. May be called repeatedly."""
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.taken[self._provider] -= 1


class Slots:
    """The places of one process. ``taken`` counts requests under way by provider identifier."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()

    def take(self, provider: str, *, limit: int | None) -> Slot | None:
        """A place at a provider; ``None`` where it carries as many requests as it may. No limit is ``None``."""
        if limit is not None and self.taken[provider] >= limit:
            return None
        self.taken[provider] += 1
        return Slot(self, provider)
