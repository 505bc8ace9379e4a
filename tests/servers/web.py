"""The web process as a real uvicorn on loopback, over a database of its own that nobody else writes to or empties.

Usable outside of pytest, in benchmarks and scripts, once Django is set up.

    with running_web(environ={"SIGNALBOX_OUTBOUND_ALLOW": "127.0.0.1:9000"}) as web:
        with web.records():
            ProviderFactory(...)  # into the server's database
        httpx.get(f"{web.url}/v1/models")

The database is a SQLite file, or the empty PostgreSQL database that `database_url` names.
"""

import base64
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from django.core.management import call_command
from django.db import connections
from django.db.utils import ConnectionHandler

from governance.gateway.service import GATHER_SECONDS, POLL_SECONDS
from governance.project.settings.environment import envpostgresql
from governance.shared_state.server import ServerStore
from governance.shared_state.table import TableStore
from routing.circuits import Circuits
from routing.models import LanguageModel
from tests.servers.ports import find_free_port

ROOT = Path(__file__).resolve().parents[2]
SECONDS_TO_START = 30.0
SECONDS_TO_STOP = 40.0
START_TRIES = 3

_SECRETS = ("SIGNALBOX_SECRET_KEY", "SIGNALBOX_ENCRYPTION_KEYS")


class WebDidNotStart(RuntimeError):
    """Says what the server's own log says."""


class WebServer:
    """A web process and its database; made and ended by `running_web`."""

    def __init__(self, *, environ: Mapping[str, str], database_url: str | None, folder: Path) -> None:
        # The secrets are this process's own where it has some, since it seals the keys that the server opens.
        made = {
            "SIGNALBOX_SECRET_KEY": secrets.token_urlsafe(64),
            "SIGNALBOX_ENCRYPTION_KEYS": f"web:{base64.b64encode(secrets.token_bytes(32)).decode()}",
        }
        self._environ = {
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            **{name: os.environ.get(name, made[name]) for name in _SECRETS},
            "SIGNALBOX_DATA_DIR": str(folder),
            "SIGNALBOX_INSECURE_HTTP": "1",
            **({} if database_url is None else {"DATABASE_URL": database_url}),
            **environ,
        }
        self._database_url = database_url
        self._folder = folder
        self._log_file = folder / "web.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of the server, for further processes of the same installation."""
        return dict(self._environ)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The server's process."""
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process

    @property
    def log(self) -> str:
        """What the server has written to its standard output and error so far."""
        return self._log_file.read_text(encoding="utf-8", errors="replace") if self._log_file.exists() else ""

    def start(self) -> None:
        """Run the server; returns when it answers. Another process may take a free port first, hence the tries."""
        for _ in range(START_TRIES):
            port = find_free_port()
            self.url = f"http://127.0.0.1:{port}"
            self._process = self._spawn(port)
            if self._answers():
                return
            self.stop()
        raise WebDidNotStart(self.log[-4000:])

    def terminate(self) -> None:
        """Send SIGTERM and return at once."""
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Send SIGTERM and wait for the end; a server that does not end is killed. It may be started again."""
        if self._process is None:
            return
        if self.process.poll() is None:
            self.terminate()
        try:
            self.process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @contextmanager
    def records(self) -> Iterator[None]:
        """Inside the block this thread's Django reads and writes the server's database."""
        mine = connections["default"]
        theirs = ConnectionHandler({"default": self._database()})["default"]
        connections["default"] = theirs
        try:
            yield
        finally:
            theirs.close()
            connections["default"] = mine

    def migrate(self) -> None:
        """Make the tables."""
        with self.records():
            call_command("migrate", verbosity=0, interactive=False)

    def _database(self) -> dict[str, Any]:
        """The server's database as it would stand in the settings, by the rules that the settings go by."""
        if self._database_url is None:
            return {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": self._folder / "signalbox.sqlite3",
                "OPTIONS": {
                    "transaction_mode": "IMMEDIATE",
                    "timeout": 20,
                    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
                },
            }
        url = envpostgresql("DATABASE_URL", environ={"DATABASE_URL": self._database_url})
        if url is None:
            raise ValueError("the database has no URL")
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.name,
            "HOST": url.host,
            "PORT": "" if url.port is None else str(url.port),
            "USER": url.user,
            "PASSWORD": url.password,
        }

    def let_routes_serve(self) -> None:
        """End the rests of all routes that failed, and wait until the process has heard of it."""
        redis_url = self._environ.get("REDIS_URL")
        circuits = Circuits(store=TableStore() if redis_url is None else ServerStore(redis_url))
        time.sleep(2 * GATHER_SECONDS)  # what a call has just said is on its way to the store
        with self.records():
            circuits.share(LanguageModel.objects.values_list("identifier", flat=True))
            for model in circuits.states():
                circuits.clear(model)
            circuits.share([])
        time.sleep(POLL_SECONDS + 2 * GATHER_SECONDS)

    def _spawn(self, port: int) -> subprocess.Popen[bytes]:
        server = ["-m", "uvicorn", "governance.project.asgi:application", "--port", str(port), "--lifespan", "on"]
        with self._log_file.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, *server],
                cwd=ROOT,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _answers(self) -> bool:
        with httpx.Client(base_url=self.url, trust_env=False) as client:

            def is_alive() -> bool:
                try:
                    return client.get("/healthz", timeout=1.0).is_success
                except httpx.TransportError:
                    return False

            deadline = time.monotonic() + SECONDS_TO_START
            while self.process.poll() is None and time.monotonic() < deadline:
                if is_alive():
                    return True
                time.sleep(0.02)
        return False


@contextmanager
def running_web(
    *, environ: Mapping[str, str] | None = None, database_url: str | None = None, start: bool = True
) -> Iterator[WebServer]:
    """A server with tables that are empty, until the block ends. One that does not start at once finds the records that
    were made before."""
    with tempfile.TemporaryDirectory(prefix="signalbox-web-") as folder:
        server = WebServer(environ=environ or {}, database_url=database_url, folder=Path(folder))
        server.migrate()
        try:
            if start:
                server.start()
            yield server
        finally:
            server.stop()


def wait_until(condition: Callable[[], bool], *, seconds: float = 5.0) -> None:
    """Ask again and again until it holds; `TimeoutError` if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not get there within {seconds} s")
        time.sleep(0.01)
