"""Calls whose message or whose worker was lost, and what has grown old."""

from datetime import UTC, datetime, timedelta

import pytest

from governance.changes.settings import store_setting
from governance.models import Batch, StoredContent, Submission, SubmissionState
from governance.settings_store.registry import CONTENT_HOURS, MAX_DELIVERIES, SUBMISSION_DAYS
from governance.submissions.claims import LEASE, Ending, announce_sending, end
from governance.submissions.intake import ON_ITS_WAY, submit_batch
from governance.submissions.readouts import read_result
from governance.submissions.sweeping import Delivery, remove_old, sweep
from tests.authors import SOMEBODY
from tests.governance.submissions.orders import HELPDESK, handed_in, later, order, row, taken_up

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
ANSWERED = Ending(answer=b"{}", failure=None)


def test_a_message_that_is_on_its_way_is_left_alone() -> None:
    handed_in()
    assert sweep(now=later(seconds=50)).deliveries == ()


def test_a_message_that_must_be_lost_is_sent_again_once() -> None:
    submission = handed_in(task="nightly-42")
    submitted = row(submission).submitted_at
    assert sweep(now=submitted + ON_ITS_WAY).deliveries == (Delivery(submission=submission, task="nightly-42"),)
    assert sweep(now=submitted + ON_ITS_WAY).deliveries == ()


def test_the_longer_a_call_waits_the_later_it_is_looked_at_again() -> None:
    submission = handed_in()
    submitted = row(submission).submitted_at
    sent, now = [], submitted
    while now < submitted + timedelta(hours=23):
        if sweep(now=now).deliveries:
            sent.append(round((now - submitted) / ON_ITS_WAY))
        now += ON_ITS_WAY
    assert sent == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def test_what_a_worker_holds_is_left_alone() -> None:
    claim = taken_up(handed_in())
    assert sweep(now=datetime.now(UTC) + LEASE - SECOND).deliveries == ()
    assert row(claim.submission).state == SubmissionState.RUNNING


def test_a_worker_lost_before_anything_was_sent_is_replaced() -> None:
    submission = handed_in()
    taken_up(submission)
    found = sweep(now=later(seconds=31))
    assert [each.submission for each in found.deliveries] == [submission]
    again = row(submission)
    assert (again.state, again.claim, again.deliveries) == ("queued", None, 1)
    assert again.request is not None


@pytest.mark.parametrize("most", [1, 2, 3])
def test_it_is_replaced_as_often_as_the_setting_allows(most: int) -> None:
    store_setting(MAX_DELIVERIES.key, most, author=SOMEBODY)
    submission = handed_in()
    for delivery in range(1, most + 1):
        assert taken_up(submission).submission == submission
        found = sweep(now=later(seconds=31))
        assert (len(found.deliveries), found.abandoned) == ((1, 0) if delivery < most else (0, 1))
    ended = row(submission)
    assert (ended.state, ended.deliveries, ended.request, ended.sent_at) == ("abandoned", most, None, None)
    assert not StoredContent.objects.exists()


def test_a_worker_lost_after_something_was_sent_leaves_it_uncertain() -> None:
    store_setting(MAX_DELIVERIES.key, 10, author=SOMEBODY)
    submission = handed_in()
    announce_sending(taken_up(submission), now=datetime.now(UTC))
    found = sweep(now=later(seconds=31))
    assert (found.deliveries, found.uncertain) == ((), 1)
    assert (row(submission).state, row(submission).request) == ("uncertain", None)
    assert sweep(now=later(days=1)).deliveries == ()
    result = read_result(submission, application="helpdesk")
    assert (result.answer, result.failure) == (None, None)


def test_what_nobody_took_up_expires_with_its_content() -> None:
    store_setting(CONTENT_HOURS.key, 1, author=SOMEBODY)
    submission = handed_in()
    submitted = row(submission).submitted_at
    assert len(sweep(now=submitted + timedelta(minutes=59)).deliveries) == 1
    found = sweep(now=submitted + timedelta(minutes=60))
    assert (found.deliveries, found.expired) == ((), 1)
    assert row(submission).state == SubmissionState.EXPIRED
    assert not StoredContent.objects.exists()


def test_answers_are_removed_when_their_time_is_over_and_rows_later() -> None:
    store_setting(SUBMISSION_DAYS.key, 2, author=SOMEBODY)
    batch = submit_batch([order(), order()], caller=HELPDESK)
    first, second = Submission.objects.filter(batch=batch).order_by("position").values_list("pk", flat=True)
    end(taken_up(first), ANSWERED, now=datetime.now(UTC))
    assert read_result(first, application="helpdesk").answer == b"{}"
    removal = remove_old(now=later(hours=24))
    assert (removal.contents, removal.submissions, removal.batches) == (2, 0, 0)
    result = read_result(first, application="helpdesk")
    assert (result.status.state, result.answer, result.kept_until) == (SubmissionState.DONE, None, None)
    removal = remove_old(now=later(hours=49))
    assert (removal.submissions, removal.batches) == (1, 0)  # the second one still waits
    sweep(now=later(hours=49))
    assert row(second).state == SubmissionState.EXPIRED
    removal = remove_old(now=later(hours=49 * 2))
    assert (removal.submissions, removal.batches) == (1, 1)
    assert not Batch.objects.exists()


def test_a_row_that_goes_takes_its_content_along() -> None:
    store_setting(CONTENT_HOURS.key, 24 * 10, author=SOMEBODY)
    store_setting(SUBMISSION_DAYS.key, 1, author=SOMEBODY)
    end(taken_up(handed_in()), ANSWERED, now=datetime.now(UTC))
    remove_old(now=later(days=2))
    assert not Submission.objects.exists()
    assert not StoredContent.objects.exists()
