"""Keys as values: every key that may call, by its digest, so that recognising one costs no query."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from governance.access.keys import digest_of
from governance.models import AccessKey, AccessVersion
from routing.snapshots import Polled


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: identifiers for rows, and what the key allows (``None`` is all)."""

    key: str
    application: str
    allowed_configurations: frozenset[str] | None
    allowed_models: frozenset[str] | None
    may_name_models: bool
    expires_at: datetime | None
    source: str = ""

    def may_ask_for(self, configuration: str) -> bool:
        """Whether the key allows a configuration."""
        return self.allowed_configurations is None or configuration in self.allowed_configurations


@dataclass(frozen=True, slots=True)
class Directory:
    """All keys of active applications that were not revoked."""

    callers: Mapping[str, Caller]

    def recognise(self, secret: str, *, now: datetime) -> Caller | None:
        """The caller behind a secret; ``None`` if it is unknown, revoked or expired."""
        caller = self.callers.get(digest_of(secret))
        if caller is None or (caller.expires_at is not None and caller.expires_at <= now):
            return None
        return caller


def load_directory() -> Directory:
    """Read the keys: one query."""
    rows = AccessKey.objects.filter(
        revoked_at=None, application__is_active=True, application__retired_at=None
    ).select_related("application")
    return Directory({row.secret_digest: _caller(row) for row in rows})


def directory_poll() -> Polled[Directory]:
    """A poll of the keys, for one process."""
    return Polled(name="keys", read_version=AccessVersion.read, load=load_directory)


def _caller(row: AccessKey) -> Caller:
    return Caller(
        key=str(row.pk),
        application=row.application.identifier,
        allowed_configurations=_names(row.allowed_configurations),
        allowed_models=_names(row.allowed_models),
        may_name_models=row.may_name_models,
        expires_at=row.expires_at,
        source=row.source,
    )


def _names(stored: list[str] | None) -> frozenset[str] | None:
    return None if stored is None else frozenset(stored)
