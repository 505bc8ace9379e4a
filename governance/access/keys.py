"""The secrets of virtual keys: made and shown once; only a digest is kept. Keys are stored by ``governance.changes``.

A key has 256 random bits, so a plain SHA-256 is enough: there is nothing to guess that a slow hash would protect.
"""

import secrets
from hashlib import sha256

from governance.models import AccessKey

PREFIX = "sb-"
_SHOWN = 9  # characters of a key that people may see: the prefix and six random ones


def digest_of(secret: str) -> str:
    """The digest under which a key is known."""
    return sha256(secret.encode()).hexdigest()


def give_secret(key: AccessKey) -> str:
    """Make the secret of a key that is not stored yet. The key keeps its digest and the characters to show."""
    secret = PREFIX + secrets.token_urlsafe(32)
    key.prefix = secret[:_SHOWN]
    key.secret_digest = digest_of(secret)
    return secret
