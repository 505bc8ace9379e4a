"""Virtual keys: made, shown once, revoked. Only a digest is kept.

A key has 256 random bits, so a plain SHA-256 is enough: there is nothing to guess that a slow hash would protect.
"""

import secrets
from datetime import datetime
from hashlib import sha256

from governance.models import AccessKey, Application

PREFIX = "sb-"
_SHOWN = 9  # characters of a key that people may see: the prefix and six random ones


def digest_of(secret: str) -> str:
    """The digest under which a key is known."""
    return sha256(secret.encode()).hexdigest()


def issue_key(
    *,
    application: Application,
    name: str,
    allowed_configurations: list[str] | None = None,
    allowed_models: list[str] | None = None,
    may_name_models: bool = False,
    expires_at: datetime | None = None,
    source: str = "",
) -> tuple[AccessKey, str]:
    """Make a key. The second value is the secret; it cannot be had again."""
    key = AccessKey(
        application=application,
        name=name,
        allowed_configurations=allowed_configurations,
        allowed_models=allowed_models,
        may_name_models=may_name_models,
        expires_at=expires_at,
        source=source,
    )
    secret = give_secret(key)
    key.full_clean(exclude=["allowed_configurations", "allowed_models"])
    key.save()
    return key, secret


def give_secret(key: AccessKey) -> str:
    """Make the secret of a key that is not stored yet. The key keeps its digest and the characters to show."""
    secret = PREFIX + secrets.token_urlsafe(32)
    key.prefix = secret[:_SHOWN]
    key.secret_digest = digest_of(secret)
    return secret


def revoke_key(key: AccessKey, *, now: datetime) -> None:
    """Revoke a key for good; every process refuses it within half a second."""
    if key.revoked_at is None:
        key.revoked_at = now
        key.save(update_fields=["revoked_at"])
