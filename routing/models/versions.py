"""How a process notices that records changed: one counter an app, raised in the transaction of every change.

Each process keeps snapshots of the records it needs on the call path and compares their version with the
counter's a few times a second. The counter's row is locked by the transaction that raises it, so versions commit
in the order in which they are given out and no change can hide behind a later number.

Every change raises the counter *before* it touches a record. The counter is then the first lock of every writer, and
two transactions that change the same records in another order wait for each other instead of ending in a deadlock. A
transaction that locks rows for itself (``select_for_update``) raises the counter before that.
"""

from collections.abc import Collection
from typing import Any, ClassVar, Self

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models, transaction
from django.db.models import F

IDENTIFIER = r"\A[a-z0-9][a-z0-9_-]*\Z"
"""How identifiers are spelled, so that they need no quoting in an address, a header or a cache key."""


class VersionCounter(models.Model):
    """The counter of one app: a single row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    number = models.PositiveBigIntegerField(default=1)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.number)

    @classmethod
    def read(cls) -> int:
        """The version in force; 1 while nothing was ever changed."""
        number: int | None = cls._default_manager.filter(id=1).values_list("number", flat=True).first()
        return 1 if number is None else number

    @classmethod
    def bump(cls) -> None:
        """Raise the version. Call it inside the transaction of the change, before anything else."""
        row = cls._default_manager.filter(id=1)
        if not row.update(number=F("number") + 1):
            # The first change ever. Whoever else thought so waits here, and finds the row afterwards.
            cls._default_manager.bulk_create([cls(id=1)], ignore_conflicts=True)
            row.update(number=F("number") + 1)


class VersionedQuerySet(models.QuerySet[Any]):
    """Writes in bulk would pass the counter by, so they are refused."""

    def update(self, **kwargs: Any) -> int:
        raise NotImplementedError(f"{self.model.__name__}: save each record, so that every process hears of it")

    def bulk_create(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{self.model.__name__}: save each record, so that every process hears of it")

    def bulk_update(self, *args: Any, **kwargs: Any) -> int:
        raise NotImplementedError(f"{self.model.__name__}: save each record, so that every process hears of it")

    def update_or_create(self, defaults: Any = None, create_defaults: Any = None, **kwargs: Any) -> tuple[Any, bool]:
        with transaction.atomic(using=self.db):
            self.model.counter.bump()  # before the lock that it takes on the row
            return super().update_or_create(defaults, create_defaults, **kwargs)

    def delete(self) -> tuple[int, dict[str, int]]:
        with transaction.atomic(using=self.db):
            self.model.counter.bump()
            return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]  # as Django's own: no manager deletes everything


class NamedQuerySet(VersionedQuerySet):
    """Records that other rows name are retired, one by one, and never deleted."""

    def delete(self) -> tuple[int, dict[str, int]]:
        raise NotImplementedError(f"{self.model.__name__}: rows name these records. Retire them instead.")

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]


class VersionedRecord(models.Model):
    """A record that processes keep snapshots of: every save and every removal raises the app's counter."""

    counter: ClassVar[type[VersionCounter]]

    objects = VersionedQuerySet.as_manager()

    class Meta:
        abstract = True

    def save(self, **kwargs: Any) -> None:
        with transaction.atomic(using=kwargs.get("using")):
            self.counter.bump()
            super().save(**kwargs)

    def delete(self, using: Any = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        with transaction.atomic(using=using):
            self.counter.bump()
            return super().delete(using=using, keep_parents=keep_parents)


class NamedRecord(VersionedRecord):
    """A versioned record with an identifier that other rows keep: immutable, and never used again.

    Calls, keys and budgets name records by identifier and not by foreign key. Were an identifier handed to another
    record, it would inherit their history and their permissions; so records are retired, not deleted.
    """

    identifier = models.CharField(
        max_length=100,
        unique=True,
        validators=[RegexValidator(IDENTIFIER, "Use lower-case letters, digits, hyphens and underscores only.")],
        help_text="Lower-case letters, digits, hyphens and underscores. Cannot be changed later or used again.",
    )
    name = models.CharField(max_length=255, blank=True, help_text="What people call it.")
    is_active = models.BooleanField("active", default=True, help_text="Switched off, it serves no call.")
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)
    source = models.CharField(max_length=64, blank=True, editable=False, help_text="Who made it, such as “demo”.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = NamedQuerySet.as_manager()  # type: ignore[misc]  # a class variable in both places

    _stored_identifier: str | None = None

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.identifier

    def save(self, **kwargs: Any) -> None:
        self._keep_identifier()
        super().save(**kwargs)
        self._stored_identifier = self.__dict__.get("identifier")

    @classmethod
    def from_db(cls, db: str | None, field_names: Collection[str], values: Collection[Any], **kwargs: Any) -> Self:
        record = super().from_db(db, field_names, values, **kwargs)
        record._stored_identifier = record.__dict__.get("identifier")
        return record

    def clean(self) -> None:
        super().clean()
        self._keep_identifier()

    def delete(self, using: Any = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        raise ValidationError(f"{self.identifier} cannot be deleted, since rows name it. Retire it instead.")

    def _keep_identifier(self) -> None:
        stored = self._stored_identifier
        if stored is None and self.pk is not None and "identifier" in self.__dict__:
            # Loaded without its identifier, or made by hand for a row that may be there already.
            rows = type(self)._base_manager.filter(pk=self.pk)
            stored = rows.values_list("identifier", flat=True).first()
        if stored is not None and stored != self.identifier:
            raise ValidationError(
                {
                    "identifier": f"The identifier {stored} cannot be changed: calls and keys name it. "
                    "Make a new record and retire this one."
                }
            )
