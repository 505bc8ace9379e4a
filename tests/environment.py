"""The environment that the tests run in: secrets made for this run, a data folder of its own, and nothing
inherited that would make one developer's run differ from another's.

`SIGNALBOX_TEST_DB` chooses the database, `sqlite` (the default) or `postgres`. Nothing is started here: the
tool that checks types reads the settings as well.
"""

import atexit
import base64
import os
import secrets
import shutil
import sys
import tempfile
from enum import StrEnum
from pathlib import Path


class TestDatabase(StrEnum):
    __test__ = False  # pytest collects classes by their name

    SQLITE = "sqlite"
    POSTGRES = "postgres"


# Well-formed, and answered by nobody: `tests/conftest.py` puts the server's own in before the first
# connection.
UNANSWERED_URL = "postgresql://nobody@127.0.0.1:1/signalbox"


def chosen_database() -> TestDatabase:
    """The database of this run; a name that is not one fails here."""
    return TestDatabase(os.environ.get("SIGNALBOX_TEST_DB") or TestDatabase.SQLITE)


def furnish() -> None:
    """Replace every variable of ours in this process's environment by what a test run needs."""
    for name in list(os.environ):
        ours = name.startswith("SIGNALBOX_") and name != "SIGNALBOX_TEST_DB"
        if ours or name in {"DATABASE_URL", "DATABASE_URL_FILE", "REDIS_URL", "REDIS_URL_FILE"}:
            del os.environ[name]
    os.environ["SIGNALBOX_DATA_DIR"] = _data_folder()
    os.environ["SIGNALBOX_SECRET_KEY"] = secrets.token_urlsafe(64)
    os.environ["SIGNALBOX_ENCRYPTION_KEYS"] = f"test:{base64.b64encode(secrets.token_bytes(32)).decode()}"
    # The test client speaks plain HTTP; that HTTPS is insisted upon otherwise has tests of its own.
    os.environ["SIGNALBOX_INSECURE_HTTP"] = "1"
    if chosen_database() is TestDatabase.POSTGRES:
        os.environ["DATABASE_URL"] = UNANSWERED_URL


def _data_folder() -> str:
    """For pytest a folder of this run's own, so that two runs at a time do not meet. The tools that only look at the
    settings share one: mypy ends without cleaning up."""
    if "pytest" not in sys.modules:
        return str(Path(__file__).resolve().parents[1] / "data" / "checks")
    folder = tempfile.mkdtemp(prefix="signalbox-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
