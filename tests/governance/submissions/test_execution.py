"""What a worker does with a submitted call: one request at the most, whatever goes wrong around it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.db import OperationalError

from governance.access.directory import Caller
from governance.changes.keys import revoke_key
from governance.changes.records import switch
from governance.gateway import home
from governance.models import AccessKey, Application, StoredContent, Submission, SubmissionState
from governance.submissions import claims, execution
from governance.submissions.claims import take_up
from governance.submissions.intake import cancel, submit
from governance.submissions.readouts import read_result, read_status
from governance.submissions.sweeping import sweep
from routing.core.failures import FailureKind
from tests.authors import SOMEBODY
from tests.factories import AccessKeyFactory, ApplicationFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.upstream import ANSWER, answers, fails
from tests.governance.submissions.orders import handed_in, later, order, row
from tests.servers.fake_provider import Pause
from tests.servers.web import wait_until


@pytest.fixture(autouse=True)
def helpdesk(world: World) -> Application:
    """The application may run tasks."""
    application = Application.objects.get(identifier="helpdesk")
    application.may_run_tasks = True
    application.save()
    world.gateway.refresh()
    return application


def execute(submission: UUID, *, worker: str = "worker-1") -> bool:
    return home.wait(lambda service: execution.execute(service, submission, worker=worker), seconds=20)


def begin(world: World, submission: UUID) -> Any:
    return world.gateway.threads.begin(execution.execute(world.gateway.service, submission, worker="worker-1"))


def test_a_submitted_call_is_answered_and_recorded_under_its_own_id(world: World) -> None:
    submission = submit(order(user="agent-17"), caller=_caller())
    assert execute(submission) is True
    result = read_result(submission, application="helpdesk")
    assert result.status.state is SubmissionState.DONE
    assert result.answer is not None
    assert orjson.loads(result.answer)["choices"][0]["message"]["content"] == ANSWER
    call = world.call()
    assert (call.pk, call.application, call.user, call.success) == (submission, "helpdesk", "agent-17", True)
    assert row(submission).sent_at is not None
    assert world.asked == [1, 0, 0]


def test_a_second_delivery_finds_nothing_to_do(world: World) -> None:
    submission = handed_in()
    assert (execute(submission), execute(submission)) == (True, False)
    assert world.asked == [1, 0, 0]
    assert row(submission).deliveries == 1
    assert len(world.calls()) == 1


def test_two_deliveries_at_once_send_one_request(world: World) -> None:
    world.script([Pause(0.3), *answers()])
    submission = handed_in()
    outcomes = [each.result(20) for each in [begin(world, submission) for _ in range(5)]]
    assert sorted(outcomes) == [False, False, False, False, True]
    assert world.asked == [1, 0, 0]


def test_a_call_that_fails_says_why(world: World) -> None:
    world.script(fails(401), fails(500), fails(500))
    submission = handed_in()
    assert execute(submission) is True
    result = read_result(submission, application="helpdesk")
    assert result.status.state is SubmissionState.FAILED
    assert result.failure is not None
    assert result.failure.kind == result.status.failure_kind
    assert world.call().failure_kind == result.failure.kind
    assert StoredContent.objects.count() == 1


def test_what_a_key_may_do_is_asked_when_the_call_is_made(world: World) -> None:
    issued = AccessKeyFactory.create(application=ApplicationFactory.create(identifier="web-shop"))
    world.gateway.refresh()
    caller = _caller_of(world, issued.secret)
    submission = submit(order(), caller=caller)
    revoke_key(AccessKey.objects.get(pk=issued.record.pk), author=SOMEBODY)
    world.gateway.refresh()
    assert execute(submission) is True
    failure = read_result(submission, application="web-shop").failure
    assert failure is not None
    assert (failure.kind, failure.code) == (FailureKind.FORBIDDEN, "caller_not_allowed")
    assert world.asked == [0, 0, 0]


def test_an_application_that_may_no_longer_is_refused(world: World, helpdesk: Application) -> None:
    submission = handed_in()
    switch(helpdesk, on=False, author=SOMEBODY)
    world.gateway.refresh()
    execute(submission)
    assert (row(submission).state, row(submission).failure_kind) == ("failed", "forbidden")
    assert world.asked == [0, 0, 0]


def test_what_was_withdrawn_is_not_made(world: World) -> None:
    submission = handed_in()
    cancel(submission)
    assert execute(submission) is False
    assert world.asked == [0, 0, 0]


def test_a_worker_that_lost_the_call_before_sending_sends_nothing_and_records_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was slow enough to be thought lost; another one has taken the call up meanwhile."""
    submission = handed_in()
    others = []

    def take_up_and_stall(*args: Any, **settings: Any) -> Any:
        claim = take_up(*args, **settings)
        assert [each.submission for each in sweep(now=later(seconds=31)).deliveries] == [submission]
        others.append(take_up(submission, worker="worker-2", now=datetime.now(UTC)))
        return claim

    monkeypatch.setattr(execution, "take_up", take_up_and_stall)
    assert execute(submission) is False
    assert others[0] is not None
    assert world.asked == [0, 0, 0]
    assert world.calls() == []
    assert (row(submission).state, row(submission).worker, row(submission).sent_at) == ("running", "worker-2", None)


def test_a_call_that_is_being_made_is_held(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "RENEW_SECONDS", 0.05)
    world.script([Pause(1.0), *answers()])
    submission = handed_in()
    running = begin(world, submission)
    world.wait_for_request(0)
    first = row(submission).due_at
    wait_until(lambda: row(submission).due_at != first)
    assert running.result(20) is True


