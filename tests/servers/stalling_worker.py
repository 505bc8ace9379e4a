"""A worker that stops right before it would say that it is about to send a request, for as long as a file is there.

celery -A tests.servers.stalling_worker worker          (the variable STALL names the file)
"""

import os
import time
from pathlib import Path
from typing import Any

from governance.project.celery import app
from governance.submissions import claims, execution

__all__ = ["app"]


def announce_when_allowed(*args: Any, **settings: Any) -> None:
    stall = Path(os.environ["STALL"])
    stall.with_suffix(".reached").touch()
    while stall.exists():
        time.sleep(0.01)
    claims.announce_sending(*args, **settings)


execution.announce_sending = announce_when_allowed  # type: ignore[attr-defined]  # the name that execution calls
