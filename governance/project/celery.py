"""A worker's process: ``celery -A governance.project worker``. Wiring only; the tasks are in ``governance.tasks``.

Settings are found, logs look like those of the web process, a task's lines carry the correlation id of the request
that sent it, and the loop that calls live on is closed before the process ends, so that calls under way come to their
end and are recorded.
"""

import contextlib
import os
import threading
from collections.abc import Mapping
from typing import Any

from celery import bootsteps
from celery.signals import (
    after_task_publish,
    setup_logging,
    task_postrun,
    task_prerun,
    worker_process_shutdown,
    worker_shutdown,
)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "governance.project.settings.installation")

import django

django.setup()

# Behind the line above, which makes the records importable.
from governance.gateway import home  # noqa: E402
from governance.project.heartbeats import BEAT_SECONDS, Role, give_sign  # noqa: E402
from governance.project.http.correlation import correlated  # noqa: E402
from governance.project.schedule import SCHEDULE  # noqa: E402
from governance.tasks import CORRELATION_HEADER, app  # noqa: E402

__all__ = ["app"]

app.conf.beat_schedule = SCHEDULE

_running = threading.local()  # by thread: a task that hands a call in, and the call's execution, have one id


class SignOfLife(bootsteps.StartStopStep):
    """A worker says every few seconds that it is there, for as long as it hears the broker."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        give_sign(Role.WORKER)
        self._sign = consumer.timer.call_repeatedly(BEAT_SECONDS, give_sign, (Role.WORKER,))

    def stop(self, consumer: Any) -> None:
        self._sign.cancel()


app.steps["consumer"].add(SignOfLife)


@after_task_publish.connect(sender="signalbox.sweep")
def give_sign_of_schedule(**_: Any) -> None:
    """Beat has sent what is due; nobody else sends this task."""
    give_sign(Role.SCHEDULE)


@setup_logging.connect
def leave_logs_alone(**_: Any) -> None:
    """Django has set them up; being connected is what tells Celery so."""


@task_prerun.connect
def begin_trace(task: Any, **_: Any) -> None:
    """Lines of a task name it, and the request that sent it."""
    sent: Mapping[str, Any] = task.request.headers or {}
    offered = sent.get(CORRELATION_HEADER)
    stack = contextlib.ExitStack()
    stack.enter_context(correlated(offered=offered if isinstance(offered, str) else None, task=task.name))
    _running.trace = stack


@task_postrun.connect
def end_trace(**_: Any) -> None:
    """What the thread does next is something else."""
    stack: contextlib.ExitStack | None = vars(_running).pop("trace", None)
    if stack is not None:
        stack.close()


@worker_process_shutdown.connect
@worker_shutdown.connect
def close_home(**_: Any) -> None:
    """Of a process that made calls: the last records are written, the connections closed."""
    home.close()
