"""Calls that their callers gave a name: what is asked under one name is done once."""

from typing import ClassVar

from django.db import models

from governance.models.stored_content import StoredContent


class NamedCall(models.Model):
    """One name of one key. The state changes by compare-and-set alone, in ``governance.replays``.

    Attributes:
        key: the mark of the access key and the name that the caller gave, or of a request whose answer is cached.
        request: the mark of what was asked.
        claim: names the call that holds it.
        due_at: until when that call has it; empty once it has ended.
        call: the call that ended it.
        answer: what the caller got; empty if that cannot be given again.
        expires_at: when the name is free again.
    """

    key = models.CharField(max_length=64, primary_key=True)
    request = models.CharField(max_length=64)
    claim = models.UUIDField()
    due_at = models.DateTimeField(null=True)
    call = models.UUIDField(null=True)
    answer = models.OneToOneField(StoredContent, null=True, on_delete=models.SET_NULL, related_name="+")
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering: ClassVar = ["expires_at", "pk"]

    def __str__(self) -> str:
        return self.key
