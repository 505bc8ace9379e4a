"""Posts what is due. No connection of the database is held while a receiver is waited for.

A receiver has the alert if it answers with a status of 2xx. It is never led elsewhere: a redirect is a failure as every
other status is. ``410 Gone`` ends the tries, which is what the convention means by it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from governance.alerts import outbox
from governance.alerts.addresses import read_query
from governance.alerts.outbox import Claim, Outcome
from governance.alerts.signing import read_secret, sign
from routing.core.failures import CallFailed
from routing.providers.base import Endpoint, Timeouts, Transport
from routing.vault import Vault, VaultError

logger = logging.getLogger(__name__)

SECONDS = 15.0
"""How long a receiver may take."""

TIMEOUTS = Timeouts(connect=5.0, total=SECONDS)

GONE = 410

_AT_ONCE = 8

Cross = Callable[..., Awaitable[Any]]
"""Runs something synchronous, such as a statement, without holding up the loop."""


async def send_due(*, transport: Transport, cross: Cross, vault: Vault) -> int:
    """Send everything that is due, some at a time; gives how many alerts arrived."""
    await cross(outbox.fill, now=datetime.now(UTC))
    places, sent = asyncio.Semaphore(_AT_ONCE), 0

    async def send(delivery: UUID) -> bool:
        async with places:
            return await send_one(delivery, transport=transport, cross=cross, vault=vault) is None

    due = await cross(outbox.due, now=datetime.now(UTC))
    for is_delivered in await asyncio.gather(*(send(each) for each in due)):
        sent += is_delivered
    return sent


async def send_one(delivery: UUID, *, transport: Transport, cross: Cross, vault: Vault) -> str | None:
    """Try one alert, if it is still this process's to send; gives why it did not arrive, ``None`` if it did."""
    claim: Claim | None = await cross(outbox.claim, delivery, now=datetime.now(UTC))
    if claim is None:
        return "another process is sending it"
    outcome = await post(claim, transport=transport, vault=vault)
    await cross(partial(outbox.mark, claim, outcome), now=datetime.now(UTC))
    if outcome.error:
        logger.warning(
            "an alert did not arrive at %s (try %d of %d): %s",
            claim.webhook.identifier,
            claim.attempt,
            outbox.MOST_ATTEMPTS,
            outcome.error,
        )
    return outcome.error or None


async def post(claim: Claim, *, transport: Transport, vault: Vault) -> Outcome:
    """Post an alert once."""
    name = claim.webhook.identifier
    try:
        secret = read_secret(claim.webhook, vault=vault)
        query = read_query(claim.webhook, vault=vault)
    except VaultError as error:
        return Outcome(status=None, error=f"its secret or its address cannot be opened: {error}")
    parts = urlsplit(claim.webhook.url)
    path = parts.path.removeprefix("/")
    timestamp = int(datetime.now(UTC).timestamp())
    headers = {
        "content-type": "application/json",
        "user-agent": "Signalbox",
        **sign(secret, message=str(claim.delivery), timestamp=timestamp, body=claim.body),
    }
    endpoint = Endpoint(
        provider=name, adapter_type="webhook", base_url=f"{parts.scheme}://{parts.netloc}", timeouts=TIMEOUTS
    )
    try:
        exchange = await transport.open(
            endpoint=endpoint,
            method="POST",
            path=f"{path}?{query}" if query else path,
            headers=tuple((key.encode(), value.encode()) for key, value in headers.items()),
            body=claim.body,
        )
    except CallFailed as failed:
        return Outcome(status=None, error=failed.failure.message)
    await exchange.read_error()
    if 200 <= exchange.status < 300:
        return Outcome(status=exchange.status)
    return Outcome(
        status=exchange.status,
        error=f"{name} answered with status {exchange.status}",
        is_final=exchange.status == GONE,
    )
