"""What processes know together: the promises of a small store that they share.

Engines are handed a store and do not know which one: Redis, a table, or, while neither answers, the process's own
memory. For things that may be lost at any time, such as a rest, a lease or a count; never for records.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from routing.core.meters import Charge, Metered


class StoreAway(Exception):
    """The store does not answer. Whoever asked goes by what it knows itself; the cause says why."""


class SharedStore(Protocol):
    """Short texts by key, each with an end. Every operation is one step: of two who try the same, one succeeds.

    ``seconds`` is how long a value is kept from now; afterwards it is absent, as if it had never been there. Every
    operation may raise :class:`StoreAway`.
    """

    def read(self, keys: Sequence[str]) -> Mapping[str, str]:
        """The values of those keys that have one."""

    def put(self, key: str, value: str, *, seconds: float) -> None:
        """Keep a value, whatever was there."""

    def add(self, key: str, value: str, *, seconds: float) -> bool:
        """Keep a value where there is none; tells whether it was kept."""

    def swap(self, key: str, value: str, *, expected: str | None, seconds: float) -> bool:
        """Keep a value in place of the one expected, ``None`` being absence; tells whether that was the one there."""

    def remove(self, key: str, *, expected: str) -> bool:
        """Remove a value if it is the one expected; tells whether it was."""

    def meter(self, charges: Sequence[Charge], *, force: bool = False) -> Metered:
        """Book charges on their counts, all or none (:mod:`routing.core.meters`), in one step for all who do. No two
        charges are for one count. ``force`` books what is known to have been used, whether or not it fits."""
