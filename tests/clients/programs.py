"""Coding programs as their makers ship them: installed from the registry, and run in a folder where nothing is theirs.

The versions are those of ``npm/package.json``, the files are checked against the hashes of its lock. They are kept
beside the environment, one folder for each state of the lock, so that only the first run has to fetch them.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

MANIFEST = Path(__file__).parent / "npm"
FILES = ("package.json", "package-lock.json", ".npmrc")
SECONDS_TO_INSTALL = 300.0
SECONDS_TO_RUN = 180.0  # they start in two seconds, and in half a minute where the disk is slow

_BINARIES: Mapping[str, str] = {
    "claude": "@anthropic-ai/claude-code-linux-*/claude",
    "codex": "@openai/codex-linux-*/vendor/*/bin/codex",
}
"""The programs proper: what npm links is a script that looks for them."""


def installed_programs() -> Mapping[str, Path]:
    """The programs by name. Where they cannot be had the test is skipped, or fails if this is a run of CI."""
    content = b"".join((MANIFEST / name).read_bytes() for name in FILES)
    folder = Path(sys.prefix) / "coding-programs" / hashlib.sha256(content).hexdigest()[:12]
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in parallel wait for one another
        if not folder.exists():
            _install(folder)
    return {name: _plainest((folder / "node_modules").glob(pattern)) for name, pattern in _BINARIES.items()}


def _plainest(found: Iterator[Path]) -> Path:
    """The one with the shortest name: older versions of npm fetch builds for other C libraries besides."""
    return min(found, key=lambda path: len(str(path)))


def _install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        _give_up("npm is not installed")
    with tempfile.TemporaryDirectory(dir=folder.parent) as parent:
        made = Path(parent) / "made"
        made.mkdir()
        for name in FILES:
            shutil.copy(MANIFEST / name, made)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            subprocess.run(command, cwd=made, check=True, capture_output=True, text=True, timeout=SECONDS_TO_INSTALL)
        except subprocess.CalledProcessError as failed:
            _give_up(f"npm cannot install the coding programs: {failed.stderr[-500:]}")
        except subprocess.TimeoutExpired:
            _give_up(f"npm has not installed the coding programs within {SECONDS_TO_INSTALL:.0f} s")
        made.rename(folder)


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def run_program(
    command: Sequence[str | Path], *, folder: Path, home: Path, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run it in a folder, with a home of its own and nothing of this process's environment but where programs are."""
    return subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "NO_PROXY": "127.0.0.1", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_RUN,
        check=False,
    )
