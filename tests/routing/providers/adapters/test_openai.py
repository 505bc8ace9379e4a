import asyncio
import gc
import zlib
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from routing.core.calls import CallRequest, Frame, Stopped, StopReason, Text, Usage, UsageReported
from routing.core.failures import CallFailed, Failure, FailureKind
from routing.providers.adapters.openai import OpenAIAdapter
from routing.providers.base import Endpoint, ReplyStream
from routing.providers.dialects.openai_chat_requests import Differences
from routing.providers.outbound import OutboundPolicy
from routing.providers.transport import HttpTransport
from tests.routing.providers.conftest import KEY, MakeEndpoint, chat, request_of
from tests.servers.fake_provider import (
    Close,
    FakeProvider,
    Pause,
    Reset,
    Send,
    Stall,
    Step,
    chunk,
    events,
    head,
    whole,
)

ADAPTER = OpenAIAdapter()


def delta(content: str = "", reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": content} if content else {}, "finish_reason": reason}
    return orjson.dumps({"id": "r-1", "model": "gpt-x-mini", "choices": [choice]})


HELLO, WORLD, STOP, DONE = delta("Hello"), delta(" world"), delta(reason="stop"), b"[DONE]"
USAGE = b'{"id":"r-1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}'
REPLY = orjson.dumps(
    {
        "id": "r-1",
        "model": "gpt-x-mini",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
)


class Caller:
    """Calls the fake through the adapter."""

    def __init__(self, fake: FakeProvider, transport: HttpTransport, make: MakeEndpoint) -> None:
        self.fake = fake
        self.transport = transport
        self.make = make

    async def open(self, request: CallRequest | None = None, **fields: Any) -> ReplyStream:
        return await ADAPTER.open_stream(
            endpoint=self.make(**fields),
            model_id="gpt-x-mini",
            request=request or chat(stream=True),
            transport=self.transport,
        )

    async def frames(self, *script: Step, **fields: Any) -> tuple[list[Frame], Failure | None]:
        """The frames of a stream and the failure after them."""
        self.fake.answer(*script)
        stream = await self.open(**fields)
        found = []
        try:
            async for frame in stream:
                found.append(frame)
        except CallFailed as failed:
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            return found, failed.failure
        return found, None

    async def refusal(self, *script: Step, stream: bool = False, **fields: Any) -> Failure:
        self.fake.answer(*script)
        ask = ADAPTER.open_stream if stream else ADAPTER.call
        request = chat(stream=True) if stream else chat()
        with pytest.raises(CallFailed) as caught:
            await ask(endpoint=self.make(**fields), model_id="m", request=request, transport=self.transport)
        return caught.value.failure


@pytest.fixture
def caller(fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint) -> Caller:
    return Caller(fake, transport, endpoint)


def texts(frames: Sequence[Frame]) -> str:
    return "".join(event.text for frame in frames for event in frame.events if isinstance(event, Text))


# --- Whole answers --------------------------------------------------------------------------------------------------


async def test_a_whole_answer(caller: Caller) -> None:
    caller.fake.answer(*whole(REPLY))
    endpoint = caller.make(organization="org-1", headers=(("X-Title", "signalbox"),))
    reply = await ADAPTER.call(
        endpoint=endpoint, model_id="gpt-x-mini", request=chat(temperature=0.5), transport=caller.transport
    )
    assert reply.body == REPLY
    assert (reply.usage, reply.stop) == (Usage(3, 2), StopReason.END)
    (request,) = caller.fake.requests
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.headers == {
        "host": caller.fake.host_port,
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": str(len(request.body)),
        "user-agent": "signalbox",
        "authorization": f"Bearer {KEY}",
        "openai-organization": "org-1",
        "x-title": "signalbox",
    }
    assert orjson.loads(request.body) == {
        "model": "gpt-x-mini",
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.5,
    }


async def test_a_host_without_a_key_gets_none(caller: Caller) -> None:
    caller.fake.answer(*whole(REPLY))
    await ADAPTER.call(endpoint=caller.make(api_key=""), model_id="m", request=chat(), transport=caller.transport)
    assert "authorization" not in caller.fake.requests[0].headers


@pytest.mark.parametrize("key", ["sk-abc\r\nx-evil: 1", "sk-äöü", "sk-\x00"])
async def test_a_key_that_no_header_can_carry(caller: Caller, key: str) -> None:
    found = await caller.refusal(*whole(REPLY), api_key=key)
    assert (found.kind, found.code) == (FailureKind.AUTH, "unusable_key")
    assert key not in repr(found)
    assert caller.fake.connections == 0


async def test_bytes_arrive_as_they_were_written(caller: Caller) -> None:
    body = b'{ "messages":[{"role":"user","content":"\\u00fc\\ud83c\\udf0c \\u0000"}],"model" : "fast","n":1.0}'
    caller.fake.answer(*whole(REPLY))
    request = request_of(orjson.loads(body), body=body)
    await ADAPTER.call(endpoint=caller.make(), model_id="gpt-x-mini", request=request, transport=caller.transport)
    assert caller.fake.requests[0].body == body.replace(b'"fast"', b'"gpt-x-mini"')


async def test_a_large_request_and_a_large_answer(caller: Caller) -> None:
    text = "x" * 12_000_000
    answer = REPLY.replace(b"Hello", text.encode())
    caller.fake.answer(*whole(answer))
    reply = await ADAPTER.call(
        endpoint=caller.make(), model_id="m", request=chat(user=text), transport=caller.transport
    )
    assert len(caller.fake.requests[0].body) > 12_000_000
    assert reply.body == answer


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (whole(b'{"error":{"code":"rate_limit_exceeded"}}', 429), FailureKind.RATE_LIMITED),
        (whole(b'{"error":{"code":"insufficient_quota"}}', 429), FailureKind.QUOTA_EXHAUSTED),
        (whole(b'{"error":{"code":"quota"}}', 403), FailureKind.QUOTA_EXHAUSTED),
        (whole(b"", 529), FailureKind.TRANSIENT),
        (whole(b"<html>", 503, content_type="text/html"), FailureKind.TRANSIENT),
        (whole(b"", 408), FailureKind.TIMEOUT),
        (whole(b"{}", 401), FailureKind.AUTH),
        (whole(b"{}", 404), FailureKind.NOT_FOUND),
        (whole(b"{}", 400), FailureKind.INVALID_REQUEST),
        (whole(b'{"error":{"code":"context_length_exceeded"}}', 400), FailureKind.CONTEXT_EXCEEDED),
        (whole(b'{"error":{"code":"content_filter"}}', 400), FailureKind.REFUSED),
        (whole(b"", 302, {"location": "https://elsewhere.example"}), FailureKind.NOT_FOUND),
        (whole(b"", 204), FailureKind.UNREADABLE),
        (whole(b'{"error":{"code":"x"}}', 500, compress=True), FailureKind.TRANSIENT),
    ],
    ids=[
        "429", "429-quota", "403-quota", "529", "503-html", "408", "401", "404", "400", "400-context", "400-filter",
        "302", "204", "500-gzip",
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_answers_that_are_failures(
    caller: Caller, script: Sequence[Step], kind: FailureKind, stream: bool
) -> None:
    assert (await caller.refusal(*script, stream=stream)).kind is kind


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_advice_to_wait_is_passed_on_at_once(caller: Caller, stream: bool) -> None:
    async with asyncio.timeout(2):
        found = await caller.refusal(*whole(b"", 429, {"Retry-After": "47"}), stream=stream)
    assert found.retry_after == 47


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", FailureKind.UNREADABLE),
        (b"{}", FailureKind.UNREADABLE),
        (b"<html>sign in</html>", FailureKind.UNREADABLE),
        (REPLY[:-5], FailureKind.UNREADABLE),
        (b'{"error":{"code":"insufficient_quota","message":"x"}}', FailureKind.QUOTA_EXHAUSTED),
    ],
)
async def test_a_200_that_is_not_what_was_promised(caller: Caller, body: bytes, kind: FailureKind) -> None:
    assert (await caller.refusal(*whole(body))).kind is kind


