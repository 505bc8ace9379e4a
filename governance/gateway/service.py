"""The process behind the gateway: what is in force, the ways out, and who keeps both going.

Opened with the server's lifespan and closed with it. Four tasks run for as long: one asks twice a second whether
records have changed, one tells other processes of routes that rest and hears of theirs, one writes records of calls as
they come, one sends the alerts that are due. None is ever waited for by a call.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError

from governance.access.directory import Directory, directory_poll
from governance.alerts import outbox
from governance.alerts.sender import send_due
from governance.decisions import Standing
from governance.gateway.aside import LARGE_BODY, Aside
from governance.gateway.bookkeeper import Bookkeeper
from governance.gateway.bridge import CLOSE_SECONDS, Arguments, Bridge, Result
from governance.gateway.context import Services
from governance.gateway.errors import Problem
from governance.shared_state import shared_state
from governance.standing_poll import StandingPoll
from routing.circuits import Circuits
from routing.endpoints import Endpoints
from routing.providers.outbound import OutboundPolicy
from routing.providers.transport import HttpTransport
from routing.slots import Slots
from routing.snapshots import Polled
from routing.vault import Vault
from telemetry.recorder import Recorder

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""How long a change of a record may go unnoticed."""

LOOK_SECONDS = 0.25
"""Between two looks for keys that are not known, however many of them are shown."""

GATHER_SECONDS = 0.05
"""How long the writer lets records come together. Written one by one they would cost as much as the calls do."""

RETRY_SECONDS = 1.0
"""Between two tries to write records while the database is away."""

ALERT_SECONDS = 5.0
"""Between two looks for alerts that are due."""

REPORT_SECONDS = 60.0
"""Between two lines in the log about requests that were turned away."""

DRAIN_SECONDS = 20.0
"""How long a closing process waits for the calls under way. Those that take longer are ended."""

FLUSH_SECONDS = 5.0
"""How long a closing process takes to write what waits."""


@dataclass(frozen=True, slots=True)
class InForce:
    """What a call is answered with: one consistent picture, read once at its beginning."""

    directory: Directory
    standing: Standing


