"""The store in Redis or Valkey, and the only place that talks to one directly."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import redis

from routing.core.sharing import StoreAway

SECONDS_TO_ANSWER = 1.0
"""A server that does not answer is no server: whoever asks has another way, and shall not wait for long."""

_PREFIX = "signalbox:state:"

_SWAP = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3])
return 1
"""
_REMOVE = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])
"""


class ServerStore:
    """A :class:`~routing.core.sharing.SharedStore` in a server. Ends are counted by the server's clock.

    Connections are made when they are needed and kept; any thread may use them.
    """

    def __init__(self, url: str) -> None:
        self._client: redis.Redis = redis.Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=SECONDS_TO_ANSWER,
            socket_connect_timeout=SECONDS_TO_ANSWER,
            retry=None,
        )
        self._swap: Callable[..., object] = self._client.register_script(_SWAP)
        self._remove: Callable[..., object] = self._client.register_script(_REMOVE)

    def ping(self) -> None:
        """Whether it answers; if not, :class:`StoreAway`."""
        with _answering():
            self._client.ping()

    def read(self, keys: Sequence[str]) -> Mapping[str, str]:
        if not keys:
            return {}
        with _answering():
            values = self._client.mget([_PREFIX + key for key in keys])
        return {key: str(value) for key, value in zip(keys, values, strict=True) if value is not None}

    def put(self, key: str, value: str, *, seconds: float) -> None:
        with _answering():
            self._client.set(_PREFIX + key, value, px=_milliseconds(seconds))

    def add(self, key: str, value: str, *, seconds: float) -> bool:
        with _answering():
            return bool(self._client.set(_PREFIX + key, value, px=_milliseconds(seconds), nx=True))

    def swap(self, key: str, value: str, *, expected: str | None, seconds: float) -> bool:
        if expected is None:
            return self.add(key, value, seconds=seconds)
        with _answering():
            return bool(self._swap(keys=[_PREFIX + key], args=[expected, value, _milliseconds(seconds)]))

    def remove(self, key: str, *, expected: str) -> bool:
        with _answering():
            return bool(self._remove(keys=[_PREFIX + key], args=[expected]))


@cache
def server_store(url: str) -> ServerStore:
    """This process's store in the server of that address, with the connections that it has."""
    return ServerStore(url)


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except (redis.RedisError, OSError) as error:
        raise StoreAway(f"{type(error).__name__}: {error}") from error


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
