"""Applications, and their virtual keys. A key's secret is in the answer that issues it, and in no other."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.status import HTTP_201_CREATED

from governance.api.authentication import author_of
from governance.api.exceptions import ProblemType
from governance.api.pagination import PageQuery
from governance.api.records import Filled, Kind, KindView
from governance.api.serializers import IdentifierField, Reason, ReasonedSerializer
from governance.api.views import Operation
from governance.audit.actions import RecordKind
from governance.changes.keys import issue_key, revoke_key, rotate_key, save_key
from governance.changes.records import save_record
from governance.models import LIMIT_FIELDS, AccessKey, Application

_DAY = 86_400
_MOST_GRACE = 30 * _DAY


class ApplicationSerializer(ReasonedSerializer):
    """An application."""

    class Meta:
        model = Application
        fields: tuple[str, ...] = (
            "identifier", "name", "description", "is_active", "may_run_tasks", *LIMIT_FIELDS, "source", "created_at",
            "updated_at", "retired_at", "reason",
        )  # fmt: skip
        read_only_fields: tuple[str, ...] = ("source", "created_at", "updated_at", "retired_at")


class ApplicationChange(ApplicationSerializer):
    """A change of an application."""

    class Meta(ApplicationSerializer.Meta):
        read_only_fields: tuple[str, ...] = ("identifier", *ApplicationSerializer.Meta.read_only_fields)


class ApplicationKind(Kind):
    model = Application
    record = RecordKind.APPLICATION
    word, words = "application", "applications"
    serializer, change = ApplicationSerializer, ApplicationChange

    def rows(self) -> "QuerySet[Any]":
        return Application.objects.all()

    def store(self, filled: Filled) -> dict[str, Any]:
        columns = filled.fill()
        save_record(filled.record, author=filled.author, reason=filled.reason, only=columns, expected=filled.expected)
        return {}


class KeyQuery(PageQuery):
    """Which keys."""

    application = serializers.CharField(required=False, max_length=100, help_text="Identifier of an application.")
    revoked = serializers.BooleanField(required=False, default=False, help_text="Whether revoked keys are listed too.")


def _allowed(help_text: str) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(max_length=100), required=False, allow_null=True, help_text=help_text
    )


class KeySerializer(ReasonedSerializer):
    """A virtual key, without its secret."""

    application = IdentifierField(Application, help_text="Identifier of the application it belongs to.")
    allowed_configurations = _allowed("Identifiers of the configurations it may ask for. Null for all, [] for none.")
    allowed_models = _allowed("Identifiers of the models that may serve it. Null for all, [] for none.")

    class Meta:
        model = AccessKey
        fields: tuple[str, ...] = (
            "id", "application", "name", "prefix", "allowed_configurations", "allowed_models", "may_name_models",
            *LIMIT_FIELDS, "expires_at", "source", "created_at", "revoked_at", "reason",
        )  # fmt: skip
        read_only_fields: tuple[str, ...] = ("id", "prefix", "source", "created_at", "revoked_at")


class KeyChange(KeySerializer):
    """A change of what a key allows, or of when it expires."""

    application = IdentifierField(Application, read_only=True)


class IssuedKeySerializer(KeySerializer):
    """A key that was issued just now."""

    secret = serializers.CharField(read_only=True, help_text="The key itself. It is not kept, and is not shown again.")

    class Meta(KeySerializer.Meta):
        fields: tuple[str, ...] = (*KeySerializer.Meta.fields, "secret")


class KeyKind(Kind):
    model = AccessKey
    record = RecordKind.KEY
    word, words = "key", "keys"
    serializer, change = KeySerializer, KeyChange
    made = IssuedKeySerializer
    query = KeyQuery
    order = ("-created_at", "id")
    key = "id"

    def rows(self) -> "QuerySet[Any]":
        return AccessKey.objects.select_related("application")

    def chosen(self, query: Mapping[str, Any]) -> "QuerySet[Any]":
        rows = self.rows() if query["revoked"] else self.rows().filter(revoked_at=None)
        return rows.filter(application__identifier=query["application"]) if "application" in query else rows

    def store(self, filled: Filled) -> dict[str, Any]:
        columns = filled.fill()
        if columns is None:
            return {"secret": issue_key(filled.record, author=filled.author, reason=filled.reason)}
        save_key(filled.record, author=filled.author, reason=filled.reason, only=columns, expected=filled.expected)
        return {}


class Rotation(Reason):
    """How a key is replaced."""

    grace_seconds = serializers.IntegerField(
        required=False,
        default=_DAY,
        min_value=0,
        max_value=_MOST_GRACE,
        help_text="How long the old key goes on. It never outlives its own expiry.",
    )


class RotateKeyView(KindView):
    """Issues another key that allows the same."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        return {
            "POST": Operation(
                name="rotate_key",
                summary="Issue a key that allows the same, and end the old one",
                about="The answer is the new key, with its secret.",
                permit=self.of.permit("add", "change"),
                body=Rotation,
                answer=IssuedKeySerializer,
                status=HTTP_201_CREATED,
                is_versioned=True,
                problems=(ProblemType.CONFLICT,),
            )
        }

    def post(self, request: Request, name: object) -> HttpResponseBase:
        sent = self.read_body(request)
        successor, secret = rotate_key(
            self.of.find(name),
            author=author_of(request),
            grace=timedelta(seconds=sent["grace_seconds"]),
            reason=sent["reason"],
        )
        location = f"{request.path.rsplit('/', 2)[0]}/{successor.pk}"
        return self.of.answer(
            successor, more={"secret": secret}, status=HTTP_201_CREATED, headers={"Location": location}
        )


class RevokeKeyView(KindView):
    """Ends a key for good."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        return {
            "POST": Operation(
                name="revoke_key",
                summary="Revoke a key for good",
                about="Every process refuses it within a second. Again changes nothing.",
                permit=self.of.permit("change"),
                body=Reason,
                answer=KeySerializer,
                is_versioned=True,
            )
        }

    def post(self, request: Request, name: object) -> HttpResponseBase:
        key = self.of.find(name)
        revoke_key(key, author=author_of(request), reason=self.read_body(request)["reason"])
        return self.of.answer(key)
