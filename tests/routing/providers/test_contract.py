"""What every adapter promises, whichever vendor it speaks to: the same tests for all of them, against loopback."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import orjson
import pytest

from routing.core.calls import (
    CallRequest,
    Coverage,
    Event,
    Frame,
    Started,
    Stopped,
    StopReason,
    Text,
    ToolArguments,
    ToolCallStarted,
    last_usage,
)
from routing.core.conversation import Protocol, Tool, ToolKind
from routing.core.failures import CallFailed, FailureKind
from routing.core.features import Feature, features_of
from routing.providers.base import Adapter, Endpoint
from routing.providers.dialects.carrying import NotCarried
from routing.providers.registry import ADAPTER_TYPES
from routing.providers.sse import ServerEvent
from routing.providers.transport import HttpTransport
from tests.routing.core.feature_samples import BESIDES, SAMPLES, TOOL, plain, sealed_for, without
from tests.routing.providers.conftest import KEY, MakeEndpoint
from tests.routing.providers.vendors import CALLS, MODEL, TEXT, VENDORS, Refused, Vendor
from tests.servers.fake_provider import FakeProvider, Step, chunk, head, whole

TOOLS = (TOOL, Tool("weigh", 20))
OFFERING = replace(plain(), tools=TOOLS)


@dataclass
class Line:
    """A vendor's fake and the adapter that speaks to it."""

    vendor: Vendor
    adapter: Adapter
    fake: FakeProvider
    transport: HttpTransport
    endpoint: Endpoint

    async def ask(self, request: CallRequest) -> tuple[Event, ...]:
        reply = await self.adapter.call(
            endpoint=self.endpoint, model_id="model-x", request=request, transport=self.transport
        )
        assert reply.protocol is self.adapter.protocol
        return tuple(reply.events)

    async def frames(self, request: CallRequest) -> list[Frame]:
        stream = await self.adapter.open_stream(
            endpoint=self.endpoint,
            model_id="model-x",
            request=replace(request, stream=True),
            transport=self.transport,
        )
        return [frame async for frame in stream]


@pytest.fixture(params=VENDORS, ids=str)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    found: Vendor = request.param
    return found


@pytest.fixture
def line(vendor: Vendor, fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint) -> Line:
    adapter = ADAPTER_TYPES[vendor.adapter_type].adapter
    return Line(
        vendor, adapter, fake, transport, endpoint(adapter_type=vendor.adapter_type, api_version=vendor.api_version)
    )


def streamed(frames: Iterable[bytes]) -> list[Step]:
    return [head(chunked=True), *map(chunk, frames), chunk(b"")]


