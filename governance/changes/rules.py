"""What a change must keep beyond the fields of one record: that what it names is there, in service, and no circle.

The door asks :func:`check_record` and :func:`check_parts` inside the transaction of the change, so that every surface
is held to the same. A form asks the same functions before, to say what is wrong beside the field.

A name that is stored already is never a mistake of the change at hand: a record whose provider was retired last year
can still be given another price.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.db import models

from budgets.scopes import EACH
from governance.models import MOST_ALERTS, MOST_TIERS, AccessKey, Application, Budget, BudgetTier
from routing.core.vocabulary import Selection
from routing.models import (
    Configuration,
    EvaluationResult,
    FallbackLink,
    LanguageModel,
    ListedModel,
    NamedRecord,
    Provider,
)
from routing.providers.registry import ADAPTER_TYPES

LONGEST_KEY = 4000
"""Characters of a provider's key."""


Complaints = dict[str, str]
"""Words by field, empty where nothing is wrong."""


class RecordOutOfState(ValidationError):
    """What is there does not allow the change, whatever was sent: it is retired, revoked or expired."""


def check_record(record: models.Model) -> None:
    """Refuse a record whose own columns name what cannot be named.

    Raises:
        ValidationError: by field, each with what to do.
    """
    rule = _RULES.get(type(record))
    if rule is not None:
        _raise(rule(record))


def check_parts(record: models.Model, *, saved: Sequence[models.Model], removed: Sequence[models.Model]) -> None:
    """Refuse parts that do not go together with the record: places in its list, links of its chain.

    Raises:
        ValidationError: under ``listed_models``, ``fallbacks``, ``tiers`` or ``provider``.
    """
    if isinstance(record, Budget):
        _raise(ladder_complaints(record, _ladder(record, saved=saved, removed=removed)))
    if not isinstance(record, Configuration):
        return
    places = _kept(ListedModel, record, saved=saved, removed=removed)
    links = _kept(FallbackLink, record, saved=saved, removed=removed)
    complaints = {
        "listed_models": listing_complaint(record, [place.model for place in places if place.model_id is not None]),
        "fallbacks": chain_complaint(record, [link.fallback for link in links if link.fallback_id is not None]),
    }
    _raise(complaints)


def _raise(complaints: Complaints) -> None:
    wrong = {field: words for field, words in complaints.items() if words}
    if wrong:
        raise ValidationError(wrong)


def ladder_complaints(budget: Budget, tiers: Sequence[BudgetTier]) -> Complaints:
    """Why a budget cannot have these tiers, by field."""
    if not tiers:
        return {"tiers": "Strict tiers need at least one tier." if budget.enforce_targets else ""}
    provider = "Tiers choose a model before its provider is known: leave the provider empty, or leave out the tiers."
    return {"tiers": _ladder_complaint(budget, tiers), "provider": provider if budget.provider else ""}


def _ladder_complaint(budget: Budget, tiers: Sequence[BudgetTier]) -> str:
    if len(tiers) > MOST_TIERS:
        return f"At most {MOST_TIERS} models stand in a ladder: leave some out."
    last = 100 if budget.enforce_targets else 99
    outside = sorted({each.threshold for each in tiers if not 1 <= each.threshold <= last})
    if outside:
        kind = "A strict tier" if budget.enforce_targets else "A tier that is not strict"
        return f"{kind} begins at 1 to {last} per cent, not at {', '.join(map(str, outside))}."
    places = [(each.threshold, each.model) for each in tiers]
    twice = sorted({f"{model} at {threshold} %" for threshold, model in places if places.count((threshold, model)) > 1})
    if twice:
        return f"Named twice: {', '.join(twice)}."
    return _unknown_models(budget, {each.model for each in tiers})


def _unknown_models(budget: Budget, named: set[str]) -> str:
    """Which models of a ladder are not there, or retired, but for those that it names already."""
    stored = (
        set() if budget._state.adding else set(BudgetTier.objects.filter(budget=budget).values_list("model", flat=True))
    )
    there = LanguageModel.objects.filter(identifier__in=named, retired_at=None).values_list("identifier", flat=True)
    unknown = sorted(named - stored - set(there))
    return f"There is no model {', '.join(unknown)}, or it is retired." if unknown else ""


def _ladder(budget: Budget, *, saved: Iterable[Any], removed: Iterable[Any]) -> list[BudgetTier]:
    """The tiers that a budget has after the change."""
    changed = [part for part in saved if isinstance(part, BudgetTier)]
    gone = {part.pk for part in (*removed, *changed) if isinstance(part, BudgetTier)}
    rows = [] if budget._state.adding else BudgetTier.objects.filter(budget=budget)
    return [*(row for row in rows if row.pk not in gone), *changed]


