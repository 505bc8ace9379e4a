"""Budgets, how they stand, and the ledger behind them down to each call."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.html import format_html

from budgets.crossings import percent_of
from budgets.models import Account, Carryover, Entry, Hold
from budgets.readouts import standings
from budgets.scopes import scope_of
from governance.access.authors import author_of
from governance.access.budgets import spec_of
from governance.admin.cells import figure, two_lines
from governance.admin.fields import AmountField, PercentsField
from governance.admin.finding import BoundedPaginator
from governance.admin.generic import Column, InlineFormSet, ModelForm, SelectWidget
from governance.admin.places import PlacesInline, kept
from governance.admin.records import NamedRecordAdmin, ReadOnlyAdmin
from governance.audit.actions import RecordKind
from governance.changes.ledger import resolve
from governance.changes.rules import ladder_complaints
from governance.models import Budget, BudgetTier
from governance.spelling import ABSENT, spell_cost
from governance.tab.bars import bar_of
from routing.core.money import format_nanos
from routing.models import LanguageModel

AMOUNTS = ("limit", "increase")


class BudgetTierForm(ModelForm):
    """A step of the ladder, with a model that is not retired."""

    class Meta:
        model = BudgetTier
        fields = ("threshold", "model", "position")

    def __init__(self, *args: Any, models: Sequence[tuple[str, str]] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        named = self.instance.model
        if "model" in self.fields:
            stored = [] if not named or named in dict(models) else [(named, f"{named} (retired)")]
            choices = [("", "Choose a model"), *models, *stored]
            said = self.fields["model"].widget.attrs["aria-label"]
            self.fields["model"] = forms.ChoiceField(choices=choices, widget=SelectWidget({"aria-label": said}))


class LadderFormSet(InlineFormSet):
    """The ladder of a budget."""

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        """With the models that may be chosen, read once for all rows."""
        return {**super().get_form_kwargs(index), "models": self._models}

    @cached_property
    def _models(self) -> list[tuple[str, str]]:
        rows = LanguageModel.objects.filter(retired_at=None).order_by("identifier").values_list("identifier", "name")
        return [(identifier, f"{identifier} ({name})" if name else identifier) for identifier, name in rows]

    def clean(self) -> None:
        super().clean()
        steps = [
            BudgetTier(threshold=form.cleaned_data["threshold"], model=form.cleaned_data["model"])
            for form in kept(self, "threshold")
            if form.cleaned_data.get("model")
        ]
        complaints = [words for words in ladder_complaints(self.instance, steps).values() if words]
        if complaints and not any(self.errors):
            raise ValidationError(complaints)


class LadderInline(PlacesInline):
    """The ladder."""

    model = BudgetTier
    form = BudgetTierForm
    formset = LadderFormSet
    extra = 1
    ordering_field = "position"
    verbose_name = "tier"
    verbose_name_plural = "tiers (from so many per cent of the limit on, this model serves instead)"


@admin.register(Budget)
class BudgetAdmin(NamedRecordAdmin):
    """Budgets."""

    kind = RecordKind.BUDGET
    inlines = (LadderInline,)
    list_display = ("called", "whose", "most", "standing", "is_active")
    list_filter = (*NamedRecordAdmin.list_filter, "is_hard", "window")
    search_fields = ("identifier", "name", "application", "user", "provider", "configuration")
    search_help_text = "Identifier or name, or whose it is."
    fieldsets = (
        (None, {"fields": ("name", "identifier", "is_active")}),
        ("Limit", {"fields": (("limit", "currency"), "is_hard", "unpriced")}),
        ("Counted by", {"fields": (("window", "zone"),)}),
        (
            "Whose spending",
            {
                "fields": (("application", "key"), "user", ("configuration", "provider")),
                "description": "All that are named have to fit. Without any it is the whole installation.",
            },
        ),
        ("For a while", {"fields": ("increase", "increase_until")}),
        ("Alerts", {"fields": ("alert_thresholds",)}),
        ("When models serve instead", {"fields": ("enforce_targets",)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Budget]:
        return super().get_queryset(request).prefetch_related("tiers")

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """With how the budgets of the page stand, of many accounts the fullest: two queries at the most."""
        changelist = super().get_changelist_instance(request)
        found = standings([spec_of(row) for row in changelist.result_list], now=timezone.now(), most=1)
        for row in changelist.result_list:
            row.standings = found[row.identifier]
        return changelist

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = list(super().get_fieldsets(request, obj))
        return fieldsets if obj is None else [("Now", {"fields": ("accounts",)}), *fieldsets]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [*super().get_readonly_fields(request, obj), *([] if obj is None else ["accounts"])]

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: Any) -> forms.Field | None:
        if db_field.name in AMOUNTS:
            label = str(db_field.verbose_name)
            return AmountField(
                label=label[:1].upper() + label[1:], required=not db_field.blank, help_text=str(db_field.help_text)
            )
        if db_field.name == "alert_thresholds":
            return PercentsField(label="At per cents of the limit", required=False, help_text=str(db_field.help_text))
        if db_field.name == "is_active":
            kwargs["help_text"] = "Switched off, it counts and refuses nothing."
        field: forms.Field | None = super().formfield_for_dbfield(db_field, request, **kwargs)
        return field

    @admin.display(description="whose spending")
    def whose(self, budget: Budget) -> str:
        return str(spec_of(budget).scope)

    @admin.display(description="limit")
    def most(self, budget: Budget) -> str:
        kind = "hard" if budget.is_hard else "soft"
        limit = spell_cost(spec_of(budget).limit_at(timezone.now()), budget.currency)
        return two_lines(limit, f"{budget.get_window_display().split(',')[0].lower()}, {kind}")

    @admin.display(description="used now")
    def standing(self, budget: Any) -> str:
        if not budget.standings:
            return ABSENT
        return render_to_string(
            "admin/governance/budget/_bar.html", {"row": bar_of(budget.standings[0], spec_of(budget))}
        )

    @admin.display(description="used")
    def accounts(self, budget: Budget) -> str:
        """How it stands in the window of this moment, account by account."""
        spec = spec_of(budget)
        found = standings([spec], now=timezone.now())[budget.identifier]
        rows = [bar_of(each, spec) for each in found]
        return render_to_string("admin/governance/budget/_accounts.html", {"rows": rows})


@admin.register(Account)
class AccountAdmin(ReadOnlyAdmin):
    """Accounts of the ledger."""

    paginator = BoundedPaginator
    ordering = ("-pk",)
    list_display = ("counted", "window", "part_spent", "part_reserved", "part_uncertain")
    search_fields = ("window",)
    search_help_text = "A part of a window's name, such as 2026-11."
    fieldsets = (
        (None, {"fields": ("counted", "window", ("starts_at", "ends_at"), "opened_at")}),
        ("Balance", {"fields": (("part_spent", "part_reserved", "part_uncertain"), "unmeasured")}),
        ("Alerts", {"fields": ("crossed",)}),
        ("Entries", {"fields": ("latest",)}),
    )

    @admin.display(description="by budget")
    def crossed(self, account: Account) -> str:
        """What was crossed in it and whether calls were refused, and with which figures."""
        rows = [
            {
                "budget": each.budget,
                "told": each.told,
                "percent": percent_of(each.spent, each.uncertain, limit=each.limit),
                "at": each.at,
                **{part: spell_cost(getattr(each, part), account.currency) for part in ("spent", "uncertain", "limit")},
            }
            for each in account.crossings.order_by("pk")
        ]
        return render_to_string("admin/governance/budget/_crossings.html", {"rows": rows})

    @admin.display(description="whose spending")
    def counted(self, account: Account) -> str:
        return two_lines(str(scope_of(account.scope)), account.currency)

    @admin.display(description="spent")
    def part_spent(self, account: Account) -> str:
        beside = f"{account.unmeasured:,} unmeasured" if account.unmeasured else ""
        return two_lines(figure(spell_cost(account.spent, account.currency)), beside)

    @admin.display(description="reserved")
    def part_reserved(self, account: Account) -> str:
        return figure(spell_cost(account.reserved, account.currency))

    @admin.display(description="uncertain")
    def part_uncertain(self, account: Account) -> str:
        return figure(spell_cost(account.uncertain, account.currency))

    @admin.display(description="all entries")
    def latest(self, account: Account) -> str:
        address = reverse("admin:budgets_entry_changelist")
        link = format_html('<a href="{}?account__id__exact={}">Every entry of this account</a>', address, account.pk)
        carried = Carryover.objects.filter(account=account).first()
        if carried is None:
            return link
        words = f"{carried.entries:,} older ones, up to {carried.until:%Y-%m-%d}, are carried over"
        spent = spell_cost(carried.spent, account.currency)
        return format_html("{}<br>{}: {} spent", link, words, spent)


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    """Entries of the ledger."""

    paginator = BoundedPaginator
    ordering = ("-pk",)
    list_display = ("when", "counted", "kind", "moved", "call_page")
    list_filter = ("kind",)
    list_select_related = ("account",)
    search_fields = ("call__exact",)
    search_help_text = "A call's id."
    fieldsets = (
        (None, {"fields": (("kind", "is_overrun"), ("at", "call_page"), "attempt", "counted")}),
        ("Moved", {"fields": (("spent", "reserved"), ("uncertain", "unmeasured"), "limit")}),
    )

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """With an account, which is chosen on its own page: there are as many as there are users."""
        return lookup == "account__id__exact" or super().lookup_allowed(lookup, value, request)

    @admin.display(description="when (UTC)")
    def when(self, entry: Entry) -> str:
        return figure(f"{entry.at:%Y-%m-%d %H:%M:%S}")

    @admin.display(description="account")
    def counted(self, entry: Entry) -> str:
        return two_lines(str(scope_of(entry.account.scope)), entry.account.window)

    @admin.display(description="moved")
    def moved(self, entry: Entry) -> str:
        parts = [
            f"{name} {'+' if amount > 0 else ''}{format_nanos(amount)}"
            for name, amount in (("spent", entry.spent), ("reserved", entry.reserved), ("uncertain", entry.uncertain))
            if amount
        ]
        words = ", ".join([*parts, *(["unmeasured +1"] if entry.unmeasured else [])]) or "nothing"
        beside = "overrun: more than was reserved" if entry.is_overrun else ""
        return two_lines(f"{words} {entry.account.currency}", beside)

    @admin.display(description="call")
    def call_page(self, entry: Entry) -> str:
        address = reverse("admin:telemetry_call_change", args=[entry.call])
        return format_html('<a href="{}">{}</a>', address, str(entry.call)[:8])


@admin.register(Hold)
class HoldAdmin(ReadOnlyAdmin):
    """What attempts hold: of those under way, and of those whose outcome nobody knows until somebody says it."""

    actions = ("book", "give_back")
    paginator = BoundedPaginator
    ordering = ("-pk",)
    list_display = ("when", "counted", "bound", "state", "call_page")
    list_filter = ("is_uncertain",)
    list_select_related = ("account",)
    search_fields = ("call__exact",)
    search_help_text = "A call's id."
    fieldsets = (
        (None, {"fields": ("counted", ("bound", "state"), ("held_at", "expires_at"), "call_page", "attempt")}),
    )

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        """Who may say what became of an attempt. Nothing else of these rows can be changed, by anybody."""
        return request.user.has_perm("budgets.change_hold")

    @admin.action(description="Book as spent: it was charged", permissions=["resolve"])
    def book(self, request: HttpRequest, queryset: QuerySet[Hold]) -> None:
        self._resolve(request, queryset, was_charged=True)

    @admin.action(description="Give back: it was not charged", permissions=["resolve"])
    def give_back(self, request: HttpRequest, queryset: QuerySet[Hold]) -> None:
        self._resolve(request, queryset, was_charged=False)

    def _resolve(self, request: HttpRequest, queryset: QuerySet[Hold], *, was_charged: bool) -> None:
        """In every account that the attempts hold something of, not only in those of the rows chosen."""
        attempts = dict.fromkeys(queryset.filter(is_uncertain=True).values_list("attempt", flat=True))
        author = author_of(request)
        done = sum(resolve(attempt, was_charged=was_charged, author=author) for attempt in attempts)
        words = f"{done} attempts {'booked as spent' if was_charged else 'given back'}."
        self.message_user(
            request, words if done else "None of them is uncertain.", messages.SUCCESS if done else messages.INFO
        )

    @admin.display(description="held since (UTC)")
    def when(self, hold: Hold) -> str:
        return figure(f"{hold.held_at:%Y-%m-%d %H:%M:%S}")

    @admin.display(description="account")
    def counted(self, hold: Hold) -> str:
        return two_lines(str(scope_of(hold.account.scope)), hold.account.window)

    @admin.display(description="bound")
    def bound(self, hold: Hold) -> str:
        return figure(spell_cost(hold.amount, hold.account.currency))

    @admin.display(description="state")
    def state(self, hold: Hold) -> str:
        return "uncertain" if hold.is_uncertain else "under way"

    @admin.display(description="call")
    def call_page(self, hold: Hold) -> str:
        address = reverse("admin:telemetry_call_change", args=[hold.call])
        return format_html('<a href="{}">{}</a>', address, str(hold.call)[:8])
