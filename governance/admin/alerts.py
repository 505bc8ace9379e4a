"""Alerts: what budgets have crossed, the webhooks that are told of it, and how that went."""

from collections import defaultdict
from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin import SimpleListFilter
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join

from budgets.crossings import percent_of
from budgets.models import Crossing
from budgets.scopes import scope_of
from governance.access.authors import author_of
from governance.admin.cells import figure, two_lines
from governance.admin.finding import BoundedPaginator
from governance.admin.generic import PasswordWidget, SwitchWidget
from governance.admin.records import Filled, NamedRecordAdmin, ReadOnlyAdmin, RecordForm, RecordTool
from governance.alerts.addresses import LONGEST_ADDRESS
from governance.alerts.outbox import MOST_ATTEMPTS
from governance.audit.actions import RecordKind
from governance.changes.webhooks import check_webhook_secret, read_address, save_webhook, send_again
from governance.models import AlertDelivery, Budget, DeliveryState, Webhook
from governance.settings_store.store import load_settings
from governance.spelling import spell_cost
from governance.telling import try_webhook
from routing.vault import Vault

SECRET_FIELDS = ("secret", "renew_secret")

_URL_HELP = (
    "Where alerts are posted to. One that is not public needs an entry in SIGNALBOX_OUTBOUND_ALLOW. What follows a "
    "question mark is stored encrypted and never shown again: it stays while the URL does, and is forgotten with a "
    "bare question mark at the end, or with another URL."
)


class WebhookForm(RecordForm):
    """A webhook, and a secret for it that is not read back."""

    secret = forms.CharField(
        label="Another secret",
        required=False,
        max_length=200,
        widget=PasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="whsec_ and 24 to 64 bytes in base64. Stored encrypted and never shown again. Left empty, the stored "
        "one stays; where there is none, one is made and shown once.",
    )
    renew_secret = forms.BooleanField(
        label="Make another secret",
        required=False,
        widget=SwitchWidget,
        help_text="It takes the place of the stored one at once, and is shown once.",
    )

    class Meta:
        model = Webhook
        fields = "__all__"

    def clean_url(self) -> str:
        """The URL up to its path; what follows goes beside it."""
        try:
            url, self.cleaned_data["query"] = read_address(self.cleaned_data["url"])
        except ValidationError as refused:
            raise ValidationError(refused.messages) from None
        return url

    def clean_secret(self) -> str:
        secret: str = self.cleaned_data["secret"]
        try:
            if secret:
                check_webhook_secret(secret)
        except ValidationError as refused:
            raise ValidationError(refused.messages) from None
        return secret


@admin.register(Webhook)
class WebhookAdmin(NamedRecordAdmin):
    """Webhooks."""

    kind = RecordKind.WEBHOOK
    form = WebhookForm
    list_display = ("called", "posts_to", "stored_secret", "is_active")
    readonly_fields = ("posts_to", "stored_secret")
    fieldsets = (
        (None, {"fields": ("name", "identifier", "url", "posts_to", "is_active")}),
        ("Secret that messages are signed with", {"fields": ("stored_secret", *SECRET_FIELDS)}),
    )

    def get_urls(self) -> list[Any]:
        test = path("<path:object_id>/try/", self.admin_site.admin_view(self.try_view), name="governance_webhook_try")
        return [test, *super().get_urls()]

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "is_active":
            kwargs["help_text"] = "Switched off, it is sent nothing; alerts of the last three days wait."
        if db_field.name == "url":
            kwargs |= {"help_text": _URL_HELP, "max_length": LONGEST_ADDRESS}
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Without what enters a secret where nothing may be entered, and what renews one where there is none."""
        if obj is None:
            left_out: tuple[str, ...] = ("posts_to", "stored_secret", "renew_secret")
        else:
            left_out = () if self.has_change_permission(request, obj) else SECRET_FIELDS
        return [
            (title, {**options, "fields": [name for name in options["fields"] if name not in left_out]})
            for title, options in super().get_fieldsets(request, obj)
        ]

    def record_tools(self, request: HttpRequest, record: Webhook) -> list[RecordTool]:
        if not self.has_change_permission(request, record):
            return []
        address = reverse("admin:governance_webhook_try", args=[record.pk])
        return [RecordTool("Send a test", address, "play_arrow")]

    def try_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Send a test alert and say what became of it."""
        webhook = self.get_object(request, unquote(object_id))
        if webhook is None:
            return self.nothing_there(request, object_id)
        if not self.has_change_permission(request, webhook):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": f"Test {webhook}",
            "opts": self.opts,
            "original": webhook,
            "trial": try_webhook(webhook) if request.method == "POST" else None,
            "attempts": MOST_ATTEMPTS,
        }
        return TemplateResponse(request, "admin/signalbox/try_webhook.html", context)

    def needs_writing(self, form: Any) -> bool:
        return bool(form.cleaned_data.get("secret") or form.cleaned_data.get("renew_secret"))

    def write(self, request: HttpRequest, filled: Filled) -> None:
        made = save_webhook(
            filled.record,
            author=filled.author,
            reason=filled.reason,
            vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS),
            secret=filled.cleaned.get("secret", ""),
            renew=filled.cleaned.get("renew_secret", False),
            query=filled.cleaned.get("query"),
            only=filled.columns,
        )
        if made:
            words = format_html("The secret of {}, shown once: <code>{}</code>", filled.record.identifier, made)
            self.message_user(request, words, messages.WARNING)

    @admin.display(description="posts to", ordering="url")
    def posts_to(self, webhook: Webhook) -> str:
        return webhook.shown_url

    @admin.display(description="secret")
    def stored_secret(self, webhook: Webhook) -> str:
        return "none" if webhook.sealed_secret is None else f"ends in {webhook.secret_hint}"