def listing_complaint(configuration: Configuration, models: Sequence[LanguageModel]) -> str:
    """Why a configuration cannot list these models; empty if it can."""
    if configuration.selection == Selection.LISTED and not models:
        return "A listed selection reaches for the models it lists: list at least one."
    return _out_of_service(models, _listed(configuration))


def chain_complaint(configuration: Configuration, fallbacks: Sequence[Configuration]) -> str:
    """Why a configuration cannot fall back to these; empty if it can. All chains together have no circle."""
    complaint = _out_of_service(fallbacks, _followed(configuration))
    if complaint or configuration._state.adding:  # nothing can fall back to what does not exist yet
        return complaint
    following: dict[int, list[int]] = {}
    names = {configuration.pk: configuration.identifier}
    links = FallbackLink.objects.exclude(configuration=configuration).order_by("position", "pk")
    for at, to, identifier in links.values_list("configuration_id", "fallback_id", "fallback__identifier"):
        following.setdefault(at, []).append(to)
        names[to] = identifier
    for fallback in fallbacks:
        names[fallback.pk] = fallback.identifier
        way = None if fallback.pk == configuration.pk else _way(fallback.pk, configuration.pk, following)
        if way is not None:
            circle = " → ".join([configuration.identifier, *(names[each] for each in way)])
            return f"This would close a circle: {circle}."
    return ""


def check_provider_key(key: str) -> None:
    """Refuse a key that no header could carry.

    Raises:
        ValidationError: under ``key``; nothing of the key is repeated.
    """
    if len(key) > LONGEST_KEY:
        raise ValidationError({"key": f"A key has at most {LONGEST_KEY} characters."})
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValidationError({"key": "A key has letters, digits and punctuation only: no blanks, no line ends."})


def _provider(provider: Provider) -> Complaints:
    kind = ADAPTER_TYPES.get(provider.adapter_type)
    if kind is None:
        known = provider.adapter_type == _stored(provider, "adapter_type")
        return {"adapter_type": "" if known else f"Choose one of {', '.join(sorted(ADAPTER_TYPES))}."}
    needs_address = not kind.base_url and not provider.base_url
    return {"base_url": f"{kind.label} has no address of its own: enter the base URL." if needs_address else ""}


def _model(model: LanguageModel) -> Complaints:
    return {"provider": _target(model, "provider")}


def _configuration(configuration: Configuration) -> Complaints:
    types = configuration.adapter_types
    unknown = [each for each in types if each not in ADAPTER_TYPES] if isinstance(types, list) else []
    if unknown:
        unknown = [each for each in unknown if each not in (_stored(configuration, "adapter_types") or [])]
    known = ", ".join(sorted(ADAPTER_TYPES))
    anew = configuration.selection == Selection.FIXED and _stored(configuration, "selection") != Selection.FIXED
    return {
        "fixed_model": _target(configuration, "fixed_model", anew=anew),
        "adapter_types": f"There is no {', '.join(map(str, unknown))}; choose among {known}." if unknown else "",
    }


def _evaluation(result: EvaluationResult) -> Complaints:
    """Which run a result is of is what it is told by."""
    fixed = () if result._state.adding else ("model_id", "golden_set", "grader", "run_at")
    changed = [field for field in fixed if getattr(result, field) != _stored(result, field)]
    return {
        field.removesuffix("_id"): "Which run a result is of cannot be changed: remove it and enter another."
        for field in changed
    }


def _key(key: AccessKey) -> Complaints:
    return {
        "application": _target(key, "application"),
        "allowed_configurations": _names(key, "allowed_configurations", Configuration),
        "allowed_models": _names(key, "allowed_models", LanguageModel),
    }


def _budget(budget: Budget) -> Complaints:
    """What its scope names has to be there, and so has its time zone."""
    named: dict[str, type[NamedRecord]] = {
        "application": Application,
        "configuration": Configuration,
        "provider": Provider,
    }
    complaints = {field: _scope_complaint(budget, field, records) for field, records in named.items()}
    key = budget.key
    is_known = (
        key in ("", EACH)
        or key == _stored(budget, "key")
        or (_is_uuid(key) and AccessKey.objects.filter(pk=key, revoked_at=None).exists())
    )
    complaints["key"] = "" if is_known else "There is no such key, or it is revoked."
    complaints["alert_thresholds"] = _alerts_complaint(budget.alert_thresholds)
    is_zone = budget.zone in available_timezones()
    complaints["zone"] = "" if is_zone else f"There is no time zone {budget.zone}; one is Europe/Berlin."
    return complaints


