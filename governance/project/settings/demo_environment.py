"""The environment of the demo: an installation of its own that nobody has to configure.

Its keys are random, made at the first start and kept beside its database, so that a second start can open
what the first one sealed. Every variable that is set already wins. Nothing here is a fallback for a real
installation: only the demo's commands call it.
"""

import base64
import json
import secrets
from collections.abc import MutableMapping
from pathlib import Path

from governance.project.settings.environment import envpath

DEMO_FOLDER = Path(__file__).resolve().parents[3] / "data" / "demo"
KEYS_FILE = "keys.json"


def provide(*, environ: MutableMapping[str, str], folder: Path = DEMO_FOLDER, make: bool = True) -> None:
    """Put what the demo needs into `environ`, so that the settings and every child process find it there.

    Without `make` nothing is made, and where no demo has been there is nothing to provide: the command that takes a
    demo away finds what the one that runs it would.

    Raises:
        EnvironmentProblem: the folder that is set is none that the settings would take.
    """
    data_folder = envpath("SIGNALBOX_DATA_DIR", default=folder, environ=environ)
    if not make and not (data_folder / KEYS_FILE).exists():
        return
    data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, value in {
        **_keys(path=data_folder / KEYS_FILE),
        "SIGNALBOX_DATA_DIR": str(data_folder),
        "SIGNALBOX_INSECURE_HTTP": "1",
    }.items():
        if not environ.get(name) and not environ.get(f"{name}_FILE"):
            environ[name] = value


def _keys(*, path: Path) -> dict[str, str]:
    if not path.exists():
        keys = {
            "SIGNALBOX_SECRET_KEY": secrets.token_urlsafe(64),
            "SIGNALBOX_ENCRYPTION_KEYS": f"demo:{base64.b64encode(secrets.token_bytes(32)).decode()}",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(keys), encoding="utf-8")
    stored: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return stored
