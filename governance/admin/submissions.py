"""Calls that were handed in, and batches of them: how far they are, which worker has them, what became of them.

What was asked and answered is shown to nobody here; whoever handed a call in reads its answer. The one thing that an
operator may do is to withdraw what no worker has taken up yet.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html

from governance.access.authors import author_of
from governance.admin.audit import WordFilter
from governance.admin.cells import figure, two_lines
from governance.admin.finding import (
    ApplicationFilter,
    BoundedPaginator,
    RequestedFilter,
    SearchedByBeginning,
    call_id,
)
from governance.admin.generic import TextWidget
from governance.admin.records import RecordTool
from governance.models import OPEN, STATE_LABELS, STATE_MEANINGS, Batch, StoredContent, Submission, SubmissionState
from governance.spelling import ABSENT
from governance.submissions.intake import cancel, cancel_batch
from governance.submissions.readouts import BatchProgress, progress_of
from governance.tab.words import outcome_words
from telemetry.models import Call

_MOMENT = "%Y-%m-%d %H:%M:%S"
_ENDS = tuple(state for state in SubmissionState if state not in OPEN)


class StateFilter(WordFilter):
    title = "state"
    parameter_name = "state"
    words = tuple(STATE_LABELS.items())


class WithdrawalForm(forms.Form):
    """Why."""

    reason = forms.CharField(
        label="Reason",
        required=False,
        max_length=500,
        widget=TextWidget(attrs={"autocomplete": "off"}),
        help_text="Why, for whoever reads the audit trail later. May stay empty.",
    )


class WithdrawnAdmin(SearchedByBeginning):
    """Rows to look at, of which what is still queued can be withdrawn, on a page that asks first."""

    paginator = BoundedPaginator
    ordering = ("-pk",)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.withdraw_view)
        return [path("<path:object_id>/cancel/", view, name=self._withdraw_name), *super().get_urls()]

    @property
    def _withdraw_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_cancel"

    def may_withdraw(self, request: HttpRequest) -> bool:
        """Whether the visitor may. Nothing else of these rows can be changed, by anybody."""
        return request.user.has_perm("governance.change_submission")

    def queued(self, row: Any) -> int:
        """How many calls there are to withdraw."""
        raise NotImplementedError

    def withdraw(self, request: HttpRequest, row: Any, reason: str) -> int:
        """Withdraw them; gives how many they were."""
        raise NotImplementedError

    def withdraw_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask, and withdraw when the answer comes back."""
        if not self.may_withdraw(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            missing: HttpResponse = self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
                request, self.opts, object_id
            )
            return missing
        back = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk])
        form = WithdrawalForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            try:
                withdrawn = self.withdraw(request, row, form.cleaned_data["reason"])
            except ValidationError as refused:
                form.add_error(None, refused)
            else:
                self._tell(request, withdrawn)
                return HttpResponseRedirect(back)
        context = {
            **self.admin_site.each_context(request),
            "title": f"Withdraw {self.opts.verbose_name} {row}?",
            "opts": self.opts,
            "original": row,
            "form": form,
            "queued": self.queued(row),
            "back": back,
        }
        return TemplateResponse(request, "admin/governance/submission/cancel.html", context)

    def _tell(self, request: HttpRequest, withdrawn: int) -> None:
        if withdrawn:
            self.message_user(request, f"Withdrawn: {withdrawn:,} call(s). Nothing was sent.", messages.SUCCESS)
        else:
            self.message_user(request, "Nothing was withdrawn: no call is queued any more.", messages.INFO)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        row = context["original"]
        tools = []
        if self.may_withdraw(request) and self.queued(row):
            tools = [RecordTool("Withdraw", reverse(f"admin:{self._withdraw_name}", args=[row.pk]), "cancel")]
        return super().render_change_form(request, {**context, "record_tools": tools}, *args, **kwargs)


