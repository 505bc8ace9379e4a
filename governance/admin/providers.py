"""Providers: where calls go. A key goes in and never comes out; the pages show its last characters."""

from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse

from governance.admin.cells import two_lines
from governance.admin.generic import PasswordWidget, SelectWidget, SwitchWidget
from governance.admin.records import Filled, InServiceFilter, NamedRecordAdmin, RecordForm, RecordTool
from governance.admin.trials import list_models, refusal_of
from governance.audit.actions import RecordKind
from governance.changes.providers import save_provider
from governance.changes.rules import LONGEST_KEY, check_provider_key
from routing.core.failures import CallFailed
from routing.models import Provider
from routing.providers.registry import ADAPTER_TYPES
from routing.vault import Vault

KEY_FIELDS = ("api_key", "remove_key")


class ProviderForm(RecordForm):
    """A provider, and a key for it that is not read back."""

    adapter_type = forms.ChoiceField(
        widget=SelectWidget,
        help_text="The kind of API it speaks. Providers of one kind share one health and, per model id, one history.",
    )
    api_key = forms.CharField(
        label="Key",
        required=False,
        max_length=LONGEST_KEY,
        widget=PasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Stored encrypted and never shown again. Left empty, a stored key stays as it is.",
    )
    remove_key = forms.BooleanField(
        label="Remove the stored key",
        required=False,
        widget=SwitchWidget,
        help_text="Calls are then sent without a key.",
    )

    class Meta:
        model = Provider
        fields = "__all__"
        labels: ClassVar = {"max_concurrent": "Calls at a time"}
        help_texts: ClassVar = {
            "max_concurrent": "The most that each process sends to it at once; beyond that its routes are passed over. "
            "Empty for no limit."
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "adapter_type" in self.fields:
            stored = self.instance.adapter_type
            choices = [(kind.name, f"{kind.label} ({kind.name})") for kind in ADAPTER_TYPES.values()]
            if stored and stored not in ADAPTER_TYPES:
                choices.append((stored, f"{stored} (not built into this version)"))
            self.fields["adapter_type"].choices = [("", "---------"), *choices]  # type: ignore[attr-defined]

    def clean_api_key(self) -> str:
        key: str = self.cleaned_data["api_key"]
        try:
            check_provider_key(key)
        except ValidationError as refused:
            raise ValidationError(refused.messages) from None
        return key

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("api_key") and cleaned.get("remove_key"):
            self.add_error("remove_key", "Either enter a new key or remove the stored one.")
        return cleaned


def _listed(provider: Provider) -> dict[str, Any]:
    """What the test's page shows: model ids, each with the model it is here, or the failure."""
    try:
        ids = list_models(provider)
    except CallFailed as failed:
        return {"refusal": refusal_of(failed.failure)}
    known: dict[str, str] = dict(provider.models.filter(retired_at=None).values_list("model_id", "identifier"))
    missing = sorted(f"{name} ({model_id})" for model_id, name in known.items() if model_id not in set(ids))
    return {"models": [(each, known.get(each, "")) for each in sorted(ids)], "missing": missing}


@admin.register(Provider)
class ProviderAdmin(NamedRecordAdmin):
    """Providers."""

    kind = RecordKind.PROVIDER
    form = ProviderForm
    list_display = ("called", "is_active", "adapter_kind", "key", "priority", "where_data_goes")
    list_filter = (InServiceFilter, "is_active", "reach", "data_boundary")
    readonly_fields = ("key",)
    fieldsets = (
        (None, {"fields": ("name", "identifier", "is_active", "priority")}),
        ("Where calls go", {"fields": ("adapter_type", "base_url", "api_version", "organization", "max_concurrent")}),
        ("Key", {"fields": ("key", *KEY_FIELDS)}),
        ("Where data goes", {"fields": ("reach", "data_boundary", "region")}),
        (
            "Time-outs, in seconds",
            {"fields": ("connect_timeout", "first_event_timeout", "between_events_timeout", "total_timeout")},
        ),
    )

    def get_urls(self) -> list[Any]:
        test = path("<path:object_id>/try/", self.admin_site.admin_view(self.try_view), name="routing_provider_try")
        return [test, *super().get_urls()]

    def record_tools(self, request: HttpRequest, record: Provider) -> list[RecordTool]:
        if not self.has_change_permission(request, record):
            return []
        return [RecordTool("Test", reverse("admin:routing_provider_try", args=[record.pk]), "play_arrow")]

    def try_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """List the models that the stored key may use, and which of them are models here."""
        provider = self.get_object(request, unquote(object_id))
        if provider is None:
            return self.nothing_there(request, object_id)
        if not self.has_change_permission(request, provider):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": f"Test {provider}",
            "opts": self.opts,
            "original": provider,
            **(_listed(provider) if request.method == "POST" else {}),
        }
        return TemplateResponse(request, "admin/signalbox/try_provider.html", context)

    @admin.display(description="kind and address", ordering="adapter_type")
    def adapter_kind(self, provider: Provider) -> str:
        kind = ADAPTER_TYPES.get(provider.adapter_type)
        if kind is None:
            return two_lines(f"{provider.adapter_type} (unknown)", provider.base_url)
        return two_lines(kind.label, provider.base_url or f"{kind.base_url} (its own)")

    @admin.display(description="where data goes", ordering="data_boundary")
    def where_data_goes(self, provider: Provider) -> str:
        return two_lines(provider.get_data_boundary_display(), provider.get_reach_display())

    @admin.display(description="stored key")
    def key(self, provider: Provider) -> str:
        if provider.sealed_key is None:
            kind = ADAPTER_TYPES.get(provider.adapter_type)
            return "none needed" if kind is not None and not kind.needs_key else "none"
        return f"ends in {provider.key_hint}" if provider.key_hint else "stored"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Without what enters a key where nothing may be entered, and what removes one where there is none."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None:
            left_out: tuple[str, ...] = ("key", "remove_key")
        elif not self.has_change_permission(request, obj):
            left_out = KEY_FIELDS
        else:
            left_out = () if obj.sealed_key is not None else ("remove_key",)
        return [
            (title, {**options, "fields": [name for name in options["fields"] if name not in left_out]})
            for title, options in fieldsets
        ]

    def needs_writing(self, form: Any) -> bool:
        return bool(form.cleaned_data.get("api_key") or form.cleaned_data.get("remove_key"))

    def write(self, request: HttpRequest, filled: Filled) -> None:
        provider: Provider = filled.record
        entered, removed = filled.cleaned.get("api_key", ""), filled.cleaned.get("remove_key", False)
        save_provider(
            provider,
            author=filled.author,
            reason=filled.reason,
            vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS),
            key=entered if entered or removed else None,
            only=filled.columns,
        )
        kind = ADAPTER_TYPES.get(provider.adapter_type)
        if kind is not None and kind.needs_key and provider.sealed_key is None:
            self.message_user(
                request,
                f"{provider.identifier} has no key, and {kind.label} answers nobody without one.",
                messages.WARNING,
            )
