"""A provider's key: seals it into the row, opens it for a call, seals it again under a new key.

Rows hold bytes. There is no model field that opens itself, so that a key is in the clear only where this module
was asked for it.
"""

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


def reseal_key(provider: Provider, *, vault: Vault) -> bool:
    """Seal the key again, into an unsaved change, if an older key of the ring sealed it; tells whether one did.

    Raises:
        VaultError: it does not open.
    """
    resealed = vault.reseal(provider.sealed_key, place=_place(provider))
    if resealed is not None:
        provider.sealed_key = resealed
    return resealed is not None


def _place(provider: Provider) -> Place:
    return Place(model="provider", uuid=str(provider.uuid), field="key")