@admin.register(Submission)
class SubmissionAdmin(WithdrawnAdmin):
    """Calls that were handed in."""

    list_display = ("when", "asked", "where", "tried", "took", "part_of")
    list_filter = (StateFilter, "submitted_at", ApplicationFilter, RequestedFilter)
    search_fields = ("application", "requested", "user")
    search_help_text = "The id of a call or of a task, or the beginning of an application's, configuration's or user's."
    fieldsets = (
        (None, {"fields": (("state_now", "failure"), "meaning", "the_call")}),
        (
            "Asked",
            {"fields": (("requested", "application"), ("user", "source"), ("key", "by_task"), "limits", "part_of")},
        ),
        (
            "On its way",
            {
                "fields": (
                    ("submitted", "started"),
                    ("sent", "ended"),
                    ("deliveries", "worker"),
                    "held",
                )
            },
        ),
        ("What was said", {"fields": ("content",)}),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        found, distinct = super().get_search_results(request, queryset, search_term)
        if search_term.strip() and call_id(search_term) is None:
            found |= queryset.filter(task=search_term.strip())
        return found, distinct

    def queued(self, row: Submission) -> int:
        return int(row.state == SubmissionState.QUEUED)

    def withdraw(self, request: HttpRequest, row: Submission, reason: str) -> int:
        return int(cancel(row.pk, author=author_of(request), reason=reason))

    @admin.display(description="submitted (UTC)")
    def when(self, row: Submission) -> str:
        return figure(f"{row.submitted_at:{_MOMENT}}")

    @admin.display(description="asked for")
    def asked(self, row: Submission) -> str:
        return two_lines(row.requested, row.application)

    @admin.display(description="state")
    def where(self, row: Submission) -> str:
        return two_lines(state_words(row.state), outcome_words(row.failure_kind) if row.failure_kind else "")

    @admin.display(description="state")
    def state_now(self, row: Submission) -> str:
        return state_words(row.state)

    @admin.display(description="failure")
    def failure(self, row: Submission) -> str:
        if not row.failure_kind:
            return ABSENT
        return f"{outcome_words(row.failure_kind)}{f' ({row.failure_code})' if row.failure_code else ''}"

    @admin.display(description="which means")
    def meaning(self, row: Submission) -> str:
        return meaning_of(row.state)

    @admin.display(description="deliveries")
    def tried(self, row: Submission) -> str:
        return two_lines(str(row.deliveries), row.worker)

    @admin.display(description="took")
    def took(self, row: Submission) -> str:
        return figure(ABSENT if row.ended_at is None else spell_seconds(row.submitted_at, row.ended_at))

    @admin.display(description="batch")
    def part_of(self, row: Submission) -> str:
        if row.batch_id is None or row.position is None:
            return ABSENT
        batch = reverse("admin:governance_batch_change", args=[row.batch_id])
        return format_html('<a class="sb-link" href="{}">place {}</a>', batch, row.position + 1)

    @admin.display(description="call")
    def the_call(self, row: Submission) -> str:
        if not Call.objects.filter(pk=row.pk).exists():
            return f"{row.pk} (nothing is recorded of it yet)" if row.state in OPEN else f"{row.pk} (not recorded)"
        return format_html(
            '<a class="sb-link" href="{}">{}</a>', reverse("admin:telemetry_call_change", args=[row.pk]), row.pk
        )

    @admin.display(description="task")
    def by_task(self, row: Submission) -> str:
        return ABSENT if row.task == str(row.pk) else row.task

    @admin.display(description="limits")
    def limits(self, row: Submission) -> str:
        said = ["on our own machines only"] if row.on_device else []
        said += [] if row.max_cost_nanos is None else ["a ceiling for its cost"]
        return ", ".join(said) or "none of its own"

    @admin.display(description="submitted")
    def submitted(self, row: Submission) -> str:
        return spell_moment(row.submitted_at)

    @admin.display(description="taken up")
    def started(self, row: Submission) -> str:
        return spell_moment(row.started_at, since=row.submitted_at)

    @admin.display(description="request announced")
    def sent(self, row: Submission) -> str:
        return spell_moment(row.sent_at, since=row.submitted_at)

    @admin.display(description="ended")
    def ended(self, row: Submission) -> str:
        return spell_moment(row.ended_at, since=row.submitted_at)

    @admin.display(description="looked after")
    def held(self, row: Submission) -> str:
        if row.due_at is None:
            return "It has ended; nothing more is done about it."
        if row.due_at <= timezone.now():
            return "Its time has passed: the next sweep looks after it."
        if row.state == SubmissionState.QUEUED and row.waits_until is not None:
            return f"until {row.due_at:{_MOMENT}} UTC it waits for a rate or quota, {row.waits} times so far"
        held = "its worker's, which renews it" if row.state == SubmissionState.RUNNING else "for its message to arrive"
        return f"until {row.due_at:{_MOMENT}} UTC, {held}"

    @admin.display(description="content")
    def content(self, row: Submission) -> str:
        """Where it is, and never what it is."""
        kept = StoredContent.objects.filter(pk__in=[row.outcome_id, row.request_id])  # not what is sealed in them
        found = kept.values_list("kind", "expires_at").first()
        if found is None:
            return "Nothing is kept any more." if row.due_at is None else "Nothing is kept."
        kind, until = found
        if row.outcome_id is None:
            return f"The request is kept sealed until the call ends, at most until {until:{_MOMENT}} UTC."
        return f"The {kind} is kept sealed until {until:{_MOMENT}} UTC, for the application that asked."


class _ShowsProgress:
    """A list that knows how far each of its batches is, by one query."""

    result_list: Iterable[Any]

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)  # type: ignore[misc]
        rows = list(self.result_list)
        progress = progress_of(rows)
        for row in rows:
            vars(row)["progress"] = progress[row.pk]
        self.result_list = rows


