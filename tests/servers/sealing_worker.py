"""A worker that hands calls in and makes none: what it would send is lost.

celery -A tests.servers.sealing_worker worker
"""

from typing import Any

from governance.project.celery import app
from governance.tasks import run_call

__all__ = ["app"]


def send_nothing(*_: Any, **__: Any) -> int:
    return 0


run_call.run.__globals__["send"] = send_nothing
