"""Language models at providers, and what they cost from when on."""

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models

from routing.core.vocabulary import LABELS, Capability, ServiceTier
from routing.models.provider import CatalogueVersion, Provider
from routing.models.versions import NamedRecord, VersionCounter, VersionedRecord


def no_list() -> list[str]:
    """An empty list, for fields that hold one."""
    return []


def names_capabilities(value: object) -> bool:
    """Whether a stored value is a list of capabilities."""
    return isinstance(value, list) and all(isinstance(each, str) and each in set(Capability) for each in value)


class LanguageModel(NamedRecord):
    """One model at one provider. No capabilities means undeclared, which is not "cannot"; 0 tokens is unknown."""

    counter: ClassVar[type[VersionCounter]] = CatalogueVersion

    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="models")
    model_id = models.CharField("model id", max_length=150, help_text="The id sent to the provider.")
    capabilities = models.JSONField(
        default=no_list,
        blank=True,
        help_text="What it can do. Empty means undeclared: criteria that ask for a capability then refuse it, calls "
        "that need one do not.",
    )
    context_length = models.PositiveIntegerField(default=0, help_text="Tokens of prompt and answer. 0 if unknown.")
    max_output = models.PositiveIntegerField("maximum output", default=0, help_text="Tokens. 0 if unknown.")
    is_default = models.BooleanField("default", default=False, help_text="Wins a tie.")
    sorting = models.PositiveIntegerField(default=0, help_text="The last tie-break: lower first.")
    declined_price = models.CharField(
        max_length=300,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="What price lists said and a person turned down, in one line.",
    )

    class Meta:
        ordering: ClassVar = ["sorting", "name", "identifier"]

    def clean(self) -> None:
        super().clean()
        if not names_capabilities(self.capabilities):
            raise ValidationError({"capabilities": f"Choose among {', '.join(sorted(Capability))}."})


class Price(VersionedRecord):
    """What a model costs from a moment on. Rates are whole nano-units of the currency per million tokens.

    A model without a price is unpriced, which is not free; explicit rates of 0 are free. An empty cached or cache
    write rate means that the input rate applies. Each class of service is priced by itself, beside the standard one.
    """

    counter: ClassVar[type[VersionCounter]] = CatalogueVersion

    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="prices")
    valid_from = models.DateTimeField(help_text="In force from this moment until the next price's of its class.")
    service_tier = models.CharField(
        "class of service",
        max_length=10,
        default=ServiceTier.STANDARD.value,
        choices=[(tier.value, LABELS[tier]) for tier in ServiceTier],
        db_default=ServiceTier.STANDARD.value,
        help_text="For answers that the provider says it served in this class. One without a price of its own costs "
        "the standard price.",
    )
    currency = models.CharField(
        max_length=3,
        default="USD",
        validators=[RegexValidator(r"\A[A-Z]{3}\Z", "Three capital letters, such as USD.")],
    )
    input_rate = models.PositiveBigIntegerField(help_text="Per million prompt tokens. 0 is free.")
    output_rate = models.PositiveBigIntegerField(help_text="Per million generated tokens. 0 for embeddings.")
    cached_input_rate = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Prompt tokens read from the provider's cache. Empty: the input rate."
    )
    cache_write_rate = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Prompt tokens written to the provider's cache. Empty: the input rate."
    )
    cache_write_hour_rate = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Those kept for an hour, where that has a price of its own. Empty: as written."
    )
    long_prompt_threshold = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="A prompt of more tokens pays the long-prompt rates for the whole request. Empty: no such rates.",
    )
    long_prompt_inclusive = models.BooleanField(
        default=False, help_text="Whether a prompt of exactly the threshold is long already."
    )
    long_input_rate = models.PositiveBigIntegerField(null=True, blank=True)
    long_output_rate = models.PositiveBigIntegerField(null=True, blank=True)
    long_cached_input_rate = models.PositiveBigIntegerField(null=True, blank=True)
    long_cache_write_rate = models.PositiveBigIntegerField(null=True, blank=True)
    long_cache_write_hour_rate = models.PositiveBigIntegerField(null=True, blank=True)
    provenance = models.CharField(
        max_length=50,
        default="manual",
        help_text="Where the figures come from. Figures from price lists are kept up with them; any other word stands.",
    )

    class Meta:
        ordering: ClassVar = ["model", "valid_from", "service_tier"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["model", "valid_from", "service_tier"],
                name="routing_price_one_per_moment_and_class",
                violation_error_message="Another price of this class is in force from this moment on.",
            ),
        ]

    def __str__(self) -> str:
        tier = "" if self.service_tier == ServiceTier.STANDARD else f", {self.get_service_tier_display()}"
        return f"{self.model.identifier} from {self.valid_from:%Y-%m-%d}{tier}"

    def clean(self) -> None:
        super().clean()
        tier = (self.long_prompt_threshold, self.long_input_rate, self.long_output_rate)
        of_tier = (*tier, self.long_cached_input_rate, self.long_cache_write_rate, self.long_cache_write_hour_rate)
        if any(value is not None for value in of_tier) and None in tier:
            raise ValidationError(
                {"long_prompt_threshold": "A long-prompt tier needs its threshold, its input and its output rate."}
            )
