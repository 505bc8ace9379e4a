"""Lists come in one order on every database: equal rows are told apart by something that no two rows share."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.db.models import F, Model, Prefetch, UniqueConstraint
from django.db.models.constants import LOOKUP_SEP
from django.db.models.expressions import BaseExpression

from governance.api import urls  # noqa: F401  (imports every kind of record)
from governance.api.records import Kind
from routing.models import Price

OURS = ("governance", "routing", "telemetry", "budgets")
MODELS = [model for model in apps.get_models() if model._meta.app_label in OURS]


def field_of(term: Any) -> str:
    """The field that one term of an order names, whatever its direction."""
    if isinstance(term, BaseExpression) and isinstance(source := term.get_source_expressions()[0], F):
        return str(vars(source)["name"])
    return str(term).removeprefix("-")


def unique_sets(model: type[Model]) -> Iterator[set[str]]:
    yield {"pk"}
    yield from ({field.name} for field in model._meta.get_fields() if getattr(field, "unique", False))
    for constraint in model._meta.constraints:
        if isinstance(constraint, UniqueConstraint) and constraint.fields and constraint.condition is None:
            yield set(constraint.fields)


def is_total(model: type[Model], ordering: Sequence[Any], *, given: str | None = None) -> bool:
    """Whether the order leaves no two rows equal; `given` is a field that all rows of the list share."""
    named = {field_of(term) for term in ordering} | ({given} if given else set())
    assert not any(LOOKUP_SEP in name for name in named), "an order through another table is for its own test"
    return any(each <= named for each in unique_sets(model))


@pytest.mark.parametrize("model", [each for each in MODELS if each._meta.ordering], ids=lambda each: each._meta.label)
def test_the_rows_of_a_model_have_one_order(model: type[Model]) -> None:
    assert is_total(model, model._meta.ordering or ())


@pytest.mark.parametrize("page", admin.site._registry.values(), ids=lambda each: each.opts.label)
def test_the_parts_of_a_record_are_shown_in_one_order(page: "admin.ModelAdmin[Any]") -> None:
    """Django's own lists end every order with the primary key; the rows within a form have the order as it is."""
    for inline in page.inlines:
        ordering = inline.ordering or inline.model._meta.ordering
        (parent,) = [
            field.name for field in inline.model._meta.fields
            if field.is_relation and field.related_model is page.model and inline.fk_name in (None, field.name)
        ]  # fmt: skip
        assert is_total(inline.model, ordering, given=parent), inline


@pytest.mark.parametrize("kind", Kind.__subclasses__(), ids=lambda each: each.__name__)
def test_the_parts_of_a_record_are_told_in_one_order(kind: type[Kind]) -> None:
    lookups: Sequence[Any] = vars(kind().rows())["_prefetch_related_lookups"]
    for each in lookups:
        if isinstance(each, Prefetch):
            parts: Any = kind.model._meta.get_field(each.prefetch_to)
            rows: Any = each.queryset
            ordering = rows.query.order_by or rows.model._meta.ordering
            assert is_total(rows.model, ordering, given=parts.remote_field.name), each.prefetch_to


def test_what_is_asked_can_be_refused() -> None:
    assert not is_total(Price, ["-valid_from"], given="model")
    assert is_total(Price, ["-valid_from", "service_tier"], given="model")
