"""Budgets: who may spend how much of what, and until when. What has been spent is in the ledger (``budgets``)."""

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

from budgets.scopes import Unpriced
from budgets.windows import WindowKind
from governance.models.application import AccessVersion
from routing.models import NamedRecord, VersionCounter, VersionedRecord

_EACH = "“*” counts each on its own, in an account for each. Empty for all together."


MOST_ALERTS = 10
"""Thresholds that one budget may alert at."""

MOST_TIERS = 20
"""Rows of one ladder."""


class Budget(NamedRecord):
    """A limit on what one scope may spend of one currency in one window. A scope names none, some or all of its five
    columns; amounts are whole nano-units."""

    counter: ClassVar[type[VersionCounter]] = AccessVersion

    application = models.CharField(max_length=100, blank=True, help_text=f"Identifier of the application. {_EACH}")
    key = models.CharField("virtual key", max_length=64, blank=True, help_text=f"Id of the virtual key. {_EACH}")
    user = models.CharField(max_length=128, blank=True, help_text=f"The end user as calls name it. {_EACH}")
    configuration = models.CharField(
        max_length=100, blank=True, help_text=f"Identifier of the configuration that serves. {_EACH}"
    )
    provider = models.CharField(max_length=100, blank=True, help_text=f"Identifier of the provider asked. {_EACH}")

    currency = models.CharField(
        max_length=3,
        default="USD",
        validators=[RegexValidator(r"\A[A-Z]{3}\Z", "Three capital letters, such as USD.")],
        help_text="The only currency it counts. A route priced in another one is not affordable under a hard budget.",
    )
    limit = models.PositiveBigIntegerField(help_text="The most that may be spent in a window. 0 allows nothing.")
    is_hard = models.BooleanField(
        "hard",
        default=True,
        help_text="Hard: a request that does not fit is not sent. Soft: spending is counted, and nothing is refused.",
    )
    window = models.CharField(
        max_length=10,
        choices=[
            (WindowKind.DAY.value, "Calendar day"),
            (WindowKind.WEEK.value, "Calendar week, from Monday"),
            (WindowKind.MONTH.value, "Calendar month"),
            (WindowKind.TOTAL.value, "All time"),
        ],
        default=WindowKind.MONTH.value,
        help_text="Spending counts in the window in which the call began.",
    )
    zone = models.CharField(
        "time zone", max_length=50, default="UTC", help_text="Where days begin, such as Europe/Berlin."
    )
    unpriced = models.CharField(
        max_length=10,
        choices=[
            (Unpriced.REFUSE.value, "Refuse: nobody knows what they cost"),
            (Unpriced.ALLOW.value, "Allow: what was spent is then at least the figure shown"),
        ],
        default=Unpriced.REFUSE.value,
        help_text="What a hard budget does about models without a price. One that is free has a price of 0.",
    )
    increase = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Added to the limit for a while. Empty for nothing."
    )
    increase_until = models.DateTimeField(null=True, blank=True, help_text="When the increase ends by itself (UTC).")

    enforce_targets = models.BooleanField(
        "tiers are strict",
        default=False,
        db_default=False,
        help_text="Strict: past a tier nothing but its models may serve, and a call they cannot serve is refused. "
        "Otherwise they go first where they may serve.",
    )
    alert_thresholds = models.JSONField(
        default=list,
        blank=True,
        help_text="Per cents of the limit, from 1 to 100, that are told of when they are crossed. None for no alerts.",
    )

    class Meta:
        ordering: ClassVar = ["identifier"]

    def clean(self) -> None:
        super().clean()
        if (self.increase is None) != (self.increase_until is None):
            missing = "increase" if self.increase is None else "increase_until"
            raise ValidationError({missing: "An increase needs its amount and the moment it ends."})


class BudgetTier(VersionedRecord):
    """A step of a budget's ladder: from a per cent of the limit on, a model is to serve. Several models at one per cent
    are a step with several models, the first one first."""

    counter: ClassVar[type[VersionCounter]] = AccessVersion

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="tiers")
    threshold = models.PositiveSmallIntegerField(
        "from per cent", validators=[MinValueValidator(1), MaxValueValidator(100)]
    )
    model = models.CharField("model", max_length=100)
    position = models.PositiveSmallIntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["threshold", "position", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["budget", "threshold", "model"], name="governance_budget_tier_once"),
        ]

    def __str__(self) -> str:
        return f"{self.budget.identifier}: {self.model} from {self.threshold} %"
