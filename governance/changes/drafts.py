"""A document made into an unsaved change of its record: the other way round from ``descriptions``.

What a document does not hold (a column that came later) stays as it is, and so does what the caller says stays.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from governance.changes.descriptions import Document
from governance.models import Budget, BudgetTier
from routing.models import Configuration, LanguageModel, NamedRecord, Price


@dataclass(frozen=True, slots=True)
class Draft:
    """What was set and is not saved yet: the names of the columns that differ, the parts to save and to remove."""

    columns: Sequence[str]
    save: Sequence[models.Model] = ()
    remove: Sequence[models.Model] = ()


def draft(record: models.Model, document: Document, *, stays: Collection[str] = ()) -> Draft:
    """Set a record, and what belongs to it, to what a document says.

    Raises:
        ValidationError: the document names a record that is not there any more, or holds what a column cannot.
    """
    columns = _set_columns(record, document, stays=stays)
    match record:
        case LanguageModel():
            return Draft(columns, *_prices(record, document.get("prices")))
        case Configuration():
            listed, unlisted = _places(record.listed_models, "model", document.get("listed_models"))
            chain, unchained = _places(record.fallback_links, "fallback", document.get("fallbacks"))
            return Draft(columns, save=[*listed, *chain], remove=[*unlisted, *unchained])
        case Budget():
            tiers = document.get("tiers")
            named = None if tiers is None else [(each["threshold"], each["model"]) for each in tiers]
            return Draft(columns, *ladder(record, named))
    return Draft(columns)


def _set_columns(record: models.Model, document: Document, *, stays: Collection[str] = ()) -> list[str]:
    """Set the columns that a document tells of; gives the names of those that differ."""
    differing = []
    for field in record._meta.concrete_fields:
        if field.name not in document or field.name in stays:
            continue
        value = _value(field, document[field.name])
        kept = value.pk if isinstance(value, models.Model) else value
        if record._state.adding or getattr(record, field.attname) != kept:
            setattr(record, field.name, value)
            differing.append(field.name)
    return differing


def _value(field: Any, plain: Any) -> Any:
    """A column's value from the plain one of a document."""
    named = field.related_model
    if plain is None or named is None:
        return field.to_python(plain)
    return _records(named, [plain], said_of=field.name)[0]


def _records(kind: Any, identifiers: Sequence[str], *, said_of: str) -> list[NamedRecord]:
    """Records by their identifiers, in order."""
    rows = {row.identifier: row for row in kind._default_manager.filter(identifier__in=identifiers)}
    missing = [each for each in identifiers if each not in rows]
    if missing:
        what = kind._meta.verbose_name
        raise ValidationError({said_of: f"There is no {what} {', '.join(missing)} any more: choose another by hand."})
    return [rows[each] for each in identifiers]


Parts = tuple[list[models.Model], list[models.Model]]
"""What to save, and what to remove."""


def _prices(model: LanguageModel, documents: Iterable[Document] | None) -> Parts:
    """Prices are told apart by the moment from which they are in force, and by the class of service they are of."""
    if documents is None:
        return [], []
    moments, tiers = Price._meta.get_field("valid_from"), Price._meta.get_field("service_tier")
    stored = {(price.valid_from, price.service_tier): price for price in model.prices.all()}
    save: list[models.Model] = []
    for document in documents:
        place = moments.to_python(document["valid_from"]), document.get("service_tier", tiers.get_default())
        price = stored.pop(place, None) or Price(model=model)
        if _set_columns(price, document):
            save.append(price)
    return save, list(stored.values())


def ladder(budget: Budget, named: Sequence[tuple[int, str]] | None) -> Parts:
    """The tiers to save and to remove, so that a budget has these, each a per cent and a model, in this order; ``None``
    leaves them alone."""
    if named is None:
        return [], []
    rows = [] if budget._state.adding else BudgetTier.objects.filter(budget=budget)
    stored = {(row.threshold, row.model): row for row in rows}
    save: list[models.Model] = []
    for position, (threshold, model) in enumerate(named):
        row = stored.pop((threshold, model), None) or BudgetTier(budget=budget, threshold=threshold, model=model)
        if row._state.adding or row.position != position:
            row.position = position
            save.append(row)
    return save, list(stored.values())


def _places(rows: Any, field: str, identifiers: Sequence[str] | None) -> Parts:
    """A list's rows are told apart by what they name; positions are counted anew."""
    if identifiers is None:
        return [], []
    stored = {getattr(row, f"{field}_id"): row for row in rows.all()}
    target = rows.model._meta.get_field(field)
    save: list[models.Model] = []
    for position, named in enumerate(_records(target.related_model, identifiers, said_of=field)):
        row = stored.pop(named.pk, None) or rows.model(**{rows.field.name: rows.instance, field: named})
        if row._state.adding or row.position != position:
            row.position = position
            save.append(row)
    return save, list(stored.values())
