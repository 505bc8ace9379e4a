"""Content at rest: seals what was said into a row, opens it again, and removes it when its time is over.

Prompts and answers are in ``StoredContent`` and nowhere else, and this module is the only one that seals and opens
them. A row is sealed for its own id, so that bytes moved to another row do not open.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db.models import QuerySet
from django.utils.crypto import salted_hmac

from governance.models import ContentKind, StoredContent
from routing.vault import Place, Vault

_BATCH = 500


def seal(content: bytes, *, kind: ContentKind, owner: str, now: datetime, kept: timedelta) -> StoredContent:
    """A row that is not saved yet, with the content sealed in it. ``content`` is text in UTF-8.

    Args:
        content: what was said.
        kind: what it is.
        owner: identifier of the application whose content it is.
        now: the moment it is kept from.
        kept: for how long; afterwards nobody can read it.
    """
    row = StoredContent(id=uuid4(), kind=kind.value, owner=owner, created_at=now, expires_at=now + kept)
    row.sealed = _vault().seal(content.decode(), place=_place(row))
    return row


def read(row: StoredContent, *, now: datetime) -> bytes | None:
    """The content; ``None`` if its time is over, whether or not the row is still there.

    Raises:
        VaultError: it does not open.
    """
    if row.expires_at <= now:
        return None
    return _vault().open(bytes(row.sealed), place=_place(row)).encode()


def mark(*parts: bytes) -> str:
    """By what the same content is recognised, in 64 digits that tell nothing of it to whoever has no secret of ours."""
    lengths = b"".join(len(part).to_bytes(8, "big") for part in parts)
    return salted_hmac("governance.safekeeping", lengths + b"".join(parts), algorithm="sha256").hexdigest()


def remove(contents: Iterable[UUID] | QuerySet[Any]) -> None:
    """Remove content that is no longer needed, by id or by a query for ids. Rows that name it name nothing then."""
    StoredContent.objects.filter(pk__in=contents).only("pk").delete()


def remove_expired(*, now: datetime) -> int:
    """Remove the content whose time is over; gives how many rows went."""
    removed = 0
    expired = StoredContent.objects.filter(expires_at__lte=now).order_by()
    while ids := list(expired.values_list("pk", flat=True)[:_BATCH]):
        remove(ids)
        removed += len(ids)
    return removed


def _vault() -> Vault:
    return Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)


def _place(row: StoredContent) -> Place:
    return Place(model="stored_content", uuid=str(row.pk), field="sealed")