def test_while_the_database_is_away_an_answer_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[float] = []
    end: Callable[..., bool] = claims.end

    def end_at_last(*args: Any, **settings: Any) -> bool:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise OperationalError("the server closed the connection")
        return end(*args, **settings)

    monkeypatch.setattr(execution, "PATIENCE", (0.01, 0.01, 0.01))
    monkeypatch.setattr(execution, "end", end_at_last)
    submission = handed_in()
    assert execute(submission) is True
    assert len(tries) == 3
    assert row(submission).state == SubmissionState.DONE
    assert world.asked == [1, 0, 0]


def test_an_answer_that_comes_after_the_call_was_given_up_still_counts(world: World) -> None:
    world.script([Pause(0.5), *answers()])
    submission = handed_in()
    running = begin(world, submission)
    world.wait_for_request(0)
    sweep(now=later(minutes=5))
    assert row(submission).state == SubmissionState.UNCERTAIN
    assert running.result(20) is True
    assert row(submission).state == SubmissionState.DONE
    assert world.call().pk == submission


def _caller() -> Caller:
    return Caller(
        key="", application="helpdesk", allowed_configurations=None, allowed_models=None, may_name_models=False,
        expires_at=None,
    )  # fmt: skip


def _caller_of(world: World, secret: str) -> Caller:
    in_force = world.gateway.service.in_force
    assert in_force is not None
    caller = in_force.directory.recognise(secret, now=datetime.now(UTC))
    assert caller is not None
    return caller


def test_rows_say_who_was_asked_how_often(world: World) -> None:
    """No more than one row and one request for each call, however many are handed in."""
    submissions = [handed_in() for _ in range(10)]
    for submission in submissions:
        execute(submission)
    assert {call.pk for call in world.calls()} == set(submissions)
    assert world.asked == [10, 0, 0]
    assert set(Submission.objects.values_list("state", flat=True)) == {"done"}


# --- Limits ---------------------------------------------------------------------------------------------------------


def limited(world: World, application: Application, **limits: int) -> None:
    for name, most in limits.items():
        setattr(application, name, most)
    application.save()
    world.gateway.refresh()


def seconds_to_wait(submission: UUID) -> float:
    due_at = row(submission).due_at
    assert due_at is not None
    return (due_at - datetime.now(UTC)).total_seconds()


def test_a_call_that_meets_a_limit_waits_for_it_and_is_tried_again(world: World, helpdesk: Application) -> None:
    limited(world, helpdesk, requests_per_minute=1)
    first, second = handed_in(), handed_in()
    assert (execute(first), execute(second)) == (True, False)
    waiting = row(second)
    assert (waiting.state, waiting.waits, waiting.deliveries, waiting.sent_at) == ("queued", 1, 0, None)
    assert waiting.waits_until == waiting.due_at
    assert 50 < seconds_to_wait(second) <= 60
    status = read_status(second, application="helpdesk")
    assert (status.is_over, status.waits, status.waits_until) == (False, 1, waiting.waits_until)
    assert world.asked == [1, 0, 0]
    assert [call.pk for call in world.calls()] == [first]  # nothing is recorded of a call that is made later
    assert sweep(now=later(seconds=40)).deliveries == ()
    assert [each.submission for each in sweep(now=later(seconds=61)).deliveries] == [second]
    limited(world, helpdesk, requests_per_minute=1000)
    assert execute(second) is True
    done = row(second)
    assert (done.state, done.waits, done.deliveries, done.waits_until) == ("done", 1, 1, None)
    assert world.asked == [2, 0, 0]


def test_it_may_wait_oftener_than_workers_may_be_lost(world: World, helpdesk: Application) -> None:
    limited(world, helpdesk, requests_per_minute=1)
    execute(handed_in())
    submission = handed_in()
    seconds = []
    for _ in range(7):
        assert execute(submission) is False
        seconds.append(round(seconds_to_wait(submission)))
        Submission.objects.filter(pk=submission).update(due_at=datetime.now(UTC))
    assert [each > 50 for each in seconds] == [True] * 7
    assert seconds[3:] == [120, 240, 300, 300]
    assert sweep(now=later(seconds=1)).abandoned == 0


@pytest.mark.parametrize("limits", [{"requests_per_minute": 1}, {"tokens_per_minute": 1}])
def test_one_that_would_wait_too_long_fails(world: World, helpdesk: Application, limits: dict[str, int]) -> None:
    """For longer than its content is kept, or for ever."""
    limited(world, helpdesk, **limits)
    execute(handed_in())
    submission = handed_in()
    Submission.objects.filter(pk=submission).update(submitted_at=later(hours=-24, seconds=20))
    assert execute(submission) is True
    failed = row(submission)
    assert (failed.state, failed.failure_kind, failed.failure_code) == (
        "failed", "rate_exceeded", "rate_limit_exceeded",
    )  # fmt: skip
    assert [call.failure_kind for call in world.calls() if call.pk == submission] == ["rate_exceeded"]


def test_one_that_waits_may_be_withdrawn(world: World, helpdesk: Application) -> None:
    limited(world, helpdesk, requests_per_minute=1)
    execute(handed_in())
    submission = handed_in()
    execute(submission)
    cancel(submission)
    assert row(submission).state == "cancelled"
    assert read_status(submission, application="helpdesk").waits_until is None
    assert execute(submission) is False
