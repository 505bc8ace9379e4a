import asyncio
import gzip
import logging
import zlib

import pytest

from routing.core.failures import CallFailed, Failure, FailureKind
from routing.providers.base import Endpoint, Phase, Timeouts
from routing.providers.outbound import OutboundPolicy
from routing.providers.transport import HttpTransport, Inflater, UnknownEncoding
from tests.routing.providers.conftest import KEY, MakeEndpoint
from tests.routing.providers.test_outbound import Answers
from tests.servers.fake_provider import Close, FakeProvider, Pause, Reset, Send, Stall, Step, chunk, head, whole


async def fetch(transport: HttpTransport, endpoint: Endpoint, *, phase: Phase = Phase.ANSWER) -> bytes:
    exchange = await transport.open(
        endpoint=endpoint,
        method="POST",
        path="chat/completions",
        headers=((b"x-own", b"1"),),
        body=b"{}",
        phase=phase,
    )
    return await exchange.read()


async def failure(transport: HttpTransport, endpoint: Endpoint, *, phase: Phase = Phase.ANSWER) -> Failure:
    with pytest.raises(CallFailed) as caught:
        await fetch(transport, endpoint, phase=phase)
    return caught.value.failure


async def test_a_request_carries_our_headers_and_no_others(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint
) -> None:
    fake.answer(*whole(b"hello"))
    assert await fetch(transport, endpoint()) == b"hello"
    (request,) = fake.requests
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.headers == {"host": fake.host_port, "x-own": "1", "content-length": "2"}
    assert request.body == b"{}"


@pytest.mark.parametrize("slashes", ["", "/", "//"])
async def test_a_slash_at_the_end_of_the_base_url_does_not_matter(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint, slashes: str
) -> None:
    fake.answer(*whole(b""))
    await fetch(transport, endpoint(base_url=fake.url + slashes))
    assert fake.requests[0].line.startswith("POST /v1/chat/completions ")


async def test_connections_are_reused(fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint) -> None:
    fake.answer(*whole(b"hello"))
    for _ in range(5):
        await fetch(transport, endpoint())
    assert fake.connections == 1


async def test_no_cookies_are_kept(fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint) -> None:
    fake.answer(*whole(b"", headers={"set-cookie": "session=1; path=/"}))
    await fetch(transport, endpoint())
    await fetch(transport, endpoint())
    assert "cookie" not in fake.requests[1].headers


