"""The broker that needs no server: a message is a file in a folder. Kombu's own transport, made whole.

Kombu writes a message where others look for it already, so that one may take a file that is still empty, and then the
worker ends; and it moves messages to the machine's folder for temporary files to read them, where everybody could. Here
a message is written aside and renamed into place, read where it is, and taken by being removed, which only one process
can do. What a program with Kombu's own transport writes is left lying until it is whole.
"""

import logging
import os
import time
from pathlib import Path
from queue import Empty
from typing import Any
from uuid import uuid4

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps, loads

logger = logging.getLogger(__name__)

SECONDS_TO_WRITE = 60.0
"""A file that is no message by then never will be."""


class Channel(filesystem.Channel):
    """Where messages are written and taken."""

    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]  # Kombu's classes disagree
        name = f"{time.time_ns() // 1_000_000}_{uuid4()}.{queue}.msg"
        aside = Path(self.control_folder) / f"{name}.part"
        try:
            with open(aside, "w", encoding="utf-8", opener=_for_us_alone) as file:
                file.write(dumps(payload))
            aside.rename(Path(self.data_folder_out) / name)
        except OSError as error:
            raise ChannelError(f"a message cannot be written to {self.data_folder_out}: {error.strerror}") from error

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        folder = Path(self.data_folder_in)
        for name in sorted(os.listdir(folder)):
            if name.partition(".")[2] != f"{queue}.msg":
                continue
            message = _take(folder / name)
            if message is not None:
                return message
        raise Empty


class Transport(filesystem.Transport):
    """Kombu's, with our channel."""

    Channel = Channel


def _take(file: Path) -> Any:
    """The message of a file, which is then ours; ``None`` if it is somebody else's, or not whole."""
    try:
        written = file.stat().st_mtime
        content = file.read_text(encoding="utf-8", errors="replace")
        message = _read(content)
        if message is None and time.time() - written < SECONDS_TO_WRITE:
            return None
        file.unlink()
    except FileNotFoundError:
        return None
    if message is None:
        logger.warning("a message that cannot be read was discarded")
    return message


def _read(content: str) -> Any:
    try:
        return loads(content)
    except ValueError:
        return None


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
