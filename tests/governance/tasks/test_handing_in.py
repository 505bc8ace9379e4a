"""Calls and batches that a program of ours hands in: sent to the workers, or left to the sweeper."""

import subprocess
import sys
import time
from uuid import UUID

import pytest

from governance.models import Submission, SubmissionState
from tests.governance.tasks.installation import SECONDS, Installation
from tests.servers.web import ROOT, wait_until
from tests.servers.worker import running_worker

pytestmark = pytest.mark.database

HANDING_IN = """
import django
django.setup()
import orjson
from governance.access.directory import find_task_caller
from governance.submissions.intake import CallOrder
from governance.tasks import submit, submit_batch
order = CallOrder(body=orjson.dumps({"model": "support-chat", "messages": [{"role": "user", "content": "Hello"}]}))
caller = find_task_caller("helpdesk")
from governance.trace import traced
with traced(correlation="request-77"):
    print(submit(order, caller=caller))
print(submit_batch([order] * 20, caller=caller))
"""


def test_a_batch_that_a_program_of_ours_hands_in_is_worked_off(installation: Installation) -> None:
    environ = {**installation.web.environ, "DJANGO_SETTINGS_MODULE": "governance.project.settings.installation"}
    handed_in = subprocess.run(
        [sys.executable, "-c", HANDING_IN],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert handed_in.returncode == 0, handed_in.stderr
    single, batch = handed_in.stdout.split()
    started = time.monotonic()
    with running_worker(installation.web, concurrency=8) as running:
        installation.wait_for(single, SubmissionState.DONE)
        lines = [each for each in running.log.splitlines() if f"call={single}" in each]
        assert lines
        assert all("correlation=request-77 task=signalbox.execute" in each for each in lines)
        with installation.web.records():
            rows = Submission.objects.filter(batch=UUID(batch))
            wait_until(lambda: rows.filter(state="done").count() == 20, seconds=SECONDS)
            assert set(rows.values_list("deliveries", flat=True)) == {1}
    assert installation.asked == 21
    assert time.monotonic() - started < SECONDS
    assert single.encode() not in installation.messages()  # nobody waits for a result, so none is kept


HANDING_IN_WITHOUT_A_BROKER = HANDING_IN.replace("print(submit_batch([order] * 20, caller=caller))", "")


def test_without_a_broker_a_call_waits_for_the_sweeper(installation: Installation) -> None:
    environ = {
        **installation.web.environ,
        "DJANGO_SETTINGS_MODULE": "governance.project.settings.installation",
        "REDIS_URL": "redis://127.0.0.1:1/0",
    }
    started = time.monotonic()
    handed_in = subprocess.run(
        [sys.executable, "-c", HANDING_IN_WITHOUT_A_BROKER],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert handed_in.returncode == 0, handed_in.stderr
    assert "the broker is away" in handed_in.stderr
    assert time.monotonic() - started < 15
    submission = handed_in.stdout.strip()
    assert installation.row(submission).state == SubmissionState.QUEUED
    installation.let_the_lease_lapse(submission)
    with running_worker(installation.web):
        installation.send("sweep")
        installation.wait_for(submission, SubmissionState.DONE)
