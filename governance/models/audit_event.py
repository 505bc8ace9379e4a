"""The audit trail's rows: who changed what, when, from where. Written by ``governance.audit.trail`` alone."""

from typing import ClassVar

from django.db import models

from governance.models.revision import AppendOnly, Revision


class ChainHead(models.Model):
    """The last entry's number and digest: one row, locked while an entry is added, so that entries form a line.

    It stands beside the trail so that a removed or changed last entry is found like any other.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    number = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return str(self.number)


class AuditEvent(AppendOnly):
    """One entry. ``digest`` covers every other column, the revision's documents, and the digest before it."""

    number = models.PositiveBigIntegerField(primary_key=True)
    at = models.DateTimeField()
    action = models.CharField(max_length=50)
    kind = models.CharField(max_length=30)
    record = models.CharField(max_length=300)
    author = models.CharField(max_length=150)
    channel = models.CharField(max_length=20)
    address = models.CharField(max_length=45, blank=True)
    correlation = models.CharField(max_length=64, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    revision = models.ForeignKey(Revision, null=True, on_delete=models.PROTECT, related_name="events")
    previous = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64)

    class Meta:
        ordering: ClassVar = ["-number"]
        indexes: ClassVar = [
            models.Index(fields=["kind", "record", "-number"], name="governance_audit_of_record"),
            models.Index(fields=["record", "-number"], name="governance_audit_by_name"),
            models.Index(fields=["author", "-number"], name="governance_audit_by_author"),
        ]

    def __str__(self) -> str:
        return f"{self.number}: {self.action} {self.record}"
