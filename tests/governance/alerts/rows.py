"""Crossings, webhooks and what they are told, for tests."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from budgets.models import Account, Crossing
from budgets.scopes import AccountKey, Scope
from governance.alerts import outbox
from governance.changes.webhooks import read_address, save_webhook
from governance.models import AlertDelivery, Webhook
from routing.vault import Vault
from tests.authors import SOMEBODY
from tests.budgets.claims import ONE, key_of

VAULT = Vault([("k1", bytes(32))])
SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS1wYWdlci0xMjM0NTY3OA=="
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def crossing(
    budget: str = "desk-month",
    *,
    threshold: int | None = 80,
    key: AccountKey | None = None,
    at: datetime | None = None,
    **figures: Any,
) -> Crossing:
    """A threshold that was crossed, or a call that was refused, in an account that was opened ten days before."""
    key = key or key_of(Scope(application="helpdesk"))
    at = datetime.now(UTC) if at is None else at
    account, _ = Account.objects.get_or_create(
        identity=key.identity,
        defaults={
            "scope": key.scope.document,
            "currency": key.currency,
            "window": key.window.identity,
            "starts_at": key.window.starts,
            "ends_at": key.window.ends,
            "opened_at": at - timedelta(days=10),
        },
    )
    values = {"limit": 10 * ONE, "spent": 8 * ONE, "uncertain": ONE // 2, **figures}
    row = Crossing(account=account, budget=budget, threshold=threshold, at=at, **values)
    row.save()
    return row


def webhook(identifier: str = "pager", *, url: str = "https://alerts.example.com/signalbox", **columns: Any) -> Webhook:
    """A webhook that signs with :data:`SECRET`, made before everything that is crossed here."""
    url, query = read_address(url)
    row = Webhook(identifier=identifier, url=url, **columns)
    save_webhook(row, author=SOMEBODY, vault=VAULT, secret=SECRET, query=query)
    return row


def delivery(identifier: str = "pager", **columns: Any) -> AlertDelivery:
    """An alert that waits for a webhook of its own."""
    row = webhook(identifier, **columns)
    crossed = crossing(f"budget-of-{identifier}")
    outbox.fill(now=datetime.now(UTC))
    return AlertDelivery.objects.get(webhook=row, crossing=crossed.pk)


def stored(pk: UUID) -> AlertDelivery:
    return AlertDelivery.objects.get(pk=pk)
