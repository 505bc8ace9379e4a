"""Virtual keys: what an application shows with every call."""

import uuid
from typing import ClassVar

from django.db import models

from governance.models.application import AccessVersion, Application
from governance.models.limits import LimitedRecord
from routing.models import VersionCounter, VersionedRecord


class AccessKey(LimitedRecord, VersionedRecord):
    """A key of an application. Only the digest of its secret is kept, so it can be shown once and never again.

    ``None`` in a list means "all", an empty list "none". The lists hold identifiers of configurations and models.
    """

    counter: ClassVar[type[VersionCounter]] = AccessVersion

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    application = models.ForeignKey(Application, on_delete=models.PROTECT, related_name="keys")
    name = models.CharField(max_length=255, help_text="What the key is for.")
    prefix = models.CharField(max_length=16, editable=False)
    secret_digest = models.CharField(max_length=64, unique=True, editable=False)
    allowed_configurations = models.JSONField(
        null=True, blank=True, help_text="Identifiers of the configurations it may ask for. Empty for all."
    )
    allowed_models = models.JSONField(
        null=True, blank=True, help_text="Identifiers of the models that may serve it. Empty for all."
    )
    may_name_models = models.BooleanField(
        default=False, help_text="Whether it may ask for “provider/model” instead of a configuration."
    )
    source = models.CharField(max_length=64, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering: ClassVar = ["application", "name", "pk"]

    def __str__(self) -> str:
        return f"{self.application.identifier}: {self.name} ({self.prefix}…)"
