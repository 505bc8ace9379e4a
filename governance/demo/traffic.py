"""New calls for the demo: a small generator that asks the gateway over HTTP, as its applications would.

Run as a program (``python -m governance.demo.traffic``) it needs neither Django nor a database: a base URL and a file
of keys. It asks what ``habits`` marks as live, whole and streamed, with tools and with an image, each call in a thread
of its own, and outlives whatever goes wrong with one.
"""

import argparse
import http.client
import json
import logging
import random
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from governance.demo.cast import SOURCE
from governance.demo.habits import HABITS, Habit
from routing.core.vocabulary import Operation

logger = logging.getLogger("demo.traffic")

EVERY_SECONDS = 5.0
"""The mean time from one call to the next."""

_SECONDS_PER_CALL = 120.0
_MOST_AT_ONCE = 6
_SECONDS_TO_FINISH = 2.0

_LIVE = tuple(habit for habit in HABITS if habit.live)
_WEIGHTS = [habit.live for habit in _LIVE]
_QUESTIONS: Mapping[str, Sequence[str]] = {
    "support-chat": ("Where is my parcel?", "How do I return a lamp?", "My invoice names the wrong company."),
    "support-drafts": ("Draft an apology for a late parcel.", "Draft an answer about a broken lamp."),
    "code-review": ("Use the tool to look at change 1841.", "Review this: def area(r): return 3.14 * r * r"),
    "batch-summaries": ("Summarise the log of the night shift.", "Summarise yesterday's returns."),
    "private-notes": ("File this: the audit begins on Monday.", "What did we agree with the landlord?"),
    "image-captions": ("Describe this picture in one line.",),
}
_TOOL = {
    "type": "function",
    "function": {
        "name": "read_change",
        "description": "Reads a change that waits for review.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}
_PIXEL = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def body_of(habit: Habit, rng: random.Random) -> dict[str, Any]:
    """A request as the habit's application would make it."""
    question = rng.choice(_QUESTIONS[habit.configuration])
    content: Any = question
    if habit.operation is Operation.VISION:
        content = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": _PIXEL}}]
    body: dict[str, Any] = {
        "model": habit.configuration,
        "messages": [
            {"role": "system", "content": "This is the demo's own traffic; a simulator answers."},
            {"role": "user", "content": content},
        ],
    }
    if habit.users:
        body["user"] = f"{habit.application}-{rng.randint(1, habit.users):02d}"
    if habit.operation in (Operation.TOOLS, Operation.STREAM_TOOLS):
        body["tools"] = [_TOOL]
    if habit.operation in (Operation.STREAM, Operation.STREAM_TOOLS):
        body["stream"] = True
    return body


def send(base: str, *, key: str, body: Mapping[str, Any]) -> int:
    """Make one call and read its answer to the end; gives the status.

    Raises:
        OSError, http.client.HTTPException: there was no whole answer.
    """
    place = urlsplit(base)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_SECONDS_PER_CALL)
    try:
        headers = {
            "authorization": f"Bearer {key}",
            "content-type": "application/json",
            "x-signalbox-source": SOURCE,
        }
        connection.request("POST", f"{place.path}/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        while answer.read(65_536):
            pass
        return answer.status
    finally:
        connection.close()


class Traffic:
    """The generator. ``stop`` may be called from a signal handler."""

    def __init__(self, *, base: str, keys: Mapping[str, str], every: float = EVERY_SECONDS) -> None:
        self._base = base
        self._keys = keys
        self._every = every
        self._rng = random.Random()
        self._stopping = threading.Event()
        self._places = threading.Semaphore(_MOST_AT_ONCE)
        self._threads: list[threading.Thread] = []

    def stop(self) -> None:
        """Begin no further call."""
        self._stopping.set()

    def run(self) -> None:
        """Make calls until stopped, then give those under way a moment to end."""
        while not self._stopping.wait(self._rng.expovariate(1.0 / self._every)):
            (habit,) = self._rng.choices(_LIVE, weights=_WEIGHTS)
            if self._places.acquire(blocking=False):
                thread = threading.Thread(target=self._ask, args=(habit,), daemon=True)
                thread.start()
                self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        deadline = time.monotonic() + _SECONDS_TO_FINISH
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _ask(self, habit: Habit) -> None:
        began = time.monotonic()
        try:
            status = send(self._base, key=self._keys[habit.application], body=body_of(habit, self._rng))
        except (OSError, http.client.HTTPException) as error:
            logger.warning("%s %s: %s", habit.configuration, habit.operation.value, type(error).__name__)
        else:
            spent = time.monotonic() - began
            logger.info("%s %s: %d in %.1f s", habit.configuration, habit.operation.value, status, spent)
        finally:
            self._places.release()


def main() -> None:
    """Read the options and run until a signal."""
    parser = argparse.ArgumentParser(description="Keep calls of the demo coming.")
    parser.add_argument("--base", required=True, help="base URL of the gateway, with /v1")
    parser.add_argument("--keys", type=Path, required=True, help="JSON file: the key of each application")
    parser.add_argument("--every", type=float, default=EVERY_SECONDS, help="mean seconds between calls")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    traffic = Traffic(base=options.base, keys=json.loads(options.keys.read_text(encoding="utf-8")), every=options.every)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: traffic.stop())
    traffic.run()


if __name__ == "__main__":
    main()
