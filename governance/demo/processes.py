"""The demo's processes: started each in a session of its own, watched, and stopped together, children's children too.

A terminal's Ctrl-C then reaches the parent alone, which stops the others in order. Should the parent be killed in a
way that it cannot answer to, Linux tells the children.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SECONDS_TO_STOP = 8.0
_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
_LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Child:
    """A process and its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])


@dataclass(slots=True)
class Children:
    """All processes of one demo."""

    folder: Path
    environment: Mapping[str, str]
    running: list[Child] = field(default_factory=list)

    def start(self, name: str, arguments: Sequence[str], *, log: Path) -> Child:
        """Start a process in the project's folder; what it prints is appended to its log."""
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603  (our own programs)
                list(arguments),
                cwd=self.folder,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_end_with_parent(os.getpid()),
            )
        child = Child(name, process, log)
        self.running.append(child)
        return child

    def fallen(self) -> Child | None:
        """The first process that has ended, if one has."""
        return next((child for child in self.running if child.process.poll() is not None), None)

    def stop(self) -> None:
        """Stop all of them, the last started first, and whatever they have started. Returns when none is left."""
        for child in reversed(self.running):
            _signal(child, signal.SIGTERM)
        deadline = time.monotonic() + _SECONDS_TO_STOP
        for child in reversed(self.running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, deadline - time.monotonic()))
            _signal(child, signal.SIGKILL)
            child.process.wait()
        self.running.clear()


def _signal(child: Child, number: signal.Signals) -> None:
    """Signal the group of a child. It outlives the child for as long as anything the child started does."""
    try:
        os.killpg(child.process.pid, number)
    except ProcessLookupError:
        return


def _end_with_parent(parent: int) -> Callable[[], None] | None:
    """What a new process does first on Linux: ask to be told when its parent is gone."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)

    def ask() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # gone before we could ask
            os._exit(1)

    return ask
