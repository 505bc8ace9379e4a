"""Providers: where calls go and whose key pays."""

import uuid
from decimal import Decimal
from typing import ClassVar
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

from routing.core.catalogue import DEFAULT_PRIORITY
from routing.core.vocabulary import LABELS, DataBoundary, Reach
from routing.models.versions import NamedRecord, VersionCounter

API_VERSION = r"\A\d{4}-\d{2}-\d{2}(-preview)?\Z"


class CatalogueVersion(VersionCounter):
    """The version of providers, models, prices, configurations and quality scores."""


class Provider(NamedRecord):
    """One account at one vendor, host or machine.

    ``sealed_key`` holds bytes that only ``routing.credentials`` can open; ``uuid`` is part of what binds them to
    this row. ``key_hint`` is the end of the key, so that people can tell keys apart.
    """

    counter: ClassVar[type[VersionCounter]] = CatalogueVersion

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    adapter_type = models.CharField(
        max_length=50,
        help_text="The kind of API it speaks. Providers of one kind share one health and, per model id, one history.",
    )
    base_url = models.CharField(
        "base URL",
        max_length=500,
        blank=True,
        help_text="Up to and with /v1. Empty for the kind's own address.",
    )
    sealed_key = models.BinaryField(null=True, blank=True, editable=False)
    key_hint = models.CharField(max_length=8, blank=True, editable=False)
    organization = models.CharField(max_length=100, blank=True, help_text="The account's organization, if it has one.")
    api_version = models.CharField(
        "API version",
        max_length=30,
        blank=True,
        validators=[RegexValidator(API_VERSION, "Write it as the vendor does, such as 2025-04-01-preview.")],
        help_text="Azure alone: with one, deployments are called below the resource's address; without one the address "
        "ends in /openai/v1.",
    )
    reach = models.CharField(
        max_length=20,
        choices=[(each.value, LABELS[each]) for each in Reach],
        default=Reach.VENDOR_API.value,
        help_text="How far data travels to get there. Only “self-hosted” counts as on-device, and only there is "
        "plain http accepted.",
    )
    data_boundary = models.CharField(
        max_length=10,
        choices=[(each.value, LABELS[each]) for each in DataBoundary],
        default=DataBoundary.UNKNOWN.value,
        help_text="Your attestation of where it keeps data. Unknown gives no trust.",
    )
    region = models.CharField(max_length=50, blank=True, help_text="A label such as “eu-central”.")
    priority = models.PositiveSmallIntegerField(
        default=DEFAULT_PRIORITY,
        validators=[MaxValueValidator(100)],
        help_text="0 to 100. A higher priority goes first whatever has been measured.",
    )
    max_concurrent = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Requests at a time that each process may send to it; beyond that its routes are passed over. "
        "Empty for no limit.",
    )
    connect_timeout = models.DecimalField(
        max_digits=6, decimal_places=2, default=Decimal(5), validators=[MinValueValidator(Decimal("0.05"))],
        help_text="Seconds until a connection stands.",
    )  # fmt: skip
    first_event_timeout = models.DecimalField(
        max_digits=6, decimal_places=2, default=Decimal(60), validators=[MinValueValidator(Decimal("0.05"))],
        help_text="Seconds until the answer, or the first piece of a stream, begins.",
    )  # fmt: skip
    between_events_timeout = models.DecimalField(
        max_digits=6, decimal_places=2, default=Decimal(60), validators=[MinValueValidator(Decimal("0.05"))],
        help_text="Seconds between two pieces of an answer.",
    )  # fmt: skip
    total_timeout = models.DecimalField(
        max_digits=7, decimal_places=2, default=Decimal(600), validators=[MinValueValidator(Decimal("0.05"))],
        help_text="Seconds for one whole attempt.",
    )  # fmt: skip

    class Meta:
        ordering: ClassVar = ["-priority", "identifier"]

    def clean(self) -> None:
        super().clean()
        problem = base_url_problem(self.base_url)
        if problem is not None:
            raise ValidationError({"base_url": problem})


def base_url_problem(url: str) -> str | None:
    """Why a base URL cannot be used, as a sentence that repeats none of it; ``None`` if it is empty or fine.

    Its shape only: whether a connection may go there is decided when one is made.
    """
    if not url:
        return None
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in {"https", "http"} or not host or any(each.isspace() for each in url):
        return "Write the whole address, such as https://llm.example.com/v1."
    if parts.username is not None or parts.password is not None:
        return "An address holds no user name and no password: enter the key in its own field."
    if parts.query or parts.fragment:
        return "An address ends with its path: leave out what follows a question mark or a number sign."
    return None