class Service:
    """One process's gateway."""

    def __init__(self) -> None:
        self.shared = shared_state()
        self.circuits = Circuits(store=self.shared, on_change=self._tell_others)
        self._standing = StandingPoll(circuits=self.circuits)
        self._directory: Polled[Directory] = directory_poll()
        # A change of a webhook moves the version that the directory goes by, so that looking for it asks nothing.
        self._receivers = Polled(
            name="webhooks", read_version=lambda: self._directory.version or 0, load=outbox.has_receivers
        )
        self._bridge = Bridge()
        self._aside = Aside()
        self._wake = asyncio.Event()
        self._told = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        self._transport = HttpTransport(policy=OutboundPolicy(allow=frozenset(_allowed())))
        self._endpoints = Endpoints(vault=_vault())
        self._recorder = Recorder(on_append=self._wake.set)
        self.services = Services(
            transport=self._transport,
            slots=Slots(),
            recorder=self._recorder,
            endpoint_of=self._endpoints.of,
            bridge=self._bridge,
            bookkeeper=Bookkeeper(self._bridge),
            shared=self.shared,
        )
        self._looked_at = 0.0
        self._look: asyncio.Task[None] | None = None
        self._read_at: float | None = None
        self._serving: set[asyncio.Task[Any]] = set()
        self.turned_away: Counter[str] = Counter()

    @property
    def in_force(self) -> InForce | None:
        """What is in force; ``None`` while nothing could be read yet."""
        standing = self._standing.current
        if standing is None or not self._directory.is_loaded:
            return None
        return InForce(directory=self._directory.current, standing=standing)

    def standing_now(self) -> Standing:
        """What calls are decided by, looked up at once and in the thread of whoever asks.

        Raises:
            django.db.Error: it cannot be read.
        """
        return self._standing.refresh()

    @property
    def seconds_since_read(self) -> float | None:
        """How long ago records were last read or found unchanged; ``None`` if that never succeeded."""
        return None if self._read_at is None else time.monotonic() - self._read_at

    async def look_for_keys(self) -> None:
        """Let a key that was issued a moment ago be known, before whoever shows it is refused.

        All who wait share one look, and looks are rare: a flood of bad keys makes four short reads a second.
        """
        if self._look is None:
            self._look = asyncio.create_task(self._look_for_keys())
        await asyncio.shield(self._look)

    async def _look_for_keys(self) -> None:
        await asyncio.sleep(self._looked_at + LOOK_SECONDS - time.monotonic())
        self._looked_at = time.monotonic()
        self._look = None  # whoever comes from here on may show a key that this look does not see
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._bridge.cross(self._directory.refresh)
        except (DatabaseFault, TimeoutError) as error:
            logger.warning("keys cannot be read (%s); the last known ones stay in force", type(error).__name__)

    @property
    def calls_under_way(self) -> int:
        """How many calls there are at this moment."""
        return len(self._serving)

    def begin_call(self) -> Callable[[], None]:
        """Count the call that the current task serves as one under way; gives what says that it is over."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call is served by a task")
        self._serving.add(task)
        return partial(self._serving.discard, task)

    async def open(self) -> None:
        """Read what is in force and begin to keep up. A database that is away is asked again, twice a second."""
        self.loop = asyncio.get_running_loop()
        await self._poll()
        await self._share()
        keepers = (self._keep_polling(), self._keep_sharing(), self._keep_writing(), self._keep_alerting())
        self._tasks = [asyncio.create_task(keeper) for keeper in keepers]

    async def close(self) -> None:
        """Let calls under way end, write what waits, close every connection."""
        await self._end_calls()
        if owed := [*self.services.owed]:
            await asyncio.wait(owed, timeout=FLUSH_SECONDS)
        tasks = [*self._tasks, *self.services.owed, *([self._look] if self._look is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.services.bookkeeper.stop()
        await asyncio.gather(self._share_for_the_last_time(), self._write_what_waits())
        await self._transport.aclose()
        self._aside.close()
        await asyncio.to_thread(self._bridge.close)

    async def _end_calls(self) -> None:
        """Wait for calls under way; whichever takes too long ends as if its caller had left, so that it has its row."""
        deadline = asyncio.get_running_loop().time() + DRAIN_SECONDS
        while self._serving and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.05)
        if late := [*self._serving]:
            logger.warning("%d calls are ended: the process closes, and they have taken too long", len(late))
            for task in late:
                task.cancel()
            await asyncio.wait(late, timeout=FLUSH_SECONDS)

    async def _share_for_the_last_time(self) -> None:
        """What this process has learned of routes a moment ago; others find it out by themselves, if need be."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._share()

    async def _write_what_waits(self) -> None:
        """The last flush. A database that is away or does not answer must not keep a process from ending."""
        try:
            async with asyncio.timeout(2 * FLUSH_SECONDS):
                await self._bridge.cross(self._recorder.flush, seconds=FLUSH_SECONDS)
        except Exception:
            logger.exception("the last records of calls cannot be written")
        if self._recorder.waiting:
            logger.error("%d records of calls were lost: the process ends", self._recorder.waiting)

    async def read(self, body: bytes, reader: Callable[[bytes], Result]) -> Result:
        """What a reader makes of a body; of a large one aside, so that nobody else waits for it."""
        return await self._aside.do(reader, body) if len(body) >= LARGE_BODY else reader(body)

    async def refresh(self) -> None:
        """Look at once whether anything changed, figures included, and write what waits."""
        self._standing.forget_figures()
        await self._poll()
        await self._share()
        await self._bridge.cross(self._recorder.flush)

    async def cross(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Run something synchronous, such as a statement, without holding up the loop."""
        return await self._bridge.cross(function, *args, **kwargs)

    async def _keep_polling(self) -> None:
        told = time.monotonic()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self._poll()
            if self.turned_away and time.monotonic() - told >= REPORT_SECONDS:
                told = time.monotonic()
                logger.warning("requests turned away before they were calls: %s", dict(self.turned_away))
                self.turned_away.clear()

    async def _poll(self) -> None:
        """Read what has changed. Whatever goes wrong, the next poll tries again: a poll that ended for good would let
        keys that were revoked go on."""
        try:
            await self._bridge.cross(self._read)
            self._read_at = time.monotonic()
        except DatabaseFault as error:
            logger.warning("records cannot be read (%s); the last known ones stay in force", type(error).__name__)
        except Exception:
            logger.exception("records cannot be read; the last known ones stay in force")

    def _read(self) -> None:
        self._standing.refresh()
        self._standing.look_for_crossings()
        self._directory.refresh()
        self._receivers.refresh()

    def _tell_others(self) -> None:
        """Something about a route has changed, in whichever thread: let other processes know in a moment."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._told.set)

    async def _keep_sharing(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._told.wait()
            self._told.clear()
            await self._share()
            await asyncio.sleep(GATHER_SECONDS)

    async def _share(self) -> None:
        """Tell other processes which routes rest, and hear of theirs. What goes wrong is tried again."""
        standing = self._standing.current
        models = [] if standing is None else [each.identifier for each in standing.snapshot.catalogue.models]
        try:
            await self._bridge.cross(self.circuits.share, models)
        except Exception:
            logger.exception("what routes do cannot be shared; the process goes by what it knows itself")

    async def _keep_writing(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            try:
                await self._bridge.cross(self._recorder.flush)
            except Exception as error:
                known = isinstance(error, DatabaseFault)
                logger.warning(
                    "%d records of calls wait: the database is away (%s)",
                    self._recorder.waiting,
                    type(error).__name__,
                    exc_info=None if known else error,
                )
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    async def send_alerts(self) -> int:
        """Send the alerts that are due, as far as no other process is at it; gives how many arrived."""
        return await send_due(transport=self._transport, cross=self._bridge.cross, vault=_vault())

    async def _keep_alerting(self) -> None:
        """What goes wrong is tried again: the alerts are in the database. Where nobody is told, nothing is asked."""
        while True:
            await asyncio.sleep(ALERT_SECONDS)
            if not self._receivers.is_loaded or not self._receivers.current:
                continue
            try:
                await self.send_alerts()
            except DatabaseFault as error:
                logger.warning("alerts wait: the database is away (%s)", type(error).__name__)
            except Exception:
                logger.exception("alerts could not be sent; they are tried again")


def seconds_to_close() -> float:
    """How long a service takes to close at the most, when nothing answers: the calls under way, their ends, what is
    owed for them, the last records, and the threads."""
    return DRAIN_SECONDS + FLUSH_SECONDS + FLUSH_SECONDS + 2 * FLUSH_SECONDS + 2 * CLOSE_SECONDS


def turn_away(problem: Problem) -> None:
    """Count a request that never became a call. Nothing is recorded of it: nobody knows whose it was, or what."""
    if _service is not None:
        _service.turned_away[problem.code] += 1


def _vault() -> Vault:
    return Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)


def _allowed() -> list[str]:
    return [f"{host}:{port}" for host, port in settings.SIGNALBOX_OUTBOUND_ALLOW]


_service: Service | None = None


async def open_service() -> Service:
    """Open this process's service, once."""
    global _service
    if _service is None:
        _service = Service()
        await _service.open()
    return _service


async def close_service() -> None:
    """Close this process's service, if it was opened."""
    global _service
    service, _service = _service, None
    if service is not None:
        await service.close()


def opened_service() -> Service | None:
    """This process's service, or ``None`` where none is open."""
    return _service


def forget_service() -> None:
    """Leave the service alone without closing it: after a fork it is the parent's, and its threads are not here."""
    global _service
    _service = None


def current_service() -> Service:
    """This process's service; the server's lifespan has opened it."""
    if _service is None:
        raise RuntimeError("the gateway is not open; the server must speak the ASGI lifespan protocol")
    return _service


def standing_now() -> Standing:
    """What a call of this moment is decided by, for pages and programs that ask a question.

    Read by whoever asks, so it holds what was changed a moment ago. In a process that serves calls it is their own
    standing, with the figures and circuits that decide them; any other process reads figures of its own, and of
    circuits what is shared. Never asked within a transaction, whose changes may yet be undone.

    Raises:
        django.db.Error: it cannot be read.
    """
    if _service is not None:
        return _service.standing_now()
    circuits = Circuits(store=shared_state())
    standing = StandingPoll(circuits=circuits).refresh()
    circuits.share(each.identifier for each in standing.snapshot.catalogue.models)
    return standing