async def test_redirects_come_back_as_answers(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint
) -> None:
    fake.answer(*whole(b"", 302, {"location": "http://169.254.169.254/latest"}))
    exchange = await transport.open(endpoint=endpoint(), method="GET", path="models", headers=())
    assert exchange.status == 302
    await exchange.aclose()
    assert len(fake.requests) == 1


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"])
async def test_proxy_variables_do_not_decide_where_prompts_go(
    fake: FakeProvider,
    transport: HttpTransport,
    endpoint: MakeEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    fake.answer(*whole(b"hello"))
    assert await fetch(transport, endpoint()) == b"hello"


# --- Where connections may go ---------------------------------------------------------------------------------------


async def test_a_destination_that_is_not_allowed_falls_through_and_names_the_setting(
    fake: FakeProvider, endpoint: MakeEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    transport = HttpTransport(policy=OutboundPolicy())
    with caplog.at_level(logging.WARNING):
        found = await failure(transport, endpoint(allow_http=True))
    assert (found.kind, found.code) == (FailureKind.NOT_FOUND, "destination_blocked")
    assert f"add {fake.host_port} to SIGNALBOX_OUTBOUND_ALLOW" in found.message
    assert "blocked destination: prod-east" in caplog.text
    assert fake.connections == 0
    await transport.aclose()


@pytest.mark.parametrize("answers", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:7f00:1"]], ids=str)
async def test_names_are_judged_by_what_they_resolve_to(
    fake: FakeProvider, endpoint: MakeEndpoint, answers: list[str]
) -> None:
    transport = HttpTransport(policy=OutboundPolicy(), resolver=Answers(answers))
    url = f"http://models.example.com:{fake.port}/v1"
    found = await failure(transport, endpoint(base_url=url, allow_http=True))
    assert (found.kind, found.code) == (FailureKind.NOT_FOUND, "destination_blocked")
    assert "127.0.0.1" not in found.message
    assert fake.connections == 0
    await transport.aclose()


async def test_localhost_is_no_way_around(fake: FakeProvider, endpoint: MakeEndpoint) -> None:
    transport = HttpTransport(policy=OutboundPolicy())
    found = await failure(transport, endpoint(base_url=f"http://localhost:{fake.port}/v1", allow_http=True))
    assert found.code == "destination_blocked"
    await transport.aclose()


async def test_a_name_with_an_exception_is_called_at_the_address_it_resolves_to(
    fake: FakeProvider, endpoint: MakeEndpoint
) -> None:
    fake.answer(*whole(b"hello"))
    policy = OutboundPolicy(allow=frozenset({f"models.internal:{fake.port}"}))
    transport = HttpTransport(policy=policy, resolver=Answers(["127.0.0.1"]))
    assert await fetch(transport, endpoint(base_url=f"http://models.internal:{fake.port}/v1")) == b"hello"
    assert fake.requests[0].headers["host"] == f"models.internal:{fake.port}"
    await transport.aclose()


async def test_a_dead_ipv6_address_does_not_keep_a_good_ipv4_one_waiting(
    fake: FakeProvider, endpoint: MakeEndpoint
) -> None:
    fake.answer(*whole(b"hello"))
    policy = OutboundPolicy(allow=frozenset({f"models.internal:{fake.port}"}))
    transport = HttpTransport(policy=policy, resolver=Answers(["fd12::1", "127.0.0.1"]))
    async with asyncio.timeout(3):
        assert await fetch(transport, endpoint(base_url=f"http://models.internal:{fake.port}/v1")) == b"hello"
    await transport.aclose()


# --- What goes wrong on the wire ------------------------------------------------------------------------------------


async def test_a_name_that_does_not_resolve(endpoint: MakeEndpoint) -> None:
    transport = HttpTransport(policy=OutboundPolicy())
    found = await failure(transport, endpoint(base_url="https://no-such-host.invalid/v1"))
    assert (found.kind, found.code) == (FailureKind.TRANSIENT, "name_not_resolved")
    await transport.aclose()


async def test_a_refused_connection(fake: FakeProvider, endpoint: MakeEndpoint) -> None:
    async with FakeProvider() as gone:
        host_port, url = gone.host_port, gone.url
    transport = HttpTransport(policy=OutboundPolicy(allow=frozenset({host_port})))
    found = await failure(transport, endpoint(base_url=url))
    assert (found.kind, found.code) == (FailureKind.TRANSIENT, "not_connected")
    await transport.aclose()


async def test_tls_with_a_host_that_has_none(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint
) -> None:
    fake.answer(*whole(b""))
    found = await failure(transport, endpoint(base_url=f"https://{fake.host_port}/v1", connect=1))
    assert found.kind in (FailureKind.TRANSIENT, FailureKind.TIMEOUT)


async def test_a_connection_that_is_not_made_in_time(fake: FakeProvider, endpoint: MakeEndpoint) -> None:
    """All connections are in use: waiting for one is part of connecting."""
    fake.answer(head(length=5), Stall())
    transport = HttpTransport(policy=OutboundPolicy(allow=frozenset({fake.host_port})), max_connections=1)
    exchange = await transport.open(endpoint=endpoint(), method="GET", path="models", headers=())
    found = await failure(transport, endpoint(connect=0.2))
    assert (found.kind, found.code) == (FailureKind.TIMEOUT, "connect_timeout")
    assert "no connection within 0.2 s" in found.message
    await exchange.aclose()
    await transport.aclose()


@pytest.mark.parametrize(
    ("script", "kind", "code"),
    [
        ([Close()], FailureKind.TRANSIENT, "connection_broken"),
        ([Reset()], FailureKind.TRANSIENT, "connection_broken"),
        ([Send(b"HTTP/1.1 200 OK\r\ncontent-"), Reset()], FailureKind.TRANSIENT, "connection_broken"),
        ([Send(b"SSH-2.0-OpenSSH\r\n\r\n"), Close()], FailureKind.UNREADABLE, "not_http"),
        ([head(length=10), Send(b"12345"), Close()], FailureKind.TRANSIENT, "connection_broken"),
        ([head(length=10), Send(b"12345"), Reset()], FailureKind.TRANSIENT, "connection_broken"),
        ([head(chunked=True), chunk(b"12345"), Close()], FailureKind.TRANSIENT, "connection_broken"),
        ([head(chunked=True), Pause(0.05), Send(b"ZZ\r\nabc\r\n")], FailureKind.TRANSIENT, "connection_broken"),
        (whole(b"hello", lie=3), FailureKind.TRANSIENT, "connection_broken"),
    ],
    ids=[
        "closed", "reset", "reset-in-head", "not-http", "short", "short-reset", "no-last-chunk", "bad-chunk", "lie",
    ],
)  # fmt: skip
async def test_broken_answers(
    fake: FakeProvider,
    transport: HttpTransport,
    endpoint: MakeEndpoint,
    script: list[Step],
    kind: FailureKind,
    code: str,
) -> None:
    fake.answer(*script)
    async with asyncio.timeout(2):
        found = await failure(transport, endpoint())
    assert (found.kind, found.code) == (kind, code)
    assert KEY not in found.message


async def test_a_body_that_is_cut_is_not_taken_for_a_shorter_one(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint
) -> None:
    """Without a length the end of the connection is the end of the body: only a claimed length can be short."""
    fake.answer(head(), Send(b"all"), Close())
    assert await fetch(transport, endpoint()) == b"all"


@pytest.mark.parametrize(
    ("script", "phase", "code"),
    [
        ([Stall()], Phase.ANSWER, "total_timeout"),
        ([head(length=3), Stall()], Phase.ANSWER, "total_timeout"),
        ([Stall()], Phase.FIRST_EVENT, "first_event_timeout"),
    ],
    ids=["before-head", "after-head", "stream-before-head"],
)
async def test_time_outs_end_the_call_and_the_connection(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint, script: list[Step], phase: Phase, code: str
) -> None:
    fake.answer(*script)
    total = 0.2 if phase is Phase.ANSWER else 10
    async with asyncio.timeout(2):
        found = await failure(transport, endpoint(total=total, first_event=0.2), phase=phase)
        assert (found.kind, found.code) == (FailureKind.TIMEOUT, code)
        await fake.requests[0].client_closed.wait()


async def test_a_drip_does_not_stretch_the_total(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint
) -> None:
    drip: list[Step] = [Send(b"x"), Pause(0.05)]
    fake.answer(head(length=1000), *(drip * 100))
    async with asyncio.timeout(2):
        found = await failure(transport, endpoint(total=0.3))
    assert found.code == "total_timeout"


async def test_cancellation_closes_the_connection_at_once(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint
) -> None:
    scripts: tuple[list[Step], ...] = ([Stall()], [head(length=3), Stall()])
    for count, script in enumerate(scripts, start=1):
        fake.answer(*script)
        task = asyncio.create_task(fetch(transport, endpoint()))
        async with asyncio.timeout(5):
            while len(fake.requests) < count:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        task.cancel()
        async with asyncio.timeout(0.1):
            await fake.requests[-1].client_closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.sleep(0.05)
    assert fake.open_connections == 0


# --- Compression ----------------------------------------------------------------------------------------------------


def deflated(data: bytes, *, raw: bool) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS if raw else zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"hello " * 1000)),
        ("GZIP ", gzip.compress(b"hello " * 1000)),
        ("x-gzip", gzip.compress(b"hello " * 500) + gzip.compress(b"hello " * 500)),
        ("deflate", deflated(b"hello " * 1000, raw=False)),
        ("deflate", deflated(b"hello " * 1000, raw=True)),
        ("identity", b"hello " * 1000),
    ],
    ids=["gzip", "capitals", "two-members", "zlib", "raw", "identity"],
)
async def test_compressed_answers_are_read(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint, encoding: str, packed: bytes
) -> None:
    fake.answer(*whole(packed, headers={"content-encoding": encoding}))
    assert await fetch(transport, endpoint()) == b"hello " * 1000


