"""The audit trail: who changed what, before and after; and whether the trail is whole. To look at only."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.admin import SimpleListFilter
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse

from governance.admin.cells import figure, two_lines
from governance.admin.differences import action_words, channel_words, entry_row, kind_words
from governance.admin.finding import BoundedPaginator
from governance.admin.records import ReadOnlyAdmin, RecordTool, is_restorable
from governance.admin.restoration import may_restore, restoration_page
from governance.audit.actions import ACTION_LABELS, CHANNEL_LABELS, KIND_LABELS, RecordKind
from governance.audit.trail import verify
from governance.changes.descriptions import describe
from governance.changes.restoration import find_record
from governance.models import AuditEvent
from governance.spelling import ABSENT


class WordFilter(SimpleListFilter):
    """Filters a column by a closed set of words."""

    words: Iterable[tuple[str, str]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(word), label) for word, label in self.words]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(**{str(self.parameter_name): value})

    def has_output(self) -> bool:
        """Also while there is nothing to choose, if somebody chose: a filter that is not applied shows too much."""
        return super().has_output() or self.value() is not None


class KindFilter(WordFilter):
    title = "kind of record"
    parameter_name = "kind"
    words = tuple(KIND_LABELS.items())


class ActionFilter(WordFilter):
    title = "action"
    parameter_name = "action"
    words = tuple(ACTION_LABELS.items())


class ChannelFilter(WordFilter):
    title = "made through"
    parameter_name = "channel"
    words = tuple(CHANNEL_LABELS.items())


class AuthorFilter(WordFilter):
    """People who may log in; whoever else made a change is found by searching."""

    title = "author"
    parameter_name = "author"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = User.objects.filter(is_staff=True).order_by("username").values_list("username", flat=True)[:100]
        return [(name, name) for name in names]


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """The audit trail."""

    change_list_template = "admin/governance/auditevent/change_list.html"
    change_form_template = "admin/governance/auditevent/change_form.html"
    paginator = BoundedPaginator
    ordering = ("-number",)
    list_display = ("number", "when", "what", "about", "made_by", "reason")
    list_filter = (KindFilter, ActionFilter, AuthorFilter, ChannelFilter)
    search_fields = ("record", "author")
    search_help_text = "An entry's number, or the beginning of a record's name or an author's."
    fieldsets = (
        (None, {"fields": (("number", "when"), ("what", "of_kind"), "record", "why")}),
        ("By whom", {"fields": (("author", "through"), ("from_where", "request_id"))}),
        ("In the chain", {"fields": ("digest", "after_digest"), "classes": ("collapse",)}),
    )

    def get_urls(self) -> list[Any]:
        verification = path(
            "verify/", self.admin_site.admin_view(self.verify_view), name="governance_auditevent_verify"
        )
        restoration = path(
            "<int:number>/restore/", self.admin_site.admin_view(self.restore_view), name="governance_auditevent_restore"
        )
        return [verification, restoration, *super().get_urls()]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        found = Q(record__startswith=term) | Q(author__startswith=term)
        number = term.removeprefix("#")
        if number.isascii() and number.isdigit() and len(number) < 19:
            found |= Q(number=int(number))
        return queryset.filter(found), False

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        event: AuditEvent = context["original"]
        context = {**context, "row": entry_row(event), "record_tools": self.tools(request, event)}
        return super().render_change_form(request, context, *args, **kwargs)

    def tools(self, request: HttpRequest, event: AuditEvent) -> list[RecordTool]:
        """A way back to an entry's revision, where there is one."""
        revision = event.revision
        record = None if revision is None else find_record(revision)
        current = None if record is None else describe(RecordKind(event.kind), record.pk)
        if revision is None or not is_restorable(event, current) or not may_restore(request, revision, record):
            return []
        return [RecordTool("Restore", reverse("admin:governance_auditevent_restore", args=[event.pk]), "restore")]

    def restore_view(self, request: HttpRequest, number: int) -> HttpResponse:
        """Bring a record back to the revision of an entry."""
        event = AuditEvent.objects.filter(number=number).select_related("revision").first()
        if event is None:
            raise Http404(f"the audit trail has no entry {number}")
        return restoration_page(request, event)

    def verify_view(self, request: HttpRequest) -> HttpResponse:
        """Read the whole trail, when somebody asks for it."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": "Verify the audit trail",
            "opts": self.opts,
            "verdict": verify() if request.method == "POST" else None,
        }
        return TemplateResponse(request, "admin/governance/auditevent/verify.html", context)

    @admin.display(description="when (UTC)")
    def when(self, event: AuditEvent) -> str:
        return figure(f"{event.at:%Y-%m-%d %H:%M:%S}")

    @admin.display(description="record")
    def about(self, event: AuditEvent) -> str:
        return two_lines(event.record, kind_words(event.kind))

    @admin.display(description="by")
    def made_by(self, event: AuditEvent) -> str:
        return two_lines(event.author, channel_words(event.channel))

    @admin.display(description="action")
    def what(self, event: AuditEvent) -> str:
        return action_words(event.action)

    @admin.display(description="kind")
    def of_kind(self, event: AuditEvent) -> str:
        return kind_words(event.kind)

    @admin.display(description="through")
    def through(self, event: AuditEvent) -> str:
        return channel_words(event.channel)

    @admin.display(description="reason")
    def why(self, event: AuditEvent) -> str:
        return event.reason or ABSENT

    @admin.display(description="address")
    def from_where(self, event: AuditEvent) -> str:
        return event.address or ABSENT

    @admin.display(description="request id")
    def request_id(self, event: AuditEvent) -> str:
        return event.correlation or ABSENT

    @admin.display(description="digest before it")
    def after_digest(self, event: AuditEvent) -> str:
        return event.previous or "none: it is the first"
