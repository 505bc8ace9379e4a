"""The store of a process that has no other: its own memory. Nobody else sees what is in it."""

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from routing.core.meters import Charge, Count, Metered, keep_seconds, meter

MOST_KEPT = 10_000
"""Beyond it, what has expired is thrown out first, and then what would expire first."""


class MemoryStore:
    """A :class:`~routing.core.sharing.SharedStore` of one process. It never is away."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self._kept: dict[str, tuple[str, float]] = {}
        self._lock = Lock()

    def read(self, keys: Sequence[str]) -> Mapping[str, str]:
        with self._lock:
            found = {key: self._value(key) for key in keys}
        return {key: value for key, value in found.items() if value is not None}

    def put(self, key: str, value: str, *, seconds: float) -> None:
        with self._lock:
            self._keep(key, value, seconds)

    def add(self, key: str, value: str, *, seconds: float) -> bool:
        return self.swap(key, value, expected=None, seconds=seconds)

    def swap(self, key: str, value: str, *, expected: str | None, seconds: float) -> bool:
        with self._lock:
            if self._value(key) != expected:
                return False
            self._keep(key, value, seconds)
            return True

    def remove(self, key: str, *, expected: str) -> bool:
        with self._lock:
            if self._value(key) != expected:
                return False
            del self._kept[key]
            return True

    def meter(self, charges: Sequence[Charge], *, force: bool = False) -> Metered:
        with self._lock:
            found = [self._value(charge.key) for charge in charges]
            counts = [None if text is None else Count.read(text) for text in found]
            metered, booked = meter(charges, counts, now_ms=int(self._wall() * 1000), force=force)
            if metered.refused is None:
                for charge, count in zip(charges, booked, strict=True):
                    self._keep(charge.key, count.spell(), keep_seconds(charge, count.used))
            return metered

    def _value(self, key: str) -> str | None:
        value, ends = self._kept.get(key, (None, 0.0))
        return value if self._clock() < ends else None

    def _keep(self, key: str, value: str, seconds: float) -> None:
        self._kept[key] = (value, self._clock() + seconds)
        if len(self._kept) > MOST_KEPT:
            by_end = sorted(self._kept, key=lambda each: self._kept[each][1])
            for each in by_end[: MOST_KEPT // 10]:
                del self._kept[each]
