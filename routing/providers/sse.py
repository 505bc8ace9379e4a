"""Server-sent events, read from bytes in any split.

The reader never decodes: an event's data stays bytes, so that a character cut anywhere is whole again by the time
anybody looks at it, and the bytes of each event can be forwarded as they came. The same bytes give the same events
however they are split.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""The most one event may have; a base64 image in a frame has to fit."""

_BOM = b"\xef\xbb\xbf"
# The end of a line and an empty line. A lone CR after LF is only an empty line once the next byte is known not to be
# LF; after a lone CR it is one at once, and an LF that follows is an empty line more, which means nothing.
_END = re.compile(rb"\n(?:\r?\n|\r(?=[^\n]))|\r\r")
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventTooLarge(Exception):
    """Raised for an event over the limit."""


class ServerEvent(NamedTuple):
    """One event.

    Attributes:
        name: its ``event`` field; empty if it has none.
        data: its ``data`` lines, joined by LF.
        raw: its bytes, comments and the empty line included.
        is_terminated: false for what lay unfinished at the end of the stream; an empty line is added to ``raw``.
    """

    name: str
    data: bytes
    raw: bytes
    is_terminated: bool = True


class EventReader:
    """Takes bytes, gives events. Comments and events without data are read over."""

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._buffer = bytearray()
        self._searched = 0
        self._at_start = True
        self._is_over = False

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that are complete with ``piece``.

        Raises :class:`EventTooLarge` once the events before the one that is too large have been handed out.
        """
        if self._is_over:
            raise EventTooLarge
        buffer = self._buffer
        source: bytes | bytearray = piece
        if buffer or self._at_start:
            buffer += piece
            source = buffer
            if self._at_start and not self._skip_bom():
                return []
        events: list[ServerEvent] = []
        begin = 0
        for content_end, end in _ends(source, self._searched):
            block = bytes(source[begin:end])
            if len(block) > self._max:
                self._is_over = True
                break
            event = _read(block, content_end - begin)
            begin = end
            if event is not None:
                events.append(event)
        if source is buffer:
            del buffer[:begin]
        else:
            buffer += source[begin:]
        self._is_over = self._is_over or len(buffer) > self._max
        if self._is_over and not events:
            raise EventTooLarge
        self._searched = max(0, len(buffer) - 2)
        return events

    def finish(self) -> list[ServerEvent]:
        """What lies unfinished at the end of the stream: an event without its empty line, or nothing."""
        if self._is_over:
            raise EventTooLarge
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        event = _read(rest, len(rest))
        if event is None:
            return []
        raw = event.raw.rstrip(b"\r\n") + b"\n\n"
        return [ServerEvent(event.name, event.data, raw, is_terminated=_END.search(rest + b"x") is not None)]

    def _skip_bom(self) -> bool:
        """Skip a byte order mark; false while it is not known whether there is one."""
        buffer = self._buffer
        if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
            return False
        if buffer.startswith(_BOM):
            del buffer[: len(_BOM)]
        self._at_start = False
        return True


def _ends(source: bytes | bytearray, begin: int) -> Iterator[tuple[int, int]]:
    """Where each block's content ends, and where the block does."""
    if b"\r" in source:
        for match in _END.finditer(source, begin):
            yield match.start(), match.end()
        return
    while (at := source.find(b"\n\n", begin)) >= 0:
        begin = at + 2
        yield at, begin


def _read(block: bytes, content_length: int) -> ServerEvent | None:
    """Read one block whose lines end at ``content_length``; ``None`` if it holds no data."""
    if block.startswith(b"data: ") and block.find(b"\n", 0, content_length) < 0 and b"\r" not in block:
        return ServerEvent("", block[6:content_length], block)
    content = block[:content_length]
    name = b""
    data: list[bytes] = []
    for line in _LINE_END.split(content):
        key, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if key == b"data":
            data.append(value)
        elif key == b"event":
            name = value
    if not data:
        return None
    return ServerEvent(name.decode("utf-8", "replace"), b"\n".join(data), block.lstrip(b"\r\n"))
