"""The audit trail: entry by entry with what each changed, and whether it is whole. To read only."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from governance.api.exceptions import ApiProblem, ProblemType
from governance.api.pagination import PageQuery, page_of
from governance.api.permissions import people
from governance.api.serializers import StrictSerializer
from governance.api.views import ApiView, Operation
from governance.audit.actions import AuditAction, Channel, RecordKind
from governance.audit.trail import verify
from governance.models import AuditEvent

_READ = people("governance.view_auditevent")


class AuditQuery(PageQuery):
    """Which entries."""

    kind = serializers.ChoiceField([each.value for each in RecordKind], required=False)
    record = serializers.CharField(required=False, max_length=300, help_text="The record's name, as entries have it.")
    author = serializers.CharField(required=False, max_length=150, help_text="Who made the change.")


class AuditEntrySerializer(StrictSerializer):
    """One entry. ``before`` is null where a record was made, ``after`` where it was taken away."""

    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    action = serializers.CharField(help_text=f"One of {', '.join(AuditAction)}.")
    kind = serializers.CharField(help_text=f"One of {', '.join(RecordKind)}.")
    record = serializers.CharField()
    author = serializers.CharField()
    channel = serializers.CharField(help_text=f"One of {', '.join(Channel)}.")
    address = serializers.CharField()
    request_id = serializers.CharField(source="correlation")
    reason = serializers.CharField()
    before = serializers.SerializerMethodField()
    after = serializers.SerializerMethodField()
    previous_digest = serializers.CharField(source="previous")
    digest = serializers.CharField()

    def get_before(self, event: AuditEvent) -> dict[str, Any] | None:
        return None if event.revision is None else event.revision.before

    def get_after(self, event: AuditEvent) -> dict[str, Any] | None:
        return None if event.revision is None else event.revision.after


class FlawSerializer(StrictSerializer):
    """Something that does not fit."""

    number = serializers.IntegerField(help_text="The entry.")
    what = serializers.CharField()


class VerdictSerializer(StrictSerializer):
    """What reading the whole trail found."""

    is_whole = serializers.SerializerMethodField()
    entries = serializers.IntegerField()
    digest = serializers.CharField(help_text="Of the last entry. Kept elsewhere, it also finds a trail written anew.")
    flaws = FlawSerializer(many=True)

    def get_is_whole(self, verdict: Any) -> bool:
        return not verdict.flaws


class AuditView(ApiView):
    """The trail, the latest entry first."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="list_audit_entries",
            summary="List the audit trail",
            permit=_READ,
            query=AuditQuery,
            answer=AuditEntrySerializer,
            is_page=True,
        )
    }

    def get(self, request: Request) -> HttpResponseBase:
        columns = {name: self.query[name] for name in ("kind", "record", "author") if name in self.query}
        rows = AuditEvent.objects.filter(**columns).select_related("revision")
        page = page_of(request, rows, order=("-number",), query=self.query)
        return Response({"items": AuditEntrySerializer(page.items, many=True).data, "next": page.next})


class AuditEntryView(ApiView):
    """One entry."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="read_audit_entry", summary="Read an entry of the trail", permit=_READ, answer=AuditEntrySerializer
        )
    }

    def get(self, request: Request, name: int) -> HttpResponseBase:
        event = AuditEvent.objects.filter(number=name).select_related("revision").first()
        if event is None:
            raise ApiProblem(ProblemType.NOT_FOUND, f"The trail has no entry {name}.")
        return Response(AuditEntrySerializer(event).data)


class VerificationView(ApiView):
    """The whole trail, read now."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="verify_audit",
            summary="Verify the audit trail",
            about="Reads every entry, so that it takes the longer the more there are.",
            permit=_READ,
            answer=VerdictSerializer,
        )
    }

    def get(self, request: Request) -> HttpResponseBase:
        return Response(VerdictSerializer(verify()).data)
