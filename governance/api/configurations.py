"""Configurations, with the models they list and the configurations they fall back to."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Model, Prefetch, QuerySet
from rest_framework import serializers

from governance.api.records import Filled, Kind
from governance.api.serializers import IdentifierField, IdentifiersField, RateField, ReasonedSerializer, words_field
from governance.audit.actions import RecordKind
from governance.changes.records import save_record
from routing.core.vocabulary import Capability
from routing.models import Configuration, FallbackLink, LanguageModel, ListedModel


class ConfigurationSerializer(ReasonedSerializer):
    """A configuration."""

    fixed_model = IdentifierField(
        LanguageModel, required=False, allow_null=True, help_text="For a fixed selection: identifier of the one model."
    )
    listed_models = IdentifiersField(
        LanguageModel,
        through="model",
        help_text="For a listed selection: identifiers of models, in their order.",
    )
    fallbacks = IdentifiersField(
        Configuration,
        through="fallback",
        source="fallback_links",
        help_text="Identifiers of the configurations asked when none of its own models could answer, in their order.",
    )
    capabilities = words_field(Capability, help_text="For criteria: capabilities that every candidate must declare.")
    adapter_types = serializers.ListField(
        child=serializers.CharField(max_length=50),
        required=False,
        help_text="For criteria: the only adapter types allowed. Empty for all.",
    )
    max_input_rate = RateField(
        required=False,
        allow_null=True,
        help_text="For criteria: the most that a million prompt tokens may cost. Null for no limit.",
    )

    class Meta:
        model = Configuration
        fields: tuple[str, ...] = (
            "identifier", "name", "description", "is_active", "selection", "fixed_model", "listed_models",
            "listed_order", "policy_mode", "capabilities", "adapter_types", "min_context_length", "max_input_rate",
            "prefer_lowest_cost", "plan_limit", "repairs_output", "repeats_timeouts", "cache_seconds", "fallbacks",
            "source", "created_at", "updated_at", "retired_at", "reason",
        )  # fmt: skip
        read_only_fields: tuple[str, ...] = ("source", "created_at", "updated_at", "retired_at")


class ConfigurationChange(ConfigurationSerializer):
    """A change of a configuration. A list is sent as a whole."""

    class Meta(ConfigurationSerializer.Meta):
        read_only_fields: tuple[str, ...] = ("identifier", *ConfigurationSerializer.Meta.read_only_fields)


class ConfigurationKind(Kind):
    model = Configuration
    record = RecordKind.CONFIGURATION
    word, words = "configuration", "configurations"
    serializer, change = ConfigurationSerializer, ConfigurationChange

    def rows(self) -> "QuerySet[Any]":
        return Configuration.objects.select_related("fixed_model").prefetch_related(
            Prefetch("listed_models", ListedModel.objects.order_by("position", "pk").select_related("model")),
            Prefetch("fallback_links", FallbackLink.objects.order_by("position", "pk").select_related("fallback")),
        )

    def store(self, filled: Filled) -> dict[str, Any]:
        columns = filled.fill(but=("listed_models", "fallback_links"))
        parts: list[Model] = []
        removed: list[Model] = []
        for kind, through in ((ListedModel, "model"), (FallbackLink, "fallback")):
            sent = filled.values.get("listed_models" if kind is ListedModel else "fallback_links")
            kept, gone = _places(kind, filled.record, sent, through=through)
            parts += kept
            removed += gone
        save_record(
            filled.record,
            author=filled.author,
            reason=filled.reason,
            parts=parts,
            parts_removed=removed,
            only=columns,
            expected=filled.expected,
        )
        return {}


def _places(
    kind: type[Any], configuration: Configuration, targets: Sequence[Any] | None, *, through: str
) -> tuple[list[Model], list[Model]]:
    """The places to save and to remove, so that what was sent is all there is, in its order."""
    if targets is None:
        return [], []
    rows = [] if configuration._state.adding else kind._default_manager.filter(configuration=configuration)
    stored: Mapping[Any, Any] = {getattr(row, f"{through}_id"): row for row in rows}
    kept = []
    for position, target in enumerate(targets):
        row = stored.get(target.pk) or kind(configuration=configuration, **{through: target})
        row.position = position
        kept.append(row)
    wanted = {target.pk for target in targets}
    return kept, [row for pk, row in stored.items() if pk not in wanted]
