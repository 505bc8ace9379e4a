"""What the pages of all records have in common.

Records that others name have identifiers that are typed once, are retired instead of deleted, and can be brought
back. Tables that are written once are only looked at.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import SimpleListFilter
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from governance.access.authors import author_of
from governance.admin.cells import two_lines
from governance.admin.differences import entry_row
from governance.admin.fields import ReasonField, without_menu
from governance.admin.generic import Column, ModelAdmin, ModelForm, Paginator
from governance.audit.actions import Author, RecordKind
from governance.changes.descriptions import Document, describe
from governance.changes.records import bring_back, retire, save_record, switch
from governance.changes.restoration import differs
from governance.changes.rules import check_record
from governance.models import AuditEvent
from routing.models import NamedRecord

_HISTORY_PAGE = 25

LAST = "sb-last"
"""The class of a fieldset that comes after what belongs to the record."""

NOT_NEEDED = "None of the chosen records needed that; nothing was changed."


class InServiceFilter(SimpleListFilter):
    """Retired records are out of the way unless they are asked for."""

    title = "service"
    parameter_name = "service"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("retired", "Retired"), ("all", "All")]

    def choices(self, changelist: Any) -> Any:
        first, *others = super().choices(changelist)
        yield {**first, "display": "Not retired"}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "retired":
            return queryset.exclude(retired_at=None)
        return queryset if self.value() == "all" else queryset.filter(retired_at=None)


def offer_in_service(field: forms.Field, *, current: Any) -> None:
    """Offer the records that are not retired, and the one that is chosen already."""
    if isinstance(field, ModelChoiceField) and field.queryset is not None:
        field.queryset = field.queryset.filter(Q(retired_at=None) | Q(pk=current))


class RecordForm(ModelForm):
    """A form for a record, with room to say why it is changed."""

    reason = ReasonField()

    def _post_clean(self) -> None:
        """With what the change would refuse, said beside its field before the change is made."""
        super()._post_clean()  # type: ignore[misc]  # Django's own hook, which its stubs leave out
        try:
            check_record(self.instance)
        except ValidationError as refused:
            for field, words in refused.message_dict.items():
                if field not in self.errors:
                    self.add_error(field if field in self.fields else None, words)


def is_restorable(event: AuditEvent, current: Document | None) -> bool:
    """Whether going back to an entry's revision would change a record that is now described so."""
    return event.revision is not None and differs(event.revision, current)


@dataclass(frozen=True, slots=True)
class RecordTool:
    """A button on a record's page: title, address, and the name of a symbol of the theme."""

    title: str
    link: str
    icon: str


@dataclass(frozen=True, slots=True)
class Filled:
    """What a form and its formsets hold: the record, the columns that were changed (``None`` for a new record: all),
    and the parts to save and to remove."""

    record: Any
    columns: Sequence[str] | None
    parts: Sequence[Any]
    parts_removed: Sequence[Any]
    cleaned: Mapping[str, Any]
    author: Author

    @property
    def reason(self) -> str:
        """Why, in the author's words."""
        return str(self.cleaned.get("reason", ""))


