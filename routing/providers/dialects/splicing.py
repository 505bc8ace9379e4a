"""Changing members of a JSON object inside its bytes, so that every other byte stays as its author wrote it.

Parsing and writing again would change escapes, blanks, numbers and repeated keys, and with them what providers' prompt
caches have seen before.
"""

import re
from collections.abc import Iterator, Mapping

import orjson

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]', re.DOTALL)
_BLANK = b" \t\r\n"


def splice(body: bytes, members: Mapping[str, bytes]) -> bytes:
    """Replace members of the object that ``body`` is, and append those it lacks; all other bytes stay.

    ``body`` is valid JSON; ``members`` maps keys to JSON. A key that occurs repeatedly is replaced everywhere.
    """
    pieces: list[bytes] = []
    missing = dict(members)
    copied = 0
    last_end = -1
    for key, begin, end in members_of(body):
        last_end = end
        if key in members:
            pieces += [body[copied:begin], members[key]]
            copied = end
            missing.pop(key, None)
    if missing:
        added = b",".join(orjson.dumps(key) + b":" + value for key, value in missing.items())
        if last_end < 0:
            last_end = body.index(b"{") + 1
        else:
            added = b"," + added
        pieces += [body[copied:last_end], added]
        copied = last_end
    pieces.append(body[copied:])
    return b"".join(pieces)


def members_of(body: bytes) -> Iterator[tuple[str, int, int]]:
    """The members of the outermost object: key, and where the value begins and ends."""
    depth = 0
    key: bytes | None = None
    value_at: int | None = None
    for token in _TOKEN.finditer(body):
        mark = body[token.start()]
        if mark in b"{[":
            depth += 1
        elif depth == 1 and mark in b",}":
            if key is not None and value_at is not None:
                begin, end = _trimmed(body, value_at, token.start())
                yield orjson.loads(key), begin, end
            key = value_at = None
            if mark == ord("}"):
                return
        elif mark in b"}]":
            depth -= 1
        elif depth == 1 and mark == ord(":"):
            value_at = token.end()
        elif depth == 1 and mark == ord('"') and value_at is None:
            key = token.group()


def _trimmed(body: bytes, begin: int, end: int) -> tuple[int, int]:
    while body[begin] in _BLANK:
        begin += 1
    while body[end - 1] in _BLANK:
        end -= 1
    return begin, end
