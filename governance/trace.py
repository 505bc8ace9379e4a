"""What a log line belongs to: the request, the task, the call and the route. Identifiers of ours, and nothing else.

Whatever is logged while a request or a task runs carries what is noted here by then, whoever writes the line: an
adapter that knows nothing of applications included. `governance.project.logs` puts it on the line.

A trace is begun where something comes in (a request, a task of a worker) and shared with everything that it starts,
other tasks of the event loop included. Nothing that a caller wrote may be noted, but for the correlation id, which is
checked before.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from types import MappingProxyType


class Mark(StrEnum):
    """What a trace may hold, in the order in which lines show it."""

    CORRELATION = "correlation"
    TASK = "task"
    CALL = "call"
    APPLICATION = "application"
    CONFIGURATION = "configuration"
    PROVIDER = "provider"
    MODEL = "model"


_MARKS = frozenset(mark.value for mark in Mark)
_NOTHING: Mapping[str, str] = MappingProxyType({})
_trace: ContextVar[dict[str, str] | None] = ContextVar("trace", default=None)


def marks() -> Mapping[str, str]:
    """What is known of whatever is running; empty outside of a trace."""
    return _trace.get() or _NOTHING


@contextmanager
def traced(**first: str) -> Iterator[None]:
    """A trace of its own for the block, which knows nothing of the one around it."""
    token = _trace.set(_checked(first))
    try:
        yield
    finally:
        _trace.reset(token)


def note(**found: str) -> None:
    """Add to the trace what has been found out, in place of what was noted under the same names before.

    Outside of a trace nothing is kept: it would be said of whatever runs there next.
    """
    trace = _trace.get()
    if trace is not None:
        trace.update(_checked(found))


def _checked(found: dict[str, str]) -> dict[str, str]:
    if not found.keys() <= _MARKS:
        raise ValueError(f"a trace holds {', '.join(Mark)}, and not {', '.join(found.keys() - _MARKS)}")
    return found
