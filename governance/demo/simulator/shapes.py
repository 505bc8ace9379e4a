"""From the JSON shape of a behaviour to its value, every fault named by its place.

The shape itself is documented in the package's docstring.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, TypeVar

from governance.demo.simulator.behaviours import (
    Behaviour,
    Failure,
    FailureKind,
    FailureTarget,
    Latency,
    TokenUse,
)

JsonObject = dict[str, Any]
_Member = TypeVar("_Member", bound=StrEnum)


class BehaviourError(ValueError):
    """A behaviour that cannot be used; the message names the pattern and the field."""

    def __init__(self, *, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where


def read_behaviour(values: Mapping[str, Any], *, where: str = "behaviour") -> Behaviour:
    """Build a behaviour from its JSON shape.

    Raises ``BehaviourError`` that names the field, for unknown fields, wrong types and values out of range.
    """
    _refuse_unknown(values, known=_names(Behaviour), where=where)
    defaults = Behaviour()
    return Behaviour(
        latency=_read_latency(values.get("latency", {}), where=f"{where}.latency"),
        tokens=_read_tokens(values.get("tokens", {}), where=f"{where}.tokens"),
        failures=_read_failures(values.get("failures", []), where=f"{where}.failures"),
        down=_flag(values, "down", defaults.down, where=where),
        offered=_flag(values, "offered", defaults.offered, where=where),
        chunk_tokens=_count(values, "chunk_tokens", defaults.chunk_tokens, where=where, least=1),
        dimensions=_count(values, "dimensions", defaults.dimensions, where=where, least=1),
    )


def _read_latency(values: object, *, where: str) -> Latency:
    section = read_mapping(values, where=where)
    _refuse_unknown(section, known=_names(Latency), where=where)
    first = section.get("first_chunk_ms")
    return Latency(
        mean_ms=_number(section, "mean_ms", 0.0, where=where),
        spread_ms=_number(section, "spread_ms", 0.0, where=where),
        first_chunk_ms=None if first is None else _number(section, "first_chunk_ms", 0.0, where=where),
        first_chunk_spread_ms=_number(section, "first_chunk_spread_ms", 0.0, where=where),
    )


def _read_tokens(values: object, *, where: str) -> TokenUse:
    section = read_mapping(values, where=where)
    _refuse_unknown(section, known=_names(TokenUse), where=where)
    prompt = section.get("prompt")
    return TokenUse(
        prompt=None if prompt is None else _count(section, "prompt", 0, where=where),
        completion=_count(section, "completion", TokenUse().completion, where=where),
        completion_spread=_number(section, "completion_spread", 0.0, where=where),
        cached=_count(section, "cached", 0, where=where),
        reasoning=_count(section, "reasoning", 0, where=where),
    )


def _read_failures(values: object, *, where: str) -> tuple[Failure, ...]:
    if not isinstance(values, list | tuple):
        raise BehaviourError(where=where, reason="expected a list of failures")
    failures = tuple(_read_failure(value, where=f"{where}[{index}]") for index, value in enumerate(values))
    for target in (FailureTarget.CALLS, FailureTarget.MODELS):
        if sum(failure.effective_rate for failure in failures if failure.concerns(target)) > 1.0 + 1e-9:
            raise BehaviourError(where=where, reason="the rates add up to more than 1")
    return failures


def _read_failure(values: object, *, where: str) -> Failure:
    section = read_mapping(values, where=where)
    _refuse_unknown(section, known=_names(Failure), where=where)
    rate, fail_next = section.get("rate"), section.get("fail_next")
    if "kind" not in section:
        raise BehaviourError(where=f"{where}.kind", reason="is required")
    return Failure(
        kind=_member(FailureKind, section["kind"], where=f"{where}.kind"),
        rate=None if rate is None else _number(section, "rate", 0.0, where=where, most=1.0),
        fail_next=None if fail_next is None else _count(section, "fail_next", 0, where=where),
        retry_after=_header_value(section, "retry_after", where=where),
        retry_after_ms=_header_value(section, "retry_after_ms", where=where),
        after_ms=_number(section, "after_ms", 0.0, where=where),
        after_chunks=_count(section, "after_chunks", 1, where=where),
        abrupt=_flag(section, "abrupt", False, where=where),
        on=_member(FailureTarget, section.get("on", FailureTarget.CALLS), where=f"{where}.on"),
    )


def _names(kind: type[Any]) -> frozenset[str]:
    return frozenset(member.name for member in fields(kind))


def read_mapping(value: object, *, where: str) -> JsonObject:
    """A JSON object, copied; raises ``BehaviourError`` for anything else."""
    if not isinstance(value, Mapping):
        raise BehaviourError(where=where, reason="expected an object")
    return dict(value)


def _refuse_unknown(values: Mapping[str, Any], *, known: frozenset[str], where: str) -> None:
    for name in values:
        if name not in known:
            choices = ", ".join(sorted(known))
            raise BehaviourError(where=f"{where}.{name}", reason=f"unknown; known are {choices}")


def _member(kind: type[_Member], value: object, *, where: str) -> _Member:
    try:
        return kind(str(value))
    except ValueError:
        choices = ", ".join(member.value for member in kind)
        raise BehaviourError(where=where, reason=f"expected one of {choices}") from None


def _flag(values: Mapping[str, Any], name: str, default: bool, *, where: str) -> bool:
    value = values.get(name, default)
    if not isinstance(value, bool):
        raise BehaviourError(where=f"{where}.{name}", reason="expected true or false")
    return value


def _number(values: Mapping[str, Any], name: str, default: float, *, where: str, most: float = math.inf) -> float:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise BehaviourError(where=f"{where}.{name}", reason=f"expected a number between 0 and {most}")
    return float(value)


def _count(values: Mapping[str, Any], name: str, default: int, *, where: str, least: int = 0) -> int:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BehaviourError(where=f"{where}.{name}", reason=f"expected a whole number from {least}")
    return value


def _header_value(values: Mapping[str, Any], name: str, *, where: str) -> str | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BehaviourError(where=f"{where}.{name}", reason="expected a number or a text")
    text = str(value)
    if not (text.isascii() and text.isprintable()):
        raise BehaviourError(where=f"{where}.{name}", reason="expected printable ASCII")
    return text
