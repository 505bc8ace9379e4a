"""Alerts: the thresholds that budgets have crossed and the calls that they refuse, with what webhooks were told of
each. To read only."""

from collections import defaultdict
from collections.abc import Mapping

from django.http import HttpResponseBase
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.crossings import percent_of
from budgets.models import Crossing
from governance.alerts.messages import CROSSED, REFUSING, type_of
from governance.api.pagination import PageQuery, page_of
from governance.api.permissions import people
from governance.api.serializers import AmountField, StrictSerializer
from governance.api.views import ApiView, Operation
from governance.models import AlertDelivery, DeliveryState

_READ = people("budgets.view_crossing")


class AlertQuery(PageQuery):
    """Which alerts."""

    budget = serializers.CharField(required=False, max_length=100, help_text="Identifier of the budget.")


class DeliverySerializer(StrictSerializer):
    """What became of an alert at one webhook."""

    id = serializers.UUIDField(help_text="What the receiver knows it by: its webhook-id.")
    webhook = serializers.CharField(source="webhook.identifier")
    state = serializers.ChoiceField([each.value for each in DeliveryState])
    attempts = serializers.IntegerField()
    next_attempt_at = serializers.DateTimeField(source="due_at", allow_null=True)
    last_status = serializers.IntegerField(allow_null=True, help_text="Null where the receiver did not answer.")
    last_error = serializers.CharField()


class AlertSerializer(StrictSerializer):
    """A threshold that was crossed, or the first call that was refused: each once in the window of its account."""

    at = serializers.DateTimeField()
    type = serializers.SerializerMethodField(help_text="As webhooks are told.")
    budget = serializers.CharField()
    threshold_percent = serializers.IntegerField(
        source="threshold", allow_null=True, help_text="Null where a call was refused."
    )
    used_percent = serializers.SerializerMethodField(help_text="Of the limit, in whole per cent and at most 100.")
    scope = serializers.DictField(child=serializers.CharField(), source="account.scope")
    window = serializers.CharField(source="account.window")
    currency = serializers.CharField(source="account.currency")
    limit = AmountField()
    spent = AmountField()
    uncertain = AmountField()
    needed = AmountField(
        allow_null=True,
        help_text="The most that the refused call could have cost. Null where nobody could say, and of a threshold.",
    )
    deliveries = DeliverySerializer(many=True, help_text="One for each webhook that is told.")

    @extend_schema_field(serializers.ChoiceField([CROSSED, REFUSING]))
    def get_type(self, crossing: Crossing) -> str:
        return type_of(crossing)

    def get_used_percent(self, crossing: Crossing) -> int:
        return percent_of(crossing.spent, crossing.uncertain, limit=crossing.limit)


class AlertsView(ApiView):
    """What was crossed, the latest first."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="list_alerts",
            summary="List alerts",
            permit=_READ,
            query=AlertQuery,
            answer=AlertSerializer,
            is_page=True,
        )
    }

    def get(self, request: Request) -> HttpResponseBase:
        rows = Crossing.objects.select_related("account")
        if "budget" in self.query:
            rows = rows.filter(budget=self.query["budget"])
        page = page_of(request, rows, order=("-id",), query=self.query)
        told: dict[int, list[AlertDelivery]] = defaultdict(list)
        deliveries = AlertDelivery.objects.filter(crossing__in=[each.pk for each in page.items])
        for delivery in deliveries.select_related("webhook").order_by("webhook__identifier"):
            told[delivery.crossing or 0].append(delivery)
        for each in page.items:
            each.deliveries = told[each.pk]
        return Response({"items": AlertSerializer(page.items, many=True).data, "next": page.next})
