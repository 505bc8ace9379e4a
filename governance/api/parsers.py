"""Bodies: strict JSON of a bounded size."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from governance.api.exceptions import ApiProblem, ProblemType
from governance.gateway.errors import RequestProblem
from governance.gateway.protocols.json_body import read_document
from governance.gateway.service import opened_service
from governance.settings_store.registry import MAX_BODY_BYTES

MOST_BYTES = 1024 * 1024
"""The largest body of an address that takes no prompts."""


class StrictJSONParser(BaseParser):
    """A JSON object, read as strictly as calls are: what two programs could read differently is refused."""

    media_type = "application/json"

    @property
    def most_bytes(self) -> int:
        """The largest body."""
        return MOST_BYTES

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Raises a problem where the body is too large or no JSON object."""
        limit = self.most_bytes
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise too_large(limit)
        try:
            return read_document(body)[0]
        except RequestProblem as refused:
            raise ApiProblem(ProblemType.INVALID_BODY, f"Nothing was done: {refused}.") from None


class CallParser(StrictJSONParser):
    """The same for what holds prompts: as large as a call may be."""

    @property
    def most_bytes(self) -> int:
        """The setting ``gateway.maxBodyBytes``."""
        return most_bytes_of_a_call()


def most_bytes_of_a_call() -> int:
    """The setting ``gateway.maxBodyBytes``, as it is in force."""
    service = opened_service()
    in_force = None if service is None else service.in_force
    return MAX_BODY_BYTES.default if in_force is None else in_force.standing.settings.max_body_bytes


def too_large(limit: int) -> ApiProblem:
    """The refusal of a body."""
    return ApiProblem(ProblemType.BODY_TOO_LARGE, f"Nothing was done: this address takes at most {limit} bytes.")