def texts(events: Iterable[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def calls(events: Iterable[Event]) -> list[tuple[str, str, str]]:
    """The tool calls that events amount to."""
    found: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, ToolCallStarted):
            assert event.index not in found
            found[event.index] = [event.call_id, event.name, ""]
        elif isinstance(event, ToolArguments):
            found[event.index][2] += event.fragment
    return [(call_id, name, arguments) for call_id, name, arguments in found.values()]


def stop(events: Iterable[Event]) -> list[StopReason]:
    return [event.reason for event in events if isinstance(event, Stopped)]


def test_every_adapter_is_held_to_the_contract() -> None:
    held = {type(ADAPTER_TYPES[each.adapter_type].adapter) for each in VENDORS}
    assert {type(kind.adapter) for kind in ADAPTER_TYPES.values()} == held


# --- Answers --------------------------------------------------------------------------------------------------------


async def test_a_whole_answer(line: Line) -> None:
    line.fake.answer(*whole(orjson.dumps(line.vendor.whole)))
    events = await line.ask(plain())
    assert events[0] == Started(line.vendor.reply_id, MODEL)
    assert (texts(events), stop(events), last_usage(events)) == (TEXT, [StopReason.END], line.vendor.usage)


async def test_a_streamed_answer(line: Line) -> None:
    line.fake.answer(*streamed(line.vendor.stream))
    frames = await line.frames(plain())
    events = [event for frame in frames for event in frame.events]
    assert events[0] == Started(line.vendor.reply_id, MODEL)
    assert (texts(events), stop(events), last_usage(events)) == (TEXT, [StopReason.END], line.vendor.usage)
    assert b"".join(frame.raw for frame in frames) == b"".join(line.vendor.stream)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_parallel_tool_calls(line: Line, stream: bool) -> None:
    if stream:
        line.fake.answer(*streamed(line.vendor.calls_stream))
        events = [event for frame in await line.frames(OFFERING) for event in frame.events]
    else:
        line.fake.answer(*whole(orjson.dumps(line.vendor.calls_whole)))
        events = list(await line.ask(OFFERING))
    assert sorted(calls(events)) == sorted(CALLS)
    assert stop(events) == [StopReason.TOOL_CALLS]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_the_names_of_tools_are_turned_back(line: Line, stream: bool) -> None:
    """A namespaced tool goes out flat and comes back as what it is, and so does one that takes free text, unless the
    protocol has such tools itself."""
    takes_text = ToolKind.FUNCTION if "`custom`" in line.adapter.carries[Feature.CUSTOM_TOOLS] else ToolKind.CUSTOM
    request = replace(plain(), tools=(replace(TOOL, namespace="atlas"), Tool("weigh", 20, kind=takes_text)))

    def turned(data: bytes) -> bytes:
        return data.replace(b"look_up", b"atlas__look_up")

    if stream:
        line.fake.answer(*streamed(map(turned, line.vendor.calls_stream)))
        events = [event for frame in await line.frames(request) for event in frame.events]
    else:
        line.fake.answer(*whole(turned(orjson.dumps(line.vendor.calls_whole))))
        events = list(await line.ask(request))
    started = {event.name: event for event in events if isinstance(event, ToolCallStarted)}
    assert (started["look_up"].namespace, started["look_up"].kind) == ("atlas", ToolKind.FUNCTION)
    assert (started["weigh"].namespace, started["weigh"].kind) == ("", takes_text)
    assert b"atlas__look_up" in line.fake.requests[0].body


# --- Requests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_where_a_request_goes_and_what_opens_the_door(line: Line, stream: bool) -> None:
    vendor = line.vendor
    if stream:
        line.fake.answer(*streamed(vendor.stream))
        await line.frames(plain())
    else:
        line.fake.answer(*whole(orjson.dumps(vendor.whole)))
        await line.ask(plain())
    (request,) = line.fake.requests
    assert request.line == (vendor.stream_line if stream else vendor.line)
    name, value = vendor.key_header
    assert request.headers[name] == value.format(key=KEY)
    assert KEY not in request.line
    assert KEY.encode() not in request.body
    assert request.headers["user-agent"] == "signalbox"
    assert request.headers["accept"] == (vendor.accepts if stream else "application/json")
    assert request.headers["accept-encoding"] == "identity"


async def written(line: Line, request: CallRequest) -> bytes:
    """The bytes of a request; a stream's where it asks for one."""
    line.fake.requests.clear()
    if request.stream:
        line.fake.answer(*streamed(line.vendor.stream))
        await line.frames(request)
    else:
        line.fake.answer(*whole(orjson.dumps(line.vendor.whole)))
        await line.ask(request)
    (received,) = line.fake.requests
    return received.body


@pytest.mark.parametrize("feature", Feature)
async def test_a_feature_is_carried_as_declared_or_refused(line: Line, feature: Feature) -> None:
    sample = SAMPLES[feature]
    if feature is Feature.SEALED_REASONING:
        sample = sealed_for(line.adapter.protocol)
    missing = ({feature} | BESIDES.get(feature, frozenset())) - line.adapter.carries.keys()
    if missing:
        with pytest.raises(NotCarried) as caught:
            await line.ask(sample) if not sample.stream else await line.frames(sample)
        assert caught.value.failure.kind is FailureKind.UNSUPPORTED
        assert caught.value.failure.code == "unsupported_conversion"
        assert caught.value.failure.parameter in missing
        assert line.fake.connections == 0
        return
    body = await written(line, sample)
    bare = await written(line, without(feature))
    makes_no_difference = line.adapter.carries[feature].startswith(("not sent", "always"))
    assert (body == bare) is makes_no_difference, f"{line.adapter.carries[feature]}: {body!r}"


async def test_reasoning_that_another_vendor_sealed_is_refused(line: Line) -> None:
    other = next(each for each in Protocol if each is not line.adapter.protocol)
    with pytest.raises(NotCarried) as caught:
        await line.ask(sealed_for(other))
    assert line.fake.connections == 0
    assert caught.value.failure.parameter == Feature.SEALED_REASONING


async def test_a_tool_that_another_vendor_runs_is_named(line: Line) -> None:
    with pytest.raises(NotCarried, match="web_search runs at the vendor"):
        await line.ask(SAMPLES[Feature.HOSTED_TOOLS])
    with pytest.raises(NotCarried, match="input_audio"):
        await line.ask(SAMPLES[Feature.OTHER_PARTS])


async def test_what_the_canonical_form_does_not_hold_is_refused_by_its_name(line: Line) -> None:
    with pytest.raises(NotCarried, match=r"messages\[3\]\.colour cannot be carried") as caught:
        await line.ask(replace(plain(), uncarried=("messages[3].colour", "x")))
    assert caught.value.failure.parameter == "messages[3].colour"


def test_every_sample_is_understood() -> None:
    assert all(feature in features_of(sample) for feature, sample in SAMPLES.items())


# --- Failures -------------------------------------------------------------------------------------------------------

ERRORS = [(vendor, error) for vendor in VENDORS for error in vendor.errors]


@pytest.mark.parametrize(
    ("vendor", "error"), ERRORS, ids=[f"{vendor}-{error.name}" for vendor, error in ERRORS], indirect=["vendor"]
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_error_is_the_failure_it_should_be(line: Line, error: Refused, stream: bool) -> None:
    line.fake.answer(*whole(orjson.dumps(error.body), error.status, error.headers))
    with pytest.raises(CallFailed) as caught:
        await (line.frames(plain()) if stream else line.ask(plain()))
    failure = caught.value.failure
    assert (failure.kind, failure.retry_after) == (error.kind, error.retry_after)


@pytest.mark.parametrize("at", [0, 2], ids=["at-once", "in-the-middle"])
async def test_an_error_inside_a_stream(line: Line, at: int) -> None:
    frames = [*line.vendor.stream[:at], line.vendor.error_frame]
    line.fake.answer(*streamed(frames))
    with pytest.raises(CallFailed) as caught:
        await line.frames(plain())
    assert caught.value.failure.kind is line.vendor.error_kind


async def test_a_stream_that_breaks_off_is_not_whole(line: Line) -> None:
    line.fake.answer(*streamed(line.vendor.stream[: -3 if line.vendor.has_end_mark else -1]))
    with pytest.raises(CallFailed) as caught:
        await line.frames(plain())
    assert (caught.value.failure.kind, caught.value.failure.code) == (FailureKind.TRANSIENT, "cut_off")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"x":1}', b"null", b"\xff"])
async def test_what_is_no_answer_is_unreadable(line: Line, body: bytes) -> None:
    line.fake.answer(*whole(body))
    with pytest.raises(CallFailed) as caught:
        await line.ask(plain())
    assert caught.value.failure.kind is FailureKind.UNREADABLE


async def test_an_error_in_place_of_a_stream(line: Line) -> None:
    line.fake.answer(*whole(orjson.dumps(line.vendor.errors[0].body)))
    with pytest.raises(CallFailed) as caught:
        await line.frames(plain())
    assert caught.value.failure.kind is line.vendor.errors[0].kind


async def test_models_are_listed(line: Line) -> None:
    line.fake.answer(*whole(orjson.dumps(line.vendor.models)))
    listed = await line.adapter.list_models(endpoint=line.endpoint, transport=line.transport)
    assert listed == line.vendor.model_ids
    assert line.fake.requests[0].line.startswith(line.vendor.lists_at)
    assert KEY not in line.fake.requests[0].line


# --- Streams in any split -------------------------------------------------------------------------------------------


def server_events(vendor: Vendor, *pieces: bytes) -> list[ServerEvent]:
    """The events of a stream that arrives in pieces."""
    reader = vendor.reader()
    return [*(each for piece in pieces for each in reader.feed(piece)), *reader.finish()]


def events_of(vendor: Vendor, request: CallRequest, *pieces: bytes) -> list[Event]:
    """What a codec reads of a stream that arrives in pieces; the last is its end."""
    endpoint = Endpoint(provider="prod-east", adapter_type=vendor.adapter_type, base_url="https://api.example.com/v1")
    codec = vendor.codec(endpoint, request)
    found: list[Event] = []
    for server_event in server_events(vendor, *pieces):
        if codec.is_done:
            break
        frame = codec.read(server_event)
        if frame is not None:
            found += frame.events
    assert codec.is_done or codec.fault_at_end() is None
    return found


def spelled(frames: Sequence[bytes], spelling: str) -> bytes:
    """A stream in one of the spellings that hosts and proxies send."""
    data = b"".join(frames)
    match spelling:
        case "crlf":
            return data.replace(b"\n", b"\r\n")
        case "cr":
            return data.replace(b"\n", b"\r")
        case "no-blank":
            return data.replace(b"data: ", b"data:")
        case "comments":
            return b": hello\n\n" + b": PROCESSING\n\n".join(frames)
        case "blank-lines":
            return data.replace(b"\n", b"\n\n \r\n")
        case "no-end":
            return b"".join(frames[:-1])
        case "unterminated":
            return data.rstrip(b"\n")
        case _:
            return data


@pytest.mark.parametrize(
    ("vendor", "spelling"),
    [(vendor, spelling) for vendor in VENDORS for spelling in vendor.spellings],
    ids=lambda each: str(each),
    indirect=["vendor"],
)
@pytest.mark.parametrize("what", ["text", "calls"])
def test_a_stream_reads_the_same_wherever_it_is_cut(vendor: Vendor, what: str, spelling: str) -> None:
    frames = vendor.stream if what == "text" else vendor.calls_stream
    expected = events_of(vendor, OFFERING, b"".join(frames))
    if spelling == "no-end" and not vendor.has_end_mark:
        frames = (*frames, b": nothing more\n\n")
    data = spelled(frames, spelling)
    assert events_of(vendor, OFFERING, *(data[at : at + 1] for at in range(len(data)))) == expected
    uncut = server_events(vendor, data)
    for at in range(len(data) + 1):
        assert server_events(vendor, data[:at], data[at:]) == uncut, f"cut at {at}"
    assert last_usage(expected) == vendor.usage


def test_usage_of_a_stream_that_breaks_off_is_partial_at_best(vendor: Vendor) -> None:
    frames = vendor.stream[:2]
    endpoint = Endpoint(provider="prod-east", adapter_type=vendor.adapter_type, base_url="https://api.example.com/v1")
    reader, codec = vendor.reader(), vendor.codec(endpoint, plain())
    events = [
        event
        for each in reader.feed(b"".join(frames))
        if (frame := codec.read(each)) is not None
        for event in frame.events
    ]
    usage = last_usage(events)
    assert usage is None or usage.coverage is Coverage.PARTIAL


def test_declarations_are_sentences_about_known_things() -> None:
    for carries in (kind.adapter.carries for kind in ADAPTER_TYPES.values()):
        assert all(isinstance(feature, Feature) for feature in carries)
        assert all(re.match(r"[`a-z“]", how) and not how.endswith(".") for how in carries.values())
