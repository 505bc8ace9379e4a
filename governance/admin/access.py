"""Applications and their keys. A key is shown on the page that answers its form, and never again."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.contrib.messages.storage.base import Message
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone

from governance.access.authors import author_of
from governance.admin.cells import figure, two_lines
from governance.admin.fields import ReasonField, WordsField
from governance.admin.generic import SelectWidget, SwitchWidget, TabularInline
from governance.admin.records import (
    NOT_NEEDED,
    Filled,
    NamedRecordAdmin,
    RecordAdmin,
    RecordForm,
    RecordTool,
    offer_in_service,
)
from governance.audit.actions import RecordKind
from governance.changes.keys import issue_key, name_of_key, revoke_key, rotate_key, save_key
from governance.models import AccessKey, Application
from routing.models import Configuration, LanguageModel, NamedRecord

LIMITS = (("requests_per_minute", "tokens_per_minute"), ("requests_per_day", "tokens_per_day"))
"""The rates and quotas, as a form has them."""


def state_of(key: AccessKey) -> str:
    """Whether a key opens anything, in words."""
    now = timezone.now()
    if key.revoked_at is not None:
        return f"revoked on {key.revoked_at:%Y-%m-%d}"
    if key.expires_at is not None and key.expires_at <= now:
        return f"expired on {key.expires_at:%Y-%m-%d}"
    if key.application.retired_at is not None:
        return "application retired"
    return "in force" if key.application.is_active else "application switched off"


class KeyInline(TabularInline):
    """The keys of an application, to look at."""

    model = AccessKey
    extra = 0
    show_change_link = True
    fields = ("name", "shown", "state", "expires_at")
    readonly_fields = fields

    @admin.display(description="key")
    def shown(self, key: AccessKey) -> str:
        return f"{key.prefix}…"

    @admin.display(description="state")
    def state(self, key: AccessKey) -> str:
        return state_of(key)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Application)
class ApplicationAdmin(NamedRecordAdmin):
    """Applications."""

    kind = RecordKind.APPLICATION
    inlines = (KeyInline,)
    list_display = ("called", "is_active", "description", "created_at")
    fieldsets = (
        (None, {"fields": ("name", "identifier", "description", "is_active")}),
        ("Without a key", {"fields": ("may_run_tasks",)}),
        ("How much it may use, by all its keys", {"fields": LIMITS}),
    )


class AccessKeyForm(RecordForm):
    """A key. What it allows is either everything or what is ticked, so that "nothing" can be said as well."""

    every_configuration = forms.BooleanField(
        required=False,
        initial=True,
        widget=SwitchWidget,
        help_text="Whether it may ask for any configuration, those made later included.",
    )
    allowed_configurations = WordsField(
        required=False, help_text="Otherwise the configurations it may ask for; none ticked is none."
    )
    every_model = forms.BooleanField(
        required=False,
        initial=True,
        widget=SwitchWidget,
        help_text="Whether any model may serve it, those made later included.",
    )
    allowed_models = WordsField(
        required=False, help_text="Otherwise the models that may serve it; none ticked is none."
    )

    class Meta:
        model = AccessKey
        fields = "__all__"
        help_texts: ClassVar = {"expires_at": "From this moment (UTC) it is refused. Empty for never."}

    LISTS = (
        ("every_configuration", "allowed_configurations", Configuration),
        ("every_model", "allowed_models", LanguageModel),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "application" in self.fields:
            offer_in_service(self.fields["application"], current=self.instance.application_id)
        for every, allowed, records in self.LISTS:
            stored: list[str] | None = getattr(self.instance, allowed)
            self.initial.setdefault(every, stored is None)
            if allowed in self.fields:
                self.fields[allowed].choices = _choices(records, stored or [])  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        for every, allowed, _ in self.LISTS:
            if cleaned.get(every) and cleaned.get(allowed):
                self.add_error(every, "Either all of them or the ones that are ticked: untick this, or those.")
            elif cleaned.get(every):
                cleaned[allowed] = None
        return cleaned


def _choices(records: type[NamedRecord], stored: Sequence[str]) -> list[tuple[str, str]]:
    rows = records._default_manager.filter(retired_at=None).order_by("identifier")
    choices = {identifier: identifier for identifier in rows.values_list("identifier", flat=True)}
    return [*choices.items(), *((each, f"{each} (retired or unknown)") for each in stored if each not in choices)]


class RotationForm(forms.Form):
    """How long the old key goes on, and why it is rotated."""

    grace = forms.ChoiceField(
        label="The old key",
        choices=[
            ("0", "is refused at once"),
            ("1", "goes on for an hour"),
            ("24", "goes on for a day"),
            ("168", "goes on for a week"),
            ("720", "goes on for thirty days"),
        ],
        initial="24",
        widget=SelectWidget,
        help_text="Long enough to bring the new key to whoever uses the old one. It never outlives its own expiry.",
    )
    reason = ReasonField()


@admin.register(AccessKey)
class AccessKeyAdmin(RecordAdmin):
    """Keys."""

    kind = RecordKind.KEY
    form = AccessKeyForm
    actions = ("revoke",)
    list_display = ("called", "shown", "state", "configurations", "models", "expires_at")
    list_filter = ("application",)
    list_select_related = ("application",)
    search_fields = ("name", "application__identifier", "prefix__startswith")
    search_help_text = "Name, application, or the beginning of a key."
    fieldsets = (
        (None, {"fields": ("application", "name", "expires_at")}),
        ("What it may ask for", {"fields": ("every_configuration", "allowed_configurations", "may_name_models")}),
        ("What may serve it", {"fields": ("every_model", "allowed_models")}),
        ("How much it may use", {"fields": LIMITS}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        fixed = [] if obj is None else ["application", "shown", "state", "created_at", "source"]
        return [*super().get_readonly_fields(request, obj), *fixed]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = list(super().get_fieldsets(request, obj))
        if obj is not None:
            fieldsets[0] = (None, {"fields": ("application", "name", "shown", "state", "expires_at", "created_at")})
        if obj is not None and not self.has_change_permission(request, obj):
            fieldsets[1:] = [
                ("What it allows", {"fields": ("configurations", "may_name_models", "models")}),
                fieldsets[-1],
            ]
        return fieldsets

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A revoked key is looked at only."""
        return super().has_change_permission(request, obj) and (obj is None or obj.revoked_at is None)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Calls name keys: a key is revoked, and its record stays."""
        return False

    def record_name(self, record: AccessKey) -> str:
        return name_of_key(record)

    def spoken_name(self, record: AccessKey) -> str:
        return f"{record.name} ({record.prefix}…)"

    def write(self, request: HttpRequest, filled: Filled) -> None:
        key: AccessKey = filled.record
        if filled.columns is not None:
            save_key(key, author=filled.author, reason=filled.reason, only=filled.columns)
            return
        secret = issue_key(key, author=filled.author, reason=filled.reason)
        vars(key)["issued_secret"] = secret  # until `response_add`; no column, so never stored

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        """Answer with a page instead of a redirect."""
        return self._show_secret(request, obj, vars(obj).pop("issued_secret"))

    def _show_secret(
        self, request: HttpRequest, key: AccessKey, secret: str, *, predecessor: AccessKey | None = None
    ) -> HttpResponse:
        """The page on which a secret is shown.

        The message with the key is written into this page alone. Django's messages would carry it in a cookie or in
        the session's row until some page showed it.
        """
        shown_once = Message(
            messages.SUCCESS,
            f"The key is {secret}: copy it now. It is not kept, and is not shown again.",
        )
        context = {
            **self.admin_site.each_context(request),
            "title": "Key issued",
            "opts": self.opts,
            "original": key,
            "predecessor": predecessor,
            "messages": [shown_once],
        }
        return TemplateResponse(request, "admin/governance/accesskey/issued.html", context)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.rotate_view)
        return [path("<path:object_id>/rotate/", view, name="governance_accesskey_rotate"), *super().get_urls()]

    def record_tools(self, request: HttpRequest, record: AccessKey) -> list[RecordTool]:
        if not self.may_rotate(request, record):
            return []
        return [RecordTool("Rotate", reverse("admin:governance_accesskey_rotate", args=[record.pk]), "autorenew")]

    def may_rotate(self, request: HttpRequest, key: AccessKey) -> bool:
        """Rotating issues a key and ends another: it takes the permission for both."""
        return self.has_add_permission(request) and self.has_change_permission(request, key)

    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask how long the old key shall go on; then show the new one, once."""
        key = self.get_object(request, unquote(object_id))
        if key is None:
            return self.nothing_there(request, object_id)
        if not self.may_rotate(request, key):
            raise PermissionDenied
        form = RotationForm(request.POST or None)
        if form.is_valid():
            grace, reason = timedelta(hours=int(form.cleaned_data["grace"])), form.cleaned_data["reason"]
            try:
                successor, secret = rotate_key(key, author=author_of(request), grace=grace, reason=reason)
            except ValidationError as refused:
                form.add_error(None, refused)
            else:
                return self._show_secret(request, successor, secret, predecessor=key)
        context = {
            **self.admin_site.each_context(request),
            "title": f"Rotate {key.name}",
            "opts": self.opts,
            "original": key,
            "form": form,
        }
        return TemplateResponse(request, "admin/governance/accesskey/rotate.html", context)

    @admin.display(description="name and application", ordering="name")
    def called(self, key: AccessKey) -> str:
        return two_lines(key.name, key.application.identifier)

    @admin.display(description="key")
    def shown(self, key: AccessKey) -> str:
        return figure(f"{key.prefix}…")

    @admin.display(description="state")
    def state(self, key: AccessKey) -> str:
        return state_of(key)

    @admin.display(description="may ask for")
    def configurations(self, key: AccessKey) -> str:
        return _allowed(key.allowed_configurations)

    @admin.display(description="served by")
    def models(self, key: AccessKey) -> str:
        return _allowed(key.allowed_models)

    @admin.action(description="Revoke for good", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[AccessKey]) -> HttpResponse | None:
        """Ask, and revoke when the answer comes back: a revoked key cannot be had again."""
        keys = list(queryset.filter(revoked_at=None).select_related("application"))
        if not keys:
            self.message_user(request, "The chosen keys were revoked before; nothing was changed.", messages.INFO)
            return None
        if "confirmed" not in request.POST:
            return TemplateResponse(
                request,
                "admin/governance/accesskey/revoke.html",
                {
                    **self.admin_site.each_context(request),
                    "title": "Revoke keys for good?",
                    "opts": self.opts,
                    "keys": keys,
                    "action_checkbox_name": ACTION_CHECKBOX_NAME,
                },
            )
        author = author_of(request)
        self.each(
            request,
            keys,
            lambda key: revoke_key(key, author=author),
            done="Revoked: {names}. Every process refuses them within a second.",
            nothing=NOT_NEEDED,
        )
        return None


def _allowed(names: Sequence[str] | None) -> str:
    if names is None:
        return "all"
    return ", ".join(names) or "none"
