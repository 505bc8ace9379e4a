"""Keys for tests, issued and revoked through the one door."""

from typing import Any

from governance.changes import keys
from governance.models import AccessKey
from tests.authors import SOMEBODY


def issue_key(**fields: Any) -> tuple[AccessKey, str]:
    """A stored key with these fields, and its secret."""
    key = AccessKey(**fields)
    return key, keys.issue_key(key, author=SOMEBODY)


def revoke_key(key: AccessKey) -> None:
    """Revoke a key."""
    keys.revoke_key(key, author=SOMEBODY)
