"""What a record was before and after one change."""

from typing import Any, ClassVar

from django.db import models


class Revision(models.Model):
    """One change of one record, as two plain documents. Secrets are in neither.

    ``before`` is empty where the record was made, ``after`` where it was taken away. ``number`` counts the changes of
    one record from 1.
    """

    kind = models.CharField(max_length=30)
    record = models.CharField(max_length=150)
    number = models.PositiveIntegerField()
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    author = models.CharField(max_length=150)
    reason = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-at", "-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["kind", "record", "number"], name="governance_revision_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.record} #{self.number}"

    def save(self, **kwargs: Any) -> None:
        if not self._state.adding:
            raise RuntimeError(f"revision {self} is written once")
        super().save(**kwargs)

    @property
    def changes(self) -> dict[str, tuple[Any, Any]]:
        """The fields that differ, each with its value before and after."""
        before, after = self.before or {}, self.after or {}
        names = [*before, *(name for name in after if name not in before)]
        return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}
