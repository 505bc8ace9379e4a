"""Changes of providers that involve their keys."""

from collections.abc import Iterator, Sequence
from functools import partial

from django.db import transaction

from governance.audit.actions import AuditAction, Author
from governance.changes.records import save_record
from governance.changes.resealing import reseal_each
from governance.changes.rules import check_provider_key
from routing.credentials import reseal_key, store_key
from routing.models import CatalogueVersion, Provider
from routing.vault import Vault

_KEY_COLUMNS = ("sealed_key", "key_hint")


def save_provider(
    provider: Provider,
    *,
    author: Author,
    vault: Vault,
    key: str | None = None,
    reason: str = "",
    only: Sequence[str] | None = None,
    expected: str | None = None,
) -> None:
    """Save a provider. ``key`` is a new key for it, empty to remove the stored one, ``None`` to leave it alone.

    A replaced key is told of even if its last characters, which are all that a revision has of it, are the same.
    """
    check_provider_key(key or "")
    replaced = bool(key) and provider.sealed_key is not None
    if key is not None:
        store_key(provider, key, vault=vault)
        only = None if only is None else [*only, *_KEY_COLUMNS]
    action = AuditAction.ROTATED if replaced else None
    save_record(provider, author=author, reason=reason, only=only, action=action, expected=expected)


def reseal_keys(*, author: Author, vault: Vault) -> Iterator[str]:
    """Seal every key again that an older key of the ring sealed; yields the identifiers of the providers changed.

    Raises:
        VaultError: after the last one, if keys did not open; it names the providers.
    """
    rows = Provider.objects.exclude(sealed_key=None).order_by("pk").values_list("pk", "identifier")
    return reseal_each(list(rows), partial(_reseal, author=author, vault=vault), what="keys")


def _reseal(pk: int, *, author: Author, vault: Vault) -> bool:
    """Seal one provider's key again; tells whether that was needed."""
    if not reseal_key(Provider.objects.get(pk=pk), vault=vault):
        return False
    with transaction.atomic():
        CatalogueVersion.bump()  # everybody who changes a provider waits here, so what is read now is the latest
        provider = Provider.objects.get(pk=pk)
        if not reseal_key(provider, vault=vault):
            return False
        save_record(provider, author=author, only=["sealed_key"], action=AuditAction.RESEALED, validate=False)
    return True
