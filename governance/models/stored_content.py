"""Content at rest: the only rows that hold what was said. Sealed, each with an owner and an end."""

import uuid
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from django.db import models


class ContentKind(StrEnum):
    """What a piece of content is."""

    REQUEST = "request"
    ANSWER = "answer"
    FAILURE = "failure"
    REPLAY = "replay"
    CACHED = "cached"


CONTENT_LABELS: Mapping[ContentKind, str] = MappingProxyType(
    {
        ContentKind.REQUEST: "A request that waits for a worker",
        ContentKind.ANSWER: "The answer to a submitted call",
        ContentKind.REPLAY: "An answer that its caller may ask for again",
        ContentKind.CACHED: "An answer that its application may get again",
        ContentKind.FAILURE: "Why a submitted call has no answer",
    }
)


class StoredContent(models.Model):
    """Sealed bytes. ``governance.safekeeping`` seals and opens them, and removes them when they have expired.

    ``owner`` is the identifier of the application whose content it is.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=20)
    owner = models.CharField(max_length=100)
    sealed = models.BinaryField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name_plural = "stored contents"
        ordering: ClassVar = ["-created_at", "pk"]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"