async def test_only_connecting_and_the_total_bound_a_whole_answer(caller: Caller) -> None:
    """Nothing arrives before the model is finished, and some hosts send blank lines meanwhile."""
    caller.fake.answer(Pause(0.3), head(chunked=True), chunk(b"\n"), Pause(0.3), chunk(REPLY), chunk(b""))
    reply = await ADAPTER.call(
        endpoint=caller.make(first_event=0.1, between_events=0.1),
        model_id="m",
        request=chat(),
        transport=caller.transport,
    )
    assert reply.stop is StopReason.END


# --- Streams --------------------------------------------------------------------------------------------------------


async def test_a_stream(caller: Caller) -> None:
    found, failure = await caller.frames(*events(HELLO, WORLD, STOP, USAGE, DONE))
    assert failure is None
    assert texts(found) == "Hello world"
    assert [frame.hidden for frame in found] == [False, False, False, True, False]
    assert found[3].events == (UsageReported(Usage(3, 2)),)
    assert [frame.raw for frame in found] == [b"data: " + each + b"\n\n" for each in (HELLO, WORLD, STOP, USAGE, DONE)]
    sent = orjson.loads(caller.fake.requests[0].body)
    assert sent["stream_options"] == {"include_usage": True}
    assert caller.fake.requests[0].headers["accept"] == "text/event-stream"


