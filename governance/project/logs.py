"""How a log line looks, and what it carries: one event a line, on standard error.

For people (the default) `name=value` pairs, the message last; for programs one JSON object. Values that hold white
space, quotes or control characters are written as JSON strings in either, so that nothing a caller sends can begin a
line of its own.

Beside the message a line says what it belongs to (`governance.trace`), and whatever of `FIGURES` its writer handed
over as `extra`. Logs carry identifiers and counts, never a prompt, an answer or a key.
"""

import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from governance.trace import Mark, marks

FIGURES = ("status", "milliseconds")
"""What a line may say in numbers."""

_NOT_TOLD = ("/v1/", "/healthz", "/readyz")
_PLAIN = re.compile(r"[!#-<>-~]+")  # printable ASCII but for space, quotes and the equals sign


class TraceFilter(logging.Filter):
    """Lets everything through, with what is known of the request or task on the record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.trace = dict(marks())
        return True


class ServerAccess(logging.Filter):
    """What is left of uvicorn's access log: no calls, of which the gateway says more itself, no probes, and no queries,
    into which callers put keys though none is read there."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple) and len(record.args) == 5:
            client, method, path, *rest = record.args
            record.args = (client, method, str(path).partition("?")[0], *rest)
            return not str(path).startswith(_NOT_TOLD)
        return True


class WithoutMessages(logging.Filter):
    """What Celery prints of a message that it cannot execute is the whole of it, and it may hold a prompt: what was
    wrong is kept, and the name of a task that is not known."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = str(record.msg)
        if "body" in text:
            culprit = record.args[0] if isinstance(record.args, tuple) and record.args else None
            unknown = f": there is no task {culprit}" if isinstance(culprit, KeyError) else ""
            what = unknown or (f": {type(culprit).__name__}" if isinstance(culprit, Exception) else "")
            record.msg, record.args = f"a message was discarded{what}", ()
            record.exc_info = record.exc_text = None
        return True


class LineFormatter(logging.Formatter):
    """`time=… level=… logger=… correlation=… … message=…`, and `traceback=…` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in self.pairs(record))

    def pairs(self, record: logging.LogRecord) -> Iterator[tuple[str, str | int | float]]:
        """What the line says, in order."""
        yield "time", datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds")
        yield "level", record.levelname
        yield "logger", record.name
        trace = getattr(record, "trace", {})
        yield from ((mark.value, trace[mark]) for mark in Mark if trace.get(mark))
        yield from ((name, getattr(record, name)) for name in FIGURES if getattr(record, name, None) is not None)
        yield "message", record.getMessage()
        if record.exc_info:
            yield "traceback", self.formatException(record.exc_info)


class JsonFormatter(LineFormatter):
    """The same as one JSON object a line, in ASCII; figures are numbers."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(dict(self.pairs(record)))


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value)
