"""What an open stream holds of a web process's memory: resident memory with none and with many of them open.

``python -m bench.streams [--streams 400]``. The upstream says a word every second, so that streams stay open while
others are opened; a first round lets the process grow to what it is anyway. See bench/README.md for what was seen.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from contextlib import ExitStack

from bench.gateway import environment_of, memory_megabytes, process, seed, wait_until_ready, web_server
from tests.servers.ports import find_free_port

WORDS = 120
FIRST = 50  # streams of the round before what is measured

SMALL = "How much is the fish?"
LARGE = "How much is the fish? " * 2600  # 57 KB, an agent's request


def request(*, port: int, key: str, path: str, text: str) -> bytes:
    """A streamed question as bytes; both protocols take this body."""
    content = {"model": "bench", "stream": True, "max_tokens": 200, "messages": [{"role": "user", "content": text}]}
    body = json.dumps(content, separators=(",", ":")).encode()  # as SDKs write it
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\ncontent-length: {len(body)}"
    )
    return head.encode() + b"\r\ncontent-type: application/json\r\n\r\n" + body


async def open_streams(number: int, *, port: int, asked: bytes) -> list[asyncio.StreamWriter]:
    """So many streams, each of which has said its first word."""
    opened: list[asyncio.StreamWriter] = []
    for begin in range(0, number, 25):
        opened += await asyncio.gather(*(_open(port, asked) for _ in range(min(25, number - begin))))
    return opened


async def _open(port: int, asked: bytes) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(asked)
    said = b""
    while b"word" not in said:
        piece = await reader.read(65536)
        if not piece:
            raise SystemExit(f"a stream ended at once: {said[-300:]!r}")
        said += piece
    return writer


async def close(opened: list[asyncio.StreamWriter]) -> None:
    for writer in opened:
        writer.close()
    await asyncio.sleep(2)


async def measure(*, name: str, number: int, port: int, pid: int, asked: bytes) -> None:
    """One line: kilobytes for each stream, of those that were opened after a first round."""
    await close(await open_streams(FIRST, port=port, asked=asked))
    before = memory_megabytes(pid)
    opened = await open_streams(number, port=port, asked=asked)
    with_all = memory_megabytes(pid)
    await close(opened)
    print(
        f"{name:34} {before:5.0f} MB, {with_all:5.0f} MB with {number} streams: "
        f"{(with_all - before) * 1024 / number:5.1f} KB each; {memory_megabytes(pid):.0f} MB after"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=400)
    arguments = parser.parse_args()
    for path in ("/v1/chat/completions", "/v1/messages"):
        for size, text in (("a question", SMALL), ("57 KB", LARGE)):
            with ExitStack() as stack:  # a new process each time: what was freed is not given back to the system
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                upstream, port = find_free_port(), find_free_port()
                environment = environment_of(folder, upstream=upstream, database_url="")
                key = seed(environment, upstream=upstream, models=20)
                serve = (sys.executable, "-m", "bench.upstream", str(upstream), "--chunks", str(WORDS), "--gap", "1")
                stack.enter_context(process(*serve, environment=environment, core=None))
                web = stack.enter_context(
                    web_server("governance.project.asgi:application", port, environment, core=None)
                )
                wait_until_ready(port, key)
                asked = request(port=port, key=key, path=path, text=text)
                name = f"{path}, {size}"
                asyncio.run(measure(name=name, number=arguments.streams, port=port, pid=web.pid, asked=asked))


if __name__ == "__main__":
    main()
