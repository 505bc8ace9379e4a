"""What a worker does with one submitted call: takes it up, says that it is there, makes the call, says how it ended.

Runs on the event loop that this process's calls live on (``governance.gateway.home``); the worker's own thread waits
for it without a database connection.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError

from governance.calls import ask, find_caller
from governance.gateway.context import Postponed
from governance.gateway.protocols import openai_chat
from governance.gateway.service import Service
from governance.submissions.claims import (
    RENEW_SECONDS,
    Claim,
    ClaimLost,
    Ending,
    announce_sending,
    end,
    postpone,
    renew,
    take_up,
)
from routing.core.failures import CallFailed

logger = logging.getLogger(__name__)

PATIENCE = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Seconds between two tries to say how a call ended, while the database is away. An answer that was paid for is not
given up quickly."""


async def execute(service: Service, submission: UUID, *, worker: str) -> bool:
    """Execute a submitted call if it is still to be executed; tells whether it was, to its end."""
    claim = await service.cross(take_up, submission, worker=worker, now=_now())
    if claim is None:
        return False
    expires_at = _expires_at(service, claim)
    try:
        async with _holding(service, claim):
            ending = await _make_call(service, claim, waits_until=expires_at)
            return await _say_how_it_ended(service, claim, ending)
    except Postponed as reached:
        logger.info("submission %s waits for a limit", claim.submission)
        wait, until = timedelta(seconds=reached.wait), expires_at or _now()
        await service.cross(postpone, claim, wait=wait, expires_at=until, now=_now())
        return False
    except ClaimLost as lost:
        logger.warning("%s; this worker sends nothing for it", lost)
        return False


async def _make_call(service: Service, claim: Claim, *, waits_until: datetime | None) -> Ending:
    async def announce() -> None:
        await service.cross(announce_sending, claim, now=_now())

    try:
        caller = find_caller(service, application=claim.application, key=claim.key)
        answer = await ask(
            service,
            openai_chat.read_request(claim.body),
            caller=caller,
            options=claim.options,
            call_id=claim.submission,
            before_sending=announce,
            waits_until=waits_until,
        )
    except CallFailed as failed:
        return Ending(answer=None, failure=failed.failure)
    return Ending(answer=answer.body, failure=answer.refusal)


def _expires_at(service: Service, claim: Claim) -> datetime | None:
    """Until when the call may wait; ``None`` if that cannot be read."""
    in_force = service.in_force
    return None if in_force is None else claim.submitted_at + in_force.standing.settings.submissions.content_kept


async def _say_how_it_ended(service: Service, claim: Claim, ending: Ending) -> bool:
    for seconds in (*PATIENCE, None):
        try:
            heard = await service.cross(end, claim, ending, now=_now())
        except DatabaseFault as error:
            if seconds is None:
                raise
            logger.warning("what became of %s waits: the database is away (%s)", claim.submission, type(error).__name__)
            await asyncio.sleep(seconds)
        else:
            if not heard:
                logger.warning("submission %s had ended before this worker said how", claim.submission)
            return heard
    raise AssertionError("the last try returns or raises")


@contextlib.asynccontextmanager
async def _holding(service: Service, claim: Claim) -> AsyncIterator[None]:
    """Renew the lease for as long as the block runs."""
    renewing = asyncio.create_task(_keep_renewing(service, claim))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def _keep_renewing(service: Service, claim: Claim) -> None:
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            if not await service.cross(renew, claim, now=_now()):
                return  # nothing more can be sent for it; what was sent may still be answered
        except DatabaseFault as error:
            logger.warning("the lease of %s is not renewed (%s)", claim.submission, type(error).__name__)


def _now() -> datetime:
    return datetime.now(UTC)