@pytest.mark.parametrize(
    ("headers", "body", "kind"),
    [
        ({"content-encoding": "br"}, b"x", FailureKind.UNREADABLE),
        ({"content-encoding": "gzip, gzip"}, b"x", FailureKind.UNREADABLE),
        ({"content-encoding": "gzip"}, b"no gzip", FailureKind.UNREADABLE),
        ({"content-encoding": "gzip"}, gzip.compress(b"hello" * 99)[:-12], FailureKind.TRANSIENT),
    ],
    ids=["not-understood", "twice", "none", "cut"],
)
async def test_compression_that_cannot_be_undone(
    fake: FakeProvider,
    transport: HttpTransport,
    endpoint: MakeEndpoint,
    headers: dict[str, str],
    body: bytes,
    kind: FailureKind,
) -> None:
    fake.answer(*whole(body, headers=headers))
    assert (await failure(transport, endpoint())).kind is kind


async def test_the_size_that_counts_is_the_decompressed_one(fake: FakeProvider, endpoint: MakeEndpoint) -> None:
    policy = OutboundPolicy(allow=frozenset({fake.host_port}))
    transport = HttpTransport(policy=policy, max_reply_bytes=1_000_000)
    bomb = gzip.compress(bytes(50_000_000))
    fake.answer_in_turn(
        whole(bomb, headers={"content-encoding": "gzip"}), whole(bytes(1_000_001)), whole(bytes(1_000_000))
    )
    for _ in range(2):
        found = await failure(transport, endpoint())
        assert (found.kind, "larger than 1000000 bytes" in found.message) == (FailureKind.UNREADABLE, True)
    assert len(await fetch(transport, endpoint())) == 1_000_000
    await transport.aclose()


