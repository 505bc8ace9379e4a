"""What each route has been doing lately, as far as choosing needs to know.

For now: how many calls in a row have failed on it, which the listed order ``healthiest`` sorts by. The count is kept
by each process for itself.
"""

from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType


class FailureStreaks:
    """Failed calls in a row, by model identifier: one more for each failed call of any kind, 0 on success.

    ``generation`` moves with every change, so that whoever keeps an answer knows when it is old.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lock = Lock()
        self.generation = 0

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts as they are now and as they change; a model that is not in it has none."""
        return MappingProxyType(self._counts)

    def failed(self, model: str) -> None:
        """A call sent to the model has failed."""
        with self._lock:
            self._counts[model] = self._counts.get(model, 0) + 1
            self.generation += 1

    def served(self, model: str) -> None:
        """A call sent to the model was answered."""
        if model in self._counts:
            with self._lock:
                self._counts.pop(model, None)
                self.generation += 1
