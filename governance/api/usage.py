"""What was used over some days: an application's own, or everybody's for those who may see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import orjson
from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.limits import Counted, Standing, read_standings
from governance.access.directory import Caller
from governance.api.authentication import caller_of
from governance.api.exceptions import wrong_field
from governance.api.own_budgets import OwnBudget, OwnBudgetSerializer, read_own_budgets
from governance.api.permissions import both
from governance.api.serializers import MoneySerializer, StrictSerializer
from governance.api.views import ApiView, Operation
from governance.gateway.service import opened_service
from governance.shared_state import shared_state
from routing.core.meters import Pace
from telemetry.readouts.breakdowns import Breakdown, Dimension, Share, Span, SpanError, read_breakdown
from telemetry.readouts.tables import write_csv

_USUAL_DAYS = 7
_FILTERS = tuple(each for each in Dimension if not each.is_time)


class UsageQuery(StrictSerializer):
    """Which days, broken down by what, and of whom."""

    since = serializers.DateField(required=False, help_text="The first day. Left out: six days before the last.")
    until = serializers.DateField(required=False, help_text="The last day. Left out: today.")
    zone = serializers.CharField(
        required=False,
        default="UTC",
        max_length=64,
        help_text="Whose days they are, such as Europe/Berlin. Those of other zones than UTC are told for 100 days, "
        "and where they begin at a full hour of UTC.",
    )
    by = serializers.ChoiceField(
        [each.value for each in Dimension], required=False, default=Dimension.DAY.value, help_text="The dimension."
    )
    limit = serializers.IntegerField(
        required=False, default=1000, min_value=1, max_value=1000, help_text="Values of the dimension at the most."
    )
    application = serializers.CharField(required=False, max_length=100)
    key = serializers.UUIDField(required=False, help_text="Id of a key.")
    user = serializers.CharField(required=False, max_length=128)
    source = serializers.CharField(  # type: ignore[assignment]  # the class has it as a word of its own
        required=False, max_length=64
    )
    configuration = serializers.CharField(required=False, max_length=100)
    provider = serializers.CharField(required=False, max_length=100)
    model = serializers.CharField(required=False, max_length=100)
    operation = serializers.CharField(required=False, max_length=32)


class UsageTokensSerializer(StrictSerializer):
    """Tokens, as providers reported them. ``input`` is without what came from a cache or went into one."""

    input = serializers.IntegerField()
    cache_read = serializers.IntegerField()
    cache_write = serializers.IntegerField()
    output = serializers.IntegerField()
    reasoning = serializers.IntegerField(help_text="A part of the output.")


class ShareSerializer(StrictSerializer):
    """The sums of one value of the dimension."""

    value = serializers.CharField(help_text="A day, an hour or an identifier; empty for calls that have none.")
    requests = serializers.IntegerField()
    failures = serializers.IntegerField(help_text="Calls that got no answer.")
    unpriced = serializers.IntegerField(help_text="Calls that were answered and whose cost is not known.")
    tokens = UsageTokensSerializer(allow_null=True)
    costs = MoneySerializer(many=True, help_text="One amount for each currency; nothing is converted.")


class LimitSerializer(StrictSerializer):
    """Where a rate or a quota stands."""

    scope = serializers.CharField(source="limit.scope", help_text="Whose it is: the key's or the application's.")
    counted = serializers.ChoiceField([each.value for each in Counted], source="limit.counted")
    per = serializers.ChoiceField([each.value for each in Pace], source="limit.pace")
    limit = serializers.IntegerField(source="limit.most")
    left = serializers.IntegerField(source="level.left", help_text="What may be used now.")
    resets_in = serializers.SerializerMethodField(help_text="Seconds until nothing of it is used any more.")

    def get_resets_in(self, standing: Standing) -> float:
        return standing.level.reset_ms / 1000


class UsageSerializer(StrictSerializer):
    """Usage of some days."""

    by = serializers.ChoiceField([each.value for each in Dimension], source="dimension")
    zone = serializers.CharField()
    since = serializers.DateField(source="first")
    until = serializers.DateField(source="last")
    total = ShareSerializer()
    items = ShareSerializer(many=True, source="shares")
    is_cut = serializers.BooleanField(help_text="Whether there are more values; the total is that of all.")
    limits = LimitSerializer(
        many=True,
        allow_null=True,
        help_text="The rates and quotas of the key that asks and of its application, as they stand now; null for "
        "whoever is logged in.",
    )
    budgets = OwnBudgetSerializer(
        many=True,
        allow_null=True,
        help_text="The budgets that calls of the key count in, as they stand now, of the user, configuration and "
        "provider alone that are asked for; null for whoever is logged in.",
    )


@dataclass(frozen=True, slots=True)
class Told:
    """A breakdown, and the limits and budgets of whoever asks."""

    dimension: Dimension
    zone: str
    first: date
    last: date
    total: Share
    shares: tuple[Share, ...]
    is_cut: bool
    limits: tuple[Standing, ...] | None
    budgets: tuple[OwnBudget, ...] | None

    @classmethod
    def of(cls, found: Breakdown, limits: tuple[Standing, ...] | None, budgets: tuple[OwnBudget, ...] | None) -> "Told":
        """All of it together."""
        return cls(
            dimension=found.dimension,
            zone=found.zone,
            first=found.first,
            last=found.last,
            total=found.total,
            shares=found.shares,
            is_cut=found.is_cut,
            limits=limits,
            budgets=budgets,
        )


class UsageView(ApiView):
    """Usage."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="read_usage",
            summary="Read what was used",
            about="A virtual key reads its application's usage, and how its limits and budgets stand. Costs are those "
            "of calls, when they were made. Usage outlives the records of calls.",
            permit=both("telemetry.view_usageday"),
            query=UsageQuery,
            answer=UsageSerializer,
        )
    }

    def get(self, request: Request) -> HttpResponseBase:
        breakdown = _read(request, self.query)
        caller = caller_of(request)
        told = Told.of(breakdown, _standings(caller), _budgets(caller, self.query))
        return Response(UsageSerializer(told).data)


