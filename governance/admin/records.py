"""What the pages of all records have in common.

Records that others name have identifiers that are typed once, are retired instead of deleted, and can be brought
back. Tables that are written once are only looked at.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import SimpleListFilter
from django.db import transaction
from django.db.models import Q, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest
from django.utils import timezone

from governance.admin.generic import ModelAdmin
from routing.models import NamedRecord


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


class RecordAdmin(ModelAdmin):
    """Saves what was changed in the form and nothing else, so that two people at one record do not undo each
    other's work, nor that of a key rotation."""

    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    always_saved: ClassVar[tuple[str, ...]] = ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.save()
            return
        columns = {field.name for field in obj._meta.concrete_fields}
        changed = [name for name in form.changed_data if name in columns]
        if changed:
            obj.save(update_fields=[*changed, *self.always_saved])


class NamedRecordAdmin(RecordAdmin):
    """A record that calls, keys and other records name by its identifier."""

    actions = ("activate", "deactivate", "retire", "bring_back")
    always_saved = ("updated_at",)
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
            stamps = {"fields": (("created_at", "updated_at", "retired_at", "source"),), "classes": ("collapse",)}
            fieldsets.append(("Record", stamps))
        return fieldsets

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A retired record is looked at; it has to be brought back to be changed."""
        return super().has_change_permission(request, obj) and (obj is None or obj.retired_at is None)

    @admin.action(description="Switch on", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[NamedRecord]) -> None:
        self._change(request, queryset.filter(retired_at=None), done="Switched on", is_active=True)

    @admin.action(description="Switch off: serve no call until switched on again", permissions=["change"])
    def deactivate(self, request: HttpRequest, queryset: QuerySet[NamedRecord]) -> None:
        self._change(request, queryset.filter(retired_at=None), done="Switched off", is_active=False)

    @admin.action(description="Retire: serve no call and be offered nowhere", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[NamedRecord]) -> None:
        self._change(
            request,
            queryset.filter(retired_at=None),
            done="Retired",
            is_active=False,
            retired_at=timezone.now(),
        )

    @admin.action(description="Bring back from retirement, switched off", permissions=["change"])
    def bring_back(self, request: HttpRequest, queryset: QuerySet[NamedRecord]) -> None:
        self._change(request, queryset.exclude(retired_at=None), done="Brought back", retired_at=None)

    def _change(self, request: HttpRequest, records: QuerySet[NamedRecord], *, done: str, **values: Any) -> None:
        with transaction.atomic():
            changed = list(records)
            for record in changed:
                for field, value in values.items():
                    setattr(record, field, value)
                record.save(update_fields=[*values, "updated_at"])
                self.log_change(request, record, f"{done}.")
        if changed:
            names = ", ".join(record.identifier for record in changed)
            self.message_user(request, f"{done}: {names}.", messages.SUCCESS)
        else:
            self.message_user(request, "None of the chosen records needed that; nothing was changed.", messages.INFO)


class ReadOnlyAdmin(ModelAdmin):
    """Rows that are written once: nothing here adds, changes or removes one."""

    actions = None
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False
    list_per_page = 50
    sortable_by = ()  # an order without an index would read the whole table

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
