"""Workers that are killed, or asked to end, in the middle of a call: over Redis with either pool, and without Redis."""

import os
import signal
from pathlib import Path

import pytest
from celery.exceptions import TimeoutError as NoResult

from governance.audit.actions import Author, Channel
from governance.changes.settings import store_setting
from governance.models import StoredContent, Submission, SubmissionState
from governance.settings_store.registry import MAX_DELIVERIES
from telemetry.models import Call
from tests.governance.tasks.installation import SECONDS, Installation
from tests.servers.web import wait_until
from tests.servers.worker import running_worker

pytestmark = pytest.mark.database

AUTHOR = Author("a test", Channel.COMMAND)


@pytest.fixture(scope="module", params=["redis-threads", "redis-prefork", "filesystem-threads"])
def plan(request: pytest.FixtureRequest) -> tuple[str, str]:
    broker, _, pool = str(request.param).partition("-")
    return broker, pool


@pytest.fixture(scope="module")
def broker(plan: tuple[str, str]) -> str:
    return plan[0]


@pytest.fixture
def pool(plan: tuple[str, str]) -> str:
    return plan[1]


def test_a_worker_killed_before_anything_was_sent_is_replaced(
    installation: Installation, pool: str, tmp_path: Path
) -> None:
    stall = tmp_path / "stall"
    stall.touch()
    result = installation.call()
    stalling = {"application": "tests.servers.stalling_worker", "environ": {"STALL": str(stall)}}
    with running_worker(installation.web, pool=pool, concurrency=2, **stalling) as first:  # type: ignore[arg-type]
        wait_until(stall.with_suffix(".reached").exists, seconds=SECONDS)
        first.kill()
    submission = installation.row_of(result.id)
    assert (submission.state, submission.sent_at, submission.deliveries) == ("running", None, 1)
    installation.let_the_lease_lapse(submission.pk)
    with running_worker(installation.web, pool=pool, concurrency=2) as second:
        installation.send("sweep")
        assert result.get(timeout=SECONDS) == {"call": str(submission.pk), "state": "done", "failure": None}
        assert str(second.process.pid) != submission.worker.rpartition(":")[2]
    ended = installation.row(submission.pk)
    assert (ended.deliveries, ended.worker != submission.worker) == (2, True)
    assert installation.asked == 1


@pytest.mark.parametrize("plan", ["redis-threads"], indirect=True)
def test_a_call_is_taken_up_as_often_as_the_setting_allows(installation: Installation, tmp_path: Path) -> None:
    with installation.web.records():
        store_setting(MAX_DELIVERIES.key, 1, author=AUTHOR)
    try:
        stall = tmp_path / "stall"
        stall.touch()
        result = installation.call()
        stalling = {"application": "tests.servers.stalling_worker", "environ": {"STALL": str(stall)}}
        with running_worker(installation.web, **stalling) as first:  # type: ignore[arg-type]
            wait_until(stall.with_suffix(".reached").exists, seconds=SECONDS)
            first.kill()
        submission = installation.row_of(result.id)
        installation.let_the_lease_lapse(submission.pk)
        with running_worker(installation.web):
            installation.send("sweep")
            assert result.get(timeout=SECONDS)["state"] == "abandoned"
    finally:
        with installation.web.records():
            store_setting(MAX_DELIVERIES.key, 2, author=AUTHOR)
    assert installation.asked == 0


def test_a_worker_killed_after_something_was_sent_leaves_the_call_uncertain(
    installation: Installation, pool: str
) -> None:
    installation.simulator.set_behaviour(latency={"mean_ms": 60_000})
    result = installation.call()
    with running_worker(installation.web, pool=pool, concurrency=2) as first:
        installation.simulator.wait_for_stats(lambda counts: counts["received"] == 1, seconds=SECONDS)
        submission = installation.row_of(result.id)
        assert submission.sent_at is not None
        first.kill()
    installation.simulator.restore_behaviours()
    installation.let_the_lease_lapse(submission.pk)
    with running_worker(installation.web, pool=pool, concurrency=2):
        installation.send("sweep")
        assert result.get(timeout=SECONDS) == {"call": str(submission.pk), "state": "uncertain", "failure": None}
        installation.send("execute", args=[str(submission.pk)]).get(timeout=SECONDS)
        installation.send("sweep")
        installation.wait_for(submission.pk, SubmissionState.UNCERTAIN)
    assert installation.asked == 1


@pytest.mark.parametrize("plan", ["redis-prefork"], indirect=True)
def test_one_child_killed_is_not_told_as_the_failure_of_the_call(installation: Installation, tmp_path: Path) -> None:
    """Of a worker that forks, the parent sees it; the call is still the sweeper's to send."""
    stall = tmp_path / "stall"
    stall.touch()
    stalling = {"application": "tests.servers.stalling_worker", "environ": {"STALL": str(stall)}}
    result = installation.call()
    with running_worker(installation.web, pool="prefork", concurrency=1, **stalling) as running:  # type: ignore[arg-type]
        wait_until(stall.with_suffix(".reached").exists, seconds=SECONDS)
        submission = installation.row_of(result.id)
        os.kill(int(submission.worker.rpartition(":")[2]), signal.SIGKILL)
        wait_until(lambda: "WorkerLostError" in running.log or "exited" in running.log, seconds=SECONDS)
        with pytest.raises(NoResult):
            result.get(timeout=1.5)
        stall.unlink()
        installation.let_the_lease_lapse(submission.pk)
        installation.send("sweep")
        assert result.get(timeout=SECONDS)["state"] == "done"
    assert installation.asked == 1


def test_a_worker_that_is_asked_to_end_ends_its_calls_first(installation: Installation, pool: str) -> None:
    installation.simulator.set_behaviour(latency={"mean_ms": 1500})
    result = installation.call()
    with running_worker(installation.web, pool=pool, concurrency=2) as running:
        installation.simulator.wait_for_stats(lambda counts: counts["received"] == 1, seconds=SECONDS)
        running.terminate()
        assert running.process.wait(SECONDS) == 0
        log = running.log
    assert result.get(timeout=SECONDS)["state"] == "done"
    with installation.web.records():  # by now: nothing is written later
        assert Call.objects.filter(pk=result.get()["call"], success=True).exists()
    assert "Traceback" not in log


def test_nothing_is_left_behind(installation: Installation) -> None:
    """After all that: no request that nobody needs, and nothing that is still open."""
    with installation.web.records():
        assert not Submission.objects.filter(state__in=["queued", "running"]).exists()
        assert not StoredContent.objects.filter(kind="request").exists()
        done = Submission.objects.filter(state="done")
        assert done.exists()
        assert not done.filter(outcome=None).exists()