@admin.register(Batch)
class BatchAdmin(WithdrawnAdmin):
    """Batches."""

    change_form_template = "admin/governance/batch/change_form.html"
    list_display = ("when", "application", "progress", "troubles", "took")
    list_filter = ("submitted_at", ApplicationFilter)
    search_fields = ("application",)
    search_help_text = "A batch's id, or the beginning of an application's."
    fieldsets = ((None, {"fields": (("application", "source"), ("submitted", "key"))}),)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return type("BatchList", (_ShowsProgress, super().get_changelist(request, **kwargs)), {})

    def queued(self, row: Batch) -> int:
        return row.submissions.filter(state=SubmissionState.QUEUED.value).count()

    def withdraw(self, request: HttpRequest, row: Batch, reason: str) -> int:
        return cancel_batch(row.pk, author=author_of(request), reason=reason)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        batch: Batch = context["original"]
        progress = progress_of([batch])[batch.pk]
        rows = reverse("admin:governance_submission_changelist")
        states = [
            {
                "label": STATE_LABELS[state],
                "meaning": STATE_MEANINGS[state],
                "count": progress.counts[state],
                "link": f"{rows}?batch={batch.pk}&state={state.value}",
            }
            for state in SubmissionState
            if progress.counts.get(state)
        ]
        shown = {"progress": progress, "states": states, "rows": f"{rows}?batch={batch.pk}"}
        return super().render_change_form(request, {**context, **shown}, *args, **kwargs)

    @admin.display(description="submitted (UTC)")
    def when(self, row: Batch) -> str:
        return figure(f"{row.submitted_at:{_MOMENT}}")

    @admin.display(description="submitted")
    def submitted(self, row: Batch) -> str:
        return spell_moment(row.submitted_at)

    @admin.display(description="ended")
    def progress(self, row: Batch) -> str:
        found = _progress(row)
        return format_html(
            '<span class="sb-cell">{} of {}<progress class="sb-meter" max="{}" value="{}" aria-label="calls that have '
            'ended"></progress></span>',
            f"{found.ended:,}", f"{found.size:,}", found.size, found.ended,
        )  # fmt: skip

    @admin.display(description="of which")
    def troubles(self, row: Batch) -> str:
        counts = _progress(row).counts
        return ", ".join(
            f"{counts[state]:,} {STATE_LABELS[state].lower()}" for state in _ENDS if counts.get(state)
        ) or (ABSENT)

    @admin.display(description="took")
    def took(self, row: Batch) -> str:
        ended_at = _progress(row).ended_at
        return figure(ABSENT if ended_at is None else spell_seconds(row.submitted_at, ended_at))


def _progress(row: Batch) -> BatchProgress:
    found: BatchProgress = vars(row)["progress"]
    return found


def state_words(stored: str) -> str:
    """A state in words; the state itself where this version knows no words for it."""
    return {each.value: label for each, label in STATE_LABELS.items()}.get(stored, stored)


def meaning_of(stored: str) -> str:
    """What a state means."""
    return {each.value: words for each, words in STATE_MEANINGS.items()}.get(stored, ABSENT)


def spell_seconds(begin: datetime, end: datetime) -> str:
    """How long something took."""
    seconds = (end - begin).total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def spell_moment(moment: datetime | None, *, since: datetime | None = None) -> str:
    """A moment, and how long after another one it was."""
    if moment is None:
        return ABSENT
    after = "" if since is None else f" (after {spell_seconds(since, moment)})"
    return f"{moment:{_MOMENT}} UTC{after}"
