"""Language models, with their dated prices. Prices are typed as decimals and stored as whole nano-units."""

from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils import timezone

from governance.admin.cells import figure, two_lines
from governance.admin.fields import capability_choices, rate_field, words_field
from governance.admin.generic import Column, ModelForm, MomentWidget, StackedInline
from governance.admin.price_lists import price_lists_page
from governance.admin.records import InServiceFilter, NamedRecordAdmin, RecordForm, offer_in_service
from governance.admin.trials import TestedAdmin, wanted_of
from governance.audit.actions import RecordKind
from governance.calls import Wanted
from governance.spelling import ABSENT, capability_words, spell_rate
from routing.core.pricing import price_at
from routing.models import LanguageModel, Price
from routing.snapshots import prices_of


class LanguageModelForm(RecordForm):
    """A model at a provider that is not retired."""

    class Meta:
        model = LanguageModel
        fields = "__all__"
        labels: ClassVar = {"is_default": "Wins ties"}
        help_texts: ClassVar = {
            "model_id": "The id sent to the provider. The provider's page lists those that its key may use, by Test.",
            "is_default": "Of candidates that are alike in everything else, this one is asked first.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "provider" in self.fields:
            offer_in_service(self.fields["provider"], current=self.instance.provider_id)


class PriceForm(ModelForm):
    """A price that is in force from now on, unless another moment is named."""

    valid_from = forms.SplitDateTimeField(
        required=False,
        widget=MomentWidget,
        help_text="In force from this moment (UTC) until the next price's. Empty for now.",
    )

    class Meta:
        model = Price
        fields = "__all__"

    def clean_valid_from(self) -> datetime:
        moment: datetime | None = self.cleaned_data["valid_from"]
        if moment is None and self.instance.pk is not None:
            raise ValidationError("This price is in force from a moment on: enter it.")
        return timezone.now().replace(microsecond=0) if moment is None else moment

    def clean_currency(self) -> str:
        return str(self.cleaned_data["currency"]).upper()


class PriceInline(StackedInline):
    """The prices of a model, the latest first."""

    model = Price
    form = PriceForm
    extra = 1
    ordering = ("-valid_from", "service_tier")
    fieldsets = (
        (None, {"fields": ("valid_from", "service_tier", ("currency", "provenance"))}),
        (
            "Per million tokens",
            {
                "fields": (
                    ("input_rate", "output_rate"),
                    ("cached_input_rate", "cache_write_rate"),
                    "cache_write_hour_rate",
                )
            },
        ),
        (
            "Long prompts, per million tokens",
            {
                "fields": (
                    ("long_prompt_threshold", "long_prompt_inclusive"),
                    ("long_input_rate", "long_output_rate"),
                    ("long_cached_input_rate", "long_cache_write_rate"),
                    "long_cache_write_hour_rate",
                ),
                "classes": ("collapse",),
            },
        ),
    )

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name.endswith("_rate"):
            return rate_field(db_field)
        return super().formfield_for_dbfield(db_field, request, **kwargs)


@admin.register(LanguageModel)
class LanguageModelAdmin(TestedAdmin, NamedRecordAdmin):
    """Language models."""

    kind = RecordKind.MODEL
    form = LanguageModelForm
    inlines = (PriceInline,)
    list_display = ("called", "is_active", "at_provider", "can", "context", "price", "wins_ties")
    list_filter = (InServiceFilter, "is_active", "is_default", "provider")
    list_select_related = ("provider",)
    search_fields = ("identifier", "name", "model_id")
    search_help_text = "Identifier, name or model id."
    fieldsets = (
        (None, {"fields": ("name", "identifier", "is_active")}),
        ("At the provider", {"fields": ("provider", "model_id")}),
        ("What it can do", {"fields": ("capabilities", "context_length", "max_output")}),
        ("Ties", {"fields": ("is_default", "sorting")}),
    )

    actions = (*NamedRecordAdmin.actions, "compare_prices")
    change_list_template = "admin/routing/languagemodel/change_list.html"

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.price_lists_view)
        return [path("price-lists/", view, name="routing_languagemodel_price_lists"), *super().get_urls()]

    def price_lists_view(self, request: HttpRequest) -> HttpResponse:
        """Prices beside public price lists."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return price_lists_page(
            request,
            opts=self.opts,
            context=self.admin_site.each_context(request),
            may_change=self.has_change_permission(request),
        )

    @admin.action(description="Compare prices with price lists", permissions=["change"])
    def compare_prices(self, request: HttpRequest, queryset: QuerySet[LanguageModel]) -> HttpResponse:
        chosen = urlencode([("model", identifier) for identifier in queryset.values_list("identifier", flat=True)])
        return HttpResponseRedirect(f"{reverse('admin:routing_languagemodel_price_lists')}?{chosen}")

    def get_queryset(self, request: HttpRequest) -> QuerySet[LanguageModel]:
        return super().get_queryset(request).prefetch_related("prices")

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "capabilities":
            return words_field(db_field, capability_choices())
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def try_wanted(self, record: LanguageModel) -> Wanted:
        return wanted_of(record)

    def try_target(self, record: LanguageModel) -> str:
        return f"{record.provider.identifier}/{record.identifier}"

    @admin.display(description="model id and provider", ordering="model_id")
    def at_provider(self, model: LanguageModel) -> str:
        return two_lines(model.model_id, model.provider.identifier)

    @admin.display(description="capabilities")
    def can(self, model: LanguageModel) -> str:
        return capability_words(model.capabilities) or "undeclared"

    @admin.display(description="wins ties", ordering="is_default")
    def wins_ties(self, model: LanguageModel) -> str:
        return "yes" if model.is_default else ABSENT

    @admin.display(description="context", ordering="context_length")
    def context(self, model: LanguageModel) -> str:
        return f"{model.context_length:,}" if model.context_length else "unknown"

    @admin.display(description="price, in / out")
    def price(self, model: LanguageModel) -> str:
        rows = sorted(model.prices.all(), key=lambda row: row.valid_from)
        price = price_at(prices_of(rows), timezone.now())
        if price is None:
            return "unpriced"
        return figure(f"{spell_rate(price.rates.input)} / {spell_rate(price.rates.output)} {price.currency}")
