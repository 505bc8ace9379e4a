"""What a record was before and after one change."""

from typing import Any, ClassVar

from django.db import models

from telemetry.models import WrittenOnce, WrittenOnceError


class AppendOnlyQuerySet(models.QuerySet[Any]):
    """Rows that are added, and neither changed nor removed."""

    def update(self, **kwargs: Any) -> int:
        raise WrittenOnceError(f"{self.model.__name__}: rows are written once and cannot be changed")

    def bulk_update(self, *args: Any, **kwargs: Any) -> int:
        raise WrittenOnceError(f"{self.model.__name__}: rows are written once and cannot be changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise WrittenOnceError(f"{self.model.__name__}: rows are written once and cannot be removed")

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]  # as Django's own: no manager deletes everything


class AppendOnly(WrittenOnce):
    """A row that is neither changed nor removed."""

    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        abstract = True

    def delete(self, using: Any = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        raise WrittenOnceError(f"{type(self).__name__} {self.pk} is written once and cannot be removed")


class Revision(AppendOnly):
    """One change of one record, as two plain documents. Secrets are in neither.

    ``before`` is empty where the record was made, ``after`` where it was taken away. ``number`` counts the changes of
    one record from 1.
    """

    kind = models.CharField(max_length=30)
    record = models.CharField(max_length=300)
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

    @property
    def changes(self) -> dict[str, tuple[Any, Any]]:
        """The fields that differ, each with its value before and after."""
        return changed_fields(self.before, self.after)


def changed_fields(before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, tuple[Any, Any]]:
    """The fields in which two documents differ, each with its value in the one and in the other."""
    first, second = before or {}, after or {}
    names = [*first, *(name for name in second if name not in first)]
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}
