import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.providers.sse import EventReader, EventTooLarge, ServerEvent


def read(*pieces: bytes, limit: int = 1 << 20) -> list[ServerEvent]:
    reader = EventReader(max_event_bytes=limit)
    events: list[ServerEvent] = []
    for piece in pieces:
        events += reader.feed(piece)
    return events + reader.finish()


def said(*pieces: bytes) -> list[tuple[str, bytes]]:
    return [(event.name, event.data) for event in read(*pieces)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_kind_of_line_end(end: bytes) -> None:
    stream = b"data: a" + end + end + b"event: x" + end + b"data: b" + end + b"data:c" + end + end
    assert said(stream) == [("", b"a"), ("x", b"b\nc")]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data:x\n\n", [("", b"x")]),
        (b"data:  x\n\n", [("", b" x")]),
        (b"data\n\n", [("", b"")]),
        (b": PROCESSING\n\ndata: x\n\n", [("", b"x")]),
        (b"data: x\n: between\n\n: after\n\n", [("", b"x")]),
        (b"id: 7\nretry: 10\ndata: x\nunknown: y\n\n", [("", b"x")]),
        (b"event: ping\n\n", []),
        (b"\n\n\n\ndata: x\n\n\n\n", [("", b"x")]),
        (b"\xef\xbb\xbfdata: x\n\n", [("", b"x")]),
        (b"\xef\xbb\xbf", []),
        (b"data: x\n\ndata: \xef\xbb\xbf\n\n", [("", b"x"), ("", b"\xef\xbb\xbf")]),
        (b"data: [DONE]", [("", b"[DONE]")]),
        (b"data: a\r\n\rdata: b\n\n", [("", b"a"), ("", b"b")]),
        (b"", []),
    ],
    ids=[
        "no-space", "two-spaces", "no-colon", "comment-before", "comments-inside-and-after", "other-fields",
        "no-data", "empty-lines", "bom", "only-bom", "bom-inside", "no-end", "mixed-ends", "nothing",
    ],
)  # fmt: skip
def test_what_streams_say(stream: bytes, events: list[tuple[str, bytes]]) -> None:
    assert said(stream) == events
    assert said(*(stream[at : at + 1] for at in range(len(stream)))) == events


def test_a_character_cut_anywhere_is_whole_again() -> None:
    stream = "data: 你好 🌌\n\n".encode()
    for at in range(len(stream) + 1):
        assert said(stream[:at], stream[at:]) == [("", "你好 🌌".encode())]


def test_the_bytes_of_events_are_the_stream() -> None:
    stream = b'data: {"a": 1}\n\n: comment\nevent: e\r\ndata:b\r\n\r\ndata: [DONE]\n\n'
    assert b"".join(event.raw for event in read(stream)) == stream


def test_an_event_is_handed_out_when_its_last_byte_arrives() -> None:
    for end in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        reader = EventReader()
        stream = b"data: x" + end
        assert reader.feed(stream[:-1]) == []
        assert len(reader.feed(stream[-1:])) == 1


def test_what_is_unfinished_at_the_end_is_marked_and_completed() -> None:
    (event,) = read(b"data: x\n")
    assert (event.raw, event.is_terminated) == (b"data: x\n\n", False)
    (event,) = read(b"data: x\r\n\r\n")
    assert event.is_terminated


def test_an_event_over_the_limit_is_refused_after_those_before_it() -> None:
    reader = EventReader(max_event_bytes=50)
    assert len(reader.feed(b"data: x\n\ndata: " + b"y" * 60)) == 1
    with pytest.raises(EventTooLarge):
        reader.feed(b"z")
    with pytest.raises(EventTooLarge):
        EventReader(max_event_bytes=50).feed(b"data: " + b"y" * 60 + b"\n\n")


LINES = st.lists(
    st.sampled_from(
        [b"data: a", b"data:b", b"data: \xf0\x9f\x8c\x8c", b"data", b": c", b"event: e", b"id: 1", b"x", b""]
    )
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    lines = draw(LINES)
    body = b"".join(line + draw(ENDS) for line in lines)
    return (
        draw(st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb"])) + body + draw(st.sampled_from([b"", b"data: end"]))
    )


@given(streams() | st.binary(max_size=60), st.data())
def test_any_split_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole = read(stream)
    assert read(*pieces) == whole
    assert read(*(bytes([byte]) for byte in stream)) == whole


@given(st.lists(st.tuples(st.sampled_from(["", "message", "error"]), st.text(max_size=20)), max_size=8), ENDS)
def test_what_is_written_is_read(items: list[tuple[str, str]], end: bytes) -> None:
    stream = b""
    expected = []
    for name, text in items:
        text = text.replace("\r", " ")
        stream += b"event: " + name.encode() + end if name else b""
        stream += b"".join(b"data: " + line.encode() + end for line in text.split("\n")) + end
        expected.append((name, text.encode()))
    assert said(stream) == expected
