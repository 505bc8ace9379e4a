"""How long other calls wait while somebody sends bodies of many megabytes.

``python -m bench.large_bodies [--megabytes 16] [--seconds 5]``: small calls, one at a time, first alone and then while
one large body after the other is being sent. See bench/README.md for what was seen.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack

from bench import load
from bench.gateway import environment_of, process, seed, wait_until_ready, web_server
from tests.servers.ports import find_free_port

MEGABYTE = 1024 * 1024
_SENTENCE = "The quick brown fox jumps over the lazy dog. " * 4


def bodies(size: int) -> Iterator[tuple[str, bytes]]:
    """Large bodies of several kinds: what takes long differs."""
    one = [{"role": "user", "content": _SENTENCE * (size // len(_SENTENCE))}]
    roles = ("user", "assistant")
    many = [{"role": roles[at % 2], "content": _SENTENCE} for at in range(size // (len(_SENTENCE) + 40))]
    tiny = [{"role": "user", "content": "a"} for _ in range(size // 32)]
    for name, messages in {"one long message": one, "many messages": many, "tiny messages": tiny}.items():
        yield name, json.dumps({"model": "bench", "messages": messages}).encode()


async def measure(name: str, *, port: int, key: str, large: bytes, seconds: float) -> None:
    """Small calls, beside large ones if there are any."""
    small = load.chat_request(port=port, key=key, body=next(bodies(1000))[1])
    beside = load.Sample()
    sending = None
    if large:
        request = load.chat_request(port=port, key=key, body=large)
        sending = asyncio.create_task(load.run(port=port, request=request, concurrency=1, seconds=seconds))
    sample = await load.run(port=port, request=small, concurrency=1, seconds=seconds)
    if sending is not None:
        beside = await sending
    print(
        f"{name:20} small calls: {sample.rate:5.0f}/s  p50 {sample.percentile(50):6.1f}  "
        f"p99 {sample.percentile(99):7.1f}  worst {max(sample.calls) * 1000:7.1f} ms; {len(beside.calls)} large ones, "
        f"{sample.errors + beside.errors} errors"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=16.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        upstream, port = find_free_port(), find_free_port()
        environment = environment_of(folder, upstream=upstream, database_url="")
        key = seed(environment, upstream=upstream, models=3)
        from_here = ("bench.upstream", str(upstream))
        stack.enter_context(process(sys.executable, "-m", *from_here, environment=environment, core=1))
        stack.enter_context(web_server("governance.project.asgi:application", port, environment))
        wait_until_ready(port, key)
        settings = {"port": port, "key": key, "seconds": arguments.seconds}
        asyncio.run(measure("alone", large=b"", **settings))
        for name, body in bodies(int(arguments.megabytes * MEGABYTE)):
            asyncio.run(measure(name, large=body, **settings))


if __name__ == "__main__":
    main()
