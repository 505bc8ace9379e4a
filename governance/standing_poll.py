"""What is in force, read and kept up to date by one process: what changes by a version, what is measured by its age.

What follows from it is decided in ``governance.decisions``, which reads nothing.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Lock

from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError

from budgets.crossings import Crossings, look
from budgets.scopes import BudgetBook
from governance.access.budgets import budget_poll
from governance.decisions import Standing
from governance.settings_store.store import EffectiveSettings, settings_poll
from routing.circuits import Circuits
from routing.core.signals import Figures, HealthFigure, HistoryFigure, HistoryKey, figures_of
from routing.snapshots import CatalogueSnapshot, catalogue_poll
from telemetry.health import read_health
from telemetry.history import read_history

logger = logging.getLogger(__name__)

HISTORY_AGE = timedelta(minutes=5)
HEALTH_AGE = timedelta(minutes=1)
LOOK_AGE = timedelta(minutes=1)


class StandingPoll:
    """Keeps a standing up to date for one process. :meth:`refresh` reads the database; ``current`` never does.

    Any thread may refresh; who comes second waits for the first and then looks for itself.
    """

    def __init__(self, *, circuits: Circuits) -> None:
        self._settings = settings_poll()
        self._catalogue = catalogue_poll()
        self._budgets = budget_poll()
        self._crossings = Crossings()
        self._looked: tuple[BudgetBook, datetime] | None = None
        self._measured = _Measured()
        self._circuits = circuits
        self._standing: Standing | None = None
        self._refreshing = Lock()

    @property
    def current(self) -> Standing | None:
        """What is in force, or ``None`` while nothing could be read yet."""
        return self._standing

    def refresh(self, *, now: datetime | None = None) -> Standing:
        """Read what has changed: two version reads, figures where they have grown old. Gives what is in force then.

        Raises:
            django.db.Error: settings or catalogue cannot be read; the last standing stays in force.
        """
        with self._refreshing:
            return self._refresh(now or datetime.now(UTC))

    def look_for_crossings(self, *, now: datetime | None = None) -> None:
        """Note what accounts have crossed and nobody has noted: where budgets were edited, and once a minute.

        Raises:
            django.db.Error: it cannot be read; the next look finds it.
        """
        now, book = now or datetime.now(UTC), self._budgets.current
        with self._refreshing:
            if self._looked is not None and self._looked[0] is book and not _is_old(self._looked[1], LOOK_AGE, now):
                return
            look(book.budgets, self._crossings, now=now)
            self._looked = book, now

    def forget_figures(self) -> None:
        """Read history and health anew at the next refresh."""
        with self._refreshing:
            self._measured = _Measured()

    def _refresh(self, now: datetime) -> Standing:
        self._settings.refresh()
        self._catalogue.refresh()
        self._budgets.refresh()
        self._read_crossings(now)
        settings, snapshot = self._settings.current, self._catalogue.current
        measured = self._measured.refresh(settings, now=now)
        standing = self._standing
        # What stands is compared, and not what has just moved: a read that failed half way must not hide the rest.
        if (
            standing is not None
            and not measured
            and standing.settings is settings
            and standing.snapshot is snapshot
            and standing.budgets is self._budgets.current
            and (standing.fresh_until is None or now < standing.fresh_until)
        ):
            return standing
        self._standing = standing = Standing.of(
            settings=settings,
            snapshot=snapshot,
            figures=self._measured.figures_of(snapshot, circuits=self._circuits),
            circuits=self._circuits,
            now=now,
            budgets=self._budgets.current,
            crossings=self._crossings,
        )
        return standing

    def _read_crossings(self, now: datetime) -> None:
        """Where it cannot be read what is crossed, what is known stays in force; before it was ever read, those are
        refused whom strict tiers are meant for, and nobody else."""
        if not self._budgets.current.has_thresholds:
            return
        try:
            self._crossings.read(now=now)
        except DatabaseFault:
            logger.warning("crossings of budgets cannot be read; the known ones stay in force", exc_info=True)


class _Measured:
    """History and health, each with an age. A failing read is no history and no health, never a failing call."""

    def __init__(self) -> None:
        self.history: Mapping[HistoryKey, HistoryFigure] | None = None
        self.health: Mapping[str, HealthFigure] = {}
        self._history_read: datetime | None = None
        self._health_read: datetime | None = None
        self._currency = ""
        self._telemetry = False

    def refresh(self, settings: EffectiveSettings, *, now: datetime) -> bool:
        """Read what has grown old; tells whether anything was read."""
        policy = settings.routing
        if (policy.currency, policy.telemetry) != (self._currency, self._telemetry):
            self._history_read = self._health_read = None
            self._currency, self._telemetry = policy.currency, policy.telemetry
        read = False
        if _is_old(self._history_read, HISTORY_AGE, now):
            self._history_read, read = now, True
            self.history = self._read_history(now) if policy.telemetry else None
        if _is_old(self._health_read, HEALTH_AGE, now):
            self._health_read, read = now, True
            self.health = self._read_health(now) if policy.telemetry else {}
        return read

    def figures_of(self, snapshot: CatalogueSnapshot, *, circuits: Circuits) -> Figures:
        """What was read, by model."""
        return figures_of(
            snapshot.catalogue,
            quality=snapshot.quality,
            health=self.health,
            history=self.history,
            failures_in_a_row=circuits.counts,
        )

    def _read_history(self, now: datetime) -> Mapping[HistoryKey, HistoryFigure] | None:
        try:
            return read_history(now=now, currency=self._currency)
        except DatabaseFault:
            logger.warning("call history cannot be read; decisions go on without it", exc_info=True)
            return None

    def _read_health(self, now: datetime) -> Mapping[str, HealthFigure]:
        try:
            return read_health(now=now)
        except DatabaseFault:
            logger.warning("health cannot be read; decisions go on without it", exc_info=True)
            return {}


def _is_old(read_at: datetime | None, age: timedelta, now: datetime) -> bool:
    return read_at is None or now - read_at >= age or now < read_at


def under(standing: Standing, settings: EffectiveSettings, *, now: datetime) -> Standing:
    """What would be in force under other settings: the same catalogue, and the figures that there would be.

    Figures are read anew, by the rules of a poll, where the settings say which there are: telemetry switched on or
    off, money compared in another currency.
    """
    policy, other = standing.settings.routing, settings.routing
    figures = standing.figures
    if (policy.telemetry, policy.currency) != (other.telemetry, other.currency):
        measured = _Measured()
        measured.refresh(settings, now=now)
        figures = measured.figures_of(standing.snapshot, circuits=standing.circuits)
    return replace(standing, settings=settings, figures=figures, remembered={})
