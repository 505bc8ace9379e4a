"""The store in Redis or Valkey, and the only place that talks to one directly."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import redis

from routing.core.meters import Charge, Metered, levels_of
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
# As `routing.core.meters.meter`, which is held to it by the same tests. Numbers stay below 2**53.
_METER = """
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fine, day = 60000, 86400000
local used, refused, longest = {}, 0, -1
for i, key in ipairs(KEYS) do
    local daily, limit, amount = ARGV[3 * i - 1] == 'day', tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
    local was, at = string.match(redis.call('get', key) or '0:0', '^(%d+):(%d+)$')
    local units = tonumber(was)
    if not daily then units = math.max(0, units - math.max(0, now - tonumber(at)) * limit) end
    local over = units + (amount - limit) * fine
    if ARGV[1] == '0' and amount > 0 and over > 0 then
        local wait = daily and day - now % day or math.ceil(over / limit)
        if amount > limit then wait = math.huge end
        if wait > longest then refused, longest = i, wait end
    end
    used[i] = units
end
local answer = {tostring(refused), string.format('%.0f', now), longest == math.huge and 'never' or tostring(longest)}
for i, key in ipairs(KEYS) do
    local daily, limit, amount = ARGV[3 * i - 1] == 'day', tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
    if refused == 0 then
        used[i] = math.max(0, used[i] + amount * fine)
        local kept = daily and 2 * day or math.ceil(used[i] / limit) + 1000
        redis.call('set', key, string.format('%.0f:%.0f', used[i], now), 'px', string.format('%.0f', kept))
    end
    answer[3 + i] = string.format('%.0f', used[i])
end
return answer
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
        self._meter: Callable[..., list[str]] = self._client.register_script(_METER)

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

    def meter(self, charges: Sequence[Charge], *, force: bool = False) -> Metered:
        """One round trip, whatever the number of charges."""
        described = [str(each) for charge in charges for each in (charge.pace.value, charge.limit, charge.amount)]
        with _answering():
            said = self._meter(keys=[_PREFIX + each.key for each in charges], args=[str(int(force)), *described])
        refused, now_ms, wait, *used = said
        levels = levels_of(charges, [int(units) for units in used], now_ms=int(now_ms))
        if refused == "0":
            return Metered(levels)
        return Metered(levels, refused=int(refused) - 1, wait_ms=None if wait == "never" else int(wait))


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
