"""Changes of virtual keys: issued, changed, rotated, revoked. A secret is handed out once, by the function that made
it, and is in no revision."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db import transaction

from governance.access.keys import give_secret
from governance.audit.actions import AuditAction, Author, RecordKind
from governance.changes.door import change
from governance.changes.rules import RecordOutOfState
from governance.models import LIMIT_FIELDS, AccessKey

_COPIED = (
    "application", "name", "allowed_configurations", "allowed_models", "may_name_models", "source", *LIMIT_FIELDS,
)  # fmt: skip


def issue_key(key: AccessKey, *, author: Author, reason: str = "") -> str:
    """Store a new key; gives its secret, which cannot be had again."""
    secret = give_secret(key)
    _change(key, author=author, reason=reason, action=AuditAction.ISSUED)
    return secret


def save_key(
    key: AccessKey, *, author: Author, only: Sequence[str], reason: str = "", expected: str | None = None
) -> None:
    """Change what a key allows or when it expires."""
    if key.revoked_at is not None:
        raise RecordOutOfState(f"The key {key.name} is revoked and cannot be changed; issue another.")
    _change(key, author=author, reason=reason, only=only, expected=expected)


def rotate_key(
    key: AccessKey, *, author: Author, grace: timedelta = timedelta(0), reason: str = ""
) -> tuple[AccessKey, str]:
    """Issue another key that allows the same; the old one goes on for ``grace`` and is then refused.

    Gives the new key and its secret.
    """
    now = datetime.now(UTC)
    if key.revoked_at is not None:
        raise RecordOutOfState(f"The key {key.name} is revoked; issue another.")
    if key.expires_at is not None and key.expires_at <= now:
        raise RecordOutOfState(f"The key {key.name} has expired, and so would its successor; issue another.")
    successor = AccessKey(**{name: getattr(key, name) for name in _COPIED}, expires_at=key.expires_at)
    with transaction.atomic():
        secret = give_secret(successor)
        # Not validated: it allows what the old one did, also what was retired since.
        _change(successor, author=author, reason=reason, action=AuditAction.ISSUED, validate=False)
        if grace <= timedelta(0):
            key.revoked_at = now
        else:
            ends = now + grace
            key.expires_at = ends if key.expires_at is None else min(key.expires_at, ends)
        columns = ["revoked_at", "expires_at"]
        _change(key, author=author, reason=reason, only=columns, action=AuditAction.ROTATED, validate=False)
    return successor, secret


def revoke_key(key: AccessKey, *, author: Author, reason: str = "") -> None:
    """Revoke a key for good; every process refuses it within a second."""
    if key.revoked_at is None:
        key.revoked_at = datetime.now(UTC)
        columns = ["revoked_at"]
        _change(key, author=author, reason=reason, only=columns, action=AuditAction.REVOKED, validate=False)


def _change(
    key: AccessKey,
    *,
    author: Author,
    reason: str,
    only: Sequence[str] | None = None,
    action: AuditAction | None = None,
    validate: bool = True,
    expected: str | None = None,
) -> None:
    change(
        kind=RecordKind.KEY,
        record=key,
        name=name_of_key(key),
        author=author,
        reason=reason,
        only=only,
        action=action,
        validate=validate,
        expected=expected,
    )


def name_of_key(key: AccessKey) -> str:
    """Under which name a key is spoken of: its application, and the characters that people may see."""
    return f"{key.application.identifier}/{key.prefix}"
