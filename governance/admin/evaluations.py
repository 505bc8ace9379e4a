"""Results of golden sets. Runs write them; a result from elsewhere may be entered, and a wrong one removed."""

from datetime import UTC
from typing import Any, ClassVar

from django.contrib import admin
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from governance.access.authors import author_of
from governance.admin.records import Filled, RecordAdmin, RecordForm
from governance.audit.actions import RecordKind
from governance.changes.records import name_of_evaluation, remove_evaluation, save_evaluation
from governance.models import AuditEvent
from routing.models import EvaluationResult


class EvaluationForm(RecordForm):
    """A result from elsewhere."""

    class Meta:
        model = EvaluationResult
        fields = "__all__"
        help_texts: ClassVar = {
            "golden_set": "Such as support-answers. Quality is the mean over the latest run of each set.",
            "grader": "Only “deterministic” counts as quality; results of other graders are kept to look at.",
            "prompt_count": "How many questions the set asked.",
            "mean_score": "Between 0 and 1: the mean over all questions, those that failed counted as 0.",
            "run_at": "UTC. Of runs of one set the latest counts.",
        }


@admin.register(EvaluationResult)
class EvaluationResultAdmin(RecordAdmin):
    """Evaluation results."""

    kind = RecordKind.EVALUATION
    form = EvaluationForm
    list_display = ("model", "golden_set", "grader", "prompt_count", "mean_score", "run_at")
    list_filter = ("run_at",)
    list_select_related = ("model",)
    search_fields = ("model__identifier", "golden_set")
    search_help_text = "A model's identifier or a golden set."
    fieldsets = ((None, {"fields": ("model", "golden_set", "grader", "prompt_count", "mean_score", "run_at")}),)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Which run a result is of is said once."""
        fixed = [] if obj is None else ["model", "golden_set", "grader", "run_at"]
        return [*super().get_readonly_fields(request, obj), *fixed]

    def record_name(self, record: EvaluationResult) -> str:
        return name_of_evaluation(record)

    def history_entries(self, record: EvaluationResult) -> QuerySet[AuditEvent]:
        """Those of this run: of one golden set there are many against one model."""
        moment = record.run_at.astimezone(UTC).isoformat()
        this_run = Q(revision__after__run_at=moment) | Q(revision__before__run_at=moment)
        return super().history_entries(record).filter(this_run)

    def write(self, request: HttpRequest, filled: Filled) -> None:
        save_evaluation(filled.record, author=filled.author, reason=filled.reason, only=filled.columns)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        remove_evaluation(obj, author=author_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[EvaluationResult]) -> None:
        with transaction.atomic():
            for result in queryset.select_related("model"):
                remove_evaluation(result, author=author_of(request))
