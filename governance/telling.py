"""Alerts on demand: tries a webhook, and sends what is due, for pages and commands that are no part of a server."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.conf import settings

from governance.alerts import outbox
from governance.alerts.sender import send_one
from governance.gateway import home
from governance.gateway.service import Service
from governance.models import Webhook
from routing.vault import Vault

SECONDS = 30.0
"""How long somebody waits for a test."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a test: the delivery, and why it did not arrive; empty if it did."""

    delivery: UUID
    problem: str


def try_webhook(webhook: Webhook) -> Trial:
    """Send a test at once. It is a row of the outbox as alerts are, so one that does not arrive is tried again."""
    delivery = outbox.add_test(webhook, now=datetime.now(UTC))

    async def send(service: Service) -> str | None:
        return await send_one(
            delivery,
            transport=service.services.transport,
            cross=service.cross,
            vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS),
        )

    return Trial(delivery, home.wait(send, seconds=SECONDS) or "")


def send_alerts() -> int:
    """Send everything that is due; gives how many alerts arrived."""
    return home.wait(Service.send_alerts)
