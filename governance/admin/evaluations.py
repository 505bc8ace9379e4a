"""Results of golden sets. Runs write them; a result from elsewhere may be entered, and a wrong one removed."""

from django.contrib import admin

from governance.admin.records import RecordAdmin
from routing.models import EvaluationResult


@admin.register(EvaluationResult)
class EvaluationResultAdmin(RecordAdmin):
    """Evaluation results."""

    list_display = ("model", "golden_set", "grader", "prompt_count", "mean_score", "run_at")
    list_filter = ("run_at",)
    list_select_related = ("model",)
    search_fields = ("model__identifier", "golden_set")
    search_help_text = "A model's identifier or a golden set."
    fields = ("model", "golden_set", "grader", "prompt_count", "mean_score", "run_at")
