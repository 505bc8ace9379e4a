"""Newline-delimited JSON, read from bytes in any split: a line is an event.

Like server-sent events it is never decoded here, and the same bytes give the same events however they are split.
"""

from routing.providers.sse import MAX_EVENT_BYTES, EventTooLarge, ServerEvent

_BLANK = b" \t\r\n"


class LineReader:
    """Takes bytes, gives a line each. Blank lines are read over."""

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._rest = bytearray()

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The lines that are complete with ``piece``.

        Raises :class:`EventTooLarge` once the lines before the one that is too large have been handed out.
        """
        if len(self._rest) > self._max:
            raise EventTooLarge
        searched = len(self._rest)
        self._rest += piece
        end = self._rest.rfind(b"\n", searched) + 1
        lines = bytes(self._rest[:end]).split(b"\n")
        del self._rest[:end]
        for index, line in enumerate(lines):
            if len(line) > self._max:
                self._rest[:] = line
                lines = lines[:index]
                break
        events = [event for line in lines if (event := _read(line, is_terminated=True)) is not None]
        if len(self._rest) > self._max and not events:
            raise EventTooLarge
        return events

    def finish(self) -> list[ServerEvent]:
        """What lies unfinished at the end of the stream: a line without its end, or nothing."""
        if len(self._rest) > self._max:
            raise EventTooLarge
        rest = bytes(self._rest)
        self._rest.clear()
        event = _read(rest, is_terminated=False)
        return [] if event is None else [event]


def _read(line: bytes, *, is_terminated: bool) -> ServerEvent | None:
    data = line.strip(_BLANK)
    return ServerEvent("", data, data + b"\n", is_terminated) if data else None
