"""The description of the API (OpenAPI), made of the tables of operations, and the page that shows it.

The page is Swagger UI from our own files: nothing comes from another host, and no script stands in the page.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, inline_serializer
from rest_framework import serializers

from governance.api.exceptions import CONTENT_TYPE, PROBLEMS, ProblemType
from governance.api.serializers import StrictSerializer
from governance.api.views import IDEMPOTENCY_KEY, ApiView, NoQuery, Operation

_UI = "drf_spectacular_sidecar/swagger-ui-dist"


class ProblemErrorSerializer(StrictSerializer):
    """What is wrong with one field."""

    field = serializers.CharField(help_text="Its path in what was sent; empty if it is about the whole.")
    message = serializers.CharField()


class ProblemSerializer(StrictSerializer):
    """What every failure is told in (RFC 9457)."""

    type = serializers.ChoiceField([each.value for each in ProblemType], help_text="What programs compare.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="What happened, and what to do.")
    errors = ProblemErrorSerializer(many=True)  # type: ignore[assignment]  # the class has it as a word of its own
    request_id = serializers.CharField(help_text="What the operator's log lines have, and the answer's X-Request-ID.")


class OperationSchema(AutoSchema):
    """Describes one method of one address by its entry in the table."""

    @property
    def operation(self) -> Operation:
        """The entry."""
        if not isinstance(self.view, ApiView):
            raise TypeError(f"{type(self.view).__name__} has no table of operations")
        return self.view.operations[self.method]

    def is_excluded(self) -> bool:
        return not isinstance(self.view, ApiView)

    def get_operation_id(self) -> str:
        return self.operation.name

    def get_summary(self) -> str:
        return self.operation.summary

    def get_description(self) -> str:  # type: ignore[override]  # as the class above has it
        return self.operation.about

    def get_tags(self) -> list[str]:
        return [self.path.removeprefix("/api/v1/").partition("/")[0]]

    def get_auth(self) -> list[dict[str, list[str]]]:
        permit = self.operation.permit
        if permit.anybody:
            return [{}]
        kinds = ["virtualKey"] if permit.keys else []
        return [{name: []} for name in [*kinds, *(["session"] if permit.permissions is not None else [])]]

    def get_override_parameters(self) -> list[Any]:
        found: list[Any] = [] if self.operation.query is NoQuery else [self.operation.query]
        if self.operation.names_version:
            found.append(
                OpenApiParameter(
                    "If-Match", str, OpenApiParameter.HEADER, required=True, pattern=r'^(\*|"[^",]*")$',
                    description="The ETag of the version that is meant, or * for any.",
                )
            )  # fmt: skip
        if self.operation.is_repeatable:
            found.append(
                OpenApiParameter(
                    IDEMPOTENCY_KEY, {"type": "string", "pattern": r"^[!-~]{1,100}$"}, OpenApiParameter.HEADER,
                    description="A name for this request: however often it comes, it is done once.",
                )
            )  # fmt: skip
        if self.operation.is_versioned:
            found.append(
                OpenApiParameter(
                    "ETag", str, OpenApiParameter.HEADER, response=[self.operation.status], required=True,
                    description="The version of the record, for If-Match.",
                )
            )  # fmt: skip
        return found

    def get_request_serializer(self) -> Any:
        return self.operation.body

    def get_response_serializers(self) -> Any:
        operation = self.operation
        answer: Any = OpenApiTypes.STR if operation.is_table else operation.answer
        if operation.is_page and answer is not None:
            answer = page_serializer(answer)
        good = OpenApiResponse(answer, description="" if answer is None else "Done.")
        statuses = [each for each in (operation.status, operation.other_status) if each is not None]
        return {**{str(each): good for each in sorted(statuses)}, **self._problems()}

    def _problems(self) -> dict[Any, OpenApiResponse]:
        found: dict[int, list[str]] = {}
        for kind in problems_of(self.operation, has_path="{" in self.path):
            found.setdefault(PROBLEMS[kind].status, []).append(f"`{kind.value}`: {PROBLEMS[kind].title}.")
        return {
            (str(status), CONTENT_TYPE): OpenApiResponse(ProblemSerializer, description=" ".join(words))
            for status, words in sorted(found.items())
        }


def problems_of(operation: Operation, *, has_path: bool) -> list[ProblemType]:
    """What can go wrong with an operation, beside a fault of our own."""
    takes_body = operation.body is not None
    applies = {
        ProblemType.INVALID_BODY: takes_body,
        ProblemType.INVALID_FIELDS: True,  # of the query, in which nothing may stand that is not known
        ProblemType.NOT_AUTHENTICATED: True,  # a key that is none, also where none is needed
        ProblemType.FORBIDDEN: not operation.permit.anybody,
        ProblemType.NOT_FOUND: has_path,
        ProblemType.NOT_ACCEPTABLE: True,
        ProblemType.CHANGED_MEANWHILE: operation.names_version,
        ProblemType.BODY_TOO_LARGE: takes_body,
        ProblemType.BODY_TIMEOUT: takes_body,
        ProblemType.UNSUPPORTED_MEDIA_TYPE: takes_body,
        ProblemType.VERSION_NEEDED: operation.names_version,
        ProblemType.NOT_READY: True,
    }
    return [*(kind for kind, does in applies.items() if does), *operation.problems]


@cache
def page_serializer(item: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """A page of items, as it is described."""
    name = f"{item.__name__.removesuffix('Serializer')}Page"
    fields: dict[str, serializers.Field[Any, Any, Any, Any]] = {
        "items": item(many=True),
        "next": serializers.CharField(allow_null=True, help_text="Address of the next page, if there is one."),
    }
    return inline_serializer(name=name, fields=fields)


@cache
def description() -> bytes:
    """The whole description: the same for as long as the process runs."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    described = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return json.dumps(described, ensure_ascii=False).encode()


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """``GET /api/v1/openapi.json``, for anybody."""
    return HttpResponse(description(), content_type="application/json")


@require_safe
def reader(request: HttpRequest) -> HttpResponse:
    """``GET /api/v1/docs``: the description for people, who may also try it."""
    context: Mapping[str, Any] = {
        "css": static(f"{_UI}/swagger-ui.css"),
        "bundle": static(f"{_UI}/swagger-ui-bundle.js"),
        "description": reverse("api-openapi"),
    }
    return render(request, "api/docs.html", context)
