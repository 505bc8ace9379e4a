"""Language models with their dated prices."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Prefetch, QuerySet
from django.http import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.status import HTTP_201_CREATED

from governance.api.authentication import author_of
from governance.api.exceptions import ProblemType
from governance.api.records import Filled, Kind, KindView
from governance.api.serializers import (
    IdentifierField,
    RateField,
    ReasonedSerializer,
    RecordSerializer,
    reason_field,
    words_field,
)
from governance.api.views import Operation
from governance.audit.actions import RecordKind
from governance.changes.records import save_record
from routing.core.vocabulary import Capability
from routing.models import LanguageModel, Price, Provider


class PriceSerializer(RecordSerializer):
    """What a model costs from a moment on, per million tokens."""

    input_rate = RateField(help_text="Prompt tokens. 0 is free.")
    output_rate = RateField(help_text="Generated tokens. 0 for embeddings.")
    cached_input_rate = RateField(
        required=False, allow_null=True, help_text="Prompt tokens from the provider's cache. Null: the input rate."
    )
    cache_write_rate = RateField(
        required=False, allow_null=True, help_text="Prompt tokens into the provider's cache. Null: the input rate."
    )
    cache_write_hour_rate = RateField(
        required=False, allow_null=True, help_text="Those kept for an hour. Null: the rate of what is written."
    )
    long_input_rate = RateField(required=False, allow_null=True)
    long_output_rate = RateField(required=False, allow_null=True)
    long_cached_input_rate = RateField(required=False, allow_null=True)
    long_cache_write_rate = RateField(required=False, allow_null=True)
    long_cache_write_hour_rate = RateField(required=False, allow_null=True)

    class Meta:
        model = Price
        fields: tuple[str, ...] = (
            "valid_from", "service_tier", "currency", "input_rate", "output_rate", "cached_input_rate",
            "cache_write_rate", "cache_write_hour_rate", "long_prompt_threshold", "long_prompt_inclusive",
            "long_input_rate", "long_output_rate", "long_cached_input_rate", "long_cache_write_rate",
            "long_cache_write_hour_rate", "provenance",
        )  # fmt: skip


class NewPrice(PriceSerializer):
    """A price to be added."""

    valid_from = serializers.DateTimeField(
        required=False, help_text="In force from this moment until the next price's. Left out: from now on."
    )
    reason = reason_field(write_only=True)

    class Meta(PriceSerializer.Meta):
        fields: tuple[str, ...] = (*PriceSerializer.Meta.fields, "reason")


class LanguageModelSerializer(ReasonedSerializer):
    """A language model."""

    provider = IdentifierField(Provider, help_text="Identifier of the provider.")
    capabilities = words_field(Capability, help_text="What it can do. Empty means undeclared, which is not “cannot”.")
    prices = PriceSerializer(many=True, required=False, help_text="Every dated price, the earliest first.")

    class Meta:
        model = LanguageModel
        fields: tuple[str, ...] = (
            "identifier", "name", "is_active", "provider", "model_id", "capabilities", "context_length", "max_output",
            "is_default", "sorting", "prices", "source", "created_at", "updated_at", "retired_at", "reason",
        )  # fmt: skip
        read_only_fields: tuple[str, ...] = ("source", "created_at", "updated_at", "retired_at")


class LanguageModelChange(LanguageModelSerializer):
    """A change of a language model. Prices are sent as a whole: one that is left out is removed."""

    class Meta(LanguageModelSerializer.Meta):
        read_only_fields: tuple[str, ...] = ("identifier", *LanguageModelSerializer.Meta.read_only_fields)


class LanguageModelKind(Kind):
    model = LanguageModel
    record = RecordKind.MODEL
    word, words = "model", "models"
    serializer, change = LanguageModelSerializer, LanguageModelChange

    def rows(self) -> "QuerySet[Any]":
        prices = Prefetch("prices", Price.objects.order_by("valid_from", "service_tier"))
        return LanguageModel.objects.select_related("provider").prefetch_related(prices)

    def store(self, filled: Filled) -> dict[str, Any]:
        model: LanguageModel = filled.record
        columns = filled.fill(but=("prices",))
        parts, removed = _prices(model, filled.values.get("prices"))
        save_record(
            model,
            author=filled.author,
            reason=filled.reason,
            parts=parts,
            parts_removed=removed,
            only=columns,
            expected=filled.expected,
        )
        return {}


class PricesView(KindView):
    """The prices of a model."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        return {
            "POST": Operation(
                name="add_price",
                summary="Give a model another price",
                about="The others stay; from its moment on, this one is in force.",
                permit=self.of.permit("change"),
                body=NewPrice,
                answer=LanguageModelSerializer,
                status=HTTP_201_CREATED,
                is_versioned=True,
                problems=(ProblemType.CONFLICT,),
            )
        }

    def post(self, request: Request, name: object) -> HttpResponseBase:
        sent = self.read_body(request)
        model = self.of.find(name)
        reason = sent.pop("reason", "")
        price = Price(model=model, **{"valid_from": timezone.now().replace(microsecond=0), **sent})
        save_record(model, author=author_of(request), reason=reason, parts=[price], only=[])
        return self.of.answer(model, status=HTTP_201_CREATED)


def _prices(model: LanguageModel, sent: Sequence[Mapping[str, Any]] | None) -> tuple[list[Price], list[Price]]:
    """The prices to save and to remove, so that what was sent is all there is; moment and class tell which is which.

    Raises:
        ValidationError: one of them is wrong; it is named by its place.
    """
    if sent is None:
        return [], []
    stored = {} if model._state.adding else {_place(price): price for price in Price.objects.filter(model=model)}
    prices = [Price(model=model, **values) for values in sent]
    places = Counter(map(_place, prices))
    kept: list[Price] = []
    complaints: dict[str, list[str]] = {}
    for index, price in enumerate(prices):
        place = _place(price)
        if place in stored:
            price.pk, price._state.adding = stored[place].pk, False
        if places[place] > 1:
            complaints[f"prices[{index}].valid_from"] = ["Another price of this class is in force from this moment on."]
        kept.append(price)
        try:
            price.full_clean(exclude=["model"])
        except ValidationError as refused:
            complaints |= {f"prices[{index}].{field}": words for field, words in refused.message_dict.items()}
    if complaints:
        raise ValidationError(complaints)
    return kept, [price for place, price in stored.items() if place not in places]


def _place(price: Price) -> tuple[datetime, str]:
    """What tells a model's prices apart."""
    return price.valid_from, price.service_tier
