"""What goes wrong, in one shape, for every address: the only place of the API that knows HTTP statuses of failures.

The shape is that of RFC 9457 (``application/problem+json``): ``type`` is the word that programs compare, ``title`` says
it to people, ``detail`` says what happened here and what to do, ``errors`` names the fields, ``request_id`` is the id
that the logs have. Nothing that was sent is repeated but names of fields.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, PermissionDenied, ValidationError
from django.db import InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions as rest
from rest_framework.response import Response

from governance.changes.door import RecordMovedOn
from governance.changes.rules import RecordOutOfState
from governance.gateway.errors import RequestProblem
from governance.settings_store.sources import SettingPinned
from governance.submissions.readouts import SubmissionNotFound

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
CHALLENGE = 'Bearer realm="signalbox"'


class ProblemType(StrEnum):
    """What can go wrong, as programs compare it."""

    INVALID_BODY = "invalid_body"
    INVALID_FIELDS = "invalid_fields"
    NOT_AUTHENTICATED = "not_authenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_ACCEPTABLE = "not_acceptable"
    CONFLICT = "conflict"
    CHANGED_MEANWHILE = "changed_meanwhile"
    BODY_TOO_LARGE = "body_too_large"
    BODY_TIMEOUT = "body_timeout"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    VERSION_NEEDED = "version_needed"
    INTERNAL_ERROR = "internal_error"
    NOT_READY = "not_ready"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """The status of a type, and its words."""

    status: int
    title: str


PROBLEMS: Mapping[ProblemType, ProblemKind] = MappingProxyType(
    {
        ProblemType.INVALID_BODY: ProblemKind(400, "The body cannot be read"),
        ProblemType.INVALID_FIELDS: ProblemKind(400, "Something that was sent is wrong"),
        ProblemType.NOT_AUTHENTICATED: ProblemKind(401, "Nobody is known to ask"),
        ProblemType.FORBIDDEN: ProblemKind(403, "This may not be done"),
        ProblemType.NOT_FOUND: ProblemKind(404, "There is no such thing"),
        ProblemType.METHOD_NOT_ALLOWED: ProblemKind(405, "The address does not know this method"),
        ProblemType.NOT_ACCEPTABLE: ProblemKind(406, "Answers are JSON"),
        ProblemType.CONFLICT: ProblemKind(409, "The state of things does not allow it"),
        ProblemType.CHANGED_MEANWHILE: ProblemKind(412, "Somebody else changed the record"),
        ProblemType.BODY_TOO_LARGE: ProblemKind(413, "The body is too large"),
        ProblemType.BODY_TIMEOUT: ProblemKind(408, "The body did not arrive in time"),
        ProblemType.UNSUPPORTED_MEDIA_TYPE: ProblemKind(415, "Bodies are JSON"),
        ProblemType.VERSION_NEEDED: ProblemKind(428, "Say which version is meant"),
        ProblemType.INTERNAL_ERROR: ProblemKind(500, "Signalbox failed"),
        ProblemType.NOT_READY: ProblemKind(503, "Signalbox cannot answer now"),
    }
)
"""The statuses. A client that knows none of the types does the right thing by the status."""

_OF_REST: Mapping[type[rest.APIException], ProblemType] = MappingProxyType(
    {
        rest.ParseError: ProblemType.INVALID_BODY,
        rest.AuthenticationFailed: ProblemType.NOT_AUTHENTICATED,
        rest.NotAuthenticated: ProblemType.NOT_AUTHENTICATED,
        rest.PermissionDenied: ProblemType.FORBIDDEN,
        rest.NotFound: ProblemType.NOT_FOUND,
        rest.MethodNotAllowed: ProblemType.METHOD_NOT_ALLOWED,
        rest.NotAcceptable: ProblemType.NOT_ACCEPTABLE,
        rest.UnsupportedMediaType: ProblemType.UNSUPPORTED_MEDIA_TYPE,
    }
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field, by its path in what was sent, such as ``prices[0].currency``."""

    field: str
    message: str


class ApiProblem(Exception):
    """Something that is answered with a problem."""

    def __init__(
        self,
        kind: ProblemType,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})


def wrong_field(field: str, message: str) -> ApiProblem:
    """The refusal of one field."""
    return _wrong_fields([FieldError(field, message)])


def answer_exception(error: Exception, context: Mapping[str, Any]) -> Response:
    """Whatever a view raises, as a problem. The handler that the framework is told of in the settings."""
    request: HttpRequest = context["request"]._request
    problem = problem_of(error)
    if problem.kind is ProblemType.NOT_AUTHENTICATED:
        problem.headers.setdefault("WWW-Authenticate", CHALLENGE)
    if problem.kind is ProblemType.INTERNAL_ERROR:
        logger.error("a request to the API ended in an error of our own", exc_info=error)
    elif problem.kind is ProblemType.NOT_READY:
        logger.warning("the API cannot answer: %s", type(error).__name__)
    return Response(
        document(problem, request_id=request_id(request)),
        status=PROBLEMS[problem.kind].status,
        headers=problem.headers,
        content_type=CONTENT_TYPE,
    )


