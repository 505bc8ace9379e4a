"""Answers that are kept for callers: how a call is made whose answer will be given again, and how it is given again.

What is kept, under which name and for how long is the business of the layers that ask for it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError

from governance import replays
from governance.gateway.context import Answer, CallContext, Proceed
from governance.gateway.deadline import seconds_left
from governance.models import ContentKind
from governance.replays import Claim, Kept
from routing.core.calls import CallReply
from routing.vault import VaultError

GRACE = timedelta(minutes=1)
"""How much longer than its deadline a call has its name, before its process is taken for lost."""

logger = logging.getLogger(__name__)


async def take(context: CallContext, *, key: str, request: str, kept: timedelta) -> Claim | Kept | None:
    """Take a name for the call, or what became of the call that has it (:func:`replays.claim`). A caller that leaves
    meanwhile does not keep it.

    Raises:
        OtherRequest: the name was given to another request.
        django.db.Error: the database is away.
        VaultError: the answer does not open.
    """
    services = context.services

    async def give_back(found: Claim | Kept | None) -> None:
        if isinstance(found, Claim):
            await services.bridge.cross(replays.release, found)

    taking = services.bridge.cross(
        replays.claim,
        key=key,
        request=request,
        now=datetime.now(UTC),
        lease=timedelta(seconds=seconds_left(context)) + GRACE,
        kept=kept,
    )
    return await services.take(taking, give_back)


async def make(
    context: CallContext,
    proceed: Proceed,
    held: Claim,
    *,
    kind: ContentKind,
    kept: timedelta,
    is_kept: Callable[[CallContext], bool] = lambda _: True,
) -> Answer:
    """Make the call that holds a name, and keep its answer. A call that fails gives the name back.

    Args:
        context: the call; it is written as bytes.
        proceed: makes it.
        held: its name.
        kind: what the answer is once it is kept.
        kept: for how long.
        is_kept: tells of the call that was answered whether that is to be kept; if not, the name is given back.
    """
    bridge = context.services.bridge
    try:
        answer = await proceed(context)
    except BaseException:
        await _behind(context, bridge.cross(replays.release, held))
        raise
    if not is_kept(context):
        await _behind(context, bridge.cross(replays.release, held))
        return answer
    whole = context.written(context, answer) if context.written is not None and isinstance(answer, CallReply) else None
    await _behind(
        context,
        bridge.cross(
            replays.keep,
            held,
            call=context.notes.replay_of or context.call_id,  # whichever a model was asked for
            answer=whole,
            kind=kind,
            owner=context.caller.application,
            now=datetime.now(UTC),
            kept=kept,
        ),
    )
    return answer


def give_again(context: CallContext, found: Kept) -> CallReply | None:
    """The answer that is kept, byte for byte; ``None`` if it cannot be given again."""
    original = context.request.original
    if found.answer is None or original is None:
        return None
    context.notes.replay_of = found.call
    return CallReply(protocol=original.protocol, body=found.answer)


async def _behind(context: CallContext, noting: Coroutine[Any, Any, object]) -> None:
    """Note what became of the name, whatever becomes of the caller. That it cannot be keeps nobody from an answer."""
    try:
        await asyncio.shield(context.services.owe(noting))
    except (DatabaseFault, VaultError) as error:
        logger.warning("what became of a call whose answer is kept cannot be noted (%s)", type(error).__name__)
