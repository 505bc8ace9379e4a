"""A request body into a document: strict JSON, and whether it can be written back byte for byte.

Two programs that read one text differently are a hole: a key given twice could be inspected as one thing and served as
another. So duplicates, lone surrogates and bottomless nesting are refused. NUL characters pass; agents send them.
"""

import json
from typing import Any

import orjson

from governance.gateway.errors import RequestProblem


def read_document(body: bytes) -> tuple[dict[str, Any], bytes | None]:
    """The JSON object of a body, and the body unless it is spelled canonically (compact, as we would write it).

    A canonical body cannot hold a key twice, since writing the document gives every byte back; only other bodies
    are read again to look for duplicates.

    Raises:
        RequestProblem: 400 with what is wrong and where.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _problem(f"the body is no valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise _problem("the body must be a JSON object")
    try:
        canonical = orjson.dumps(document) == body
    except orjson.JSONEncodeError:  # what nests deeper than it writes: nobody's schema does
        raise _problem("the body is nested too deeply") from None
    if not canonical:
        _refuse_duplicates(body)
    return document, None if canonical else body


def _refuse_duplicates(body: bytes) -> None:
    try:
        json.loads(body, object_pairs_hook=_without_duplicates)
    except _DuplicateKeyError as duplicate:
        raise _problem(f"the body gives the key {duplicate.key!r} twice in one object") from None
    except (ValueError, RecursionError):
        raise _problem("the body is nested too deeply or is no valid JSON") from None


class _DuplicateKeyError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _without_duplicates(pairs: list[tuple[str, Any]]) -> None:
    """Keeps nothing: the document was read already, only repetition is looked for."""
    if len(dict(pairs)) == len(pairs):
        return
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _DuplicateKeyError(key)
        seen.add(key)


def _problem(message: str) -> RequestProblem:
    return RequestProblem(400, message, code="invalid_json")
