"""Which version of a record a change is meant for, so that nobody undoes what they have not seen.

An answer with one record carries its version as ``ETag``; a change of a record names it in ``If-Match``, or says ``*``
for whatever is there.
"""

import re

from rest_framework.request import Request

from governance.api.exceptions import ApiProblem, ProblemType, wrong_field
from governance.audit.actions import RecordKind
from governance.changes.descriptions import describe, version_of

_ETAG = re.compile(r'(?:W/)?"([^",]*)"')


def etag_of(kind: RecordKind, pk: object) -> str:
    """The version of what is stored, as a header has it. Taken before the record is read for an answer: should somebody
    change it in between, a change by that answer is refused instead of undoing theirs."""
    return f'"{version_of(describe(kind, pk))}"'


def expected_version(request: Request) -> str | None:
    """The version that a request is meant for; ``None`` for any.

    Raises:
        ApiProblem: none was named, or several.
    """
    named = request.headers.get("If-Match", "").strip()
    if not named:
        raise ApiProblem(
            ProblemType.VERSION_NEEDED,
            "Nothing was done. Read the record first and send its ETag as “If-Match”, so that nobody's change is "
            "undone unseen; “If-Match: *” changes whatever is there.",
        )
    if named == "*":
        return None
    tag = _ETAG.fullmatch(named)
    if tag is None:
        raise wrong_field("If-Match", "One ETag in quotation marks is needed, or *.")
    return tag[1]
