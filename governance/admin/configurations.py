"""Configurations: the names applications ask for, and how each arrives at a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from governance.admin.fields import capability_choices, rate_field, words_field
from governance.admin.generic import Column, InlineFormSet, ModelForm
from governance.admin.places import PlacesInline, kept
from governance.admin.records import InServiceFilter, NamedRecordAdmin, RecordForm, offer_in_service
from governance.admin.trials import TestedAdmin, wanted_of
from governance.audit.actions import RecordKind
from governance.calls import Wanted
from governance.changes.rules import chain_complaint, listing_complaint
from governance.gateway.service import standing_now
from governance.questions import Question, UnknownConfiguration, ask
from governance.spelling import ABSENT, capability_words
from governance.tab.addresses import scenario_address_of
from governance.tab.explained import ExplanationPage, page_of
from routing.core.plan import Plan
from routing.core.policy import PolicyMode
from routing.core.vocabulary import LABELS, ListedOrder, Operation, Selection
from routing.models import SELECTIONS, Configuration, FallbackLink, ListedModel
from routing.providers.registry import ADAPTER_TYPES

CRITERIA = (
    "policy_mode", "capabilities", "adapter_types", "min_context_length", "max_input_rate", "prefer_lowest_cost",
)  # fmt: skip

READ_BY: Mapping[Selection, str] = MappingProxyType({each: f"sb-of-{each.value}" for each in SELECTIONS})
"""The class of what only one selection reads; the stylesheet shows what belongs to the one that is chosen."""


class ConfigurationForm(RecordForm):
    """A configuration with a fixed model that is not retired."""

    class Meta:
        model = Configuration
        fields = "__all__"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "fixed_model" in self.fields:
            offer_in_service(self.fields["fixed_model"], current=self.instance.fixed_model_id)
        for field in self.fields.values():
            meant_for, colon, words = str(field.help_text).partition(": ")
            if colon and meant_for.startswith("For "):  # its fieldset says so
                field.help_text = f"{words[:1].upper()}{words[1:]}"
        if "policy_mode" in self.fields:
            modes = [(value, label) for value, label in self.fields["policy_mode"].choices if value]  # type: ignore[attr-defined]
            self.fields["policy_mode"].choices = [("", "The installation's mode"), *modes]  # type: ignore[attr-defined]
        if "adapter_types" in self.fields:
            known = [(kind.name, f"{kind.label} ({kind.name})") for kind in ADAPTER_TYPES.values()]
            stored = [(each, f"{each} (unknown)") for each in self.instance.adapter_types if each not in ADAPTER_TYPES]
            self.fields["adapter_types"].choices = [*known, *stored]  # type: ignore[attr-defined]


class ListedModelForm(ModelForm):
    """A place in the list, for a model that is not retired."""

    class Meta:
        model = ListedModel
        fields = ("model", "position")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "model" in self.fields:
            offer_in_service(self.fields["model"], current=self.instance.model_id)


class FallbackLinkForm(ModelForm):
    """A place in the chain, for a configuration that is not retired."""

    class Meta:
        model = FallbackLink
        fields = ("fallback", "position")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "fallback" in self.fields:
            offer_in_service(self.fields["fallback"], current=self.instance.fallback_id)


class ListedModelFormSet(InlineFormSet):
    """The list of a listed configuration."""

    def clean(self) -> None:
        super().clean()
        complaint = listing_complaint(self.instance, [form.cleaned_data["model"] for form in kept(self, "model")])
        if complaint:
            raise ValidationError(complaint)


class FallbackFormSet(InlineFormSet):
    """The fallback chain of a configuration; together the chains of all configurations have no circle."""

    def clean(self) -> None:
        super().clean()
        for form in kept(self, "fallback"):
            complaint = chain_complaint(self.instance, [form.cleaned_data["fallback"]])
            if complaint:
                form.add_error("fallback", complaint)


class ListedModelInline(PlacesInline):
    """The listed models."""

    model = ListedModel
    form = ListedModelForm
    formset = ListedModelFormSet
    extra = 2
    ordering_field = "position"
    verbose_name = "listed model"
    verbose_name_plural = "listed models (lower positions first)"
    classes = (READ_BY[Selection.LISTED],)


class FallbackInline(PlacesInline):
    """The fallback chain."""

    model = FallbackLink
    form = FallbackLinkForm
    formset = FallbackFormSet
    fk_name = "configuration"
    extra = 2
    ordering_field = "position"
    verbose_name = "fallback configuration"
    verbose_name_plural = "fallback configurations (asked when none of the above could answer; lower positions first)"


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a configuration would resolve to now: why not at all, or the decision and the routes a call would walk."""

    problem: str
    decision: ExplanationPage | None
    plan: Plan | None
    scenario_url: str


