"""A provider's key: seals it into the row, opens it for a call, seals it again under a new key.

Rows hold bytes. There is no model field that opens itself, so that a key is in the clear only where this module
was asked for it.
"""

from collections.abc import Iterator

from django.db import transaction

from routing.models import Provider
from routing.vault import Place, Vault

_HINT = 4


def store_key(provider: Provider, key: str, *, vault: Vault) -> None:
    """Seal a key into an unsaved change of the provider; an empty key removes it."""
    key = key.strip()
    provider.sealed_key = vault.seal(key, place=_place(provider)) if key else None
    provider.key_hint = key[-_HINT:] if len(key) > 3 * _HINT else ""


def read_key(provider: Provider, *, vault: Vault) -> str:
    """The provider's key, or an empty text if it has none.

    Raises:
        VaultError: it does not open.
    """
    if provider.sealed_key is None:
        return ""
    return vault.open(bytes(provider.sealed_key), place=_place(provider))


def rotate_keys(*, vault: Vault) -> Iterator[str]:
    """Seal every key again that an older key of the ring sealed; yields the identifiers of the providers changed.

    Each provider is a transaction of its own, so that it may be interrupted and run again.
    """
    identifiers = Provider.objects.exclude(sealed_key=None).values_list("pk", flat=True)
    for pk in list(identifiers):
        with transaction.atomic():
            provider = Provider.objects.select_for_update().get(pk=pk)
            sealed = provider.sealed_key
            if sealed is None or vault.sealed_by(bytes(sealed)) == vault.current_key:
                continue
            store_key(provider, read_key(provider, vault=vault), vault=vault)
            provider.save(update_fields=["sealed_key", "key_hint", "updated_at"])
        yield provider.identifier


def _place(provider: Provider) -> Place:
    return Place(model="provider", uuid=str(provider.uuid), field="key")
