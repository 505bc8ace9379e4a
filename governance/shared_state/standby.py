"""The store that never is away: shared while the one behind it answers, else the process's own memory."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from governance.shared_state.memory import MemoryStore
from routing.core.meters import Charge, Metered
from routing.core.sharing import SharedStore, StoreAway

SECONDS_LEFT_ALONE = 1.0
"""How long a store that did not answer is not asked again: each that asks could wait for as long as it times out."""

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class StandbyStore:
    """A :class:`~routing.core.sharing.SharedStore` that raises nothing.

    Nothing is carried from one to the other: what must be known again after an outage is said again by whoever
    knows it.
    """

    def __init__(self, store: SharedStore, *, memory: MemoryStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._memory = memory
        self._clock = clock
        self._asked_at = 0.0
        self._away_since: float | None = None

    def seconds_away(self) -> float | None:
        """For how long this process has gone by its own memory; ``None`` while it shares."""
        since = self._away_since
        return None if since is None else self._clock() - since

    def read(self, keys: Sequence[str]) -> Mapping[str, str]:
        return self._ask(lambda store: store.read(keys))

    def put(self, key: str, value: str, *, seconds: float) -> None:
        self._ask(lambda store: store.put(key, value, seconds=seconds))

    def add(self, key: str, value: str, *, seconds: float) -> bool:
        return self._ask(lambda store: store.add(key, value, seconds=seconds))

    def swap(self, key: str, value: str, *, expected: str | None, seconds: float) -> bool:
        return self._ask(lambda store: store.swap(key, value, expected=expected, seconds=seconds))

    def remove(self, key: str, *, expected: str) -> bool:
        return self._ask(lambda store: store.remove(key, expected=expected))

    def meter(self, charges: Sequence[Charge], *, force: bool = False) -> Metered:
        return self._ask(lambda store: store.meter(charges, force=force))

    def _ask(self, question: Callable[[SharedStore], Result]) -> Result:
        now = self._clock()
        if self._away_since is not None and now - self._asked_at < SECONDS_LEFT_ALONE:
            return question(self._memory)
        self._asked_at = now
        try:
            answer = question(self._store)
        except StoreAway as away:
            if self._away_since is None:
                self._away_since = now
                logger.warning("the shared store is away (%s); this process goes by what it knows itself", away)
            return question(self._memory)
        if self._away_since is not None:
            logger.info("the shared store is there again")
            self._away_since = None
        return answer
