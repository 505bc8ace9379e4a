"""Changes of webhooks that involve what is sealed of them, and of alerts that people let go out again."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction

from governance.alerts import outbox
from governance.alerts.addresses import AddressProblem, reseal_query, split_address, store_query
from governance.alerts.signing import SecretProblem, check_secret, make_secret, reseal_secret, store_secret
from governance.audit.actions import AuditAction, Author, RecordKind
from governance.audit.trail import append
from governance.changes.records import save_record
from governance.changes.resealing import reseal_each
from governance.models import AccessVersion, AlertDelivery, Webhook
from routing.vault import Vault

_SECRET_COLUMNS = ("sealed_secret", "secret_hint")
_QUERY_COLUMNS = ("sealed_query", "query_of")


def check_webhook_secret(secret: str) -> None:
    """Refuse what is no secret.

    Raises:
        ValidationError: under ``secret``; nothing of it is repeated.
    """
    try:
        check_secret(secret)
    except SecretProblem as problem:
        raise ValidationError({"secret": str(problem)}) from None


def read_address(address: str) -> tuple[str, str | None]:
    """A webhook's address as somebody entered it: the URL up to its path, and the query (see ``save_webhook``).

    Raises:
        ValidationError: under ``url``; nothing of the query is repeated.
    """
    try:
        return split_address(address)
    except AddressProblem as problem:
        raise ValidationError({"url": str(problem)}) from None


def save_webhook(
    webhook: Webhook,
    *,
    author: Author,
    vault: Vault,
    secret: str = "",
    renew: bool = False,
    query: str | None = None,
    reason: str = "",
    only: Sequence[str] | None = None,
    expected: str | None = None,
) -> str:
    """Save a webhook; gives the secret that was made for it, which cannot be had again, and else nothing.

    Args:
        webhook: the record.
        author: who, and from where.
        vault: seals the secret.
        secret: what to sign with from now on; empty to leave the stored one alone. One that has none gets one made.
        renew: make another secret in place of the stored one.
        query: what follows the question mark of the URL, which ends before it. Empty to forget the stored one; ``None``
            to leave that alone, unless the URL is another one than it was entered with: then it is forgotten.
        reason: why.
        only: the columns to save; all if not said.
        expected: the version that the change is meant for.
    """
    made = "" if secret or (webhook.sealed_secret is not None and not renew) else make_secret()
    if secret:
        check_webhook_secret(secret)
    replaced = (bool(secret or made) and webhook.sealed_secret is not None) or (bool(query) and webhook.has_query)
    if secret or made:
        store_secret(webhook, secret or made, vault=vault)
        only = None if only is None else [*only, *_SECRET_COLUMNS]
    if query is not None or (webhook.sealed_query is not None and not webhook.has_query):
        store_query(webhook, query, vault=vault)
        only = None if only is None else [*only, *_QUERY_COLUMNS]
    action = AuditAction.ROTATED if replaced else None
    save_record(webhook, author=author, reason=reason, only=only, action=action, expected=expected)
    return made


def reseal_secrets(*, author: Author, vault: Vault) -> Iterator[str]:
    """Seal every secret and query again that an older key of the ring sealed; yields the identifiers of the webhooks
    changed.

    Raises:
        VaultError: after the last one, if secrets did not open; it names the webhooks.
    """
    rows = Webhook.objects.order_by("pk").values_list("pk", "identifier")
    return reseal_each(list(rows), partial(_reseal, author=author, vault=vault), what="secrets")


def _reseal(pk: int, *, author: Author, vault: Vault) -> bool:
    with transaction.atomic():
        AccessVersion.bump()  # everybody who changes a webhook waits here, so what is read now is the latest
        webhook: Webhook = Webhook.objects.get(pk=pk)
        reseals = {"sealed_secret": reseal_secret, "sealed_query": reseal_query}
        columns = [name for name, reseal in reseals.items() if reseal(webhook, vault=vault)]
        if not columns:
            transaction.set_rollback(True)
            return False
        save_record(webhook, author=author, only=columns, action=AuditAction.RESEALED, validate=False)
    return True


def send_again(delivery: UUID, *, author: Author, reason: str = "") -> bool:
    """Let an alert that has failed be tried anew; tells whether it had failed."""
    with transaction.atomic():
        done = outbox.send_again(delivery, now=datetime.now(UTC))
        if done:
            row = AlertDelivery.objects.select_related("webhook").get(pk=delivery)
            name = f"{row.budget or 'test'}/{row.webhook.identifier}"
            append(action=AuditAction.SENT_AGAIN, kind=RecordKind.ALERT, record=name, author=author, reason=reason)
    return done
