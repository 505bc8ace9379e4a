"""A stream with something to be done after it. What that is belongs to the layer that asks for it."""

from collections.abc import AsyncIterator, Awaitable, Callable

from governance.gateway.context import FrameStream
from routing.core.calls import Frame


class EndedStream:
    """A stream after which something is done once: when it has finished, was broken off, or is closed by the caller."""

    __slots__ = ("_at_end", "_has_ended", "_stream")

    def __init__(self, stream: FrameStream, at_end: Callable[[], Awaitable[None]]) -> None:
        self._stream = stream
        self._at_end = at_end
        self._has_ended = False

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        try:
            return await self._stream.__anext__()
        except BaseException:  # its end as well
            await self._end()
            raise

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            await self._end()

    async def _end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            await self._at_end()
