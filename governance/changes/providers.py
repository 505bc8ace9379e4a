"""Changes of providers that involve their keys."""

from collections.abc import Sequence

from governance.audit.actions import AuditAction, Author
from governance.changes.records import save_record
from routing.credentials import store_key
from routing.models import Provider
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
) -> None:
    """Save a provider. ``key`` is a new key for it, empty to remove the stored one, ``None`` to leave it alone.

    A replaced key is told of even if its last characters, which are all that a revision has of it, are the same.
    """
    replaced = bool(key) and not provider._state.adding
    if key is not None:
        store_key(provider, key, vault=vault)
        only = None if only is None else [*only, *_KEY_COLUMNS]
    action = AuditAction.ROTATED if replaced else None
    save_record(provider, author=author, reason=reason, only=only, action=action)
