"""From the event loop to the engines, which are synchronous: Django has no asynchronous transactions.

One bounded pool of threads with persistent connections. Django's own ``sync_to_async`` would give every concurrent
request a thread and a connection of its own, and asyncio's default executor is needed for resolving names.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from threading import Barrier, BrokenBarrierError, local
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connections

THREADS = 4
"""Threads, and so connections, of one process."""

CLOSE_SECONDS = 5.0
"""How long a closing pool waits for what is running."""

LOOK_SECONDS = 1.0
"""How often a thread asks whether its connection is alive: asking before each crossing is a statement for each."""

logger = logging.getLogger(__name__)

_looked = local()

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class BridgeClosedError(RuntimeError):
    """The pool takes nothing more: it is closed, or the program ends."""


class Bridge:
    """The pool. A crossing holds a thread only while the engine works, never while a provider is waited for."""

    def __init__(self, *, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="bridge")
        self._threads = threads

    async def cross(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Run an engine's function in the pool. What it logs, and tasks that it sends, belong to the same request."""
        return await self.begin(function, *args, **kwargs)

    def begin(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> "asyncio.Future[Result]":
        """Let the pool run it. Whoever must know what became of it, even when nobody waits any more, shields it.

        Raises:
            BridgeClosedError: it is not run.
        """
        loop, context = asyncio.get_running_loop(), copy_context()

        def work() -> Result:
            return _with_living_connection(function, *args, **kwargs)

        try:
            return loop.run_in_executor(self._pool, context.run, work)
        except RuntimeError as error:
            raise BridgeClosedError(str(error)) from error

    def close(self) -> None:
        """Wait for what is running, close the connections and end the threads. What does not end is left behind."""
        everybody = Barrier(self._threads, timeout=CLOSE_SECONDS)  # else one thread could take all the turns
        closing = [self._pool.submit(_close_connections, everybody) for _ in range(self._threads)]
        unclosed = wait(closing, timeout=2 * CLOSE_SECONDS).not_done
        is_stuck = bool(unclosed) or everybody.broken
        if is_stuck:
            logger.error("threads that wait for a database that does not answer are left behind")
        self._pool.shutdown(wait=not is_stuck, cancel_futures=True)


def _close_connections(everybody: Barrier) -> None:
    with suppress(BrokenBarrierError):  # somebody is stuck; the others close theirs all the same
        everybody.wait()
    connections.close_all()


def _with_living_connection(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    now = time.monotonic()
    if now - getattr(_looked, "at", -LOOK_SECONDS) >= LOOK_SECONDS:
        close_old_connections()
        _looked.at = now
    try:
        return function(*args, **kwargs)
    finally:
        if any(each.errors_occurred for each in connections.all(initialized_only=True)):
            close_old_connections()
