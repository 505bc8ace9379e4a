"""What happened: calls with their attempts and decisions, and usage by day. To look at; nothing is changed here.

The lists stay fast however many rows there are: the order is that of an index; see ``governance.admin.finding``.
"""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet, prefetch_related_objects
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html

from governance.admin.cells import figure, two_lines
from governance.admin.finding import (
    MOST_COUNTED,
    ApplicationFilter,
    BoundedPaginator,
    ConfigurationFilter,
    ModelFilter,
    OperationFilter,
    OutcomeFilter,
    ProviderFilter,
    RequestedFilter,
    SearchedByBeginning,
    ServedModelFilter,
    ServedProviderFilter,
)
from governance.admin.records import ReadOnlyAdmin
from governance.admin.usage_report import usage_report
from governance.spelling import ABSENT, spell_cost
from governance.tab.explained import given_again, recorded_decision, recorded_page
from governance.tab.scenarios import scenario_answer
from governance.tab.words import outcome_words, reason_words
from routing.core.vocabulary import LABELS, SkipReason
from telemetry.models import Attempt, Call, DecisionRecord, UsageDay
from telemetry.outcomes import JUDGEMENT_LABELS


def attempt_words(attempt: Attempt) -> str:
    """How an attempt went, or why the route was passed over."""
    if not attempt.skip_reason:
        return outcome_words(attempt.failure_kind)
    try:
        return f"passed over: {LABELS[SkipReason(attempt.skip_reason)]}"
    except ValueError:
        return f"passed over: {attempt.skip_reason}"


