"""Applications: who calls."""

from typing import ClassVar

from django.db import models

from governance.models.limits import LimitedRecord
from routing.models import NamedRecord, VersionCounter


class AccessVersion(VersionCounter):
    """The version of applications, keys and budgets."""


class Application(LimitedRecord, NamedRecord):
    """A program, a team or a person that calls through keys of its own."""

    counter: ClassVar[type[VersionCounter]] = AccessVersion

    description = models.TextField(blank=True)
    may_run_tasks = models.BooleanField(
        "may run tasks",
        default=False,
        help_text="Whether Celery tasks and Python code may call in its name, without a key. Whoever may write to the "
        "message broker can then do so too.",
    )

    class Meta:
        ordering: ClassVar = ["identifier"]
