"""Rates and quotas, as columns of whoever holds them."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from routing.core.meters import MOST

LIMIT_FIELDS = ("requests_per_minute", "tokens_per_minute", "requests_per_day", "tokens_per_day")
"""The columns, in the order in which people read them."""


def _limit_field(name: str, help_text: str) -> "models.PositiveBigIntegerField[int | None, int | None]":
    return models.PositiveBigIntegerField(
        name,
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MOST)],
        help_text=f"{help_text} Empty for no limit.",
    )


class LimitedRecord(models.Model):
    """What uses requests and tokens. ``None`` is no limit."""

    requests_per_minute = _limit_field("requests per minute", "A minute's worth may come at once.")
    tokens_per_minute = _limit_field(
        "tokens per minute", "Prompt and answer; the prompt is estimated before, the answer booked after."
    )
    requests_per_day = _limit_field("requests per day", "A day is a UTC day.")
    tokens_per_day = _limit_field("tokens per day", "Prompt and answer, on a UTC day.")

    class Meta:
        abstract = True
