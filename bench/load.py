"""A load generator of a few lines: keep-alive connections, raw HTTP/1.1, every duration kept.

A client library would cost as much as the gateway does, and its cost would be in every figure.
"""

import asyncio
import time
from dataclasses import dataclass, field
from statistics import quantiles


@dataclass(slots=True)
class Sample:
    """What one run saw: seconds per call, seconds to the first byte of the body, and the run's length."""

    seconds: float = 0.0
    calls: list[float] = field(default_factory=list)
    first_bytes: list[float] = field(default_factory=list)
    errors: int = 0

    @property
    def rate(self) -> float:
        """Calls per second."""
        return len(self.calls) / self.seconds

    def percentile(self, percent: int) -> float:
        """A percentile of the calls' durations, in milliseconds."""
        return quantiles(self.calls, n=100)[percent - 1] * 1000

    def first_byte(self) -> float:
        """The median time to the first byte of the body, in milliseconds."""
        return quantiles(self.first_bytes, n=100)[49] * 1000


def chat_request(*, port: int, key: str, body: bytes) -> bytes:
    """A POST to /v1/chat/completions as bytes."""
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body


async def run(*, port: int, request: bytes, concurrency: int, seconds: float, pause: float = 0.0) -> Sample:
    """Send the request over and over on ``concurrency`` connections, each resting ``pause`` seconds after an answer."""
    sample = Sample()
    deadline = time.perf_counter() + seconds
    begun = time.perf_counter()
    await asyncio.gather(*(_connection(port, request, deadline, sample, pause) for _ in range(concurrency)))
    sample.seconds = time.perf_counter() - begun
    return sample


async def _connection(port: int, request: bytes, deadline: float, sample: Sample, pause: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        while time.perf_counter() < deadline:
            begun = time.perf_counter()
            writer.write(request)
            first = await _answer(reader, sample)
            sample.calls.append(time.perf_counter() - begun)
            sample.first_bytes.append(first - begun)
            if pause:
                await asyncio.sleep(pause)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader, sample: Sample) -> float:
    """Read one answer to its end; gives the moment its body began."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        sample.errors += 1
    if b"transfer-encoding: chunked" in head:
        size = int(await reader.readline(), 16)
        first = time.perf_counter()
        while size:
            await reader.readexactly(size + 2)
            size = int(await reader.readline(), 16)
        await reader.readexactly(2)
        return first
    length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
    first = time.perf_counter()
    await reader.readexactly(length)
    return first
