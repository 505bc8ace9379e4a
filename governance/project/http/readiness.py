"""What a process needs to do its work, looked at piece by piece: each check finds one condition, with a reason and a
sentence.

Ready is a process none of whose checks has failed. A warning says that something wants an operator while calls are
answered all the same: it is told and takes no traffic away. Nothing found here names a host, an account or a secret,
since whoever reaches the address may read it; what was caught goes to the log, once for as long as it lasts.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from threading import Lock

from django.conf import settings
from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from governance.gateway.service import opened_service
from governance.models import Submission, SubmissionState
from governance.project.heartbeats import Role, seconds_since_sign
from governance.shared_state.server import server_store
from routing.core.sharing import StoreAway
from routing.credentials import read_key
from routing.models import Provider
from routing.vault import Vault, VaultError

SECONDS_KEPT = 1.0
"""How long an answer is given again: however many ask, the database hears of it once a second."""

SECONDS_OLD = 10.0
"""How long the records may go unread, twice a second being usual, before it is told."""

MANY_WAITING = 1_000
"""Records of calls that wait to be written, of 20,000 that may."""

SECONDS_SILENT: Mapping[Role, float] = {Role.WORKER: 30.0, Role.SCHEDULE: 60.0}
"""How long nothing may be heard: of a worker six signs, of the schedule four sweeps."""

SECONDS_QUEUED = 60.0
"""How long a submitted call may wait for a worker."""

MOST_COUNTED = 10_000

logger = logging.getLogger(__name__)


class Condition(StrEnum):
    OK = "ok"
    UNUSED = "not configured"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a condition is a warning or a failure."""

    DATABASE_UNREACHABLE = "database_unreachable"
    MIGRATIONS_PENDING = "migrations_pending"
    GATEWAY_CLOSED = "gateway_closed"
    NOTHING_IN_FORCE = "nothing_in_force"
    RECORDS_OLD = "records_old"
    CALLS_UNWRITTEN = "calls_unwritten"
    SHARED_STATE_AWAY = "shared_state_away"
    KEYS_MISSING = "encryption_keys_missing"
    REDIS_UNREACHABLE = "redis_unreachable"
    WORKERS_SILENT = "workers_silent"
    SCHEDULE_SILENT = "schedule_silent"
    CALLS_QUEUED = "calls_queued"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's result. ``cause`` is for the log only; ``figures`` are counts and seconds."""

    condition: Condition
    reason: Reason | None = None
    detail: str = ""
    figures: Mapping[str, int | float] = field(default_factory=dict)
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What was found, by the name of the check, in their order."""

    findings: Mapping[str, Finding]

    @property
    def failure(self) -> Finding | None:
        """The first that keeps the process from its work; ``None`` if it is ready."""
        return next((each for each in self.findings.values() if each.condition is Condition.FAILED), None)


def check_database() -> Finding:
    """Whether it answers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return Finding(Condition.OK)


def check_migrations() -> Finding:
    """Whether all of this version's are applied."""
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not pending:
        return Finding(Condition.OK)
    return Finding(
        Condition.FAILED,
        Reason.MIGRATIONS_PENDING,
        f"Migrations to apply: {len(pending)}. Run `manage.py migrate`.",
        {"pending": len(pending)},
        cause=", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in pending),
    )


def check_encryption_keys() -> Finding:
    """Whether the key ring opens the stored keys of providers. One that does not open is one route less; a ring that
    opens none of them is another installation's."""
    vault = Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)
    providers = Provider.objects.filter(retired_at=None).exclude(sealed_key=None)
    sealed, problems = 0, []
    for provider in providers.only("uuid", "identifier", "sealed_key"):
        sealed += 1
        try:
            read_key(provider, vault=vault)
        except VaultError as error:
            problems.append(f"{provider.identifier}: {error}")
    figures = {"sealed": sealed, "unopened": len(problems)}
    if not problems:
        return Finding(Condition.OK, figures=figures)
    return Finding(
        Condition.FAILED if len(problems) == sealed else Condition.WARNING,
        Reason.KEYS_MISSING,
        f"{len(problems)} of {sealed} stored provider keys do not open with SIGNALBOX_ENCRYPTION_KEYS. Add the key "
        "that sealed them at the end of the ring; the log names it.",
        figures,
        cause="; ".join(problems),
    )


def check_redis() -> Finding:
    """Whether it answers, where there is one. Without it each process goes by what it knows itself, and submitted calls
    wait in their rows."""
    if settings.REDIS_URL is None:
        return Finding(Condition.UNUSED)
    try:
        server_store(settings.REDIS_URL).ping()
    except StoreAway as away:
        return Finding(
            Condition.WARNING,
            Reason.REDIS_UNREACHABLE,
            "The server that REDIS_URL names does not answer; each process goes by what it knows itself, and submitted "
            "calls wait.",
            cause=str(away),
        )
    return Finding(Condition.OK)


def check_snapshot() -> Finding:
    """Whether there is a picture to answer calls by, and how old it is."""
    service = opened_service()
    if service is None:
        return Finding(
            Condition.FAILED,
            Reason.GATEWAY_CLOSED,
            "The gateway is not open: the server must speak the ASGI lifespan protocol.",
        )
    age = service.seconds_since_read
    if service.in_force is None or age is None:
        return Finding(Condition.FAILED, Reason.NOTHING_IN_FORCE, "Keys and catalogue could not be read yet.")
    figures = {"age_seconds": round(age, 1)}
    if age <= SECONDS_OLD:
        return Finding(Condition.OK, figures=figures)
    return Finding(
        Condition.WARNING,
        Reason.RECORDS_OLD,
        f"Keys and catalogue were last read {age:.0f} seconds ago. Calls are answered by what was known then; a key "
        "revoked since is still accepted.",
        figures,
    )