@admin.register(Call)
class CallAdmin(SearchedByBeginning):
    """Calls."""

    change_form_template = "admin/telemetry/call/change_form.html"
    paginator = BoundedPaginator
    ordering = ("-started_at",)
    list_display = ("when", "asked", "route", "outcome", "took", "tokens", "cost")
    list_filter = (
        "started_at", OutcomeFilter, OperationFilter, ApplicationFilter, RequestedFilter, ServedProviderFilter,
        ServedModelFilter,
    )  # fmt: skip
    search_fields = ("application", "requested", "served_configuration", "served_provider", "served_model")
    search_help_text = (
        "A call's id, or the beginning of an application's, configuration's, provider's or model's identifier. "
        f"Pages reach back {MOST_COUNTED:,} calls; filter or search for older ones."
    )
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("outcome", "cost"),
                    ("took", "first_token"),
                    ("started_at", "id"),
                )
            },
        ),
        (
            "Asked",
            {
                "fields": (
                    ("requested", "operation", "in_pieces"),
                    ("application", "user"),
                    ("with_key", "source"),
                    "reported",
                )
            },
        ),
        (
            "Sent to and served by",
            {
                "fields": (
                    ("first_provider", "first_adapter_type"),
                    ("first_model", "first_model_id"),
                    ("served_provider", "served_adapter_type"),
                    ("served_model", "served_model_id"),
                    ("served_configuration", "response_model"),
                    ("requested_tier", "served_tier"),
                    ("requests_sent", "fallback_attempts", "retries"),
                    ("failure_kind", "error_class"),
                    "from_cache",
                )
            },
        ),
        (
            "Tokens, as the provider reported them",
            {
                "fields": (
                    "usage_coverage",
                    ("actual_input_tokens", "actual_cache_read_tokens", "actual_cache_write_tokens"),
                    ("actual_output_tokens", "actual_reasoning_tokens"),
                )
            },
        ),
        (
            "Size of the request",
            {
                "fields": (
                    ("facts_messages", "facts_turns"),
                    ("facts_tools", "facts_shape"),
                    ("facts_payload_bytes", "facts_token_estimate"),
                    ("context_percent", "complexity_score"),
                ),
                "classes": ("collapse",),
            },
        ),
        (
            "What decided",
            {
                "fields": (
                    ("policy_mode", "candidates", "preference"),
                    ("rejections",),
                    ("signals", "decision"),
                )
            },
        ),
    )

    @admin.display(description="when (UTC)")
    def when(self, call: Call) -> str:
        return figure(f"{call.started_at:%Y-%m-%d %H:%M:%S}")

    @admin.display(description="asked for")
    def asked(self, call: Call) -> str:
        return two_lines(call.requested, f"{call.application}, {call.operation}")

    @admin.display(description="served by")
    def route(self, call: Call) -> str:
        return two_lines(call.served_model, call.served_provider) if call.served_model else ABSENT

    @admin.display(description="outcome")
    def outcome(self, call: Call) -> str:
        if not call.success:
            return outcome_words(call.failure_kind or "failed")
        rescued = f", after {call.fallback_attempts} other route(s)" if call.fallback_attempts else ""
        return f"served{' from the cache' if call.cache_hit else ''}{rescued}"

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Call | None:
        """With the reports on its answer, which the page asks for several times."""
        call: Call | None = super().get_object(request, object_id, from_field)
        if call is not None:
            prefetch_related_objects([call], "outcomes")
        return call

    @admin.display(description="what became of the answer")
    def reported(self, call: Call) -> str:
        report = next(iter(call.outcomes.all()), None)  # the latest, which stands
        if report is None:
            return ABSENT
        known = {each.value: label for each, label in JUDGEMENT_LABELS.items()}
        words = known.get(report.judgement, report.judgement)
        return f"{words}, as the caller said on {report.reported_at:%Y-%m-%d at %H:%M} UTC"

    @admin.display(description="streamed")
    def in_pieces(self, call: Call) -> str:
        return "yes" if call.streamed else "no"

    @admin.display(description="from the cache")
    def from_cache(self, call: Call) -> str:
        """With the page of the call whose answer it was, without asking whether that is still there."""
        if call.replay_of is None:
            return "yes" if call.cache_hit else "no"
        page = reverse("admin:telemetry_call_change", args=[call.replay_of])
        return format_html('the answer of <a href="{}">{}</a>', page, call.replay_of)

    @admin.display(description="key")
    def with_key(self, call: Call) -> str:
        """The key's page, without asking whether the key is still there: it says so itself."""
        if not call.key:
            return ABSENT
        return format_html(
            '<a href="{}">{}</a>', reverse("admin:governance_accesskey_change", args=[call.key]), call.key
        )

    @admin.display(description="took")
    def took(self, call: Call) -> str:
        return figure(f"{call.latency_ms:,.0f} ms")

    @admin.display(description="first token after")
    def first_token(self, call: Call) -> str:
        return ABSENT if call.first_token_ms is None else f"{call.first_token_ms:,.0f} ms"

    @admin.display(description="refused for")
    def rejections(self, call: Call) -> str:
        return ", ".join(reason_words(each) for each in call.rejection_reasons.split(",") if each) or ABSENT

    @admin.display(description="tokens in / out")
    def tokens(self, call: Call) -> str:
        if call.actual_input_tokens is None or call.actual_output_tokens is None:
            return ABSENT
        cached = (call.actual_cache_read_tokens or 0) + (call.actual_cache_write_tokens or 0)
        return figure(f"{call.actual_input_tokens + cached:,} / {call.actual_output_tokens:,}")

    @admin.display(description="cost")
    def cost(self, call: Call) -> str:
        return figure(spell_cost(call.actual_cost_nanos, call.cost_currency))

    @admin.display(description="signals that moved it")
    def signals(self, call: Call) -> str:
        moved = {
            "quality": call.routing_signal_quality,
            "health": call.routing_signal_health,
            "list price": call.routing_signal_cost,
            "latency": call.routing_signal_latency,
            "cost of a call": call.routing_signal_call_cost,
        }
        return ", ".join(name for name, used in moved.items() if used) or "none"

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        explanation = self.explanation(context["original"])
        return super().render_change_form(request, {**context, **explanation}, *args, **kwargs)

    def explanation(self, call: Call) -> dict[str, Any]:
        """What the page shows besides the row: attempts, and why this model."""
        attempts = [
            {
                "row": each,
                "outcome": attempt_words(each),
                "cost": spell_cost(each.cost_nanos, each.cost_currency),
                "waited": ABSENT if each.skip_reason else f"{each.waited_ms:,.0f} ms",
                "took": ABSENT if each.skip_reason else f"{each.latency_ms:,.0f} ms",
                "tokens": ABSENT if each.output_tokens is None else f"{each.output_tokens:,}",
            }
            for each in call.attempts.all()
        ]
        record = call.decision
        return {
            "attempts": attempts,
            "decision": None if record is None else recorded_page(record.document, application=call.application),
            "decision_recorded": record is not None,
            "given_again": given_again(call),
            "served_route": f"{call.served_provider}/{call.served_model}",
            "scenario_url": "" if record is None else scenario_url(record),
        }


