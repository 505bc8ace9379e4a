"""The settings in force: every declared one, whether stored or not, and a form that the registry checks."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from governance.admin.cells import breakable
from governance.admin.generic import NumberWidget, RadioWidget, SwitchWidget, TextWidget
from governance.admin.records import Filled, RecordAdmin, RecordForm
from governance.audit.actions import RecordKind
from governance.changes.settings import clear_setting, store_setting
from governance.models import SettingValue
from governance.settings_store.registry import REGISTRY, Kind, Setting
from governance.settings_store.sources import (
    PINNED_BY,
    SettingInForce,
    Source,
    pinned_settings,
    settings_in_force,
)

PINNED = f"Pinned by the environment variable {PINNED_BY}: it is changed there, and by a restart."


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as the list shows it."""

    key: str
    shown_key: str
    help: str
    in_force: str
    default: str
    source: Source
    unreadable: str | None
    stored_at: datetime | None
    url: str


def setting_rows() -> list[SettingRow]:
    """Every declared setting with the value in force: one query."""
    return [_row(each) for each in settings_in_force()]


def _row(each: SettingInForce) -> SettingRow:
    setting, stored = each.setting, each.stored
    return SettingRow(
        key=setting.key,
        shown_key=breakable(setting.key),
        help=setting.help,
        in_force=setting.spell(each.value),
        default=setting.spell(setting.default),
        source=each.source,
        unreadable=None if stored is None or setting.accepts(stored.value) is None else repr(stored.value),
        stored_at=each.stored_at,
        url=reverse("admin:governance_settingvalue_change", args=[setting.key]),
    )


def value_field(setting: Setting[Any], *, in_force: Any) -> forms.Field:
    """The form field for a setting: its choices, a whole number, or a text."""
    if setting.choices:
        values = {str(value): value for value, _ in setting.choices}
        return forms.TypedChoiceField(
            choices=[(str(value), _label(setting, value, label)) for value, label in setting.choices],
            coerce=lambda chosen: values[chosen],
            widget=RadioWidget,
            initial=str(in_force),
            help_text=setting.help,
        )
    if setting.bounds is not None:
        least, greatest = setting.bounds
        bounds = f"From {least:,} to {greatest:,} {setting.unit}."
        return forms.IntegerField(widget=NumberWidget, initial=in_force, help_text=f"{setting.help} {bounds}")
    return forms.CharField(widget=TextWidget, initial=in_force, help_text=setting.help)


def _label(setting: Setting[Any], value: Any, label: str) -> str:
    return f"{setting.spell(value)}: {label}" if setting.kind is Kind.FLAG else label


class SettingForm(RecordForm):
    """A value for one setting, or a return to its default."""

    value = forms.Field()
    use_default = forms.BooleanField(required=False, widget=SwitchWidget, label="Use the default instead")

    class Meta:
        model = SettingValue
        fields = ("value",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        setting = REGISTRY[self.instance.key]
        stored = not self.instance._state.adding
        in_force = setting.read(self.instance.value) if stored else setting.default
        if "value" in self.fields:
            self.fields["value"] = value_field(setting, in_force=in_force)
            self.initial["value"] = self.fields["value"].initial
        if "use_default" in self.fields:
            self.fields["use_default"].help_text = f"The default is {setting.spell(setting.default)}."

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("use_default"):
            self.errors.pop("value", None)  # whatever was typed does not count
            cleaned["value"] = REGISTRY[self.instance.key].default
        elif "value" in cleaned:
            complaint = REGISTRY[self.instance.key].accepts(cleaned["value"])
            if complaint is not None:
                self.add_error("value", f"{complaint[:1].upper()}{complaint[1:]}.")
        return cleaned


@admin.register(SettingValue)
class SettingValueAdmin(RecordAdmin):
    """Settings."""

    kind = RecordKind.SETTING
    form = SettingForm

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What the environment pins is looked at only."""
        is_pinned = obj is not None and obj.key in pinned_settings()
        return super().has_change_permission(request, obj) and not is_pinned

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> SettingValue | None:
        """The stored value, or what would be stored: every declared setting has a page, and a pinned one shows what
        the environment says."""
        if object_id not in REGISTRY:
            return None
        if object_id in pinned_settings():
            return SettingValue(key=object_id, value=pinned_settings()[object_id])
        stored = SettingValue.objects.filter(key=object_id).first()
        return SettingValue(key=object_id, value=REGISTRY[object_id].default) if stored is None else stored

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        may_change = self.has_change_permission(request, obj)
        fields = ("value", "use_default", "reason") if may_change else ("value",)
        is_pinned = obj is not None and obj.key in pinned_settings()
        return ((None, {"fields": fields, "description": PINNED if is_pinned else ""}),)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": "Settings in force",
            "opts": self.opts,
            "rows": setting_rows(),
            "pinned_by": PINNED_BY,
        }
        return TemplateResponse(request, "admin/governance/settingvalue/change_list.html", context)

    def record_name(self, record: SettingValue) -> str:
        return record.key

    def needs_writing(self, form: Any) -> bool:
        return True

    def write(self, request: HttpRequest, filled: Filled) -> None:
        setting: SettingValue = filled.record
        if filled.cleaned["use_default"]:
            clear_setting(setting.key, author=filled.author, reason=filled.reason)
        else:
            store_setting(setting.key, setting.value, author=filled.author, reason=filled.reason)
