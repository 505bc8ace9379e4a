"""What every address has in common: a table of its methods, by which requests are admitted, read and described.

An :class:`Operation` says who may use a method, what it takes and gives and what can go wrong. The description of the
API is made of these tables, and tests go through them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from governance.api.exceptions import ApiProblem, ProblemType, problem_response
from governance.api.permissions import Permit
from governance.api.serializers import StrictSerializer

IDEMPOTENCY_KEY = "Idempotency-Key"
"""The header in which a request names itself."""


class NoQuery(StrictSerializer):
    """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of an address.

    Attributes:
        name: its name in the description, which generated clients take for a function's.
        summary: what it does, in a line.
        about: what more there is to know.
        permit: who may use it.
        query: what may follow the question mark.
        body: what is sent; ``None`` if nothing is.
        is_partial: whether of the body's fields any may be left out.
        answer: what comes back; ``None`` for nothing.
        status: the status of a good answer.
        other_status: another status that a good answer may have.
        is_table: whether what comes back is a table as text.
        is_page: whether the answer is a page of such things.
        is_versioned: whether the answer has an ETag.
        names_version: whether the request says which version it means.
        is_repeatable: whether the request may name itself, so that it is done once however often it comes.
        problems: what can go wrong beside what the rest of the table says.
    """

    name: str
    summary: str
    permit: Permit
    about: str = ""
    query: type[StrictSerializer] = NoQuery
    body: type[serializers.BaseSerializer[Any]] | None = None
    is_partial: bool = False
    answer: type[serializers.BaseSerializer[Any]] | None = None
    status: int = 200
    other_status: int | None = None
    is_table: bool = False
    is_page: bool = False
    is_versioned: bool = False
    names_version: bool = False
    is_repeatable: bool = False
    problems: tuple[ProblemType, ...] = ()


class ApiView(APIView):
    """One address. ``operations`` has an entry for each method that it knows."""

    http_method_names = [  # noqa: RUF012 (Django has it so)
        "get",
        "head",
        "post",
        "put",
        "patch",
        "delete",
    ]
    topic: str = ""
    """Under which heading the description has it."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The table."""
        raise NotImplementedError

    query: dict[str, Any]
    """What followed the question mark, read."""

    def operation_of(self, method: str | None) -> Operation | None:
        """The entry of a method; ``None`` if there is none."""
        return self.operations.get("GET" if method == "HEAD" else str(method))

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        """A body that came in pieces has no length; the framework would take it for none."""
        if "CONTENT_LENGTH" not in request.META:
            request.META["CONTENT_LENGTH"] = str(len(request.body))
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Who asks, and what for."""
        super().initial(request, *args, **kwargs)
        operation = self.operation_of(request.method)
        if operation is not None:
            given = {name: values[0] if len(values) == 1 else values for name, values in request.query_params.lists()}
            self.query = _valid(operation.query(data=given))

    def read_body(self, request: Request) -> dict[str, Any]:
        """What was sent, held to what the operation takes.

        Raises:
            rest_framework.exceptions.ValidationError: something is wrong with it.
        """
        operation = self.operation_of(request.method)
        if operation is None or operation.body is None:
            raise TypeError("this method takes no body")
        return _valid(operation.body(data=request.data, partial=operation.is_partial))


def _valid(serializer: serializers.BaseSerializer[Any]) -> dict[str, Any]:
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


@csrf_exempt  # there is nothing that could be forged, and the token's own page of failure is no JSON
def nothing_here(request: HttpRequest, **_: Any) -> HttpResponse:
    """Any address below /api/ that there is not."""
    detail = f"There is no {request.path}; /api/v1/openapi.json has every address there is."
    return problem_response(ApiProblem(ProblemType.NOT_FOUND, detail), request=request)