async def test_usage_that_was_asked_for_is_not_hidden(caller: Caller) -> None:
    caller.fake.answer(*events(HELLO, STOP, USAGE, DONE))
    stream = await caller.open(chat(stream=True, stream_options={"include_usage": True}))
    assert not any([frame.hidden async for frame in stream])


async def test_a_host_that_refuses_to_be_asked_for_usage_is_not_asked(caller: Caller) -> None:
    caller.fake.answer(*events(HELLO, delta(reason="stop"), DONE))
    await OpenAIAdapter(Differences(asks_for_usage=False)).open_stream(
        endpoint=caller.make(), model_id="m", request=chat(stream=True), transport=caller.transport
    )
    assert "stream_options" not in orjson.loads(caller.fake.requests[0].body)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
async def test_the_forwarded_bytes_are_the_ones_that_came(caller: Caller, size: int) -> None:
    stream = b"".join(
        (
            b'data: {"choices":[{"index":0,"delta":{"content":"\xe4\xbd\xa0\\u00fc"}}],  "x":1.0}\r\n\r\n',
            b": PROCESSING\n\n",
            b"data:" + STOP + b"\n\n",
            b"data: [DONE]\n\n",
        )
    )
    pieces = [chunk(stream[at : at + size]) for at in range(0, len(stream), size)]
    found, failure = await caller.frames(head(chunked=True), *pieces, chunk(b""))
    assert failure is None
    assert b"".join(frame.raw for frame in found) == stream.replace(b": PROCESSING\n\n", b"")
    assert texts(found) == "你ü"


