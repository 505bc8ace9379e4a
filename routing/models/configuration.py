"""Configurations: the names applications ask for, and how each arrives at a model."""

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from routing.core.policy import MODE_LABELS, PolicyMode
from routing.core.vocabulary import LABELS, Capability, ListedOrder, Selection
from routing.models.language_model import LanguageModel, names_capabilities, no_list
from routing.models.provider import CatalogueVersion
from routing.models.versions import NamedRecord, VersionCounter, VersionedRecord

SELECTIONS = (Selection.FIXED, Selection.LISTED, Selection.CRITERIA)


class Configuration(NamedRecord):
    """What an application asks for by name."""

    counter: ClassVar[type[VersionCounter]] = CatalogueVersion

    description = models.TextField(blank=True)
    selection = models.CharField(
        max_length=10,
        choices=[(each.value, LABELS[each]) for each in SELECTIONS],
        default=Selection.CRITERIA.value,
    )
    fixed_model = models.ForeignKey(
        LanguageModel, null=True, blank=True, on_delete=models.PROTECT, related_name="+",
        help_text="For a fixed selection: the one model.",
    )  # fmt: skip
    listed_order = models.CharField(
        max_length=20,
        choices=[(each.value, LABELS[each]) for each in ListedOrder],
        default=ListedOrder.AS_LISTED.value,
        help_text="For listed models: which is reached for first.",
    )
    policy_mode = models.CharField(
        max_length=20,
        blank=True,
        choices=[(each.value, MODE_LABELS[each]) for each in PolicyMode],
        help_text="For criteria: what ranks the candidates. Empty for the installation's mode.",
    )
    capabilities = models.JSONField(
        default=no_list, blank=True, help_text="For criteria: capabilities that every candidate must declare."
    )
    adapter_types = models.JSONField(
        default=no_list, blank=True, help_text="For criteria: the only adapter types allowed. Empty for all."
    )
    min_context_length = models.PositiveIntegerField(
        "minimum context length",
        default=0,
        help_text="For criteria: tokens. An unknown length fails it. 0 for none.",
    )
    max_input_rate = models.PositiveBigIntegerField(
        "maximum input price", null=True, blank=True,
        help_text="For criteria: nano-units per million prompt tokens. Unpriced models pass. Empty for none.",
    )  # fmt: skip
    prefer_lowest_cost = models.BooleanField(
        default=False, help_text="For criteria: cost counts in every measured mode and breaks ties."
    )
    plan_limit = models.PositiveSmallIntegerField(
        default=3,
        validators=[MinValueValidator(1), MaxValueValidator(20)],
        help_text="How many of its own candidates one call may walk through.",
    )
    repairs_output = models.BooleanField(
        "repairs structured output",
        default=False,
        db_default=False,
        help_text="Where a whole answer does not fit the JSON schema that was asked for: tell the model what is wrong "
        "and let it answer once more, at the cost of another request, before the next route is asked.",
    )
    repeats_timeouts = models.BooleanField(
        "repeat time-outs",
        default=False,
        db_default=False,
        help_text="Ask a provider again that did not answer in time. It may be at work on the prompt still, which is "
        "then paid for twice.",
    )
    cache_seconds = models.PositiveIntegerField(
        "keep answers for (seconds)",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(30 * 24 * 3600)],
        help_text="Give a request that asks for the same again, at temperature 0 or for embeddings, the answer that "
        "the same application had before: no provider is asked, and nothing is paid. Answers are kept sealed, never "
        "longer than the setting calls.contentHours allows. Empty for never.",
    )

    class Meta:
        ordering: ClassVar = ["identifier"]

    def clean(self) -> None:
        super().clean()
        if not names_capabilities(self.capabilities):
            raise ValidationError({"capabilities": f"Choose among {', '.join(sorted(Capability))}."})
        if not isinstance(self.adapter_types, list) or not all(isinstance(each, str) for each in self.adapter_types):
            raise ValidationError({"adapter_types": "Give a list of adapter types."})
        if self.selection == Selection.FIXED and self.fixed_model_id is None:
            raise ValidationError({"fixed_model": "A fixed selection names its model: choose one."})


class ListedModel(VersionedRecord):
    """A place in the list of a listed configuration."""

    counter: ClassVar[type[VersionCounter]] = CatalogueVersion

    configuration = models.ForeignKey(Configuration, on_delete=models.CASCADE, related_name="listed_models")
    model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="+")
    position = models.PositiveSmallIntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["position", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["configuration", "model"], name="routing_listed_model_once"),
        ]

    def __str__(self) -> str:
        return f"{self.configuration.identifier}: {self.model.identifier}"


class FallbackLink(VersionedRecord):
    """A place in a configuration's fallback chain. Only the chain of the configuration asked for is followed."""

    counter: ClassVar[type[VersionCounter]] = CatalogueVersion

    configuration = models.ForeignKey(Configuration, on_delete=models.CASCADE, related_name="fallback_links")
    fallback = models.ForeignKey(Configuration, on_delete=models.PROTECT, related_name="+")
    position = models.PositiveSmallIntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["position", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["configuration", "fallback"], name="routing_fallback_once"),
            models.CheckConstraint(
                condition=~models.Q(configuration=models.F("fallback")), name="routing_fallback_is_another"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.configuration.identifier} → {self.fallback.identifier}"

    def clean(self) -> None:
        super().clean()
        if self.configuration_id == self.fallback_id:
            raise ValidationError({"fallback": "A configuration cannot fall back to itself."})
