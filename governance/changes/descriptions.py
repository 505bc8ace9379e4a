"""What a record looks like in a revision: plain values, other records by identifier, no secret.

One function for each kind, from the record's primary key; they read what is stored, so that a revision says what a
change did and not what somebody meant it to do.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import models

from governance.audit.actions import RecordKind
from governance.models import AccessKey, Application, Budget, BudgetTier, SettingValue, Webhook
from routing.models import Configuration, EvaluationResult, LanguageModel, Price, Provider

Document = dict[str, Any]

_NOT_TOLD = frozenset(
    {
        "id", "uuid", "created_at", "updated_at", "secret_digest",
        "sealed_key", "sealed_secret", "sealed_query", "query_of",
    }
)  # fmt: skip


def describe(kind: RecordKind, pk: Any) -> Document | None:
    """The stored record as a document; ``None`` if there is none."""
    return _DESCRIPTIONS[kind](pk)


def version_of(document: Document | None) -> str:
    """A word for the state of a record, another one for another state: what a change can be tied to."""
    spelled = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(spelled.encode()).hexdigest()[:20]


def _provider(pk: Any) -> Document | None:
    row = Provider.objects.filter(pk=pk).first()
    document = _columns(row)
    if document is not None and row is not None:
        document["has_key"] = row.sealed_key is not None
    return document


def _model(pk: Any) -> Document | None:
    document = _columns(LanguageModel.objects.filter(pk=pk).select_related("provider").first())
    if document is not None:
        document["prices"] = [
            _columns(price, without=("model",)) for price in Price.objects.filter(model=pk).order_by("valid_from", "pk")
        ]
    return document


def _configuration(pk: Any) -> Document | None:
    row = Configuration.objects.filter(pk=pk).select_related("fixed_model").first()
    document = _columns(row)
    if document is not None and row is not None:
        listed = row.listed_models.order_by("position", "pk").values_list("model__identifier", flat=True)
        chain = row.fallback_links.order_by("position", "pk").values_list("fallback__identifier", flat=True)
        document["listed_models"], document["fallbacks"] = list(listed), list(chain)
    return document


def _evaluation(pk: Any) -> Document | None:
    return _columns(EvaluationResult.objects.filter(pk=pk).select_related("model").first())


def _application(pk: Any) -> Document | None:
    return _columns(Application.objects.filter(pk=pk).first())


def _key(pk: Any) -> Document | None:
    return _columns(AccessKey.objects.filter(pk=pk).select_related("application").first())


def _budget(pk: Any) -> Document | None:
    document = _columns(Budget.objects.filter(pk=pk).first())
    if document is not None:
        tiers = BudgetTier.objects.filter(budget=pk).order_by("threshold", "position", "pk")
        document["tiers"] = [{"threshold": each.threshold, "model": each.model} for each in tiers]
    return document


def _webhook(pk: Any) -> Document | None:
    row = Webhook.objects.filter(pk=pk).first()
    document = _columns(row)
    if document is not None and row is not None:
        document["has_query"] = row.has_query
    return document


def _setting(pk: Any) -> Document | None:
    return _columns(SettingValue.objects.filter(pk=pk).first(), without=("key",))


_DESCRIPTIONS: Mapping[RecordKind, Callable[[Any], Document | None]] = MappingProxyType(
    {
        RecordKind.PROVIDER: _provider,
        RecordKind.MODEL: _model,
        RecordKind.CONFIGURATION: _configuration,
        RecordKind.EVALUATION: _evaluation,
        RecordKind.APPLICATION: _application,
        RecordKind.KEY: _key,
        RecordKind.BUDGET: _budget,
        RecordKind.WEBHOOK: _webhook,
        RecordKind.SETTING: _setting,
    }
)


def _columns(record: models.Model | None, *, without: tuple[str, ...] = ()) -> Document | None:
    if record is None:
        return None
    return {
        field.name: _plain(getattr(record, field.name))
        for field in record._meta.concrete_fields
        if field.name not in _NOT_TOLD and field.name not in without
    }


def _plain(value: Any) -> Any:
    """A value as JSON holds it; another record by the identifier people know it by."""
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case date() | UUID() | Decimal():
            return str(value)
        case models.Model():
            return getattr(value, "identifier", str(value.pk))
    return value