@pytest.mark.parametrize(
    ("script", "text", "kind"),
    [
        (events(b'{"error":{"code":"insufficient_quota"},"choices":[]}', DONE), "", FailureKind.QUOTA_EXHAUSTED),
        (events(HELLO, b'{"error":{"code":429}}', WORLD), "Hello", FailureKind.RATE_LIMITED),
        (events(HELLO, b"{broken", WORLD), "Hello", FailureKind.UNREADABLE),
        (events(HELLO, WORLD), "Hello world", FailureKind.TRANSIENT),
        (events(), "", FailureKind.TRANSIENT),
        (events(DONE), "", FailureKind.UNREADABLE),
        (events(HELLO, end=[Close()]), "Hello", FailureKind.TRANSIENT),
        (events(HELLO, end=[Pause(0.05), Reset()]), "Hello", FailureKind.TRANSIENT),
        (events(HELLO, end=[chunk(b'data: {"choi'), Close()]), "Hello", FailureKind.TRANSIENT),
        (events(HELLO, end=[chunk(b'data: {"choi'), chunk(b"")]), "Hello", FailureKind.TRANSIENT),
        (events(end=[Pause(0.05), Reset()]), "", FailureKind.TRANSIENT),
        (events(HELLO, end=[chunk(b"event: error\ndata: {}\n\n")]), "Hello", FailureKind.TRANSIENT),
        (events(HELLO, end=[chunk(b"data: " + b"x" * 9_000_000)]), "Hello", FailureKind.UNREADABLE),
    ],
    ids=[
        "error-first", "error-after-content", "unreadable", "no-reason-no-done", "nothing", "only-done", "closed",
        "reset", "cut-in-frame-closed", "cut-in-frame-regular-end", "reset-after-head", "error-event", "huge-frame",
    ],
)  # fmt: skip
async def test_what_goes_wrong_in_a_stream(
    caller: Caller, script: Sequence[Step], text: str, kind: FailureKind
) -> None:
    found, failure = await caller.frames(*script)
    assert texts(found) == text
    assert failure is not None
    assert failure.kind is kind


async def test_a_failure_closes_a_body_that_is_still_open(caller: Caller) -> None:
    for payload in (b'{"error":{"code":429}}', b"{broken"):
        await caller.frames(*events(HELLO, payload, end=[Stall()]))
        async with asyncio.timeout(0.1):
            await caller.fake.requests[-1].client_closed.wait()


@pytest.mark.parametrize(
    "script",
    [
        events(HELLO, STOP),
        events(HELLO, STOP, end=[Send(b"e\r\ndata: [DONE]\n\r\n0\r\n\r\n")]),
        events(HELLO, STOP, end=[Send(b"c\r\ndata: [DONE]\r\n0\r\n\r\n")]),
        events(HELLO, delta(" ", "stop"), DONE, b'{"error":{"code":500}}'),
        [head(), Send(b"data: " + HELLO + b"\n\ndata: " + STOP), Close()],
        [head(content_type="text/plain"), Send(b"data: " + HELLO + b"\n\ndata: " + STOP + b"\n\n"), Close()],
        events(HELLO, DONE),
    ],
    ids=["no-done", "one-newline", "no-newline", "after-done", "no-empty-line", "wrong-type", "done-without-reason"],
)
async def test_ends_that_are_regular(caller: Caller, script: Sequence[Step]) -> None:
    found, failure = await caller.frames(*script)
    assert failure is None
    assert texts(found).strip() == "Hello"
    assert all(frame.raw.endswith(b"\n\n") for frame in found)


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (whole(b'{"error":{"code":"insufficient_quota"}}'), FailureKind.QUOTA_EXHAUSTED),
        (whole(b'{"object":"error","code":429}'), FailureKind.RATE_LIMITED),
        (whole(REPLY), FailureKind.UNREADABLE),
        (whole(b"<html>", content_type="text/html; charset=utf-8"), FailureKind.UNREADABLE),
        ([Close()], FailureKind.TRANSIENT),
        ([Reset()], FailureKind.TRANSIENT),
    ],
    ids=["error", "error-object", "whole-reply", "page", "closed", "reset"],
)
async def test_no_stream_at_all_is_told_when_opening(caller: Caller, script: Sequence[Step], kind: FailureKind) -> None:
    assert (await caller.refusal(*script, stream=True)).kind is kind


async def test_frames_arrive_when_they_are_sent(caller: Caller) -> None:
    caller.fake.answer(*events(HELLO, end=[Stall()]))
    stream = await caller.open()
    async with asyncio.timeout(1):
        assert texts([await anext(stream)]) == "Hello"
    await stream.aclose()


