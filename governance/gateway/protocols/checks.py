"""What readers of requests demand of a value before they use it, said to the caller in one way."""

from collections.abc import Mapping
from typing import Any

from governance.gateway.errors import RequestProblem

STEERING = ("api_base", "api_key", "base_url", "extra_headers")
"""Fields some clients pass along to say where a call goes, which callers may not."""

LONGEST_NAME = 1000  # more than any record has; a longer one would cost seconds to compare


def invalid(field: str, message: str) -> RequestProblem:
    """A field that cannot be read; the sentence says what it should be."""
    return RequestProblem(400, f"{field}: {message}", code="invalid_value", parameter=field)


def refuse_steering(document: Mapping[str, Any]) -> None:
    """Raises :class:`RequestProblem` where the caller says where the call should go."""
    for field in STEERING:
        if field in document:
            raise invalid(field, "cannot be set by a caller: calls go where the configuration says")


def target_of(document: Mapping[str, Any]) -> str:
    """The configuration or model the caller names."""
    target = document.get("model")
    if not isinstance(target, str) or not target.strip():
        raise invalid("model", "name a configuration")
    if len(target) > LONGEST_NAME:
        raise invalid("model", f"a name has at most {LONGEST_NAME} characters")
    return target


def flag(document: Mapping[str, Any], field: str) -> bool:
    """True or false; false if it is not there."""
    value = document.get(field)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise invalid(field, "true or false is needed")
    return value


def count(document: Mapping[str, Any], *fields: str, least: int = 1) -> int | None:
    """A whole number, from the first of the fields that is there."""
    for field in fields:
        value = document.get(field)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise invalid(field, f"a whole number from {least} is needed")
        return value
    return None


def objects(value: object, where: str) -> list[dict[str, Any]]:
    """A list of objects; empty if it is not there."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid(where, "a list is needed")
    for index, each in enumerate(value):
        if not isinstance(each, dict):
            raise invalid(f"{where}[{index}]", "an object is needed")
    return value


class Settings:
    """Reads single settings. What has another type than it should is noted as not carried, for its own provider to
    complain about."""

    def __init__(self, document: Mapping[str, Any], uncarried: list[str]) -> None:
        self._document = document
        self._uncarried = uncarried

    def number(self, field: str) -> float | None:
        """A number."""
        value = self._document.get(field)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        self._note(field, value)
        return None

    def whole(self, field: str) -> int | None:
        """A whole number."""
        value = self._document.get(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        self._note(field, value)
        return None

    def text(self, *fields: str) -> str:
        """A text: that of the first field that has one; empty if none has."""
        found = ""
        for field in fields:
            value = self._document.get(field)
            if isinstance(value, str):
                found = found or value
            else:
                self._note(field, value)
        return found

    def texts(self, field: str) -> tuple[str, ...]:
        """A text, or a list of them."""
        value = self._document.get(field)
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        self._note(field, value)
        return ()

    def labels(self, field: str) -> dict[str, str]:
        """An object of texts."""
        value = self._document.get(field)
        if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
            return value
        self._note(field, value)
        return {}

    def flag(self, field: str) -> bool | None:
        """True or false."""
        value = self._document.get(field)
        if isinstance(value, bool):
            return value
        self._note(field, value)
        return None

    def _note(self, field: str, value: object) -> None:
        if value is not None:
            self._uncarried.append(field)
