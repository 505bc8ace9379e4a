"""What processes know together, in installations without Redis. Changed by conditional statements alone."""

from django.db import models


class SharedState(models.Model):
    """One short text under a key, until it expires. ``governance.shared_state`` reads and writes it; nothing here is a
    record, and all of it may be lost."""

    key = models.CharField(max_length=200, primary_key=True)
    value = models.TextField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name_plural = "shared state"

    def __str__(self) -> str:
        return self.key
