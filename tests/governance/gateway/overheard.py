"""Listens to everything that is logged while a test runs, and finds what should never be there."""

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import orjson

from governance.project.logs import JsonFormatter, LineFormatter, TraceFilter
from tests.governance.gateway.upstream import ANSWER

KEYS = re.compile(r"\b(?:sk|sb)-[\w-]{8,}")
"""Keys of providers, and of callers."""

_SAID = frozenset({"content", "text", "arguments", "description", "refusal", "input", "instructions"})
_SHORTEST = 8  # a shorter word is in a log by chance


class Overheard(logging.Handler):
    """Keeps every line as both formats write it, and the words of every body that callers have sent."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.addFilter(TraceFilter())
        self.lines: list[str] = []
        self.said: set[str] = set()
        self.forget()

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("factory."):  # which makes the test's records, and tells how
            self.lines += [LineFormatter().format(record), JsonFormatter().format(record)]

    def hear(self, body: bytes, key: str) -> None:
        """Remember what a caller sends."""
        if len(key) >= _SHORTEST:
            self.said.add(key)
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            return
        self.said.update(text for text in _texts(document) if len(text) >= _SHORTEST)

    def forget(self) -> None:
        """Begin anew: nothing was logged, and nothing said but what every test says."""
        self.lines.clear()
        self.said = {ANSWER, "Hello"}

    def leaks(self) -> list[str]:
        """The lines that hold a key, or what a caller or a model said."""
        return [
            line
            for line in self.lines
            if KEYS.search(line) or any(word in line or json.dumps(word)[1:-1] in line for word in self.said)
        ]


def _texts(document: Any) -> Iterator[str]:
    """The texts of a body that somebody said, rather than chose from a vocabulary. Bodies may nest without end."""
    waiting = [(document, False)]
    while waiting:
        value, is_said = waiting.pop()
        if isinstance(value, str) and is_said:
            yield value
        elif isinstance(value, dict):
            waiting += [(each, is_said or name in _SAID) for name, each in value.items()]
        elif isinstance(value, list):
            waiting += [(each, is_said) for each in value]


overheard = Overheard()
"""Of the whole run; the tests' own fixture connects it and empties it."""