class RecordAdmin(ModelAdmin):
    """Hands what was filled in to ``governance.changes``, which validates, saves and audits it in one transaction.

    Of an existing record only what was changed in the form is saved, so that two people at one record do not undo each
    other's work, nor that of a key rotation. The history of a record is that of the audit trail; Django's own log
    of the admin is not kept for it.
    """

    form = RecordForm
    change_form_template = "admin/signalbox/record.html"
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    kind: ClassVar[RecordKind]

    def write(self, request: HttpRequest, filled: Filled) -> None:
        """Store what was filled in, by ``governance.changes``."""
        raise NotImplementedError

    def record_name(self, record: Any) -> str:
        """Under which name the audit trail knows a record."""
        return str(record.identifier)

    def needs_writing(self, form: Any) -> bool:
        """Whether the form holds a change that is in no column."""
        return False

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: Any) -> Any:
        field = without_menu(super().formfield_for_dbfield(db_field, request, **kwargs))
        if isinstance(field, forms.CharField) and isinstance(field.widget, forms.Textarea):
            field.widget.attrs["rows"] = 3
        return field

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Nothing yet: the record and its parts are one change, made when both are known (``save_related``)."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        for formset in formsets:
            formset.save(commit=False)
        columns = {field.name for field in form.instance._meta.concrete_fields}
        changed = [part for each in formsets for part, _ in each.changed_objects]
        filled = Filled(
            record=form.instance,
            columns=[name for name in form.changed_data if name in columns] if change else None,
            parts=[*changed, *(part for each in formsets for part in each.new_objects)],
            parts_removed=[part for each in formsets for part in each.deleted_objects],
            cleaned=form.cleaned_data,
            author=author_of(request),
        )
        if filled.columns != [] or filled.parts or filled.parts_removed or self.needs_writing(form):
            self.write(request, filled)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """As always; what somebody else changed at the same moment may make a form wrong after it was found right."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except ValidationError as refused:
            self.message_user(request, f"Nothing was saved. {' '.join(refused.messages)}", messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """With room for a reason where something may be changed."""
        fieldsets = list(super().get_fieldsets(request, obj))
        if not self.fieldsets:  # Django makes one of every field of the form
            title, options = fieldsets[0]
            fieldsets[0] = (title, {**options, "fields": [name for name in options["fields"] if name != "reason"]})
        may_write = self.has_add_permission(request) if obj is None else self.has_change_permission(request, obj)
        why = ("Why", {"fields": ("reason",), "classes": (LAST,)})
        return [*fieldsets, why] if may_write else fieldsets

    def nothing_there(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Back to the index, which says that there is no such record."""
        redirect: HttpResponse = self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
            request, self.opts, object_id
        )
        return redirect

    def record_tools(self, request: HttpRequest, record: Any) -> list[RecordTool]:
        """Further pages of a record, as buttons on its page."""
        return []

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        record = context.get("original")
        tools = [] if record is None else self.record_tools(request, record)
        return super().render_change_form(request, {**context, "record_tools": tools}, *args, **kwargs)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """What the audit trail has of the record."""
        record = self.get_object(request, unquote(object_id))
        if record is None:
            return self.nothing_there(request, object_id)
        if not self.has_view_or_change_permission(request, record):
            raise PermissionDenied
        events = self.history_entries(record).select_related("revision")
        page = Paginator(events, _HISTORY_PAGE).get_page(request.GET.get("p"))
        current = describe(self.kind, record.pk)
        may_restore = self.has_change_permission(request, record)
        context = {
            **self.admin_site.each_context(request),
            "title": f"History of {record}",
            "opts": self.opts,
            "original": record,
            "page": page,
            "rows": [(entry_row(event), may_restore and is_restorable(event, current)) for event in page],
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/signalbox/history.html", context)

    def history_entries(self, record: Any) -> QuerySet[AuditEvent]:
        """The entries of the audit trail about a record."""
        return AuditEvent.objects.filter(kind=self.kind.value, record=self.record_name(record))

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """The audit trail has it."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """The audit trail has it."""

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """The audit trail has it."""

    def each(
        self, request: HttpRequest, records: Iterable[Any], operation: Callable[[Any], None], *, done: str, nothing: str
    ) -> None:
        """Do something with each of some records, all or none, and say which they were."""
        chosen = list(records)
        try:
            with transaction.atomic():
                for record in chosen:
                    operation(record)
        except ValidationError as refused:
            self.message_user(request, f"Nothing was changed. {' '.join(refused.messages)}", messages.ERROR)
            return
        if chosen:
            names = ", ".join(self.spoken_name(record) for record in chosen)
            self.message_user(request, done.format(names=names), messages.SUCCESS)
        else:
            self.message_user(request, nothing, messages.INFO)

    def spoken_name(self, record: Any) -> str:
        """How a message calls a record."""
        return self.record_name(record)


class NamedRecordAdmin(RecordAdmin):
    """A record that calls, keys and other records name by its identifier."""

    actions: Any = ("activate", "deactivate", "retire", "bring_back")
    list_filter: ClassVar[Any] = (InServiceFilter, "is_active")
    search_fields: ClassVar[Any] = ("identifier", "name")
    search_help_text: ClassVar[str | None] = "Identifier or name."

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        fixed = [] if obj is None else ["identifier", "retired_at", "created_at", "updated_at", "source"]
        return [*super().get_readonly_fields(request, obj), *fixed]

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> dict[str, Sequence[str]]:
        return {"identifier": ("name",)} if obj is None else {}

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets: list[Any] = list(super().get_fieldsets(request, obj))
        if obj is not None:
            stamps = {"fields": (("created_at", "updated_at", "retired_at", "source"),), "classes": ("collapse", LAST)}
            fieldsets.append(("Record", stamps))
        return fieldsets

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A retired record is looked at; it has to be brought back to be changed."""
        return super().has_change_permission(request, obj) and (obj is None or obj.retired_at is None)

    def write(self, request: HttpRequest, filled: Filled) -> None:
        save_record(
            filled.record,
            author=filled.author,
            reason=filled.reason,
            parts=filled.parts,
            parts_removed=filled.parts_removed,
            only=filled.columns,
        )

    @admin.display(description="identifier and name", ordering="identifier")
    def called(self, record: NamedRecord) -> str:
        return two_lines(record.identifier, record.name)

    @admin.action(description="Switch on", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[NamedRecord]) -> None:
        author = author_of(request)
        self.each(
            request,
            queryset.filter(retired_at=None, is_active=False),
            lambda record: switch(record, on=True, author=author),
            done="Switched on: {names}.",
            nothing=NOT_NEEDED,
        )

    @admin.action(description="Switch off: serve no call until switched on again", permissions=["change"])
    def deactivate(self, request: HttpRequest, queryset: QuerySet[NamedRecord]) -> None:
        author = author_of(request)
        self.each(
            request,
            queryset.filter(retired_at=None, is_active=True),
            lambda record: switch(record, on=False, author=author),
            done="Switched off: {names}.",
            nothing=NOT_NEEDED,
        )

    @admin.action(description="Retire: serve no call and be offered nowhere", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[NamedRecord]) -> None:
        author = author_of(request)
        self.each(
            request,
            queryset.filter(retired_at=None),
            lambda record: retire(record, author=author),
            done="Retired: {names}.",
            nothing=NOT_NEEDED,
        )

    @admin.action(description="Bring back from retirement, switched off", permissions=["change"])
    def bring_back(self, request: HttpRequest, queryset: QuerySet[NamedRecord]) -> None:
        author = author_of(request)
        self.each(
            request,
            queryset.exclude(retired_at=None),
            lambda record: bring_back(record, author=author),
            done="Brought back: {names}.",
            nothing=NOT_NEEDED,
        )


class ReadOnlyAdmin(ModelAdmin):
    """Rows that are written once: nothing here adds, changes or removes one."""

    actions: Sequence[str] | None = None
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False
    list_per_page = 50
    sortable_by = ()  # an order without an index would read the whole table

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """Without a link to a history: what is written once has none."""
        return super().render_change_form(request, {**context, "show_history": False}, *args, **kwargs)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
