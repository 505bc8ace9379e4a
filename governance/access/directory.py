"""Who may call, as values: every key by its digest, so that recognising one costs no query; and the applications in
whose name tasks may call without a key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import QuerySet

from budgets.limits import Limit
from governance.access.keys import digest_of
from governance.access.limits import limits_of
from governance.models import AccessKey, AccessVersion, Application
from routing.snapshots import Polled


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: identifiers for rows, and what the key allows (``None`` is all). A task has no key.

    ``limits`` are the rates and quotas of the key and of its application.
    """

    key: str
    application: str
    allowed_configurations: frozenset[str] | None
    allowed_models: frozenset[str] | None
    may_name_models: bool
    expires_at: datetime | None
    source: str = ""
    limits: tuple[Limit, ...] = ()

    def may_ask_for(self, configuration: str) -> bool:
        """Whether the key allows a configuration."""
        return self.allowed_configurations is None or configuration in self.allowed_configurations


@dataclass(frozen=True, slots=True)
class Directory:
    """All keys of active applications that were not revoked: by digest, and by their own id.

    ``tasks`` has the active applications that may run tasks, by identifier.
    """

    callers: Mapping[str, Caller]
    keys: Mapping[str, Caller] = field(default_factory=dict)
    tasks: Mapping[str, Caller] = field(default_factory=dict)

    def recognise(self, secret: str, *, now: datetime) -> Caller | None:
        """The caller behind a secret; ``None`` if it is unknown, revoked or expired."""
        return _in_time(self.callers.get(digest_of(secret)), now)

    def find(self, *, application: str, key: str, now: datetime) -> Caller | None:
        """The caller of a call that was handed in: by the id of its key, or without one by its application.

        ``None`` if the key was revoked or has expired since, or the application may not, or no longer, run tasks.
        """
        return _in_time(self.keys.get(key), now) if key else self.tasks.get(application)


def load_directory() -> Directory:
    """Read keys and applications: two queries."""
    callers = {row.secret_digest: _caller(row) for row in _in_force()}
    return Directory(
        callers=callers,
        keys={caller.key: caller for caller in callers.values()},
        tasks={row.identifier: _task_caller(row) for row in _running_tasks()},
    )


def find_caller(secret: str, *, now: datetime) -> Caller | None:
    """The caller behind a secret where no directory is kept: one query."""
    row = _in_force().filter(secret_digest=digest_of(secret)).first()
    return None if row is None else _in_time(_caller(row), now)


def find_task_caller(application: str) -> Caller | None:
    """The caller of a task, for a process that has no directory: one query. ``None`` if it may run none."""
    row = _running_tasks().filter(identifier=application).first()
    return None if row is None else _task_caller(row)


def directory_poll() -> Polled[Directory]:
    """A poll of the keys, for one process."""
    return Polled(name="keys", read_version=AccessVersion.read, load=load_directory)


def task_caller(application: str, *, source: str = "", limits: tuple[Limit, ...] = ()) -> Caller:
    """Who calls without a key, in an application's name: any configuration, and no model by its own name."""
    return Caller(
        key="",
        application=application,
        allowed_configurations=None,
        allowed_models=None,
        may_name_models=False,
        expires_at=None,
        source=source,
        limits=limits,
    )


def _task_caller(row: Application) -> Caller:
    return task_caller(row.identifier, source=row.source, limits=_limits_of_application(row))


def _limits_of_application(row: Application) -> tuple[Limit, ...]:
    return limits_of(row, scope="application", holder=row.identifier)


def _running_tasks() -> QuerySet[Application]:
    return Application.objects.filter(may_run_tasks=True, is_active=True, retired_at=None)


def _in_time(caller: Caller | None, now: datetime) -> Caller | None:
    return None if caller is None or (caller.expires_at is not None and caller.expires_at <= now) else caller


def _in_force() -> "QuerySet[AccessKey]":
    """Keys of active applications that were not revoked."""
    rows = AccessKey.objects.filter(revoked_at=None, application__is_active=True, application__retired_at=None)
    return rows.select_related("application")


def _caller(row: AccessKey) -> Caller:
    return Caller(
        key=str(row.pk),
        application=row.application.identifier,
        allowed_configurations=_names(row.allowed_configurations),
        allowed_models=_names(row.allowed_models),
        may_name_models=row.may_name_models,
        expires_at=row.expires_at,
        source=row.source,
        limits=(*limits_of(row, scope="key", holder=str(row.pk)), *_limits_of_application(row.application)),
    )


def _names(stored: list[str] | None) -> frozenset[str] | None:
    return None if stored is None else frozenset(stored)