class CsvRenderer(BaseRenderer):
    """A table as it is; what is no table is a problem, which is JSON."""

    media_type = "text/csv"
    format = "csv"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        return data.encode() if isinstance(data, str) else orjson.dumps(data)


class UsageTableView(ApiView):
    """Usage as a table."""

    renderer_classes = (CsvRenderer,)
    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="read_usage_table",
            summary="Read what was used, as CSV",
            about="A line for each value and currency. Counts and tokens stand in a value's first line alone, so that "
            "every column can be summed.",
            permit=both("telemetry.view_usageday"),
            query=UsageQuery,
            is_table=True,
        )
    }

    def get(self, request: Request) -> HttpResponseBase:
        found = _read(request, self.query)
        name = f"usage-{found.dimension.value}-{found.first}-{found.last}.csv"
        return Response(write_csv(found), headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _read(request: Request, query: Mapping[str, Any]) -> Breakdown:
    """What was asked for, of what whoever asks may see."""
    only: dict[Dimension, str] = {each: str(query[each.value]) for each in _FILTERS if each.value in query}
    caller = caller_of(request)
    if caller is not None and only.setdefault(Dimension.APPLICATION, caller.application) != caller.application:
        raise wrong_field("application", f"This key is of {caller.application}, and reads its usage alone.")
    try:
        span = _span(query)
        return read_breakdown(by=Dimension(query["by"]), span=span, only=only, most=query["limit"])
    except SpanError as refused:
        raise wrong_field(refused.field, str(refused)) from None


def _standings(caller: Caller | None) -> tuple[Standing, ...] | None:
    """The limits of a key, read where calls are counted."""
    if caller is None:
        return None
    service = opened_service()
    store = shared_state() if service is None else service.shared
    return read_standings(store, caller.limits, now=datetime.now(UTC))


def _budgets(caller: Caller | None, query: Mapping[str, Any]) -> tuple[OwnBudget, ...] | None:
    """The budgets of a key, those alone that count what is asked for."""
    if caller is None:
        return None
    known = {each: str(query[each]) for each in ("user", "configuration", "provider") if each in query}
    return read_own_budgets(caller, known=known, now=datetime.now(UTC))


def _span(query: Mapping[str, Any]) -> Span:
    today = datetime.now(UTC).date()
    last: date = query.get("until", today)
    try:
        first: date = query.get("since", last - timedelta(days=_USUAL_DAYS - 1))
    except OverflowError:
        raise SpanError("until", "There are no seven days before this one: say since when.") from None
    return Span.of(first=first, last=last, zone=query["zone"], today=today)
