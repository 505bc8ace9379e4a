"""Answers that are kept for callers: how a call is made whose answer will be given again, and how it is given again.

A whole answer is kept before its caller has it, a stream once it has come to its regular end. What is kept, under which
name and for how long is the business of the layers that ask for it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError

from governance import replays
from governance.gateway.context import Answer, CallContext, FrameStream, Proceed
from governance.gateway.deadline import patience, seconds_left
from governance.models import ContentKind
from governance.replays import Claim, Kept
from routing.core.calls import CallReply, Frame
from routing.vault import VaultError

GRACE = timedelta(minutes=1)
"""How much longer than its deadline a call has its name, before its process is taken for lost."""

MOST_OF_A_STREAM = 16 * 1024 * 1024
"""How many bytes of a stream are kept; a longer one is made once as well, and cannot be given again."""

logger = logging.getLogger(__name__)


async def take(context: CallContext, *, key: str, request: str, kept: timedelta) -> Claim | Kept | None:
    """Take a name for the call, or what became of the call that has it (:func:`replays.claim`). A call that leaves
    meanwhile does not keep it.

    Raises:
        OtherRequest: the name was given to another request.
        django.db.Error: the database is away.
        TimeoutError: it does not answer.
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
    async with asyncio.timeout(patience(context)):
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
    """Make the call that holds a name, and keep its answer. A call that fails, or whose caller leaves, gives the name
    back.

    Args:
        context: the call; it is written as bytes.
        proceed: makes it.
        held: its name.
        kind: what the answer is once it is kept.
        kept: for how long.
        is_kept: tells of the call that was answered whether that is to be kept; if not, the name is given back.
    """
    name = _Name(context, held, kind=kind, kept=kept)
    try:
        answer = await proceed(context)
    except BaseException:
        await name.give_back()
        raise
    if not is_kept(context):
        await name.give_back()
    elif isinstance(answer, CallReply):
        await name.keep(None if context.written is None else context.written(context, answer))
    else:
        context.notes.told = bytearray()
        return _KeptStream(context, answer, name)
    return answer


def give_again(context: CallContext, found: Kept) -> Answer | None:
    """The answer that is kept, byte for byte; ``None`` if it cannot be given again."""
    original = context.request.original
    if found.answer is None or original is None:
        return None
    context.notes.replay_of = found.call
    if context.request.stream:
        return _StreamedAgain(found.answer)
    return CallReply(protocol=original.protocol, body=found.answer)


class _Name:
    """The name that a call holds, until it is known what becomes of it."""

    __slots__ = ("_context", "_held", "_kept", "_kind")

    def __init__(self, context: CallContext, held: Claim, *, kind: ContentKind, kept: timedelta) -> None:
        self._context = context
        self._held = held
        self._kind = kind
        self._kept = kept

    async def give_back(self) -> None:
        await _behind(self._context, self._context.services.bridge.cross(replays.release, self._held))

    async def keep(self, answer: bytes | None) -> None:
        """``None`` is an answer that cannot be given again."""
        context = self._context
        keeping = context.services.bridge.cross(
            replays.keep,
            self._held,
            call=context.notes.replay_of or context.call_id,  # whichever a model was asked for
            answer=answer,
            kind=self._kind,
            owner=context.caller.application,
            now=datetime.now(UTC),
            kept=self._kept,
        )
        await _behind(context, keeping)


class _KeptStream:
    """A stream whose bytes for the caller are kept once it has come to its regular end and is closed."""

    __slots__ = ("_context", "_has_ended", "_is_closed", "_name", "_stream")

    def __init__(self, context: CallContext, stream: FrameStream, name: _Name) -> None:
        self._context = context
        self._stream = stream
        self._name = name
        self._has_ended = self._is_closed = False

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        notes = self._context.notes
        if notes.told is not None and len(notes.told) > MOST_OF_A_STREAM:
            notes.told = None
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._has_ended = True
            raise

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            if not self._is_closed:
                self._is_closed = True
                await self._note()

    async def _note(self) -> None:
        if self._has_ended:
            await self._name.keep(_text(self._context.notes.told))
        else:
            await self._name.give_back()


def _text(told: bytearray | None) -> bytes | None:
    """What was told, if it is text: in a name or an id of an event a provider may send anything."""
    try:
        return None if told is None else told.decode().encode()
    except UnicodeDecodeError:
        return None


class _StreamedAgain:
    """A stream that is kept: one frame in the caller's own protocol."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        body, self._body = self._body, b""
        if not body:
            raise StopAsyncIteration
        return Frame(body)

    async def aclose(self) -> None:
        """There is nothing behind it."""


async def _behind(context: CallContext, noting: Coroutine[Any, Any, object]) -> None:
    """Note what became of the name, whatever becomes of the caller. That it cannot be keeps nobody from an answer."""
    await context.services.finish(_noted(noting), seconds=patience(context))


async def _noted(noting: Coroutine[Any, Any, object]) -> None:
    try:
        await noting
    except (DatabaseFault, VaultError) as error:
        logger.warning("what became of a call whose answer is kept cannot be noted (%s)", type(error).__name__)