class BudgetFilter(SimpleListFilter):
    """Of one budget, by the records there are."""

    title = "budget"
    parameter_name = "budget"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = Budget.objects.order_by("identifier").values_list("identifier", flat=True)
        return [(name, name) for name in names]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(budget=self.value()) if self.value() else queryset


def _told_since() -> datetime:
    """Since when it is kept what webhooks were told."""
    return timezone.now() - load_settings().deliveries_kept


class DeliveryFilter(SimpleListFilter):
    """By what became of them."""

    title = "delivery"
    parameter_name = "delivery"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [*((each.value, str(each.label)) for each in DeliveryState), ("none", "Nobody was told")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        rows = AlertDelivery.objects.filter(crossing__isnull=False)
        if self.value() == "none":
            return queryset.filter(at__gte=_told_since()).exclude(pk__in=rows.values("crossing"))
        if self.value() in DeliveryState.values:
            return queryset.filter(pk__in=rows.filter(state=self.value()).values("crossing"))
        return queryset


@admin.register(Crossing)
class CrossingAdmin(ReadOnlyAdmin):
    """Alerts: the thresholds that budgets have crossed, and that they refuse calls; each once in a window."""

    paginator = BoundedPaginator
    ordering = ("-pk",)
    list_display = ("when", "of_budget", "used", "where", "told")
    list_filter = (BudgetFilter, DeliveryFilter)
    list_select_related = ("account",)
    fieldsets = (
        (None, {"fields": ("when", "of_budget", "used", "where", "told")}),
        ("Figures of that moment", {"fields": (("part_limit", "part_spent"), ("part_uncertain", "part_needed"))}),
    )

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """With what became of the alerts of the page and the addresses of their budgets, in four queries."""
        changelist = super().get_changelist_instance(request)
        self._add_beside(changelist.result_list)
        return changelist

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        found = super().get_object(request, object_id, from_field)
        if found is not None:
            self._add_beside([found])
        return found

    def _add_beside(self, rows: Any) -> None:
        by_crossing: dict[int, list[AlertDelivery]] = defaultdict(list)
        found = AlertDelivery.objects.filter(crossing__in=[row.pk for row in rows]).select_related("webhook")
        for delivery in found.order_by("webhook__identifier"):
            by_crossing[delivery.crossing or 0].append(delivery)
        names = {row.budget for row in rows}
        budgets = dict(Budget.objects.filter(identifier__in=names).values_list("identifier", "pk"))
        since = _told_since()
        for row in rows:
            row.deliveries, row.budget_pk = by_crossing[row.pk], budgets.get(row.budget)
            row.is_forgotten = row.at < since

    @admin.display(description="when (UTC)")
    def when(self, crossing: Crossing) -> str:
        return figure(f"{crossing.at:%Y-%m-%d %H:%M:%S}")

    @admin.display(description="budget")
    def of_budget(self, crossing: Any) -> str:
        if crossing.budget_pk is None:
            return str(crossing.budget)
        address = reverse("admin:governance_budget_change", args=[crossing.budget_pk])
        return format_html('<a href="{}">{}</a>', address, crossing.budget)

    @admin.display(description="alert")
    def used(self, crossing: Crossing) -> str:
        percent = percent_of(crossing.spent, crossing.uncertain, limit=crossing.limit)
        return two_lines(crossing.told, f"at {percent} % of {self.part_limit(crossing)}")

    @admin.display(description="account")
    def where(self, crossing: Crossing) -> str:
        address = reverse("admin:budgets_account_change", args=[crossing.account_id])
        whose = format_html('<a href="{}">{}</a>', address, str(scope_of(crossing.account.scope)))
        return two_lines(whose, crossing.account.window)

    @admin.display(description="told")
    def told(self, crossing: Any) -> str:
        if not crossing.deliveries:
            return "not kept any more" if crossing.is_forgotten else "nobody"
        return format_html_join(
            "",
            '<div><a href="{}">{}</a> <span class="{} sb-small">{}</span></div>',
            (
                (
                    reverse("admin:governance_alertdelivery_change", args=[each.pk]),
                    each.webhook.identifier,
                    _STATE_CLASSES[DeliveryState(each.state)],
                    each.get_state_display(),
                )
                for each in crossing.deliveries
            ),
        )

    @admin.display(description="limit")
    def part_limit(self, crossing: Crossing) -> str:
        return spell_cost(crossing.limit, crossing.account.currency)

    @admin.display(description="spent")
    def part_spent(self, crossing: Crossing) -> str:
        return spell_cost(crossing.spent, crossing.account.currency)

    @admin.display(description="uncertain")
    def part_uncertain(self, crossing: Crossing) -> str:
        return spell_cost(crossing.uncertain, crossing.account.currency)

    @admin.display(description="needed by a call")
    def part_needed(self, crossing: Crossing) -> str:
        return spell_cost(crossing.needed, crossing.account.currency)


_STATE_CLASSES = {
    DeliveryState.WAITING: "sb-quiet",
    DeliveryState.DELIVERED: "sb-good",
    DeliveryState.FAILED: "sb-bad",
}


@admin.register(AlertDelivery)
class AlertDeliveryAdmin(ReadOnlyAdmin):
    """What each webhook was told, and how that went."""

    actions = ("send_again",)
    paginator = BoundedPaginator
    ordering = ("-created_at", "pk")
    list_display = ("when", "of_webhook", "about", "state", "tries", "last_error")
    list_filter = ("state", "webhook")
    list_select_related = ("webhook",)
    search_fields = ("budget__exact",)
    search_help_text = "Identifier of a budget."
    fieldsets = (
        (None, {"fields": ("when", "of_webhook", "about", "state", "tries", "last_status", "last_error")}),
        ("Message", {"fields": ("id", "payload")}),
    )

    def has_send_permission(self, request: HttpRequest) -> bool:
        """Who may send an alert again. Nothing else of these rows can be changed, by anybody."""
        return request.user.has_perm("governance.change_alertdelivery")

    @admin.action(description="Send again what has failed", permissions=["send"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[AlertDelivery]) -> None:
        author = author_of(request)
        failed = queryset.filter(state=DeliveryState.FAILED).values_list("pk", flat=True)
        done = sum(send_again(delivery, author=author) for delivery in list(failed))
        words = f"{done} are sent again within seconds." if done else "None of them has failed."
        self.message_user(request, words, messages.SUCCESS if done else messages.INFO)

    @admin.display(description="made (UTC)")
    def when(self, delivery: AlertDelivery) -> str:
        return figure(f"{delivery.created_at:%Y-%m-%d %H:%M:%S}")

    @admin.display(description="webhook")
    def of_webhook(self, delivery: AlertDelivery) -> str:
        address = reverse("admin:governance_webhook_change", args=[delivery.webhook_id])
        return format_html('<a href="{}">{}</a>', address, delivery.webhook.identifier)

    @admin.display(description="about")
    def about(self, delivery: AlertDelivery) -> str:
        if delivery.crossing is None:
            return "a test"
        address = reverse("admin:budgets_crossing_change", args=[delivery.crossing])
        return format_html('<a href="{}">{}</a>', address, delivery.budget)

    @admin.display(description="tries")
    def tries(self, delivery: AlertDelivery) -> str:
        waits = delivery.state == DeliveryState.WAITING and delivery.due_at is not None
        following = f"next at {delivery.due_at:%Y-%m-%d %H:%M:%S}" if waits else ""
        return two_lines(f"{delivery.attempts} of {MOST_ATTEMPTS}", following)
