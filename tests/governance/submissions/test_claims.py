"""Who holds a call, and who does not any more."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from governance.models import STATE_LABELS, STATE_MEANINGS, StoredContent, Submission, SubmissionState
from governance.submissions.claims import (
    LEASE,
    RENEW_SECONDS,
    ClaimLost,
    Ending,
    announce_sending,
    end,
    read_failure,
    renew,
    take_up,
    write_failure,
)
from governance.submissions.intake import cancel
from governance.submissions.readouts import read_result
from governance.submissions.sweeping import sweep
from routing.core.failures import Failure, FailureKind
from tests.governance.submissions.orders import body, handed_in, later, row, taken_up

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)
ANSWERED = Ending(answer=b'{"answer": 42}', failure=None)
FAILED = Ending(answer=None, failure=Failure(FailureKind.TIMEOUT, "it took too long", code="slow", retry_after=1.5))


def test_every_state_has_words() -> None:
    assert set(STATE_LABELS) == set(STATE_MEANINGS) == set(SubmissionState)


def test_one_worker_gets_it() -> None:
    submission = handed_in()
    claim = take_up(submission, worker="worker-1", now=NOW)
    assert claim is not None
    assert (claim.submission, claim.application, claim.body) == (submission, "helpdesk", body())
    assert take_up(submission, worker="worker-2", now=NOW) is None
    held = row(submission)
    assert (held.state, held.worker, held.deliveries, held.claim) == ("running", "worker-1", 1, claim.token)
    assert held.due_at == NOW + LEASE


def test_what_is_not_there_or_withdrawn_is_nobodys() -> None:
    submission = handed_in()
    cancel(submission)
    assert take_up(submission, worker="worker-1", now=NOW) is None
    assert take_up(uuid4(), worker="worker-1", now=NOW) is None


def test_a_lease_lasts_longer_than_the_time_between_two_signs_of_life() -> None:
    assert LEASE.total_seconds() >= 3 * RENEW_SECONDS


def test_a_lease_is_renewed_by_who_holds_it() -> None:
    claim = taken_up(handed_in(), now=NOW)
    assert renew(claim, now=NOW + timedelta(seconds=20)) is True
    assert row(claim.submission).due_at == NOW + timedelta(seconds=20) + LEASE
    sweep(now=later(minutes=5))  # back into the queue
    assert renew(claim, now=NOW) is False


def test_sending_is_announced_once_and_may_be_said_again() -> None:
    claim = taken_up(handed_in())
    announce_sending(claim, now=NOW)
    announce_sending(claim, now=NOW + timedelta(seconds=9))
    assert row(claim.submission).sent_at == NOW


def test_a_worker_that_lost_it_sends_nothing() -> None:
    claim = taken_up(handed_in())
    sweep(now=later(minutes=5))
    with pytest.raises(ClaimLost, match=str(claim.submission)):
        announce_sending(claim, now=NOW)
    second = taken_up(claim.submission, worker="worker-2")
    with pytest.raises(ClaimLost):
        announce_sending(claim, now=NOW)
    announce_sending(second, now=NOW)
    assert end(claim, ANSWERED, now=NOW) is False
    assert end(second, ANSWERED, now=NOW) is True


def test_an_answer_is_kept_and_the_request_is_not() -> None:
    claim = taken_up(handed_in())
    announce_sending(claim, now=NOW)
    assert end(claim, ANSWERED, now=NOW) is True
    ended = row(claim.submission)
    assert (ended.state, ended.due_at, ended.ended_at, ended.request) == ("done", None, NOW, None)
    assert StoredContent.objects.get().kind == "answer"
    result = read_result(claim.submission, application="helpdesk")
    assert (result.answer, result.failure) == (b'{"answer": 42}', None)
    assert end(claim, FAILED, now=NOW) is False  # the first word counts


def test_a_failure_is_kept_in_full() -> None:
    claim = taken_up(handed_in())
    assert end(claim, FAILED, now=NOW) is True
    ended = row(claim.submission)
    assert (ended.state, ended.failure_kind, ended.failure_code) == ("failed", "timeout", "slow")
    result = read_result(claim.submission, application="helpdesk")
    assert (result.answer, result.failure) == (None, FAILED.failure)
    assert StoredContent.objects.get().kind == "failure"


def test_a_model_that_declines_has_answered() -> None:
    claim = taken_up(handed_in())
    end(claim, Ending(answer=b"{}", failure=Failure(FailureKind.REFUSED, "no")), now=NOW)
    assert (row(claim.submission).state, row(claim.submission).failure_kind) == ("done", "refused")
    result = read_result(claim.submission, application="helpdesk")
    assert result.answer == b"{}"
    assert result.failure is not None
    assert result.failure.kind is FailureKind.REFUSED


def test_the_word_of_a_worker_that_comes_back_settles_what_was_uncertain() -> None:
    claim = taken_up(handed_in())
    announce_sending(claim, now=NOW)
    sweep(now=later(minutes=5))
    assert row(claim.submission).state == SubmissionState.UNCERTAIN
    assert end(claim, ANSWERED, now=NOW) is True
    assert row(claim.submission).state == SubmissionState.DONE


def test_content_that_has_expired_is_not_executed() -> None:
    submission = handed_in()
    assert take_up(submission, worker="worker-1", now=later(hours=24)) is None
    assert row(submission).state == SubmissionState.EXPIRED
    assert not StoredContent.objects.exists()


def test_content_that_does_not_open_is_a_failure_that_says_so(settings: Settings) -> None:
    submission = handed_in()
    settings.SIGNALBOX_ENCRYPTION_KEYS = (("other", bytes(32)),)
    assert take_up(submission, worker="worker-1", now=NOW) is None
    assert (row(submission).state, row(submission).failure_code) == ("failed", "content_unreadable")
    failure = read_result(submission, application="helpdesk").failure
    assert failure is not None
    assert "SIGNALBOX_ENCRYPTION_KEYS" in failure.message


@pytest.mark.parametrize("kind", FailureKind)
def test_failures_survive_being_written(kind: FailureKind) -> None:
    for failure in (Failure(kind, "why, “quoted”"), Failure(kind, "", retry_after=0.25, code="c", parameter="p")):
        assert read_failure(write_failure(failure)) == failure


def test_a_call_takes_so_many_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    submission = handed_in()
    with django_assert_num_queries(2):
        claim = taken_up(submission)
    with django_assert_num_queries(1):
        announce_sending(claim, now=NOW)
    with django_assert_num_queries(1):
        renew(claim, now=NOW)
    with django_assert_num_queries(13):  # once a call, after its answer: state, settings, content in, content out
        end(claim, ANSWERED, now=NOW)
    assert Submission.objects.get().state == SubmissionState.DONE