def problem_response(problem: ApiProblem, *, request: HttpRequest) -> JsonResponse:
    """A problem as an answer, where no view of the framework is in between."""
    return JsonResponse(
        document(problem, request_id=request_id(request)),
        status=PROBLEMS[problem.kind].status,
        headers=problem.headers,
        content_type=CONTENT_TYPE,
    )


def request_id(request: HttpRequest) -> str:
    """The id of a request, which its answer and the log lines about it have too."""
    return str(request.META.get("signalbox.correlation", ""))


def document(problem: ApiProblem, *, request_id: str) -> dict[str, Any]:
    """The body of an answer that tells of a problem."""
    kind = PROBLEMS[problem.kind]
    return {
        "type": problem.kind.value,
        "title": kind.title,
        "status": kind.status,
        "detail": problem.detail,
        "errors": [{"field": each.field, "message": each.message} for each in problem.errors],
        "request_id": request_id,
    }


def problem_of(error: Exception) -> ApiProblem:
    """What an exception means to a caller; of one that nobody expected nothing is told."""
    match error:
        case ApiProblem():
            return error
        case rest.ValidationError():
            return _wrong_fields(list(_flat(error.detail, "")))
        case RecordOutOfState() | SettingPinned():
            return ApiProblem(ProblemType.CONFLICT, f"Nothing was done. {' '.join(error.messages)}")
        case ValidationError():
            return _wrong_fields(list(_of_django(error)))
        case RecordMovedOn():
            return ApiProblem(
                ProblemType.CHANGED_MEANWHILE,
                f"{error}: nothing was saved. Read it again, and send the change with the ETag of that answer.",
            )
        case RequestProblem():
            return _of_call(error)
        case SubmissionNotFound():
            return ApiProblem(ProblemType.NOT_FOUND, f"{str(error)[:1].upper()}{str(error)[1:]}.")
        case Http404():
            return ApiProblem(ProblemType.NOT_FOUND, str(error) or "There is nothing at this address.")
        case PermissionDenied():
            return ApiProblem(ProblemType.FORBIDDEN, str(error) or "This may not be done.")
        case rest.APIException():
            return _of_rest(error)
        case OperationalError() | InterfaceError() | InternalError():  # the last: a server that became a standby
            return ApiProblem(
                ProblemType.NOT_READY, "The database cannot be asked; try again.", headers={"Retry-After": "1"}
            )
    return ApiProblem(ProblemType.INTERNAL_ERROR, "The operator's log says more under this request id.")


def _of_call(error: RequestProblem) -> ApiProblem:
    """Why something cannot become a call, in the words that ``/v1/`` has for it."""
    problem = error.problem
    kinds = {503: ProblemType.NOT_READY, 409: ProblemType.CONFLICT, 413: ProblemType.BODY_TOO_LARGE}
    kind = kinds.get(problem.status, ProblemType.INVALID_FIELDS)
    errors = [FieldError(problem.parameter, problem.message)] if kind is ProblemType.INVALID_FIELDS else []
    return ApiProblem(kind, f"Nothing was done. {problem.message}", errors=errors)


def _of_rest(error: rest.APIException) -> ApiProblem:
    kind = next((kind for cls, kind in _OF_REST.items() if isinstance(error, cls)), ProblemType.INTERNAL_ERROR)
    detail = str(error.detail)
    match error:
        case rest.NotAcceptable():
            detail = "Ask for application/json; there is no other form of an answer."
        case rest.UnsupportedMediaType():
            detail = "Send the body as JSON, with “Content-Type: application/json”."
        case rest.NotAuthenticated():
            detail = "Send a virtual key as “Authorization: Bearer sb-…”, or log in."
    return ApiProblem(kind, detail)


def _wrong_fields(errors: Sequence[FieldError]) -> ApiProblem:
    told = "; ".join(f"{each.field}: {each.message}" if each.field else each.message for each in errors)
    return ApiProblem(ProblemType.INVALID_FIELDS, f"Nothing was done. {told}", errors=errors)


def _flat(detail: Any, path: str) -> Iterator[FieldError]:
    """The framework's nested errors, each with its path."""
    match detail:
        case Mapping():
            for name, inner in detail.items():
                at = path if name == "non_field_errors" else _joined(path, name)
                yield from _flat(inner, at)
        case list() if all(isinstance(each, str) for each in detail):
            yield from (FieldError(path, str(each)) for each in detail)
        case list():
            for index, inner in enumerate(detail):
                if inner:
                    yield from _flat(inner, path if isinstance(inner, str) else f"{path}[{index}]")
        case _:
            yield FieldError(path, str(detail))


def _joined(path: str, name: Any) -> str:
    if isinstance(name, int):  # an element of a list
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else str(name)


def _of_django(error: ValidationError) -> Iterator[FieldError]:
    """What a record's own validation says: by field where it names one."""
    if not hasattr(error, "error_dict"):
        yield from (FieldError("", message) for message in error.messages)
        return
    for name, messages in error.message_dict.items():
        field = "" if name == NON_FIELD_ERRORS else name
        yield from (FieldError(field, message) for message in messages)