@pytest.mark.parametrize(
    ("script", "count", "code"),
    [
        ([head(chunked=True), Stall()], 0, "first_event_timeout"),
        ([head(chunked=True), *([chunk(b": PROCESSING\n\n"), Pause(0.05)] * 20)], 0, "first_event_timeout"),
        (events(HELLO, end=[Stall()]), 1, "between_events_timeout"),
        (events(HELLO, end=[chunk(b'data: {"cho'), Stall()]), 1, "between_events_timeout"),
        (events(HELLO, end=[chunk(b": PROCESSING\n\n"), Pause(0.05)] * 20), 1, "between_events_timeout"),
    ],
    ids=["first", "first-with-comments", "between", "in-frame", "between-with-comments"],
)
async def test_time_outs_of_a_stream(caller: Caller, script: Sequence[Step], count: int, code: str) -> None:
    async with asyncio.timeout(2):
        found, failure = await caller.frames(*script, first_event=0.2, between_events=0.2)
        assert len(found) == count
        assert failure is not None
        assert (failure.kind, failure.code) == (FailureKind.TIMEOUT, code)
        await caller.fake.requests[0].client_closed.wait()


async def test_the_first_event_is_waited_for_from_the_beginning(caller: Caller) -> None:
    async with asyncio.timeout(1):
        found = await caller.refusal(Stall(), stream=True, first_event=0.2)
    assert found.code == "first_event_timeout"


async def test_the_total_bounds_a_stream_that_never_pauses(caller: Caller) -> None:
    step: list[Step] = [chunk(b"data: " + HELLO + b"\n\n"), Pause(0.05)]
    async with asyncio.timeout(2):
        found, failure = await caller.frames(head(chunked=True), *(step * 40), total=0.4)
    assert found
    assert failure is not None
    assert failure.code == "total_timeout"


async def test_a_reader_who_takes_its_time_is_no_time_out(caller: Caller) -> None:
    caller.fake.answer(*events(HELLO, WORLD, STOP, DONE))
    stream = await caller.open(first_event=0.2, between_events=0.1)
    await asyncio.sleep(0.3)
    found = []
    async for frame in stream:
        found.append(frame)
        await asyncio.sleep(0.15)
    assert texts(found) == "Hello world"


async def test_cancellation_while_waiting_reaches_the_provider_at_once(caller: Caller) -> None:
    scripts: tuple[list[Step], ...] = ([head(chunked=True), Stall()], [Stall()])
    for script in scripts:
        caller.fake.answer(*script)

        async def consume() -> None:
            async for _ in await caller.open():
                pass

        task = asyncio.create_task(consume())
        await asyncio.sleep(0.1)
        task.cancel()
        async with asyncio.timeout(0.1):
            await caller.fake.requests[-1].client_closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_closing_reaches_the_provider_at_once_and_is_repeatable(caller: Caller) -> None:
    caller.fake.answer(*events(HELLO, WORLD, end=[Stall()]))
    stream = await caller.open()
    await anext(stream)
    await stream.aclose()
    await stream.aclose()
    async with asyncio.timeout(0.1):
        await caller.fake.requests[0].client_closed.wait()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_closing_from_elsewhere_ends_a_waiting_reader(caller: Caller) -> None:
    caller.fake.answer(*events(HELLO, end=[Stall()]))
    stream = await caller.open()
    await anext(stream)
    reader = asyncio.create_task(anext(stream, None))
    await asyncio.sleep(0.05)
    await stream.aclose()
    async with asyncio.timeout(1):
        assert await reader is None


async def test_a_finished_stream_gives_its_connection_back(caller: Caller) -> None:
    """The end of the body may come a little after the terminator."""
    caller.fake.answer(*events(HELLO, STOP, DONE, end=[Pause(0.02), chunk(b"")]))
    for _ in range(3):
        async for _ in await caller.open():
            pass
    assert caller.fake.connections == 1


async def test_a_host_that_keeps_the_body_open_does_not_hold_the_reader(caller: Caller) -> None:
    async with asyncio.timeout(1):
        found, failure = await caller.frames(*events(HELLO, STOP, DONE, end=[Stall()]))
    assert (len(found), failure) == (3, None)


