"""The provider simulator as a real server on loopback, in a background thread with a loop of its own.

Usable outside of pytest: in benchmarks, scripts and a Python prompt. The control calls block for a moment,
which is harmless in async tests, since the server has its own thread.
"""

import base64
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx
import orjson

from governance.demo.simulator import build_application
from governance.demo.simulator.server import prepare

_SECONDS_TO_START = 10.0
_SECONDS_TO_STOP = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A request that the simulator received; ``body`` only if bodies are recorded."""

    method: str
    path: str
    provider: str
    model: str
    headers: Mapping[str, str]
    sha256: str
    body: bytes | None


class SimulatorServer:
    """A running simulator; a context manager, or ``start()`` and ``stop()``."""

    def __init__(
        self,
        *,
        behaviours: Mapping[str, Any] | None = None,
        seed: int = 0,
        key: str | None = None,
        record_bodies: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """Bind the address; the arguments are those of ``build_application``, port 0 is any free one."""
        application = build_application(behaviours=behaviours, seed=seed, key=key, record_bodies=record_bodies)
        self._station = prepare(application, host=host, port=port)
        self._thread = threading.Thread(target=self._station.run, name="simulator", daemon=True)
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._client = httpx.Client(base_url=self.url, headers=headers, timeout=10.0, trust_env=False)

    @property
    def url(self) -> str:
        """The root, without a trailing slash."""
        return self._station.url

    def base_url(self, provider: str | None = None) -> str:
        """The base URL of a provider's API, up to and including ``/v1``."""
        return f"{self.url}/v1" if provider is None else f"{self.url}/{provider}/v1"

    has_failed = False
    """Whether it was told to fail since its behaviours were last restored."""

    def start(self) -> Self:
        """Run the server; returns when it accepts connections."""
        self._thread.start()
        self._await(lambda: self._station.server.started, seconds=_SECONDS_TO_START)
        return self

    def stop(self) -> None:
        """Stop the server and wait for its thread."""
        self._client.close()
        self._station.server.should_exit = True
        self._thread.join(_SECONDS_TO_STOP)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def set_behaviour(self, pattern: str = "*/*", /, **behaviour: Any) -> None:
        """Replace the behaviour of one pattern, e.g. ``set_behaviour("atlas/*", down=True)``."""
        self._control("PUT", "behaviours", {pattern: behaviour})

    def fail(self, kind: str, /, *, pattern: str = "*/*", **settings: Any) -> None:
        """Let a pattern fail in one way: ``fail("429", fail_next=2, retry_after=1)``; always, by default."""
        self.has_failed = True
        self.set_behaviour(pattern, failures=[{"kind": kind, **settings}])

    def behaviours(self) -> dict[str, Any]:
        """The behaviours in force, by pattern."""
        return dict(self._control("GET", "behaviours"))

    def restore_behaviours(self) -> None:
        """Go back to the behaviours given at the start, and start the random sequences anew."""
        self.has_failed = False
        self._control("DELETE", "behaviours")

    def stats(self) -> dict[str, Any]:
        """The counts since the start or the last reset."""
        return dict(self._control("GET", "stats"))

    def reset_stats(self) -> None:
        """Set all counts to zero."""
        self._control("DELETE", "stats")

    def wait_for_stats(self, condition: Callable[[Mapping[str, Any]], bool], *, seconds: float = 5.0) -> dict[str, Any]:
        """The counts as soon as they satisfy the condition; raises ``TimeoutError`` with the last ones."""
        self._await(lambda: condition(self.stats()), seconds=seconds)
        return self.stats()

    def requests(self) -> list[RecordedRequest]:
        """The last hundred requests to provider endpoints, oldest first."""
        return [_read_recorded(entry) for entry in self._control("GET", "requests")]

    def _control(self, method: str, name: str, document: object = None) -> Any:
        """Call a control endpoint; raises ``ValueError`` with the simulator's message if it refuses."""
        content = None if document is None else orjson.dumps(document)
        response = self._client.request(method, f"/_simulator/{name}", content=content)
        answer = response.json()
        if response.is_error:
            raise ValueError(answer["error"]["message"])
        return answer

    def _await(self, condition: Callable[[], bool], *, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the simulator did not get there within {seconds} s")
            time.sleep(0.005)


def _read_recorded(entry: Mapping[str, Any]) -> RecordedRequest:
    encoded = entry.get("body_base64")
    return RecordedRequest(
        method=entry["method"],
        path=entry["path"],
        provider=entry["provider"],
        model=entry["model"],
        headers=entry["headers"],
        sha256=entry["sha256"],
        body=None if encoded is None else base64.b64decode(encoded),
    )
