from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.providers.ndjson import LineReader
from routing.providers.sse import EventTooLarge, ServerEvent

DATA = b'{"a":"\xc3\xa4"}\n\r\n  \n{"b":1}\r\n{"c":2}\n{"half'


def read(*pieces: bytes) -> list[ServerEvent]:
    reader = LineReader()
    return [*(event for piece in pieces for event in reader.feed(piece)), *reader.finish()]


def test_lines() -> None:
    assert [(event.data, event.raw, event.is_terminated) for event in read(DATA)] == [
        (b'{"a":"\xc3\xa4"}', b'{"a":"\xc3\xa4"}\n', True),
        (b'{"b":1}', b'{"b":1}\n', True),
        (b'{"c":2}', b'{"c":2}\n', True),
        (b'{"half', b'{"half\n', False),
    ]
    assert read() == read(b"") == read(b"\n \r\n") == []


@given(st.lists(st.integers(0, len(DATA)), max_size=8))
def test_the_same_lines_wherever_they_are_cut(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(DATA)]
    assert read(*(DATA[begin:end] for begin, end in pairwise(ends))) == read(DATA)


def test_a_line_that_is_too_large() -> None:
    reader = LineReader(max_event_bytes=8)
    assert [event.data for event in reader.feed(b'{"a":1}\n{"bbbbbbbbb":2}\n{}\n')] == [b'{"a":1}']
    with pytest.raises(EventTooLarge):
        reader.feed(b"{}\n")
    with pytest.raises(EventTooLarge):
        reader.finish()


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    reader = LineReader(max_event_bytes=8)
    assert reader.feed(b"12345678") == []
    with pytest.raises(EventTooLarge):
        reader.feed(b"9")
