"""An installation without a web process: its database, its broker, its provider, and a program that sends tasks."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis
from celery import Celery
from celery.result import AsyncResult

from governance.models import Application, Submission, SubmissionState
from governance.submissions.intake import submit
from tests.environment import TestDatabase, chosen_database
from tests.factories import ApplicationFactory
from tests.governance.submissions.orders import HELPDESK, later, order
from tests.servers.records import furnish
from tests.servers.simulator import SimulatorServer
from tests.servers.web import WebServer, running_web, wait_until

PROMPT = "zanzibarquokka"
REQUEST: dict[str, Any] = {"model": "support-chat", "messages": [{"role": "user", "content": PROMPT}]}
SAID = "Simulated answer"
SECONDS = 30.0


@dataclass(frozen=True)
class Installation:
    """The installation."""

    web: WebServer
    simulator: SimulatorServer
    client: Celery
    redis_url: str | None

    def call(self, *, task: str | None = None, application: str = "helpdesk", **settings: Any) -> "AsyncResult[Any]":
        """Send the task that hands a call in, as any other program does."""
        return self.send("run_call", task=task, kwargs={"application": application, "request": REQUEST, **settings})

    def send(self, name: str, *, task: str | None = None, **settings: Any) -> "AsyncResult[Any]":
        """Send a task by its name."""
        return self.client.send_task(f"signalbox.{name}", task_id=task, queue="signalbox", **settings)

    def row(self, submission: Any) -> Submission:
        """The row of a submitted call."""
        with self.web.records():
            return Submission.objects.get(pk=submission)

    def row_of(self, task: str) -> Submission:
        """The row of the call that a task handed in, as soon as it is there."""
        with self.web.records():
            wait_until(lambda: Submission.objects.filter(task=task).exists(), seconds=SECONDS)
            return Submission.objects.get(task=task)

    def wait_for(self, submission: Any, *states: SubmissionState) -> Submission:
        """The row of a call that is in one of some states."""
        with self.web.records():
            wait_until(
                lambda: Submission.objects.values_list("state", flat=True).get(pk=submission) in states,
                seconds=SECONDS,
            )
            return Submission.objects.get(pk=submission)

    def hand_in(self) -> UUID:
        """A call that nobody was told of."""
        with self.web.records():
            return submit(order(PROMPT), caller=HELPDESK)

    def let_the_lease_lapse(self, submission: Any) -> None:
        """As if half a minute had passed since its worker was heard of."""
        with self.web.records():
            Submission.objects.filter(pk=submission).update(due_at=later(seconds=-1))

    @property
    def asked(self) -> int:
        """How many requests the provider has received."""
        count: int = self.simulator.stats()["received"]
        return count

    def forget_results(self) -> None:
        """Remove the results of tasks that other tests have read."""
        if self.redis_url is None:
            for each in (Path(self.web.environ["SIGNALBOX_DATA_DIR"]) / "tasks" / "results").iterdir():
                each.unlink()
            return
        with redis.Redis.from_url(self.redis_url) as server:
            for key in server.scan_iter("celery-task-meta-*"):
                server.delete(key)

    def messages(self) -> bytes:
        """Everything that lies in the broker and among the results."""
        if self.redis_url is None:
            folder = Path(self.web.environ["SIGNALBOX_DATA_DIR"]) / "tasks"
            return b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())
        with redis.Redis.from_url(self.redis_url) as server:
            return b"".join(_dump(server, key) for key in server.scan_iter())


def _dump(server: Any, key: bytes) -> bytes:
    match server.type(key):
        case b"string":
            return bytes(server.get(key))
        case b"list":
            return b"".join(server.lrange(key, 0, -1))
        case b"hash":
            return b"".join(server.hvals(key))
    return b""


@contextmanager
def installed(request: pytest.FixtureRequest, *, broker: str) -> Iterator[Installation]:
    """An installation over one of the brokers: ``support-chat``, and an application ``helpdesk`` that may run tasks."""
    with ExitStack() as stack:
        simulator = stack.enter_context(SimulatorServer(record_bodies=True))
        database_url = None
        if chosen_database() is TestDatabase.POSTGRES:
            database_url = stack.enter_context(request.getfixturevalue("postgres_server").database())
        redis_url = None
        if broker == "redis":
            redis_url = stack.enter_context(request.getfixturevalue("valkey_server").database())
        environ = {
            "SIGNALBOX_OUTBOUND_ALLOW": simulator.url.removeprefix("http://"),
            "SIGNALBOX_LOG_LEVEL": "DEBUG",
            **({} if redis_url is None else {"REDIS_URL": redis_url}),
        }
        web = stack.enter_context(running_web(environ=environ, database_url=database_url, start=False))
        with web.records():
            furnish(simulator)
            application = Application.objects.get(identifier="helpdesk")
            application.may_run_tasks = True
            application.save()
            ApplicationFactory(identifier="web-shop")
        yield Installation(web, simulator, client_of(web, redis_url), redis_url)


def client_of(web: WebServer, redis_url: str | None) -> Celery:
    """A program of somebody else: it knows the broker, and nothing of ours."""
    client = Celery("somebody-else", set_as_current=False)
    if redis_url is not None:
        client.conf.update(broker_url=redis_url, result_backend=redis_url)
        return client
    folder = Path(web.environ["SIGNALBOX_DATA_DIR"]) / "tasks"
    for name in ("messages", "control", "results"):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    messages = str(folder / "messages")
    options = {"data_folder_in": messages, "data_folder_out": messages, "control_folder": str(folder / "control")}
    client.conf.update(
        broker_url="filesystem://localhost",
        broker_transport_options=options,
        result_backend=(folder / "results").as_uri(),
    )
    return client
