"""From the event loop to the engines, which are synchronous: Django has no asynchronous transactions.

One bounded pool of threads with persistent connections. Django's own ``sync_to_async`` would give every concurrent
request a thread and a connection of its own, and asyncio's default executor is needed for resolving names.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connections

THREADS = 4
"""Threads, and so connections, of one process."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Bridge:
    """The pool. A crossing holds a thread only while the engine works, never while a provider is waited for."""

    def __init__(self, *, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="bridge")
        self._threads = threads

    async def cross(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Run an engine's function in the pool."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: _with_living_connection(function, *args, **kwargs))

    def close(self) -> None:
        """Wait for what is running, close the connections and end the threads."""
        everybody = Barrier(self._threads)  # else one thread could take all the turns
        for _ in range(self._threads):
            self._pool.submit(_close_connections, everybody)
        self._pool.shutdown(wait=True)


def _close_connections(everybody: Barrier) -> None:
    everybody.wait()
    connections.close_all()


def _with_living_connection(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    close_old_connections()
    try:
        return function(*args, **kwargs)
    finally:
        close_old_connections()
