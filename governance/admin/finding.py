"""Finding rows in tables that grow with every call: filtered by what the catalogue knows and never by what the rows
hold, searched by an id or the beginning of an identifier, counted only as far as pages are offered.
"""

from typing import Any
from uuid import UUID

from django.contrib.admin import SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from governance.admin.generic import Paginator
from governance.admin.records import ReadOnlyAdmin
from governance.models import Application
from routing.core.failures import FAILURES, FailureKind
from routing.core.vocabulary import LABELS, Operation
from routing.models import Configuration, LanguageModel, NamedRecord, Provider

MOST_COUNTED = 10_000
"""Rows that are counted and can be paged to. Whoever looks for an older one filters or searches."""


class BoundedPaginator(Paginator):
    """Counts no further than it offers pages for: counting ten million rows takes longer than showing fifty."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:MOST_COUNTED].count())


class CatalogueFilter(SimpleListFilter):
    """Filters a column of identifiers by those that records have, so that the calls are not asked for theirs."""

    records: type[NamedRecord]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        identifiers = self.records._default_manager.order_by("identifier").values_list("identifier", flat=True)
        return [(each, each) for each in identifiers]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(**{self.column: value})

    def has_output(self) -> bool:
        """Also while there is nothing to choose, if somebody chose: a filter that is not applied shows too much."""
        return super().has_output() or self.value() is not None

    @property
    def column(self) -> str:
        """The column to filter."""
        return str(self.parameter_name)


class ApplicationFilter(CatalogueFilter):
    title = "application"
    parameter_name = "application"
    records = Application


class RequestedFilter(CatalogueFilter):
    title = "configuration asked for"
    parameter_name = "requested"
    records = Configuration


class ConfigurationFilter(CatalogueFilter):
    title = "configuration"
    parameter_name = "configuration"
    records = Configuration


class ServedProviderFilter(CatalogueFilter):
    title = "provider that served"
    parameter_name = "served_provider"
    records = Provider


class ServedModelFilter(CatalogueFilter):
    title = "model that served"
    parameter_name = "served_model"
    records = LanguageModel


class ProviderFilter(CatalogueFilter):
    title = "provider"
    parameter_name = "provider"
    records = Provider


class ModelFilter(CatalogueFilter):
    title = "model"
    parameter_name = "model"
    records = LanguageModel


class OutcomeFilter(SimpleListFilter):
    """Served, failed, or failed in one way."""

    title = "outcome"
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        kinds = [(each.value, FAILURES[each].label) for each in FailureKind]
        return [("served", "Served"), ("failed", "Failed"), *kinds]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case None:
                return queryset
            case "served":
                return queryset.filter(success=True)
            case "failed":
                return queryset.filter(success=False)
            case kind:
                return queryset.filter(failure_kind=kind)


class OperationFilter(SimpleListFilter):
    """What kind of answer was asked for."""

    title = "operation"
    parameter_name = "operation"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(each.value, LABELS[each]) for each in Operation]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(operation=value)


def call_id(text: str) -> UUID | None:
    """The call that a search names; ``None`` if it is no id."""
    try:
        return UUID(text.strip())
    except ValueError:
        return None


class SearchedByBeginning(ReadOnlyAdmin):
    """Finds one row by a call's id, and many by the beginning of an identifier."""

    id_column = "pk"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        identifier = call_id(term)
        if identifier is not None:
            return queryset.filter(**{self.id_column: identifier}), False
        beginnings = Q()
        for column in self.get_search_fields(request):
            beginnings |= Q(**{f"{column}__startswith": term})
        return queryset.filter(beginnings), False
