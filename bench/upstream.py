"""An upstream that answers at once: fixed bytes, no work, so that what is measured is the gateway.

``python -m bench.upstream PORT`` serves chat completions, whole and streamed, on loopback. ``--chunks`` and ``--gap``
shape the stream. It says nothing about real providers, and it is not the demo's simulator.
"""

import argparse
import asyncio
import json

_BASE = {"id": "chatcmpl-bench", "created": 1, "model": "bench-model"}
_USAGE = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}


def whole_answer() -> bytes:
    """A whole answer, head and body."""
    body = json.dumps(
        {
            **_BASE,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 200}, "finish_reason": "stop"}],
            "usage": _USAGE,
        }
    ).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def stream_pieces(chunks: int) -> list[bytes]:
    """The frames of a streamed answer, each as one piece of a chunked body."""
    frames = [
        {**_BASE, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "word "}}]}
        for _ in range(chunks)
    ]
    frames.append({**_BASE, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    frames.append({**_BASE, "choices": [], "usage": _USAGE})
    texts = [b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames] + [b"data: [DONE]\n\n"]
    return [b"%x\r\n%s\r\n" % (len(text), text) for text in texts]


_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Upstream(asyncio.Protocol):
    """One connection: reads a request to its end, answers, and goes on with the next."""

    def __init__(self, *, chunks: int, gap: float) -> None:
        self._whole = whole_answer()
        self._pieces = stream_pieces(chunks)
        self._gap = gap
        self._buffer = bytearray()
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None

    def connection_lost(self, error: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (request := self._next_request()) is not None:
            if b'"stream":true' not in request.replace(b" ", b""):
                self._transport.write(self._whole)
            elif self._gap == 0:
                self._transport.write(_STREAM_HEAD + b"".join(self._pieces) + b"0\r\n\r\n")
            else:
                self._task = asyncio.get_running_loop().create_task(self._stream())

    def _next_request(self) -> bytes | None:
        begin = self._buffer.find(b"\r\n\r\n") + 4
        if begin < 4:
            return None
        length = 0
        for line in self._buffer[:begin].split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if len(self._buffer) < begin + length:
            return None
        request = bytes(self._buffer[begin : begin + length])
        del self._buffer[: begin + length]
        return request

    async def _stream(self) -> None:
        self._transport.write(_STREAM_HEAD)
        for piece in self._pieces:
            await asyncio.sleep(self._gap)
            self._transport.write(piece)
        self._transport.write(b"0\r\n\r\n")


async def serve(port: int, *, chunks: int, gap: float) -> None:
    """Serve until cancelled."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Upstream(chunks=chunks, gap=gap), "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--gap", type=float, default=0.0, help="seconds between two pieces of a stream")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.port, chunks=arguments.chunks, gap=arguments.gap))


if __name__ == "__main__":
    main()
