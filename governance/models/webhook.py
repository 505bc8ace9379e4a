"""Webhooks, which are told when a budget crosses a threshold; and the outbox: what each is told, and how that went."""

import uuid
from typing import ClassVar

from django.core.exceptions import ValidationError
from django.db import models

from governance.models.application import AccessVersion
from routing.models import NamedRecord, VersionCounter
from routing.models.provider import base_url_problem


class Webhook(NamedRecord):
    """An address that alerts are posted to.

    ``sealed_secret`` holds bytes that only ``governance.alerts.signing`` opens; ``uuid`` is part of what binds them to
    this row. ``secret_hint`` is the end of the secret, so that people can tell secrets apart.

    ``url`` ends with its path. ``sealed_query`` is what follows, for ``governance.alerts.addresses`` to open, and
    ``query_of`` the URL that it belongs to.
    """

    counter: ClassVar[type[VersionCounter]] = AccessVersion

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    url = models.CharField(
        "URL",
        max_length=500,
        help_text="Where alerts are posted to. One that is not public needs an entry in SIGNALBOX_OUTBOUND_ALLOW.",
    )
    sealed_secret = models.BinaryField(null=True, blank=True, editable=False)
    secret_hint = models.CharField(max_length=8, blank=True, editable=False)
    sealed_query = models.BinaryField(null=True, blank=True, editable=False)
    query_of = models.CharField(max_length=500, blank=True, editable=False)

    class Meta:
        ordering: ClassVar = ["identifier"]

    @property
    def has_query(self) -> bool:
        """Whether a query goes with the URL. One that was entered with another URL does not."""
        return self.sealed_query is not None and self.query_of == self.url

    @property
    def shown_url(self) -> str:
        """The URL as people may see it."""
        return f"{self.url}?…" if self.has_query else self.url

    def clean(self) -> None:
        super().clean()
        problem = base_url_problem(self.url)
        if problem is not None:
            raise ValidationError({"url": problem})


class DeliveryState(models.TextChoices):
    """How far an alert has come with one webhook."""

    WAITING = "waiting", "Waiting"
    DELIVERED = "delivered", "Delivered"
    FAILED = "failed", "Failed"


class AlertDelivery(models.Model):
    """One alert for one webhook. Its ``id`` is what the receiver knows it by, however often it comes.

    ``crossing`` is the id of a crossing of the ledger's, ``None`` of a test. ``due_at`` is when it is tried next, or,
    while somebody holds it by ``claim``, when that one is taken for lost; ``None`` once it is over.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.PROTECT, related_name="deliveries", db_index=False)
    crossing = models.BigIntegerField(null=True)
    budget = models.CharField(max_length=100, blank=True)
    payload = models.TextField()
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    claim = models.UUIDField(null=True)
    ended_at = models.DateTimeField(null=True)
    last_status = models.PositiveSmallIntegerField(null=True)
    last_error = models.CharField(max_length=500, blank=True)

    class Meta:
        verbose_name_plural = "alert deliveries"
        ordering: ClassVar = ["-created_at", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["webhook", "crossing"], name="governance_delivery_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["due_at"], condition=models.Q(due_at__isnull=False), name="governance_delivery_due"),
            models.Index(fields=["crossing"], name="governance_delivery_crossing"),
        ]

    def __str__(self) -> str:
        return f"{self.budget or 'test'} for {self.webhook_id}"
