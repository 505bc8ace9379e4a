"""One web process and two on one PostgreSQL, under the same load; and what a process holds of memory over time.

``python -m bench.processes [--seconds 5] [--rounds 5] [--soak MINUTES]``. Nothing is bound to a core: two processes
have the second one only as far as load, upstream and database leave it. See bench/README.md for what was seen.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median

from bench import load
from bench.gateway import (
    body,
    cpu_seconds,
    environment_of,
    memory_megabytes,
    process,
    seed,
    wait_until_ready,
    web_server,
)
from tests.servers.ports import find_free_port
from tests.servers.postgres import running_postgres

CONNECTIONS = 32
SOAK_PAUSE = 0.1
SOAK_CONNECTIONS = 4


async def spread(*, ports: Sequence[int], key: str, seconds: float, stream: bool) -> list[load.Sample]:
    """The same number of connections over however many processes there are."""
    each = CONNECTIONS // len(ports)
    return await asyncio.gather(
        *(
            load.run(
                port=port,
                request=load.chat_request(port=port, key=key, body=body(stream=stream)),
                concurrency=each,
                seconds=seconds,
            )
            for port in ports
        )
    )


def compare(*, ports: list[int], pids: list[int], key: str, seconds: float, rounds: int) -> None:
    """Both in turns, so that whatever else the machine does falls on both."""
    for stream in (False, True):
        rates: dict[int, list[float]] = {1: [], 2: []}
        cpu: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(rounds):
            for count in (1, 2):
                before = sum(map(cpu_seconds, pids))
                samples = asyncio.run(spread(ports=ports[:count], key=key, seconds=seconds, stream=stream))
                calls = sum(len(sample.calls) for sample in samples)
                if any(sample.errors for sample in samples):
                    raise SystemExit("calls failed: this is no measurement")
                rates[count].append(sum(sample.rate for sample in samples))
                cpu[count].append((sum(map(cpu_seconds, pids)) - before) * 1000 / calls)
        ratios = [two / one for one, two in zip(rates[1], rates[2], strict=True)]
        print(
            f"{'streams' if stream else 'whole':8} one {median(rates[1]):5.0f}/s  two {median(rates[2]):5.0f}/s  "
            f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})  "
            f"CPU {median(cpu[1]):.2f} and {median(cpu[2]):.2f} ms/call"
        )
    print(f"memory {' '.join(f'{memory_megabytes(pid):.0f}' for pid in pids)} MB")


def soak(*, port: int, pid: int, key: str, minutes: float) -> None:
    """A quiet load for a long time: one line a minute."""
    request = load.chat_request(port=port, key=key, body=body(stream=True))
    begun, calls = time.monotonic(), 0
    while time.monotonic() - begun < minutes * 60:
        sample = asyncio.run(
            load.run(port=port, request=request, concurrency=SOAK_CONNECTIONS, seconds=60, pause=SOAK_PAUSE)
        )
        calls += len(sample.calls)
        print(
            f"after {(time.monotonic() - begun) / 60:4.1f} min, {calls:6} calls, {sample.errors} errors: "
            f"{memory_megabytes(pid):.1f} MB, p99 {sample.percentile(99):.1f} ms",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--soak", type=float, default=0.0, metavar="MINUTES")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        database_url = stack.enter_context(stack.enter_context(running_postgres()).database(prefix="bench"))
        upstream, ports = find_free_port(), [find_free_port(), find_free_port()]
        environment = environment_of(folder, upstream=upstream, database_url=database_url)
        key = seed(environment, upstream=upstream, models=arguments.models)
        serve = (sys.executable, "-m", "bench.upstream", str(upstream))
        stack.enter_context(process(*serve, environment=environment, core=None))
        webs = [
            stack.enter_context(web_server("governance.project.asgi:application", port, environment, core=None))
            for port in ports
        ]
        for port in ports:
            wait_until_ready(port, key)
        pids = [web.pid for web in webs]
        print(f"memory at the start {' '.join(f'{memory_megabytes(pid):.0f}' for pid in pids)} MB")
        compare(ports=ports, pids=pids, key=key, seconds=arguments.seconds, rounds=arguments.rounds)
        if arguments.soak:
            soak(port=ports[0], pid=pids[0], key=key, minutes=arguments.soak)


if __name__ == "__main__":
    main()