@admin.register(Attempt)
class AttemptAdmin(SearchedByBeginning):
    """Attempts."""

    id_column = "call"
    paginator = BoundedPaginator
    ordering = ("-pk",)
    list_display = ("when", "number", "route", "outcome", "took", "cost")
    list_filter = ("started_at", ProviderFilter, ModelFilter)
    search_fields = ("provider", "model", "configuration")
    search_help_text = "A call's id, or the beginning of a provider's, model's or configuration's identifier."
    list_select_related = ("call",)
    fieldsets = (
        (None, {"fields": (("outcome", "cost"), ("started_at", "number"), ("waited", "took"), "call")}),
        ("Sent to", {"fields": (("provider", "adapter_type"), ("model", "model_id"), "configuration")}),
        ("What came back", {"fields": (("failure_kind", "error_code"), ("skip_reason", "output_tokens"))}),
    )

    @admin.display(description="when (UTC)")
    def when(self, attempt: Attempt) -> str:
        return figure(f"{attempt.started_at:%Y-%m-%d %H:%M:%S}")

    @admin.display(description="attempt")
    def number(self, attempt: Attempt) -> str:
        return f"{attempt.index + 1}."

    @admin.display(description="sent to")
    def route(self, attempt: Attempt) -> str:
        return two_lines(attempt.model, attempt.provider)

    @admin.display(description="waited before it")
    def waited(self, attempt: Attempt) -> str:
        return ABSENT if attempt.skip_reason else figure(f"{attempt.waited_ms:,.0f} ms")

    @admin.display(description="took")
    def took(self, attempt: Attempt) -> str:
        return ABSENT if attempt.skip_reason else figure(f"{attempt.latency_ms:,.0f} ms")

    @admin.display(description="outcome")
    def outcome(self, attempt: Attempt) -> str:
        return attempt_words(attempt)

    @admin.display(description="cost")
    def cost(self, attempt: Attempt) -> str:
        return figure(spell_cost(attempt.cost_nanos, attempt.cost_currency))


def scenario_url(record: DecisionRecord) -> str:
    """Where a decision is had as a scenario."""
    return reverse("admin:telemetry_decisionrecord_scenario", args=[record.pk])


@admin.register(DecisionRecord)
class DecisionRecordAdmin(ReadOnlyAdmin):
    """Decisions, each stored once however many calls it decided."""

    change_form_template = "admin/telemetry/decisionrecord/change_form.html"
    paginator = BoundedPaginator
    ordering = ("-pk",)
    list_display = ("digest", "created_at")
    fields = ("digest", "created_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[DecisionRecord]:
        return super().get_queryset(request).defer("document")

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        page = recorded_page(context["original"].document)
        further = {"decision": page, "decision_recorded": True, "scenario_url": scenario_url(context["original"])}
        return super().render_change_form(request, {**context, **further}, *args, **kwargs)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.scenario_view)
        name = "telemetry_decisionrecord_scenario"
        return [path("<path:object_id>/scenario.json", view, name=name), *super().get_urls()]

    def scenario_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The decision as a scenario that ``manage.py explain`` reads."""
        record = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, record):
            raise PermissionDenied
        decision = None if record is None else recorded_decision(record.document)
        if record is None or decision is None:
            raise Http404("There is no such decision, or it was recorded in a form that this version does not read.")
        made = f"{record.created_at:%Y-%m-%d %H:%M} UTC"
        name = f"decision-{record.digest[:12]}"
        return scenario_answer(decision, name=name, description=f"Decision {record.digest[:12]}, {made}.")


@admin.register(UsageDay)
class UsageDayAdmin(SearchedByBeginning):
    """Usage by day."""

    paginator = BoundedPaginator
    ordering = ("-day",)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.report_view)
        return [path("report/", view, name="telemetry_usageday_report"), *super().get_urls()]

    def report_view(self, request: HttpRequest) -> HttpResponse:
        """What was used, summed."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return usage_report(request, opts=self.opts, context=self.admin_site.each_context(request))

    list_display = ("day", "asked", "route", "how_many", "tokens", "cost")
    list_filter = (
        "day", ApplicationFilter, ConfigurationFilter, ProviderFilter, ModelFilter, OperationFilter,
    )  # fmt: skip
    search_fields = ("application", "configuration", "provider", "model", "user", "source")
    search_help_text = "The beginning of an identifier, a user or a source."

    fieldsets = (
        (None, {"fields": (("day", "how_many"), ("tokens", "cost"))}),
        ("Asked", {"fields": (("application", "user"), ("key", "source"), ("configuration", "operation"))}),
        ("Served by", {"fields": (("provider", "model"),)}),
        (
            "Tokens",
            {
                "fields": (
                    ("input_tokens", "cache_read_tokens", "cache_write_tokens"),
                    ("output_tokens", "reasoning_tokens"),
                )
            },
        ),
    )

    @admin.display(description="asked for")
    def asked(self, usage: UsageDay) -> str:
        return two_lines(usage.configuration or ABSENT, f"{usage.application}, {usage.operation}")

    @admin.display(description="served by")
    def route(self, usage: UsageDay) -> str:
        return two_lines(usage.model, usage.provider) if usage.model else ABSENT

    @admin.display(description="requests")
    def how_many(self, usage: UsageDay) -> str:
        return two_lines(f"{usage.requests:,}", f"{usage.failures:,} failed" if usage.failures else "")

    @admin.display(description="tokens in / out")
    def tokens(self, usage: UsageDay) -> str:
        return figure(f"{usage.input_tokens:,} / {usage.output_tokens:,}")

    @admin.display(description="cost")
    def cost(self, usage: UsageDay) -> str:
        cost = spell_cost(usage.cost_nanos, usage.currency)
        return two_lines(cost, f"{usage.unpriced_requests:,} unpriced" if usage.unpriced_requests else "")
