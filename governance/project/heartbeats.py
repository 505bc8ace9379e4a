"""Signs of life of the processes that nobody can ask: the workers, and the one that sends what is due.

Kept where all processes look: in Redis, or without it as the time of a file in the data folder, since the workers are
on the same machine then. Only the last sign of each role is known: that somebody is there, not how many.
"""

import logging
import time
from enum import StrEnum
from pathlib import Path

from django.conf import settings

from governance.shared_state.server import server_store
from routing.core.sharing import StoreAway

BEAT_SECONDS = 5.0
"""How often a worker gives a sign."""

SECONDS_KNOWN = 30 * 24 * 3600.0
"""For how long a role that has fallen silent is missed; afterwards nobody knows that there was one."""

logger = logging.getLogger(__name__)


class Role(StrEnum):
    WORKER = "worker"
    SCHEDULE = "schedule"


def give_sign(role: Role) -> None:
    """Say that this role is alive. That it cannot be said stops nobody's work."""
    try:
        if settings.REDIS_URL is not None:
            server_store(settings.REDIS_URL).put(_key(role), repr(time.time()), seconds=SECONDS_KNOWN)
        else:
            _file(role).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _file(role).touch()
    except (StoreAway, OSError) as error:
        logger.warning("no sign of life can be given (%s)", type(error).__name__)


def seconds_since_sign(role: Role) -> float | None:
    """How long ago the last sign was given; ``None`` if there never was one.

    Raises:
        StoreAway, OSError: nobody can know.
    """
    if settings.REDIS_URL is not None:
        text = server_store(settings.REDIS_URL).read([_key(role)]).get(_key(role))
        given = None if text is None else float(text)
    else:
        given = _file(role).stat().st_mtime if _file(role).exists() else None
    return None if given is None else max(0.0, time.time() - given)


def _key(role: Role) -> str:
    return f"alive:{role}"


def _file(role: Role) -> Path:
    return Path(settings.DATA_DIR) / "alive" / role
