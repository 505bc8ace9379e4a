"""Budgets, and how they stand."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from budgets.readouts import MOST_SHOWN, Standing, standings
from governance.access.budgets import spec_of
from governance.api.records import Filled, Kind
from governance.api.serializers import AmountField, ReasonedSerializer, StrictSerializer
from governance.audit.actions import RecordKind
from governance.changes.drafts import ladder
from governance.changes.records import save_record
from governance.models import MOST_ALERTS, MOST_TIERS, Budget

MOST_LISTED = 20
"""Accounts told of each budget in a list of budgets; a budget by itself tells more."""


class CrossedSerializer(StrictSerializer):
    """A threshold that was crossed: once, and for as long as the window lasts."""

    threshold = serializers.IntegerField(help_text="Per cent of the limit.")
    percent = serializers.IntegerField(help_text="What was used up then: spent and uncertain.")
    limit = AmountField(help_text="The limit of then.")
    at = serializers.DateTimeField()


class StandingSerializer(StrictSerializer):
    """How a budget stands in one account, in the window of this moment."""

    scope = serializers.DictField(child=serializers.CharField(), help_text="Whose spending it is, by column.")
    window = serializers.CharField(help_text="Such as “month 2026-11 Europe/Berlin”.")
    resets_at = serializers.DateTimeField(allow_null=True, help_text="When the window ends. Null for all time.")
    limit = AmountField(help_text="A temporary increase included.")
    spent = AmountField()
    reserved = AmountField(help_text="Held for requests that are under way.")
    uncertain = AmountField(help_text="Held for requests whose outcome nobody knows.")
    left = AmountField(help_text="Less than nothing where the limit was overrun.")
    unmeasured = serializers.IntegerField(help_text="Requests that are in no sum, since they have no price.")
    reached_at = serializers.DateTimeField(
        allow_null=True, help_text="When the limit is reached if it goes on so; null if not in this window."
    )
    crossed = CrossedSerializer(many=True, help_text="Thresholds of alerts and tiers that were crossed, ascending.")


def standing_document(standing: Standing) -> dict[str, Any]:
    """What :class:`StandingSerializer` writes."""
    parts = ("limit", "spent", "reserved", "uncertain", "left", "unmeasured", "reached_at")
    return {
        "scope": standing.scope.document,
        "window": standing.window.identity,
        "resets_at": standing.window.ends,
        **{part: getattr(standing, part) for part in parts},
        "crossed": [
            {"threshold": each.threshold, "percent": each.percent, "limit": each.limit, "at": each.at}
            for each in standing.crossed
        ],
    }


class _Budgets(serializers.ListSerializer[Any]):
    """Many of them, with how they stand: three queries at the most."""

    def to_representation(self, data: Any) -> list[Any]:
        """The budgets."""
        rows = list(data)
        found = standings([spec_of(row) for row in rows], now=timezone.now(), most=MOST_LISTED)
        for row in rows:
            row.standings = found[row.identifier]
        return super().to_representation(rows)


class LadderStepSerializer(StrictSerializer):
    """A step of the ladder."""

    threshold = serializers.IntegerField(min_value=1, max_value=100, help_text="Per cent of the limit.")
    targets = serializers.ListField(
        child=serializers.CharField(max_length=100),
        min_length=1,
        max_length=MOST_TIERS,
        help_text="Identifiers of the models that are to serve from there on, the best first.",
    )


class LadderField(serializers.ListField):
    """A budget's tiers."""

    def get_attribute(self, instance: Any) -> Any:
        """One for each per cent, however many rows it has."""
        return spec_of(instance).tiers


class BudgetSerializer(ReasonedSerializer):
    """A budget."""

    limit = AmountField(help_text="The most that may be spent in a window. 0 allows nothing.")
    increase = AmountField(required=False, allow_null=True, help_text="Added to the limit for a while.")
    alert_thresholds = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=100),
        required=False,
        max_length=MOST_ALERTS,
        help_text="Per cents of the limit that are told of when they are crossed.",
    )
    tiers = LadderField(
        child=LadderStepSerializer(),
        required=False,
        max_length=MOST_TIERS,
        help_text="The ladder, ascending. Sent as a whole: a step that is left out is removed.",
    )
    standings = serializers.SerializerMethodField(
        help_text="How it stands now: one account, or the fullest of those that “*” counts on their own, 20 in a list "
        f"and {MOST_SHOWN} of a budget that is asked for by name."
    )

    class Meta:
        model = Budget
        fields: tuple[str, ...] = (
            "identifier", "name", "is_active", "application", "key", "user", "configuration", "provider", "currency",
            "limit", "is_hard", "window", "zone", "unpriced", "increase", "increase_until", "alert_thresholds",
            "enforce_targets", "tiers", "standings", "source",
            "created_at", "updated_at", "retired_at", "reason",
        )  # fmt: skip
        read_only_fields: tuple[str, ...] = ("source", "created_at", "updated_at", "retired_at")
        list_serializer_class = _Budgets

    @extend_schema_field(StandingSerializer(many=True))
    def get_standings(self, budget: Any) -> list[Any]:
        """How it stands; of a list all were read together."""
        found = getattr(budget, "standings", None)
        if found is None:
            found = standings([spec_of(budget)], now=timezone.now())[budget.identifier]
        return [StandingSerializer(standing_document(each)).data for each in found]


class BudgetChange(BudgetSerializer):
    """A change of a budget."""

    class Meta(BudgetSerializer.Meta):
        read_only_fields: tuple[str, ...] = ("identifier", *BudgetSerializer.Meta.read_only_fields)


class BudgetKind(Kind):
    model = Budget
    record = RecordKind.BUDGET
    word, words = "budget", "budgets"
    serializer, change = BudgetSerializer, BudgetChange

    def rows(self) -> "QuerySet[Any]":
        return Budget.objects.prefetch_related("tiers")

    def store(self, filled: Filled) -> dict[str, Any]:
        columns = filled.fill(but=("tiers",))
        sent = filled.values.get("tiers")
        named = None if sent is None else [(each["threshold"], model) for each in sent for model in each["targets"]]
        parts, removed = ladder(filled.record, named)
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
