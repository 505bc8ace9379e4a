"""Bodies: strict JSON of a bounded size."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from governance.api.exceptions import ApiProblem, ProblemType
from governance.gateway.errors import RequestProblem
from governance.gateway.protocols.json_body import read_document

MOST_BYTES = 1024 * 1024
"""The largest body of an address that takes no prompts."""


class StrictJSONParser(BaseParser):
    """A JSON object, read as strictly as calls are: what two programs could read differently is refused."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Raises a problem where the body is too large or no JSON object."""
        body = stream.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise too_large(MOST_BYTES)
        try:
            return read_document(body)[0]
        except RequestProblem as refused:
            raise ApiProblem(ProblemType.INVALID_BODY, f"Nothing was done: {refused}.") from None


def too_large(limit: int) -> ApiProblem:
    """The refusal of a body."""
    return ApiProblem(ProblemType.BODY_TOO_LARGE, f"Nothing was done: this address takes at most {limit} bytes.")
