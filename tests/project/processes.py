"""Python processes with exactly the environment a test gives them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.servers.ports import find_free_port

ROOT = Path(__file__).resolve().parents[2]
SECONDS_TO_START = 30.0
RING = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="  # 0 to 31: nobody's key


def installation_environment(*, data_folder: Path) -> dict[str, str]:
    """The least that an installation needs."""
    return {
        "SIGNALBOX_SECRET_KEY": "a-key-for-a-process-that-lives-as-long-as-its-test-0123456789",
        "SIGNALBOX_ENCRYPTION_KEYS": RING,
        "SIGNALBOX_DATA_DIR": str(data_folder),
    }


def run_python(*arguments: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the project's Python in the project's folder, with `environ` and nothing else but the search
    path."""
    return run_command(sys.executable, *arguments, environ=environ)


def run_command(*command: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program in the project's folder, with `environ` and nothing else but the search path."""
    return subprocess.run(
        command,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@contextmanager
def running_web_process(*, environ: Mapping[str, str], log: Path) -> Iterator[str]:
    """The base URL of a uvicorn process that answers."""
    port = find_free_port()
    base = f"http://127.0.0.1:{port}"
    uvicorn = ("-m", "uvicorn", "governance.project.asgi:application", "--port", str(port))
    with running_command(sys.executable, *uvicorn, environ=environ, log=log, base=base):
        yield base


@contextmanager
def running_command(
    *command: str, environ: Mapping[str, str], log: Path, base: str, folder: Path = ROOT
) -> Iterator[httpx.Client]:
    """A web process by the command that starts it; a client that talks to it, once it answers at `base`."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **environ},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        with httpx.Client(base_url=base, transport=httpx.HTTPTransport(retries=0)) as client:
            for _ in range(int(SECONDS_TO_START / 0.1)):
                if process.poll() is not None:
                    raise AssertionError(log.read_text(encoding="utf-8"))
                try:
                    client.get("/healthz", timeout=0.1)
                except httpx.TransportError:
                    time.sleep(0.1)
                else:
                    break
            else:
                raise AssertionError(f"no answer within {SECONDS_TO_START} s")
            yield client
    finally:
        process.terminate()
        process.wait(timeout=30)
