"""What became of a call, how far a batch is, and for whose ears."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from pytest_django import DjangoAssertNumQueries

from governance.models import Batch, Submission, SubmissionState
from governance.submissions.claims import Ending, end
from governance.submissions.intake import cancel, submit_batch
from governance.submissions.readouts import (
    SubmissionNotFound,
    progress_of,
    read_calls,
    read_progress,
    read_result,
    read_status,
)
from routing.core.failures import Failure, FailureKind
from tests.governance.submissions.orders import HELPDESK, handed_in, later, order, taken_up

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)


def test_a_call_is_followed_from_its_beginning_to_its_end() -> None:
    submission = handed_in()
    status = read_status(submission, application="helpdesk")
    assert (status.state, status.is_over, status.deliveries, status.ended_at) == (
        SubmissionState.QUEUED, False, 0, None,
    )  # fmt: skip
    claim = taken_up(submission, now=NOW)
    status = read_status(submission, application="helpdesk")
    assert (status.state, status.is_over, status.started_at) == (SubmissionState.RUNNING, False, NOW)
    end(claim, Ending(answer=None, failure=Failure(FailureKind.FORBIDDEN, "no")), now=NOW)
    status = read_status(submission, application="helpdesk")
    assert (status.state, status.is_over, status.failure_kind) == (
        SubmissionState.FAILED, True, FailureKind.FORBIDDEN,
    )  # fmt: skip


def test_other_applications_hear_that_there_is_none() -> None:
    submission, batch = handed_in(), submit_batch([order()], caller=HELPDESK)
    for ask in (read_status, read_result):
        for application, wanted in (("web-shop", submission), ("", submission), ("helpdesk", uuid4())):
            with pytest.raises(SubmissionNotFound):
                ask(wanted, application=application)
    with pytest.raises(SubmissionNotFound):
        read_progress(batch, application="web-shop")
    assert read_calls(batch, application="web-shop") == []


def test_an_answer_can_be_read_for_as_long_as_it_is_kept(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    submission = handed_in()
    end(taken_up(submission), Ending(answer=b'{"n": 1}', failure=None), now=NOW)
    with django_assert_num_queries(1):
        result = read_result(submission, application="helpdesk")
    assert result.answer == b'{"n": 1}'
    assert result.kept_until is not None
    assert round((result.kept_until - NOW).total_seconds()) == 24 * 3600
    gone = read_result(submission, application="helpdesk", now=later(hours=24))
    assert (gone.status.state, gone.answer, gone.failure, gone.kept_until) == (SubmissionState.DONE, None, None, None)
    assert '"n"' not in repr(result)


def test_the_progress_of_a_batch_is_counted() -> None:
    batch = submit_batch([order() for _ in range(4)], caller=HELPDESK)
    rows = list(Submission.objects.filter(batch=batch).order_by("position").values_list("pk", flat=True))
    end(taken_up(rows[0]), Ending(answer=b"{}", failure=None), now=NOW)
    taken_up(rows[1])
    cancel(rows[2])
    progress = read_progress(batch, application="helpdesk")
    assert (progress.size, progress.ended, progress.is_over, progress.ended_at) == (4, 2, False, None)
    assert progress.counts == {
        SubmissionState.DONE: 1, SubmissionState.RUNNING: 1, SubmissionState.CANCELLED: 1, SubmissionState.QUEUED: 1,
    }  # fmt: skip
    cancel(rows[3])
    Submission.objects.filter(pk=rows[1]).update(state="failed", due_at=None, ended_at=later(hours=1))
    progress = read_progress(batch, application="helpdesk")
    assert (progress.ended, progress.is_over) == (4, True)
    assert progress.ended_at == Submission.objects.get(pk=rows[1]).ended_at


def test_progress_takes_the_same_queries_however_many(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for size in (1, 5, 9):
        submit_batch([order() for _ in range(size)], caller=HELPDESK)
    batches = list(Batch.objects.all())
    with django_assert_num_queries(1):
        assert sorted(each.size for each in progress_of(batches).values()) == [1, 5, 9]


def test_the_calls_of_a_batch_come_in_pages() -> None:
    batch = submit_batch([order() for _ in range(5)], caller=HELPDESK)
    pages, after = [], -1
    while page := read_calls(batch, application="helpdesk", after=after, limit=2):
        pages.append([each.position for each in page])
        after = page[-1].position or 0
    assert pages == [[0, 1], [2, 3], [4]]
