"""Where this process's calls live: the one event loop with the gateway's service on it, for those who are synchronous.

In the web process that is the server's loop, opened with its lifespan. Everywhere else (a Celery worker, a command, a
shell) it is a thread of our own, started when the first call needs it. Never at import and never before a fork: a
child has its own.
"""

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import connections

from governance.gateway import service as process
from governance.gateway.service import Service, close_service, open_service
from routing.core.failures import CallFailed, Failure, FailureKind

logger = logging.getLogger(__name__)

SECONDS_TO_OPEN = 30.0
SECONDS_TO_STOP = 1.0
SECONDS_TO_SPARE = 5.0
"""What whoever closes a service waits for it beyond its own bounds."""

Result = TypeVar("Result")


class CalledFromTheWrongPlace(RuntimeError):
    """A call was made from where waiting for a provider would hold up something else."""


@dataclass(frozen=True, slots=True)
class _Thread:
    """A loop of our own, and the thread that runs it."""

    loop: asyncio.AbstractEventLoop
    thread: threading.Thread


_opening = threading.Lock()
_own: _Thread | None = None


def wait(question: Callable[[Service], Coroutine[Any, Any, Result]], *, seconds: float | None = None) -> Result:
    """Ask something on the loop, and wait for it in this thread, as long as it takes unless ``seconds`` are given.

    Raises:
        CalledFromTheWrongPlace: inside a transaction, which would be held open all the while, or on an event loop,
            which would stand still.
        CallFailed: it took longer than that; what was asked is cancelled.
    """
    _refuse_to_hold_up()
    service, loop = _home()
    future = asyncio.run_coroutine_threadsafe(question(service), loop)
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done() or seconds is None:  # it came from within
            raise
        future.cancel()
        raise CallFailed(Failure(FailureKind.TIMEOUT, f"no answer came within {seconds:g} seconds")) from None
    except BaseException:
        future.cancel()
        raise


def close() -> None:
    """Let calls under way end, write their records, and stop the loop, if it is one of our own. It opens again for the
    next call."""
    global _own
    with _opening:
        own, _own = _own, None
        if own is None:
            return
        atexit.unregister(_write_what_waits)
        asyncio.run_coroutine_threadsafe(close_service(), own.loop).result(
            process.seconds_to_close() + SECONDS_TO_SPARE
        )
        own.loop.call_soon_threadsafe(own.loop.stop)
        own.thread.join(SECONDS_TO_SPARE)
        own.loop.close()


def _refuse_to_hold_up() -> None:
    if any(each.in_atomic_block for each in connections.all(initialized_only=True)):
        raise CalledFromTheWrongPlace(
            "a call cannot be made inside transaction.atomic: the transaction, its locks and its connection would wait "
            "for a provider. Make the call before or after it, or with transaction.on_commit"
        )
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise CalledFromTheWrongPlace(
        "a call made here would stop this thread's event loop until a provider answers; use asyncio.to_thread"
    )


def _home() -> tuple[Service, asyncio.AbstractEventLoop]:
    """The service, and the loop that it lives on; opened if this process has none."""
    global _own
    with _opening:
        service = process.opened_service()
        if service is None:
            _own = _own or _start()
            with suppress(TimeoutError):  # it is opened all the same
                service = asyncio.run_coroutine_threadsafe(open_service(), _own.loop).result(SECONDS_TO_OPEN)
    if service is None or service.loop is None:
        raise CallFailed(Failure(FailureKind.TRANSIENT, "the gateway is still being opened: is the database there?"))
    return service, service.loop


def _start() -> _Thread:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="signalbox-calls", daemon=True)
    thread.start()
    atexit.register(_write_what_waits)
    return _Thread(loop, thread)


def _write_what_waits() -> None:
    """The records and the outcomes of the last calls, when the program ends without closing. By now pools of threads
    take nothing more, so they are written from here."""
    service, own = process.opened_service(), _own
    if service is None or own is None:
        return
    own.loop.call_soon_threadsafe(own.loop.stop)
    own.thread.join(SECONDS_TO_STOP)
    services = service.services
    try:
        services.recorder.flush()
    except Exception:
        logger.exception("%d records of calls were lost: the database is away", services.recorder.waiting)
    try:
        services.bookkeeper.flush()
    except Exception:
        logger.exception("outcomes of calls are not booked: the database is away. What they held becomes uncertain")


def _forget() -> None:
    """In a child after a fork: the parent's loop and threads are not here."""
    global _own, _opening
    _own, _opening = None, threading.Lock()
    process.forget_service()
    atexit.unregister(_write_what_waits)


os.register_at_fork(after_in_child=_forget)
