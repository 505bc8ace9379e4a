"""Rows inside a record's form: places in a list, steps of a ladder."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest

from governance.admin.fields import without_menu
from governance.admin.generic import Column, InlineFormSet, ModelForm, TabularInline


def kept(formset: InlineFormSet, field: str) -> Iterator[ModelForm]:
    """The forms of a formset that name something and are not marked for removal."""
    for form in formset.forms:
        cleaned = getattr(form, "cleaned_data", {})
        if cleaned.get(field) is not None and not cleaned.get("DELETE"):
            yield form


class PlacesInline(TabularInline):
    """Rows of a list. A cell of a table has no label of its own, so each field says what it is."""

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: Any) -> Any:
        field = without_menu(super().formfield_for_dbfield(db_field, request, **kwargs))
        if field is not None:
            field.widget.attrs["aria-label"] = f"{self.verbose_name}: {db_field.verbose_name}"
        return field