def _alerts_complaint(thresholds: Any) -> str:
    """Why these cannot be the per cents that a budget alerts at."""
    are_percents = isinstance(thresholds, list) and all(type(each) is int and 1 <= each <= 100 for each in thresholds)
    if not are_percents:
        return "Give whole per cents of the limit, each from 1 to 100."
    if len(set(thresholds)) < len(thresholds):
        return "Name each threshold once."
    return f"At most {MOST_ALERTS} thresholds: leave some out." if len(thresholds) > MOST_ALERTS else ""


def _scope_complaint(budget: Budget, field: str, records: type[NamedRecord]) -> str:
    name = getattr(budget, field)
    if name in ("", EACH) or name == _stored(budget, field):
        return ""
    is_there = records._default_manager.filter(identifier=name, retired_at=None).exists()
    return "" if is_there else f"There is no {name}, or it is retired."


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


_RULES: Mapping[type[models.Model], Callable[[Any], Complaints]] = MappingProxyType(
    {
        Provider: _provider,
        LanguageModel: _model,
        Configuration: _configuration,
        EvaluationResult: _evaluation,
        AccessKey: _key,
        Budget: _budget,
    }
)


def _target(record: models.Model, field: str, *, anew: bool = False) -> str:
    """Why a record cannot name another: it is retired, and was not named before, or only idly (``anew``)."""
    if getattr(record, f"{field}_id") is None:  # whether it may be empty is the column's business
        return ""
    target: NamedRecord = getattr(record, field)
    if target.retired_at is None or (not anew and _stored(record, field) == target.pk):
        return ""
    return f"{target.identifier} is retired; bring it back first, or choose another."


def _names(key: AccessKey, field: str, records: type[NamedRecord]) -> str:
    """Why a key cannot be limited to these identifiers."""
    listed = getattr(key, field)
    if listed is None:
        return ""
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        return "Give a list of identifiers, or none for all."
    there = set(
        records._default_manager.filter(identifier__in=listed, retired_at=None).values_list("identifier", flat=True)
    )
    unknown = [each for each in listed if each not in there]
    if unknown:
        unknown = [each for each in unknown if each not in (_stored(key, field) or [])]
    return f"There is no {', '.join(unknown)}, or it is retired." if unknown else ""


def _stored(record: models.Model, field: str) -> Any:
    """What is stored in a column; ``None`` of a record that is not stored yet."""
    if record._state.adding:
        return None
    return type(record)._base_manager.filter(pk=record.pk).values_list(field, flat=True).first()


def _kept(kind: type[Any], record: Configuration, *, saved: Iterable[Any], removed: Iterable[Any]) -> list[Any]:
    """The parts of one kind that a record has after the change."""
    changed = [part for part in saved if isinstance(part, kind)]
    gone = {part.pk for part in (*removed, *changed) if isinstance(part, kind)}
    target = "model" if kind is ListedModel else "fallback"
    rows = [] if record._state.adding else kind._default_manager.filter(configuration=record).select_related(target)
    return [*(row for row in rows if row.pk not in gone), *changed]


def _listed(configuration: Configuration) -> set[int]:
    """The models that are listed already, unless the list begins to count by this very change."""
    anew = configuration.selection == Selection.LISTED and _stored(configuration, "selection") != Selection.LISTED
    if configuration._state.adding or anew:
        return set()
    return set(ListedModel.objects.filter(configuration=configuration).values_list("model_id", flat=True))


def _followed(configuration: Configuration) -> set[int]:
    if configuration._state.adding:
        return set()
    return set(FallbackLink.objects.filter(configuration=configuration).values_list("fallback_id", flat=True))


def _out_of_service(records: Iterable[NamedRecord], stored: set[int]) -> str:
    retired = [each.identifier for each in records if each.retired_at is not None and each.pk not in stored]
    return f"{', '.join(retired)}: retired; bring it back first, or choose another." if retired else ""


def _way(start: int, end: int, following: Mapping[int, Sequence[int]]) -> list[int] | None:
    """The steps from one configuration to another along fallbacks, both included; ``None`` if there is no way."""
    ways = [[start]]
    seen = {start}
    while ways:
        way = ways.pop()
        if way[-1] == end:
            return way
        for step in following.get(way[-1], []):
            if step not in seen:
                seen.add(step)
                ways.append([*way, step])
    return None
