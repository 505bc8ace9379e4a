"""Results of golden sets: what measured quality is made of."""

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from routing.models.language_model import LanguageModel
from routing.models.provider import CatalogueVersion
from routing.models.versions import VersionCounter, VersionedRecord

DETERMINISTIC = "deterministic"


class EvaluationResult(VersionedRecord):
    """One run of one golden set against one model. Quality counts the latest deterministic run of each set."""

    counter: ClassVar[type[VersionCounter]] = CatalogueVersion

    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="evaluations")
    golden_set = models.SlugField(max_length=190)
    grader = models.CharField(max_length=50, default=DETERMINISTIC)
    prompt_count = models.PositiveIntegerField(default=0)
    mean_score = models.FloatField(
        validators=[MinValueValidator(0.0), MaxValueValidator(1.0)], help_text="Between 0 and 1."
    )
    run_at = models.DateTimeField()
    source = models.CharField(max_length=64, blank=True, editable=False)

    class Meta:
        ordering: ClassVar = ["-run_at", "-pk"]
        indexes: ClassVar = [
            models.Index(fields=["grader", "model", "golden_set", "-run_at"], name="routing_evaluation_latest"),
        ]

    def __str__(self) -> str:
        return f"{self.model.identifier} on {self.golden_set}: {self.mean_score:.2f}"