def check_records() -> Finding:
    """How many records of calls wait to be written, and how many were lost since the process began."""
    service = opened_service()
    if service is None:
        return Finding(Condition.UNKNOWN)
    recorder = service.services.recorder
    figures = {"waiting": recorder.waiting, "lost": recorder.lost}
    if recorder.waiting < MANY_WAITING:
        return Finding(Condition.OK, figures=figures)
    return Finding(
        Condition.WARNING,
        Reason.CALLS_UNWRITTEN,
        f"{recorder.waiting} records of calls wait to be written. They are in memory, and lost with the process.",
        figures,
    )


def check_shared_state() -> Finding:
    """Whether the process hears from others which routes rest, and tells them."""
    service = opened_service()
    if service is None:
        return Finding(Condition.UNKNOWN)
    seconds = service.shared.seconds_away()
    if seconds is None:
        return Finding(Condition.OK)
    return Finding(
        Condition.WARNING,
        Reason.SHARED_STATE_AWAY,
        f"For {seconds:.0f} seconds this process has shared nothing with the others: which routes rest, it knows from "
        "its own calls alone.",
        {"away_seconds": round(seconds, 1)},
    )


def check_workers() -> Finding:
    """Whether a worker was heard of lately. An installation that never had one has no use for it."""
    return _check_sign(
        Role.WORKER,
        Reason.WORKERS_SILENT,
        "No worker was heard of for {:.0f} seconds. Calls are answered; what is submitted waits.",
    )


def check_schedule() -> Finding:
    """Whether what is due is sent to the workers."""
    return _check_sign(
        Role.SCHEDULE,
        Reason.SCHEDULE_SILENT,
        "Celery's beat was not heard of for {:.0f} seconds. Submitted calls whose worker was lost wait, and what has "
        "expired is not removed.",
    )


def _check_sign(role: Role, reason: Reason, detail: str) -> Finding:
    try:
        silent = seconds_since_sign(role)
    except (StoreAway, OSError):
        return Finding(Condition.UNKNOWN)  # that Redis is away is another check's finding
    if silent is None:
        return Finding(Condition.UNUSED)
    figures = {"silent_seconds": round(silent, 1)}
    if silent <= SECONDS_SILENT[role]:
        return Finding(Condition.OK, figures=figures)
    return Finding(Condition.WARNING, reason, detail.format(silent), figures)


def check_submissions() -> Finding:
    """How many submitted calls wait for a worker, and the oldest for how long."""
    queued = Submission.objects.filter(state=SubmissionState.QUEUED.value).order_by("id")
    oldest = queued.values_list("submitted_at", flat=True).first()
    if oldest is None:
        return Finding(Condition.OK, figures={"waiting": 0})
    seconds = max(0.0, (datetime.now(UTC) - oldest).total_seconds())
    waiting = queued[:MOST_COUNTED].count()
    figures = {"waiting": waiting, "oldest_seconds": round(seconds, 1)}
    if seconds <= SECONDS_QUEUED:
        return Finding(Condition.OK, figures=figures)
    return Finding(
        Condition.WARNING,
        Reason.CALLS_QUEUED,
        f"{waiting} submitted calls wait for a worker, the oldest for {seconds:.0f} seconds. Start workers, or more of "
        "them.",
        figures,
    )


CHECKS: Mapping[str, Callable[[], Finding]] = {
    "database": check_database,
    "migrations": check_migrations,
    "encryption_keys": check_encryption_keys,
    "redis": check_redis,
    "snapshot": check_snapshot,
    "records": check_records,
    "shared_state": check_shared_state,
    "workers": check_workers,
    "schedule": check_schedule,
    "submissions": check_submissions,
}
"""In the order in which an operator would look. The first failure is the one that is named."""

ANSWERED_BY_THE_DATABASE = frozenset({"database", "migrations", "encryption_keys", "submissions"})


class Watch:
    """Looks at everything at most once a second, for however many ask, and logs what has changed."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._last: Readiness | None = None
        self._looked_at = 0.0
        self._told: Mapping[str, Reason | None] = {}

    def readiness(self) -> Readiness:
        """What was found, a second ago at the most."""
        with self._lock:
            if self._last is None or self._clock() - self._looked_at >= SECONDS_KEPT:
                self._last = look()
                self._looked_at = self._clock()
                self._tell(self._last)
            return self._last

    def _tell(self, readiness: Readiness) -> None:
        reasons = {name: finding.reason for name, finding in readiness.findings.items()}
        for name, finding in readiness.findings.items():
            before = self._told.get(name)
            if finding.reason is not None and finding.reason is not before:
                level = logging.ERROR if finding.condition is Condition.FAILED else logging.WARNING
                logger.log(level, "%s: %s (%s)", name, finding.detail, finding.cause or finding.reason)
            elif finding.condition is Condition.OK and before is not None:
                logger.info("%s: is well again", name)
        self._told = reasons


def look() -> Readiness:
    """Every check, now. Behind a database that is away those that need it are not tried: each would wait its turn."""
    findings: dict[str, Finding] = {}
    is_away = False
    for name, check in CHECKS.items():
        if is_away and name in ANSWERED_BY_THE_DATABASE:
            findings[name] = Finding(Condition.UNKNOWN)
            continue
        try:
            findings[name] = check()
        except DatabaseFault as error:
            is_away = True
            findings["database"] = Finding(
                Condition.FAILED,
                Reason.DATABASE_UNREACHABLE,
                "The database cannot be reached; the log says why.",
                cause=_describe(error),
            )
            findings.setdefault(name, Finding(Condition.UNKNOWN))
    return Readiness(findings)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
