"""JSON as providers write it: parsed tolerantly, with counts that may be wrong and texts that may be missing."""

import json
from typing import Any

import orjson


def parse_json(data: bytes) -> Any:
    """Parse JSON as hosts write it. Raises ``ValueError``.

    What the fast parser refuses is tried with the tolerant one: hosts send NaN in log probabilities, and halves of
    surrogate pairs where a token ends inside a character (which become U+FFFD).
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return _without_surrogates(json.loads(data))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def text_of(value: object) -> str:
    """A text, or the empty one where something else stands."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> dict[str, Any]:
    """An object, or the empty one where something else stands."""
    return value if isinstance(value, dict) else {}


def dumps(value: object) -> str:
    """JSON text, compact."""
    return orjson.dumps(value).decode()


class Counts:
    """Reads token counts and remembers whether all of them were credible."""

    __slots__ = ("are_whole",)

    def __init__(self) -> None:
        self.are_whole = True

    def required(self, value: object) -> int:
        """A count that has to be there: 0, and no longer whole, if it is none."""
        if type(value) is int and value >= 0:
            return value
        if isinstance(value, float) and value.is_integer() and value >= 0:
            return int(value)
        self.are_whole = False
        return 0

    def optional(self, value: object) -> int:
        """A count that may be missing, which then is 0."""
        return 0 if value is None else self.required(value)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_without_surrogates(each) for each in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}
    return value
