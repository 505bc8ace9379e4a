"""The book of behaviours: patterns in force, what they resolve to, and the state that failing needs.

The only mutable part of a behaviour is here: countdowns of ``fail_next`` and the random sequences.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from governance.demo.simulator.behaviours import Behaviour, Failure, FailureTarget
from governance.demo.simulator.shapes import BehaviourError, JsonObject, read_behaviour, read_mapping


class _Countdown:
    """How many more requests an entry's ``fail_next`` will fail; shared by all routes the pattern matches."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class RouteBehaviour:
    """The behaviour of one provider and model with its random sequence and countdowns."""

    __slots__ = ("_countdowns", "behaviour", "rng")

    def __init__(self, *, behaviour: Behaviour, countdowns: Sequence[_Countdown | None], rng: random.Random) -> None:
        self.behaviour = behaviour
        self.rng = rng
        self._countdowns = tuple(countdowns)

    def next_failure(self, target: FailureTarget) -> Failure | None:
        """The failure this request has to suffer, or ``None``; counts ``fail_next`` down."""
        if not self.behaviour.failures:
            return None
        candidates = []
        for failure, countdown in zip(self.behaviour.failures, self._countdowns, strict=True):
            if not failure.concerns(target):
                continue
            if countdown is not None and countdown.left > 0:
                countdown.left -= 1
                return failure
            candidates.append(failure)
        return self._roll(candidates)

    def _roll(self, candidates: Sequence[Failure]) -> Failure | None:
        """One draw among the rates, which add up to at most one; no draw when nothing is left to chance."""
        if all(failure.effective_rate == 0.0 for failure in candidates):
            return None
        point = self.rng.random()
        for failure in candidates:
            point -= failure.effective_rate
            if point < 0.0:
                return failure
        return None


@dataclass(frozen=True, slots=True)
class _Entry:
    """One pattern of the book: its layer as written, and the countdowns that belong to it."""

    pattern: str
    provider: re.Pattern[str]
    model: re.Pattern[str]
    specificity: tuple[bool, bool, int]
    layer: JsonObject
    countdowns: tuple[_Countdown | None, ...]

    def matches(self, provider: str, model: str) -> bool:
        """Whether the pattern covers this provider and model."""
        return self.provider.fullmatch(provider) is not None and self.model.fullmatch(model) is not None

    def as_mapping(self) -> JsonObject:
        """The layer in its JSON shape, ``fail_next`` as far as it has been counted down."""
        if "failures" not in self.layer:
            return self.layer
        shown = [
            failure if countdown is None else {**failure, "fail_next": countdown.left}
            for failure, countdown in zip(self.layer["failures"], self.countdowns, strict=True)
        ]
        return {**self.layer, "failures": shown}


class BehaviourBook:
    """All patterns in force, and what they resolve to for a provider and model."""

    STAND_INS = ("simulated-chat", "simulated-embedding")
    _MOST_RESOLVED = 4096

    def __init__(self, behaviours: Mapping[str, Any] | None = None, *, seed: int = 0) -> None:
        """Take the starting patterns (JSON shape); raises ``BehaviourError``."""
        self._start = dict(behaviours or {})
        self._seed = seed
        self._entries: dict[str, _Entry] = {}
        self._resolved: dict[tuple[str, str], RouteBehaviour] = {}
        self._sequences: dict[tuple[str, str], random.Random] = {}
        self.put(self._start)

    def put(self, behaviours: Mapping[str, Any]) -> None:
        """Replace each pattern that is named; all or none. Raises ``BehaviourError``."""
        entries = {pattern: _read_entry(pattern, values) for pattern, values in behaviours.items()}
        self._entries.update(entries)
        self._resolved.clear()

    def restore(self) -> None:
        """Go back to the starting patterns, their countdowns full, and start the random sequences anew."""
        self._entries.clear()
        self._sequences.clear()
        self.put(self._start)

    def as_mapping(self) -> JsonObject:
        """Pattern to layer, in the JSON shape."""
        return {pattern: entry.as_mapping() for pattern, entry in self._entries.items()}

    def resolve(self, provider: str, model: str) -> RouteBehaviour:
        """What holds for this provider and model; the model may be empty for requests that name none."""
        key = (provider, model)
        found = self._resolved.get(key)
        if found is None:
            if len(self._resolved) >= self._MOST_RESOLVED:
                self._resolved.clear()
            found = self._resolved[key] = self._resolve(provider, model)
        return found

    def models(self, provider: str) -> list[str]:
        """The models that a provider lists, sorted: the literal names that are offered, or the stand-ins."""
        named = {
            entry.pattern.partition("/")[2]
            for entry in self._entries.values()
            if entry.specificity[1] and entry.provider.fullmatch(provider) is not None
        }
        listed = named or set(self.STAND_INS)
        return sorted(model for model in listed if self.resolve(provider, model).behaviour.offered)

    def _resolve(self, provider: str, model: str) -> RouteBehaviour:
        merged: JsonObject = {}
        countdowns: tuple[_Countdown | None, ...] = ()
        for entry in sorted(self._entries.values(), key=lambda entry: entry.specificity):
            if not entry.matches(provider, model):
                continue
            for name, value in entry.layer.items():
                merged[name] = {**merged.get(name, {}), **value} if isinstance(value, dict) else value
            if "failures" in entry.layer:
                countdowns = entry.countdowns
        rng = self._sequences.setdefault((provider, model), random.Random(f"{self._seed}/{provider}/{model}"))
        return RouteBehaviour(behaviour=read_behaviour(merged), countdowns=countdowns, rng=rng)


def load_behaviours(path: Path) -> JsonObject:
    """Read a behaviours file (JSON); raises ``BehaviourError`` if it is not an object of valid behaviours."""
    try:
        document = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise BehaviourError(where=str(path), reason=str(error)) from error
    BehaviourBook(read_mapping(document, where=path.name))
    return dict(document)


def _read_entry(pattern: str, values: object) -> _Entry:
    provider, slash, model = pattern.partition("/")
    if not slash or not provider or not model:
        raise BehaviourError(where=pattern, reason="a pattern has the form provider/model")
    layer = read_mapping(values, where=pattern)
    behaviour = read_behaviour(layer, where=pattern)
    literal = (("*" not in provider), ("*" not in model), len(pattern.replace("*", "")))
    countdowns = tuple(
        None if failure.fail_next is None else _Countdown(failure.fail_next) for failure in behaviour.failures
    )
    return _Entry(pattern, _compile(provider), _compile(model), literal, layer, countdowns)


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)