def resolve(identifier: str) -> Resolution:
    """Ask for a chat call of a configuration, by the settings, records and figures of this moment."""
    try:
        answer = ask(standing_now(), Question(identifier, Operation.CHAT), now=timezone.now())
    except UnknownConfiguration:
        return Resolution("It is retired, so calls that ask for it are refused.", None, None, "")
    is_active = answer.configuration.is_active
    problem = "" if is_active else "It is switched off: calls that ask for it are refused until it is switched on."
    return Resolution(problem, page_of(answer.explanation), answer.plan, scenario_address_of(answer.question))


def _of_another(configuration: Configuration, classes: Sequence[str]) -> bool:
    """Whether only another selection than the configuration's reads something."""
    return any(READ_BY[each] in classes for each in SELECTIONS if each != configuration.selection)


@admin.register(Configuration)
class ConfigurationAdmin(TestedAdmin, NamedRecordAdmin):
    """Configurations."""

    kind = RecordKind.CONFIGURATION
    form = ConfigurationForm
    change_form_template = "admin/routing/configuration/change_form.html"
    inlines = (ListedModelInline, FallbackInline)
    list_display = ("called", "is_active", "selection", "models", "falls_back_to")
    list_filter = (InServiceFilter, "is_active", "selection", "policy_mode")
    fieldsets = (
        (None, {"fields": ("name", "identifier", "description", "is_active")}),
        (
            "How it arrives at a model",
            {"fields": ("selection", "plan_limit")},
        ),
        ("The one model", {"fields": ("fixed_model",), "classes": (READ_BY[Selection.FIXED],)}),
        (
            "Which of the listed models goes first",
            {"fields": ("listed_order",), "classes": (READ_BY[Selection.LISTED],)},
        ),
        (
            "What every candidate must meet, and what ranks them",
            {"fields": CRITERIA, "classes": (READ_BY[Selection.CRITERIA],)},
        ),
        ("How a call is made", {"fields": ("repeats_timeouts", "repairs_output", "cache_seconds")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Configuration]:
        return (
            super()
            .get_queryset(request)
            .select_related("fixed_model")
            .prefetch_related(
                Prefetch("listed_models", ListedModel.objects.select_related("model")),
                Prefetch("fallback_links", FallbackLink.objects.select_related("fallback")),
            )
        )

    def get_fieldsets(self, request: HttpRequest, obj: Configuration | None = None) -> Any:
        """To look at, only what the selection reads."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return fieldsets
        return [each for each in fieldsets if not _of_another(obj, each[1].get("classes", ()))]

    def get_inlines(self, request: HttpRequest, obj: Configuration | None) -> Any:
        inlines = super().get_inlines(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return inlines
        return [each for each in inlines if not _of_another(obj, each.classes or ())]

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "capabilities":
            return words_field(db_field, capability_choices())
        if db_field.name == "adapter_types":
            return words_field(db_field, [])  # the form knows what is stored and adds the choices
        if db_field.name == "max_input_rate":
            return rate_field(
                db_field,
                help_text="The most that a million prompt tokens may cost, such as 2.50, in the "
                "currency of routing. Unpriced models pass. Empty or 0 for no limit.",
            )
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def try_wanted(self, record: Configuration) -> Wanted:
        return Wanted.ANSWER if record.fixed_model is None else wanted_of(record.fixed_model)

    def try_target(self, record: Configuration) -> str:
        return record.identifier

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        record = context.get("original")
        resolution = {} if record is None else {"resolution": resolve(record.identifier)}
        return super().render_change_form(request, {**context, **resolution}, *args, **kwargs)

    @admin.display(description="models")
    def models(self, configuration: Configuration) -> str:
        match configuration.selection:
            case Selection.FIXED:
                fixed = configuration.fixed_model
                return "none" if fixed is None else fixed.identifier
            case Selection.LISTED:
                names = ", ".join(link.model.identifier for link in configuration.listed_models.all()) or "none"
                order = ListedOrder(configuration.listed_order)
                return names if order is ListedOrder.AS_LISTED else f"{names} ({LABELS[order].lower()})"
        asked = capability_words(configuration.capabilities)
        mode = PolicyMode.read(configuration.policy_mode).value if configuration.policy_mode else "installation's mode"
        return f"any that meets the criteria{f' ({asked})' if asked else ''}, {mode}"

    @admin.display(description="falls back to")
    def falls_back_to(self, configuration: Configuration) -> str:
        return ", ".join(link.fallback.identifier for link in configuration.fallback_links.all()) or ABSENT
