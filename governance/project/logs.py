"""How a log line looks: one line, `name=value` pairs, the message last, on standard error.

Values that hold white space, quotes or control characters are written as JSON strings, so that nothing a
caller sends can begin a line of its own. Logs carry identifiers and counts, never a prompt, an answer or a
key.
"""

import json
import logging
import re
from datetime import UTC, datetime

from governance.project.http.correlation import current_correlation

_PLAIN = re.compile(r"[!#-<>-~]+")  # printable ASCII but for space, quotes and the equals sign


class CorrelationFilter(logging.Filter):
    """Lets everything through, with the correlation id of the request being answered on the record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.correlation = current_correlation()
        return True


class WithoutQuery(logging.Filter):
    """Cuts the query off the paths of uvicorn's access log: callers put keys into it, though none is read there."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple) and len(record.args) == 5:
            client, method, path, *rest = record.args
            record.args = (client, method, str(path).partition("?")[0], *rest)
        return True


class LineFormatter(logging.Formatter):
    """`time=… level=… logger=… correlation=… message=…`, and `traceback=…` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        pairs = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "correlation": getattr(record, "correlation", None),
            "message": record.getMessage(),
            "traceback": self.formatException(record.exc_info) if record.exc_info else None,
        }
        return " ".join(f"{name}={_quoted(value)}" for name, value in pairs.items() if value is not None)


def _quoted(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value)