@pytest.mark.parametrize("size", [1, 7, 1000, 10**9])
def test_inflated_pieces_are_bounded_and_complete(size: int) -> None:
    data = bytes(3_000_000) + bytes(range(256)) * 100
    packed = gzip.compress(data) * 2
    inflater = Inflater("gzip")
    pieces = [piece for at in range(0, len(packed), size) for piece in inflater.pieces(packed[at : at + size])]
    assert b"".join(pieces) == data * 2
    assert max(map(len, pieces)) <= 256 * 1024
    assert inflater.is_complete


def test_only_known_encodings_are_inflated() -> None:
    with pytest.raises(UnknownEncoding):
        Inflater("zstd")


# --- Life -----------------------------------------------------------------------------------------------------------


async def test_an_error_body_is_waited_for_only_briefly(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routing.providers.transport.ERROR_BODY_SECONDS", 0.1)
    fake.answer(head(429, length=100), Send(b"part"), Stall())
    exchange = await transport.open(endpoint=endpoint(), method="GET", path="models", headers=())
    async with asyncio.timeout(1):
        assert await exchange.read_error() == b"part"
    assert exchange.status == 429


async def test_closing_is_repeatable_and_ends_a_waiting_read(
    fake: FakeProvider, transport: HttpTransport, endpoint: MakeEndpoint
) -> None:
    fake.answer(head(length=3), Stall())
    exchange = await transport.open(endpoint=endpoint(), method="GET", path="models", headers=())
    waiting = asyncio.create_task(
        exchange.chunk(until=asyncio.get_running_loop().time() + 5, phase=Phase.BETWEEN_EVENTS)
    )
    await asyncio.sleep(0.05)
    await exchange.aclose()
    await exchange.aclose()
    async with asyncio.timeout(1):
        assert await waiting == b""
        await fake.requests[0].client_closed.wait()


async def test_a_closed_transport_opens_nothing(fake: FakeProvider, endpoint: MakeEndpoint) -> None:
    transport = HttpTransport(policy=OutboundPolicy(allow=frozenset({fake.host_port})))
    fake.answer(*whole(b""))
    await fetch(transport, endpoint())
    await transport.aclose()
    await transport.aclose()
    await asyncio.sleep(0.05)
    assert fake.open_connections == 0
    with pytest.raises(RuntimeError, match="closed"):
        await fetch(transport, endpoint())


def test_a_transport_belongs_to_one_loop() -> None:
    endpoint = Endpoint(provider="p", adapter_type="openai", base_url="https://8.8.8.8/v1")

    async def make() -> HttpTransport:
        return HttpTransport(policy=OutboundPolicy())

    transport = asyncio.run(make())
    with pytest.raises(RuntimeError, match="event loop"):
        asyncio.run(fetch(transport, endpoint))


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["connect", "first_event", "between_events", "total"])
def test_time_outs_are_positive(name: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=name):
        Timeouts(**{name: seconds})


@pytest.mark.parametrize("name", ["Authorization", "host", "Content-Length", " cookie"])
def test_headers_that_are_not_the_operators(name: str) -> None:
    with pytest.raises(ValueError, match="header"):
        Endpoint(provider="p", adapter_type="openai", base_url="https://x", headers=((name, "v"),))
