"""Changing members of a JSON object inside its bytes, so that every other byte stays as its author wrote it.

Parsing and writing again would change escapes, blanks, numbers and repeated keys, and with them what providers' prompt
caches have seen before.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from routing.core.calls import Original

_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER: Any = json.JSONDecoder(object_pairs_hook=lambda pairs: None, parse_float=len, strict=False)
_SCAN = _DECODER.scan_once  # keeps no objects, only says where a value ends


def with_members(original: Original, members: Mapping[str, Any]) -> bytes:
    """A request as it arrived, but for some members of its outermost object, which are replaced or appended."""
    if original.body is None:
        return orjson.dumps({**original.document, **members})
    return splice(original.body, {name: orjson.dumps(value) for name, value in members.items()})


def renamed_members(document: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """A document whose members have the host's names; where both are given, the host's own counts."""
    return {
        renamed.get(name, name): value
        for name, value in document.items()
        if name not in renamed or renamed[name] not in document
    }


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
    """The members of the outermost object: key, and where the value begins and ends.

    Values are passed over by the JSON scanner, since a loop over their tokens would hold up everybody else.
    """
    text = body.decode()
    at = _BLANKS.match(text, text.index("{") + 1).end()  # type: ignore[union-attr]
    seen = offset = 0  # characters, and the bytes they are
    while text[at] != "}":
        key, at = _SCAN(text, at)
        at = _BLANKS.match(text, _BLANKS.match(text, at).end() + 1).end()  # type: ignore[union-attr]
        begin = offset + len(text[seen:at].encode())
        _, end = _SCAN(text, at)
        seen, offset = end, begin + len(text[at:end].encode())
        yield key, begin, offset
        at = _BLANKS.match(text, end).end()  # type: ignore[union-attr]
        if text[at] == ",":
            at = _BLANKS.match(text, at + 1).end()  # type: ignore[union-attr]
