"""What would hold up the event loop for long is done aside: in a few threads of our own, that touch no database.

Reading a body of many megabytes takes seconds in which nobody else would be answered. In a thread it takes as long, and
the others a few milliseconds more each: the interpreter changes threads two hundred times a second. Not the bridge's
threads, which keys and rows would wait for, and not asyncio's, which resolve names.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

THREADS = 2
"""Each more of them takes a share of the interpreter from the calls that are answered meanwhile."""

LARGE_BODY = 128 * 1024
"""Bytes from which on a body is read aside. Below, reading takes less than handing it over costs."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Aside:
    """The threads of one process."""

    def __init__(self, *, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="aside")

    async def do(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Run a function in one of the threads. It must not touch the database."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """End the threads; what they are at is finished by nobody waiting for it."""
        self._pool.shutdown(wait=False, cancel_futures=True)
