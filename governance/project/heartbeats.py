"""Signs of life of the processes that nobody can ask: the workers, and the one that sends what is due.

Kept where all processes look: in Redis, or without it as the time of a file in the data folder, since the workers are
on the same machine then. Only the last sign of each role is known: that somebody is there, not how many.
"""

import logging
import time
from enum import StrEnum
from pathlib import Path

from django.conf import settings
from django.core.cache import caches
from redis.exceptions import RedisError

BEAT_SECONDS = 5.0
"""How often a worker gives a sign."""

logger = logging.getLogger(__name__)


class Role(StrEnum):
    WORKER = "worker"
    SCHEDULE = "schedule"


def has_redis() -> bool:
    """Whether this installation has one."""
    return bool(settings.CACHES["shared"]["BACKEND"] == "django.core.cache.backends.redis.RedisCache")


def give_sign(role: Role) -> None:
    """Say that this role is alive. That it cannot be said stops nobody's work."""
    try:
        if has_redis():
            caches["shared"].set(_key(role), time.time(), timeout=None)
        else:
            _file(role).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _file(role).touch()
    except (RedisError, OSError) as error:
        logger.warning("no sign of life can be given (%s)", type(error).__name__)


def seconds_since_sign(role: Role) -> float | None:
    """How long ago the last sign was given; ``None`` if there never was one.

    Raises:
        RedisError, OSError: nobody can know.
    """
    if has_redis():
        given: float | None = caches["shared"].get(_key(role))
    else:
        given = _file(role).stat().st_mtime if _file(role).exists() else None
    return None if given is None else max(0.0, time.time() - given)


def _key(role: Role) -> str:
    return f"alive:{role}"


def _file(role: Role) -> Path:
    return Path(settings.DATA_DIR) / "alive" / role
