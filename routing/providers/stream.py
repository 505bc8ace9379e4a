"""A streamed answer as frames: the part that is the same for every dialect.

A dialect's codec says what an event means; the time-outs, the order of good frames and the failure after them, and
the closing of connections are here.
"""

import asyncio
from collections import deque
from typing import Protocol, Self

from routing.core.calls import Frame
from routing.core.failures import CallFailed
from routing.providers.base import Endpoint, Exchange, Phase
from routing.providers.errors import unreadable
from routing.providers.sse import EventTooLarge, ServerEvent


class Reader(Protocol):
    """What takes a stream's bytes, in any split, and gives its events."""

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that are complete with a piece. Raises ``EventTooLarge``."""

    def finish(self) -> list[ServerEvent]:
        """What lies unfinished at the end. Raises ``EventTooLarge``."""


class Codec(Protocol):
    """What a dialect makes of events. It keeps the state of one stream."""

    @property
    def is_done(self) -> bool:
        """Whether the terminator was read: nothing after it is looked at."""

    def read(self, event: ServerEvent) -> Frame | None:
        """The frame an event is, ``None`` for one to be dropped. Raises ``CallFailed``."""

    def fault_at_end(self) -> CallFailed | None:
        """What is wrong with a stream that ends here without a terminator; ``None`` if it is a regular end."""


class FrameStream:
    """The ``ReplyStream`` over an exchange. It is read by one task at a time."""

    __slots__ = ("_codec", "_endpoint", "_exchange", "_failure", "_first_at", "_is_over", "_reader", "_ready")

    def __init__(self, *, endpoint: Endpoint, exchange: Exchange, codec: Codec, reader: Reader) -> None:
        self._endpoint = endpoint
        self._exchange = exchange
        self._codec = codec
        self._reader = reader
        self._ready: deque[Frame] = deque()
        self._failure: CallFailed | None = None
        self._first_at: float | None = exchange.started_at + endpoint.timeouts.first_event
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Frame:
        while not self._ready:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._is_over:
                raise StopAsyncIteration
            if self._codec.is_done:
                self._is_over = True
                await self._exchange.drain()
            else:
                await self._wait_for_events()
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Close the connection at once; the iteration ends."""
        self._is_over = True
        self._failure = None
        self._ready.clear()
        await self._exchange.aclose()

    async def _wait_for_events(self) -> None:
        """Read until there is at least one event, or the end. Comments do not count."""
        if self._first_at is not None:
            until, phase = self._first_at, Phase.FIRST_EVENT
        else:
            until = asyncio.get_running_loop().time() + self._endpoint.timeouts.between_events
            phase = Phase.BETWEEN_EVENTS
        while True:
            try:
                piece = await self._exchange.chunk(until=until, phase=phase)
            except BaseException:
                self._is_over = True
                raise
            if self._is_over:  # closed while waiting
                return
            try:
                events = self._reader.feed(piece) if piece else self._reader.finish()
            except EventTooLarge:
                await self._fail(unreadable("an event of the answer is too large", endpoint=self._endpoint))
                return
            if events:
                self._first_at = None
                await self._take(events)
            if not piece and self._failure is None and not self._codec.is_done:
                self._is_over = True
                self._failure = self._codec.fault_at_end()
                await self._exchange.aclose()
            if events or not piece:
                return

    async def _take(self, events: list[ServerEvent]) -> None:
        for event in events:
            try:
                frame = self._codec.read(event)
            except CallFailed as failure:
                await self._fail(failure)
                return
            if frame is not None:
                self._ready.append(frame)
            if self._codec.is_done:
                return

    async def _fail(self, failure: CallFailed) -> None:
        """End with a failure, which is raised once the frames before it are read."""
        self._is_over = True
        self._failure = failure
        await self._exchange.aclose()
