"""The demo while it runs: simulator, web server, worker and generator, from their start to the moment all are ready."""

import fcntl
import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from governance.demo.folder import DemoFolder, write_private
from governance.demo.processes import Child, Children
from governance.demo.profiles import behaviours
from governance.demo.seed import SIMULATOR_KEY
from governance.demo.traffic import send

HOST = "127.0.0.1"
PROJECT = Path(__file__).resolve().parents[2]

SIMULATOR, WEB, WORKER, TRAFFIC = "simulator", "web", "worker", "traffic"

_SIMULATOR_PORT = 8900
_SECONDS_TO_START = 60.0
_ALLOW = "SIGNALBOX_OUTBOUND_ALLOW"


class DemoProblem(Exception):
    """The demo cannot go on; the message is for whoever started it."""


@contextmanager
def alone(folder: DemoFolder) -> Iterator[None]:
    """Hold the folder, so that two demos never run on one database. Raises ``DemoProblem`` if somebody has it."""
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folder.lock.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise DemoProblem(
                f"A demo runs on {folder.path} already ({holder}). Stop it first, or set SIGNALBOX_DATA_DIR to "
                "another folder."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}\n")
        file.flush()
        yield


def is_free(port: int) -> bool:
    """Whether somebody could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def simulator_port() -> int:
    """The simulator's usual port, or any free one."""
    if is_free(_SIMULATOR_PORT):
        return _SIMULATOR_PORT
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def environment(*, simulator: int) -> dict[str, str]:
    """The environment of the processes: ours, with the simulator among the addresses that may be called."""
    allowed = [each for each in os.environ.get(_ALLOW, "").split(",") if each.strip()]
    return {
        **os.environ,
        _ALLOW: ",".join([*allowed, f"{HOST}:{simulator}"]),
        "PYTHONUNBUFFERED": "1",
    }


def start_servers(children: Children, *, folder: DemoFolder, port: int, simulator: int, speed: float) -> None:
    """Start the simulator and the web server and wait until both answer. Raises ``DemoProblem``."""
    write_private(folder.behaviours, json.dumps(behaviours(speed=speed), indent=2))
    children.start(
        SIMULATOR,
        [
            *(sys.executable, "manage.py", "simulator", "--host", HOST, "--port", str(simulator)),
            *("--key", SIMULATOR_KEY, "--behaviours", str(folder.behaviours)),
        ],
        log=folder.log(SIMULATOR),
    )
    children.start(
        WEB,
        [
            *(sys.executable, "-m", "uvicorn", "governance.project.asgi:application", "--host", HOST),
            *("--port", str(port), "--workers", "1", "--log-level", "warning", "--no-access-log"),
            *("--timeout-graceful-shutdown", "3"),
        ],
        log=folder.log(WEB),
    )
    deadline = time.monotonic() + _SECONDS_TO_START
    _wait(children, port=simulator, path="/v1/models", expected=(200, 401), deadline=deadline)
    _wait(children, port=port, path="/readyz", expected=(200,), deadline=deadline)


def start_worker(children: Children, *, folder: DemoFolder) -> None:
    """Start the worker that makes the calls that are handed in, and sweeps. Nobody waits for it: neither do calls that
    are handed in before it is ready."""
    children.start(
        WORKER,
        [
            *(sys.executable, "-m", "celery", "-A", "governance.project", "--quiet", "worker", "--beat"),
            *("--pool", "threads", "--concurrency", "8", "--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
        log=folder.log(WORKER),
    )


def start_traffic(children: Children, *, folder: DemoFolder, port: int) -> None:
    """Start the generator of new calls."""
    children.start(
        TRAFFIC,
        [
            *(sys.executable, "-m", "governance.demo.traffic", "--base", f"http://{HOST}:{port}/v1"),
            *("--keys", str(folder.traffic_keys)),
        ],
        log=folder.log(TRAFFIC),
    )


def make_first_call(*, port: int, keys: Mapping[str, str]) -> None:
    """One call all the way through: key, decision, provider, answer. Raises ``DemoProblem``."""
    body = {"model": "batch-summaries", "messages": [{"role": "user", "content": "Is everything connected?"}]}
    try:
        status = send(f"http://{HOST}:{port}/v1", key=keys["back-office"], body=body)
    except (OSError, http.client.HTTPException) as error:
        raise DemoProblem(f"The first call got no answer: {type(error).__name__} {error}") from error
    if status != 200:
        raise DemoProblem(f"The first call was answered with status {status}.")


def describe_fall(child: Child) -> str:
    """What happened to a process that ended by itself."""
    return (
        f"The {child.name} process ended by itself (exit code {child.process.returncode}); everything is stopped. "
        f"The end of {child.log}:\n{child.last_words()}"
    )


def _wait(children: Children, *, port: int, path: str, expected: tuple[int, ...], deadline: float) -> None:
    while time.monotonic() < deadline:
        fallen = children.fallen()
        if fallen is not None:
            raise DemoProblem(describe_fall(fallen))
        if _status(port, path) in expected:
            return
        time.sleep(0.1)
    raise DemoProblem(f"http://{HOST}:{port}{path} did not answer as it should within {_SECONDS_TO_START:.0f} s.")


def _status(port: int, path: str) -> int | None:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
