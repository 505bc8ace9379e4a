"""The ledger's tables: accounts with their balance, the entries that the balance is the sum of, what is held for
attempts that are under way, which thresholds of budgets the balance has crossed, and which budgets refuse calls.

Amounts are whole nano-units of the account's currency. Nobody but ``ledger``, ``crossings`` and ``refusals`` writes
here, and ``retention`` removes what is old.
"""

from typing import Any, ClassVar

from django.db import models

from budgets.scopes import scope_of


class EntryKind(models.TextChoices):
    """What an entry is about."""

    RESERVED = "reserved", "Reserved"
    SETTLED = "settled", "Settled"
    RELEASED = "released", "Released"
    UNCERTAIN = "uncertain", "Uncertain"


class Account(models.Model):
    """What one scope has spent of one currency in one window.

    ``spent`` is settled, ``reserved`` held for attempts under way, ``uncertain`` held for attempts whose outcome
    nobody knows; against a limit all three count. ``unmeasured`` counts attempts whose cost is not in any of them.
    """

    identity = models.CharField(max_length=64, unique=True)
    scope = models.JSONField()
    currency = models.CharField(max_length=3)
    window = models.CharField(max_length=100)
    starts_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    opened_at = models.DateTimeField()

    spent = models.BigIntegerField(default=0)
    reserved = models.BigIntegerField(default=0)
    uncertain = models.BigIntegerField(default=0)
    unmeasured = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(fields=["ends_at"], name="budgets_account_ends"),
            # None of what changes with a call: an account's update writes to no index.
            models.Index(fields=["window", "currency"], name="budgets_account_window"),
        ]

    def __str__(self) -> str:
        return f"{scope_of(self.scope)}, {self.currency}, {self.window}"

    @property
    def committed(self) -> int:
        """Everything that counts against a limit."""
        return self.spent + self.reserved + self.uncertain


class Carryover(models.Model):
    """The sums of an account's entries that are not kept any more, so that these and the entries that are there still
    add up to its balance. ``late`` is the part of ``spent`` that had been uncertain before.

    Written by ``retention``, in the transaction that removes the entries.
    """

    account = models.OneToOneField(Account, on_delete=models.CASCADE, related_name="carryover")
    entries = models.PositiveBigIntegerField()
    spent = models.BigIntegerField()
    reserved = models.BigIntegerField()
    uncertain = models.BigIntegerField()
    unmeasured = models.PositiveBigIntegerField()
    late = models.BigIntegerField()
    until = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-until", "pk"]

    def __str__(self) -> str:
        return f"{self.entries} entries of account {self.account_id}"


class EntryError(RuntimeError):
    """An attempt to change or remove what is only ever added."""


class EntryQuerySet(models.QuerySet[Any]):
    """Rows are added, and neither changed nor removed."""

    def update(self, **kwargs: Any) -> int:
        raise EntryError("entries of the ledger cannot be changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise EntryError("entries of the ledger cannot be removed")

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]  # as Django's own: no manager deletes everything


class AddedOnly(models.Model):
    """A row of the ledger that is added once, and stays as it is."""

    objects = EntryQuerySet.as_manager()

    class Meta:
        abstract = True

    def save(self, **kwargs: Any) -> None:
        if not self._state.adding:
            raise EntryError("entries of the ledger cannot be changed")
        super().save(**{**kwargs, "force_insert": True})

    def delete(self, using: Any = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        raise EntryError("entries of the ledger cannot be removed")


class Entry(AddedOnly):
    """One movement of one account: by how much each part of its balance changed.

    ``limit`` is the hard limit that a reservation was admitted under, ``None`` where none bound; so the entries prove
    that no admitted reservation went beyond it. ``is_overrun`` marks a settlement above what was reserved.
    """

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="entries", db_index=False)
    attempt = models.UUIDField()
    call = models.UUIDField()
    kind = models.CharField(max_length=10, choices=EntryKind.choices)
    spent = models.BigIntegerField()
    reserved = models.BigIntegerField()
    uncertain = models.BigIntegerField()
    unmeasured = models.SmallIntegerField()
    limit = models.BigIntegerField(null=True)
    is_overrun = models.BooleanField(default=False)
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(fields=["account", "-id"], name="budgets_entry_account"),
            models.Index(fields=["call"], name="budgets_entry_call"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "account", "kind"], name="budgets_entry_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.attempt}"


class Crossing(AddedOnly):
    """A threshold of a budget that was crossed in an account: once, and for good, since an account is of one window.

    ``budget`` is its identifier, ``threshold`` in per cent of the limit; ``limit``, ``spent`` and ``uncertain`` are the
    figures that were compared. ``threshold`` is ``None`` where the limit itself was in the way, and a call was
    refused; then ``needed`` is the most that the call could have cost, ``None`` where nobody could say.
    """

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="crossings", db_index=False)
    budget = models.CharField(max_length=100)
    threshold = models.PositiveSmallIntegerField(null=True)
    limit = models.BigIntegerField()
    needed = models.BigIntegerField(null=True)
    spent = models.BigIntegerField()
    uncertain = models.BigIntegerField()
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["account", "budget", "threshold"], name="budgets_crossing_once"),
            models.UniqueConstraint(
                fields=["account", "budget"], condition=models.Q(threshold=None), name="budgets_refusal_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.budget} {self.told}"

    @property
    def told(self) -> str:
        """What happened, behind the budget's name."""
        return "refuses calls" if self.threshold is None else f"past {self.threshold} %"


class Hold(models.Model):
    """What one attempt holds of one account until its outcome is booked; then the row goes.

    ``amount`` is ``None`` where the attempt cannot be measured in the account. ``is_uncertain`` once nobody knows the
    outcome: such a hold stays until somebody does. A hold that is not uncertain past ``expires_at`` is an orphan.
    """

    attempt = models.UUIDField()
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="holds")
    call = models.UUIDField()
    amount = models.BigIntegerField(null=True)
    is_uncertain = models.BooleanField(default=False)
    held_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["held_at", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "account"], name="budgets_hold_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["expires_at"], condition=models.Q(is_uncertain=False), name="budgets_hold_expires"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt} in account {self.account_id}"
