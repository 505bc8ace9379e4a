"""What webhooks are signed with, after the convention of Standard Webhooks 1.0: ``webhook-id``, ``webhook-timestamp``,
and ``webhook-signature``, an HMAC-SHA256 over both and the body, so that a receiver needs no code of ours.

Rows hold sealed bytes; a secret is in the clear only where this module was asked for it.
"""

import base64
import binascii
import hashlib
import hmac
import secrets

from governance.models import Webhook
from routing.vault import Place, Vault, VaultError

PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64
"""Bytes of a secret's key; the convention's bounds."""

_MADE_BYTES = 32
_HINT = 4


class SecretProblem(ValueError):
    """A text that is no secret; the sentence says how one is written, and repeats nothing of it."""


def make_secret() -> str:
    """A new secret."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_MADE_BYTES)).decode()


def check_secret(secret: str) -> None:
    """Refuse what is no secret.

    Raises:
        SecretProblem: it is none.
    """
    _key_of(secret)


def sign(secret: str, *, message: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a message at a moment (seconds since 1970)."""
    signed = f"{message}.{timestamp}.".encode() + body
    digest = base64.b64encode(hmac.new(_key_of(secret), signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{digest}"}


def store_secret(webhook: Webhook, secret: str, *, vault: Vault) -> None:
    """Seal a secret into an unsaved change of the webhook."""
    webhook.sealed_secret = vault.seal(secret, place=_place(webhook))
    webhook.secret_hint = secret[-_HINT:]


def read_secret(webhook: Webhook, *, vault: Vault) -> str:
    """The webhook's secret.

    Raises:
        VaultError: there is none, or it does not open.
    """
    if webhook.sealed_secret is None:
        raise VaultError(f"{webhook.identifier} has no secret: enter one on its page")
    return vault.open(bytes(webhook.sealed_secret), place=_place(webhook))


def reseal_secret(webhook: Webhook, *, vault: Vault) -> bool:
    """Seal the secret again, into an unsaved change, if an older key of the ring sealed it; tells whether one did.

    Raises:
        VaultError: it does not open.
    """
    resealed = vault.reseal(webhook.sealed_secret, place=_place(webhook))
    if resealed is not None:
        webhook.sealed_secret = resealed
    return resealed is not None


def _key_of(secret: str) -> bytes:
    problem = f"A secret is {PREFIX} and {LEAST_BYTES} to {MOST_BYTES} bytes in base64."
    if not secret.startswith(PREFIX):
        raise SecretProblem(problem)
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""  # raised below, outside of the error that carries the secret
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise SecretProblem(problem)
    return key


def _place(webhook: Webhook) -> Place:
    return Place(model="webhook", uuid=str(webhook.uuid), field="secret")
