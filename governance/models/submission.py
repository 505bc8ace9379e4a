"""Calls that are handed in and executed later, by a worker: one row each, and one for each batch of them."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from django.db import models
from django.db.models import Q

from governance.models.stored_content import StoredContent


class SubmissionState(StrEnum):
    """Where a submitted call stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    ABANDONED = "abandoned"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


STATE_LABELS: Mapping[SubmissionState, str] = MappingProxyType(
    {
        SubmissionState.QUEUED: "Queued",
        SubmissionState.RUNNING: "Running",
        SubmissionState.DONE: "Answered",
        SubmissionState.FAILED: "Failed",
        SubmissionState.UNCERTAIN: "Uncertain",
        SubmissionState.ABANDONED: "Abandoned",
        SubmissionState.EXPIRED: "Expired",
        SubmissionState.CANCELLED: "Cancelled",
    }
)

STATE_MEANINGS: Mapping[SubmissionState, str] = MappingProxyType(
    {
        SubmissionState.QUEUED: "It waits for a worker, or for a rate or quota that is used up.",
        SubmissionState.RUNNING: "A worker has taken it up.",
        SubmissionState.DONE: "It was answered.",
        SubmissionState.FAILED: "It ended without an answer; the failure says why.",
        SubmissionState.UNCERTAIN: "Its worker was lost after a request had been sent to a provider. What became of "
        "that is not known, so it is never sent again; it may have cost something.",
        SubmissionState.ABANDONED: "Workers were lost as often as the setting calls.maxDeliveries allows, each before "
        "anything was sent. It cost nothing and may be submitted again.",
        SubmissionState.EXPIRED: "No worker took it up for as long as its content is kept. Nothing was sent.",
        SubmissionState.CANCELLED: "It was withdrawn before a worker took it up. Nothing was sent.",
    }
)

OPEN = frozenset({SubmissionState.QUEUED, SubmissionState.RUNNING})
"""The states that something is still to come of. Everything else is an end."""

_OPEN = sorted(state.value for state in OPEN)


class Batch(models.Model):
    """Calls that were handed in together. How far they are is counted from their rows."""

    id = models.UUIDField(primary_key=True, editable=False)
    application = models.CharField(max_length=100)
    key = models.CharField(max_length=64, blank=True)
    source = models.CharField(max_length=64, blank=True)
    size = models.PositiveIntegerField()
    submitted_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "batches"
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [models.Index(fields=["application", "-id"], name="governance_batch_of")]

    def __str__(self) -> str:
        return str(self.pk)


class Submission(models.Model):
    """One submitted call. Its id is the call's own: the row in ``telemetry`` has the same.

    The state changes by compare-and-set alone, in ``governance.submissions``.

    Attributes:
        task: the id of the Celery task whose result somebody may wait for; one task makes one row, however often its
            message comes.
        due_at: until when somebody has it: a message on its way, or a worker whose lease it is. The sweeper looks at
            rows whose time has passed. Empty at the end.
        deliveries: how often a worker has taken it up, but for the times that it then waited for a limit.
        waits: how often it has waited for a rate or a quota.
        waits_until: until when it waits for one; empty unless it does.
        claim: names the delivery that holds it, so that one that lost it can do nothing to it.
        sent_at: when the first request to a provider was about to be sent. From then on it is never sent again.
        mark: by which the same request is recognised, if it comes again under the same task.
        request: what was asked; removed as soon as nobody will need it.
        outcome: the answer, or the failure in full.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    task = models.CharField(max_length=255, unique=True)
    batch = models.ForeignKey(Batch, null=True, on_delete=models.PROTECT, related_name="submissions")
    position = models.PositiveIntegerField(null=True)
    application = models.CharField(max_length=100)
    key = models.CharField(max_length=64, blank=True)
    user = models.CharField(max_length=128, blank=True)
    source = models.CharField(max_length=64, blank=True)
    requested = models.CharField(max_length=300)
    mark = models.CharField(max_length=64, blank=True)
    on_device = models.BooleanField(default=False)
    max_cost_nanos = models.BigIntegerField(null=True)

    state = models.CharField(max_length=20, default=SubmissionState.QUEUED.value)
    submitted_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    deliveries = models.PositiveSmallIntegerField(default=0)
    waits = models.PositiveIntegerField(default=0, db_default=0)
    waits_until = models.DateTimeField(null=True)
    claim = models.UUIDField(null=True)
    worker = models.CharField(max_length=255, blank=True)
    started_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    failure_kind = models.CharField(max_length=20, blank=True)
    failure_code = models.CharField(max_length=100, blank=True)

    request = models.OneToOneField(StoredContent, null=True, on_delete=models.SET_NULL, related_name="+")
    outcome = models.OneToOneField(StoredContent, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["batch", "position"], name="governance_submission_place"),
            models.CheckConstraint(
                condition=Q(state__in=_OPEN, due_at__isnull=False) | (~Q(state__in=_OPEN) & Q(due_at__isnull=True)),
                name="governance_submission_due",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="governance_submission_due_at"),
            models.Index(fields=["application", "-id"], name="governance_submission_of"),
            models.Index(fields=["state", "-id"], name="governance_submission_in"),
            models.Index(fields=["ended_at"], name="governance_submission_ended"),
        ]

    def __str__(self) -> str:
        return str(self.pk)
