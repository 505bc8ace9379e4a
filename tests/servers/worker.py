"""A Celery worker as a real process, in the installation of a web server.

with running_web(environ=..., start=False) as web, running_worker(web, pool="prefork") as worker:
    worker.kill()
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers.web import ROOT, WebServer

SECONDS_TO_START = 40.0
SECONDS_TO_STOP = 40.0


class WorkerDidNotStart(RuntimeError):
    """Says what the worker's own log says."""


class Worker:
    """A worker; made and ended by `running_worker`. Its processes are a group of their own, which ends as a whole."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def children(self) -> list[int]:
        """The processes that it forked."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return [int(pid) for pid in listed.split()]

    def kill(self) -> None:
        """End it and its children in a way that none can answer to."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> None:
        """Ask it to end, and return at once."""
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Ask it to end, and wait; one that does not is killed."""
        if self.process.poll() is not None:
            return
        self.terminate()
        try:
            self.process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def running_worker(
    web: WebServer,
    *,
    pool: str = "threads",
    concurrency: int = 4,
    application: str = "governance.project",
    environ: Mapping[str, str] | None = None,
    beat: bool = False,
) -> Iterator[Worker]:
    """A worker that is ready for tasks, until the block ends."""
    arguments = [
        *(sys.executable, "-m", "celery", "-A", application, "worker", "--pool", pool),
        *("--concurrency", str(concurrency), "--without-gossip", "--without-mingle", "--without-heartbeat"),
        *(["--beat"] if beat else []),
    ]
    with tempfile.TemporaryDirectory(prefix="signalbox-worker-") as folder:
        log = Path(folder) / "worker.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                arguments,
                cwd=ROOT,
                env={**web.environ, **(environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        worker = Worker(process, log)
        try:
            _await_ready(worker)
            yield worker
        finally:
            worker.stop()
            sys.stdout.write(worker.log[-8000:])  # shown of a test that fails


def _await_ready(worker: Worker) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while "ready." not in worker.log:
        if worker.process.poll() is not None or time.monotonic() > deadline:
            raise WorkerDidNotStart(worker.log[-4000:])
        time.sleep(0.05)
