"""The audit trail's rows: who changed what, when, from where. Written by ``governance.audit.trail`` alone."""

from typing import Any, ClassVar

from django.db import models

from governance.models.revision import Revision


class AppendOnlyError(RuntimeError):
    """An attempt to change or remove an entry of the trail."""


class ChainHead(models.Model):
    """The last entry's number and digest: one row, locked while an entry is added, so that entries form a line.

    It stands beside the trail so that a removed or changed last entry is found like any other.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    number = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return str(self.number)


class AuditEvent(models.Model):
    """One entry. ``digest`` covers every other column and the digest before it."""

    number = models.PositiveBigIntegerField(primary_key=True)
    at = models.DateTimeField()
    action = models.CharField(max_length=50)
    kind = models.CharField(max_length=30)
    record = models.CharField(max_length=150)
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
        indexes: ClassVar = [models.Index(fields=["kind", "record", "-number"], name="governance_audit_of_record")]

    def __str__(self) -> str:
        return f"{self.number}: {self.action} {self.record}"

    def save(self, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnlyError(f"entry {self.number} of the audit trail cannot be changed")
        super().save(**kwargs)

    def delete(self, using: Any = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        raise AppendOnlyError(f"entry {self.number} of the audit trail cannot be removed")