async def test_no_connection_is_lost(caller: Caller) -> None:
    """200 streams, of which a quarter is closed midway, a quarter cancelled: nothing stays open."""
    caller.fake.answer(
        *events(HELLO, WORLD, end=[Pause(0.02), chunk(b"data: " + STOP + b"\n\ndata: [DONE]\n\n"), chunk(b"")])
    )

    async def one(number: int) -> None:
        stream = await caller.open()
        if number % 4 == 0:
            await anext(stream)
            await stream.aclose()
        else:
            async for _ in stream:
                pass

    for _ in range(10):
        tasks = [asyncio.create_task(one(number)) for number in range(20)]
        await asyncio.sleep(0.01)
        for task in tasks[1::4]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [each for each in results if isinstance(each, Exception)]
    gc.collect()
    await asyncio.sleep(0.1)
    assert caller.fake.open_connections <= 20
    await caller.transport.aclose()
    await asyncio.sleep(0.1)
    assert caller.fake.open_connections == 0


async def test_a_compressed_stream_is_read_as_it_arrives(caller: Caller) -> None:
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(b"data: " + HELLO + b"\n\n") + packer.flush(zlib.Z_SYNC_FLUSH)
    rest = packer.compress(b"data: " + STOP + b"\n\ndata: [DONE]\n\n") + packer.flush()
    caller.fake.answer(
        head(headers={"content-encoding": "gzip"}, chunked=True), chunk(first), Pause(0.1), chunk(rest), chunk(b"")
    )
    stream = await caller.open()
    async with asyncio.timeout(0.09):
        assert texts([await anext(stream)]) == "Hello"
    assert [event async for frame in stream for event in frame.events] == [Stopped(StopReason.END)]


async def test_nothing_secret_is_logged_or_said(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    failures = [
        await caller.refusal(*whole(b'{"error":{"message":"bad key %s"}}' % KEY.encode(), status))
        for status in (400, 401, 500)
    ]
    failures += [await caller.refusal(Reset()), await caller.refusal(Stall(), total=0.1)]
    _, failure = await caller.frames(*events(HELLO, b'{"error":{"message":"bad key %s"}}' % KEY.encode()))
    assert KEY not in repr([*failures, failure])
    ours = "".join(record.getMessage() for record in caplog.records)
    assert KEY not in ours
    assert "Hello" not in ours


# --- Models ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [b'{"object":"list","data":[{"id":"a"},{"id":"b"},{"x":1},7]}', b'[{"id":"a"},{"id":"b"}]']
)
async def test_models_are_listed(caller: Caller, body: bytes) -> None:
    caller.fake.answer(*whole(body))
    assert await ADAPTER.list_models(endpoint=caller.make(), transport=caller.transport) == ("a", "b")
    assert caller.fake.requests[0].line == "GET /v1/models HTTP/1.1"
    assert caller.fake.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (whole(b"{}", 401), FailureKind.AUTH),
        (whole(b"{}"), FailureKind.UNREADABLE),
        (whole(b"x"), FailureKind.UNREADABLE),
        ([Reset()], FailureKind.TRANSIENT),
    ],
    ids=["401", "no-list", "no-json", "reset"],
)
async def test_models_that_cannot_be_listed(caller: Caller, script: Sequence[Step], kind: FailureKind) -> None:
    caller.fake.answer(*script)
    with pytest.raises(CallFailed) as caught:
        await ADAPTER.list_models(endpoint=caller.make(), transport=caller.transport)
    assert caught.value.failure.kind is kind


async def test_two_endpoints_do_not_share_connections(caller: Caller, endpoint: MakeEndpoint) -> None:
    async with FakeProvider(whole(REPLY)) as other:
        transport = HttpTransport(policy=OutboundPolicy(allow=frozenset({caller.fake.host_port, other.host_port})))
        caller.fake.answer(*whole(REPLY))
        for target in (caller.fake, other):
            made: Endpoint = endpoint(base_url=target.url, provider=f"p-{target.port}")
            await ADAPTER.call(endpoint=made, model_id="m", request=chat(), transport=transport)
        assert (caller.fake.connections, other.connections) == (1, 1)
        await transport.aclose()
