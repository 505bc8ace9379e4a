"""A provider's key: seals it into the row, opens it for a call, seals it again under a new key.

Rows hold bytes. There is no model field that opens itself, so that a key is in the clear only where this module
was asked for it.
"""

from collections.abc import Iterator

from django.db import transaction

from routing.models import CatalogueVersion, Provider
from routing.vault import Place, Vault, VaultError

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

    Each provider is a transaction of its own, so that it may be interrupted and run again. A key that does not open
    is left as it is and keeps no other from being rotated.

    Raises:
        VaultError: after the last provider, if keys did not open; it names the providers.
    """
    broken: list[str] = []
    keys = Provider.objects.exclude(sealed_key=None).order_by("pk").values_list("pk", "identifier")
    for pk, identifier in list(keys):
        try:
            changed = _rotate(pk, vault=vault)
        except VaultError as error:
            broken.append(f"{identifier} ({error})")
            continue
        if changed:
            yield identifier
    if broken:
        raise VaultError(f"these keys do not open and were left as they are: {'; '.join(broken)}")


def _rotate(pk: int, *, vault: Vault) -> bool:
    """Seal one provider's key again; tells whether that was needed."""
    if not _is_old(Provider.objects.get(pk=pk), vault=vault):
        return False
    with transaction.atomic():
        CatalogueVersion.bump()  # everybody who changes a provider waits here, so what is read now is the latest
        provider = Provider.objects.get(pk=pk)
        if not _is_old(provider, vault=vault):
            return False
        provider.sealed_key = vault.seal(read_key(provider, vault=vault), place=_place(provider))
        provider.save(update_fields=["sealed_key", "updated_at"])
    return True


def _is_old(provider: Provider, *, vault: Vault) -> bool:
    sealed = provider.sealed_key
    return sealed is not None and vault.sealed_by(bytes(sealed)) != vault.current_key


def _place(provider: Provider) -> Place:
    return Place(model="provider", uuid=str(provider.uuid), field="key")
