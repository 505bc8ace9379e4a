"""Stored values of settings. What settings there are, and what they mean, is declared in ``settings_store``."""

from typing import ClassVar

from django.db import models

from routing.models import VersionCounter, VersionedRecord


class SettingsVersion(VersionCounter):
    """The version of the stored settings."""


class SettingValue(VersionedRecord):
    """The value an operator chose for one setting. Without a row the declared default is in force."""

    counter: ClassVar[type[VersionCounter]] = SettingsVersion

    key = models.CharField(max_length=100, primary_key=True)
    value = models.JSONField(null=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar = ["key"]
        verbose_name = "setting"

    def __str__(self) -> str:
        return self.key
