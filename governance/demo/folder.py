"""The demo's files: secrets it made up, logs of its processes, and the note that the database is its own.

Everything lies in the installation's data folder. Secrets are readable by their owner alone.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from governance.demo.cast import VISITOR


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The files in one folder."""

    path: Path

    @property
    def visitor_key(self) -> Path:
        """The virtual key that the demo prints the place of."""
        return self.path / "virtual-key"

    @property
    def traffic_keys(self) -> Path:
        """The keys of the invented applications, by application."""
        return self.path / "traffic-keys.json"

    def password_of(self, username: str) -> Path:
        """The password of a log-in."""
        return self.path / f"{username}-password"

    @property
    def behaviours(self) -> Path:
        """What the simulator is told."""
        return self.path / "simulator.json"

    @property
    def lock(self) -> Path:
        """Held for as long as a demo runs on this folder."""
        return self.path / "demo.lock"

    @property
    def own_database(self) -> Path:
        """Names the database that was empty when the demo first came, and is therefore the demo's to empty."""
        return self.path / "demo-database"

    def log(self, name: str) -> Path:
        """The log of one process."""
        folder = self.path / "logs"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / f"{name}.log"

    def read_keys(self) -> dict[str, str]:
        """The secrets of the demo's keys, by application; empty where they are not there or not readable."""
        keys: dict[str, str] = {}
        if self.traffic_keys.exists():
            try:
                stored = json.loads(self.traffic_keys.read_text(encoding="utf-8"))
            except ValueError:
                stored = {}
            keys |= {str(name): str(secret) for name, secret in stored.items()}
        if self.visitor_key.exists():
            keys[VISITOR] = self.visitor_key.read_text(encoding="utf-8").strip()
        return keys

    def write_keys(self, keys: Mapping[str, str]) -> None:
        """Keep the secrets of the demo's keys."""
        others = {name: secret for name, secret in keys.items() if name != VISITOR}
        write_private(self.traffic_keys, json.dumps(others, indent=2))
        write_private(self.visitor_key, keys[VISITOR] + "\n")

    def forget_secrets(self) -> None:
        """Remove the files that open what the demo made."""
        passwords = self.path.glob("*-password")
        for file in (self.visitor_key, self.traffic_keys, *passwords):
            file.unlink(missing_ok=True)


def write_private(file: Path, text: str) -> None:
    """Write a file that nobody else can read, not even while it is being written."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as output:
        os.fchmod(descriptor, 0o600)
        output.write(text)
