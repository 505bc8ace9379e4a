"""Calls that were handed in, as operators and auditors see them: how far they are, and nothing of what was said."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from governance.audit.trail import verify
from governance.models import AuditEvent, Submission, SubmissionState
from governance.submissions.claims import Ending, announce_sending, end
from governance.submissions.intake import cancel, submit_batch
from governance.submissions.sweeping import sweep
from routing.core.failures import Failure, FailureKind
from tests.factories import CallFactory
from tests.governance.admin.pages import column, text_of, words_of
from tests.governance.submissions.orders import HELPDESK, PROMPT, WEB_SHOP, handed_in, later, order, row, taken_up

pytestmark = pytest.mark.django_db

LIST = reverse("admin:governance_submission_changelist")
BATCHES = reverse("admin:governance_batch_changelist")
NOW = datetime.now(UTC)


def page(submission: object) -> str:
    return reverse("admin:governance_submission_change", args=[submission])


def withdrawal(submission: object) -> str:
    return reverse("admin:governance_submission_cancel", args=[submission])


# --- Looking --------------------------------------------------------------------------------------------------------


def test_the_list_shows_where_each_call_is(operator: Client) -> None:
    waiting = handed_in()
    running = taken_up(handed_in(), worker="host-7:4711")
    done = taken_up(handed_in(caller=WEB_SHOP), worker="host-8:99")
    end(done, Ending(answer=b"{}", failure=None), now=later(seconds=90))
    shown = operator.get(LIST)
    assert column(shown, "where") == ["Answered", "Running", "Queued"]
    assert column(shown, "tried") == ["1host-8:99", "1host-7:4711", "0"]
    assert column(shown, "asked")[0] == "support-chatweb-shop"
    assert column(shown, "took")[1:] == ["—", "—"]
    assert column(shown, "took")[0].startswith("1 min")
    for state, expected in (("done", [done.submission]), ("queued", [waiting]), ("running", [running.submission])):
        found = operator.get(LIST, {"state": state})
        assert column(found, "where") and len(column(found, "where")) == len(expected)  # noqa: PT018
        assert page(expected[0]) in text_of(found)


def test_a_call_is_found_by_its_id_its_task_and_its_application(operator: Client) -> None:
    wanted, _ = handed_in(task="nightly-42", caller=WEB_SHOP), handed_in()
    for term in (str(wanted), "nightly-42", "web-s"):
        found = operator.get(LIST, {"q": term})
        assert column(found, "where") == ["Queued"], term
        assert page(wanted) in text_of(found)
    assert column(operator.get(LIST, {"q": "nonesuch"}), "where") == []


def test_a_page_tells_a_calls_way_and_leads_to_the_call(operator: Client) -> None:
    claim = taken_up(handed_in(task="nightly-42"), worker="host-7:4711")
    announce_sending(claim, now=later(seconds=2))
    shown = words_of(operator.get(page(claim.submission)))
    for words in (
        "Running", "A worker has taken it up.", "support-chat", "nightly-42", "host-7:4711", "after 2.",
        "nothing is recorded of it yet", "its worker&#x27;s, which renews it",
        "The request is kept sealed until the call ends",
    ):  # fmt: skip
        assert words in shown, words
    end(claim, Ending(answer=None, failure=Failure(FailureKind.TIMEOUT, "too slow", code="slow")), now=later(seconds=5))
    CallFactory.create(pk=claim.submission)
    shown = words_of(operator.get(page(claim.submission)))
    assert reverse("admin:telemetry_call_change", args=[claim.submission]) in shown
    for words in ("Failed", "The provider did not answer in time (slow)", "The failure is kept sealed until"):
        assert words in shown, words


def test_every_state_has_a_page_that_says_what_it_means(operator: Client) -> None:
    submission = handed_in()
    for state in SubmissionState:
        open_ = state in (SubmissionState.QUEUED, SubmissionState.RUNNING)
        Submission.objects.filter(pk=submission).update(state=state.value, due_at=later(hours=1) if open_ else None)
        assert operator.get(page(submission)).status_code == 200
    assert "Cancelled" in text_of(operator.get(page(submission)))


def test_nobody_is_shown_what_was_said(operator: Client) -> None:
    batch = submit_batch([order(), order()], caller=HELPDESK)
    first = Submission.objects.filter(batch=batch)[0].pk
    end(taken_up(first), Ending(answer=PROMPT.encode(), failure=None), now=NOW)
    with CaptureQueriesContext(connection) as queries:
        pages = [
            operator.get(LIST), operator.get(page(first)), operator.get(BATCHES),
            operator.get(reverse("admin:governance_batch_change", args=[batch])), operator.get(withdrawal(first)),
        ]  # fmt: skip
    assert all(PROMPT not in text_of(each) for each in pages)
    assert not any("sealed" in each["sql"] for each in queries.captured_queries)  # not even read


def test_the_list_asks_the_same_however_many_there_are(operator: Client) -> None:
    counts = []
    for _ in range(2):
        submit_batch([order() for _ in range(5)], caller=HELPDESK)
        handed_in()
        with CaptureQueriesContext(connection) as captured:
            operator.get(LIST)
            operator.get(BATCHES)
        counts.append(len(captured))
    assert counts[0] == counts[1]


# --- Batches --------------------------------------------------------------------------------------------------------


def test_a_batch_shows_how_far_it_is(operator: Client, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    batch = submit_batch([order() for _ in range(4)], caller=HELPDESK)
    rows = list(Submission.objects.filter(batch=batch).order_by("position").values_list("pk", flat=True))
    end(taken_up(rows[0]), Ending(answer=b"{}", failure=None), now=NOW)
    announce_sending(taken_up(rows[1]), now=NOW)
    sweep(now=later(seconds=31))
    cancel(rows[2])
    listed = operator.get(BATCHES)
    assert column(listed, "progress") == ["3 of 4"]
    assert column(listed, "troubles") == ["1 answered, 1 uncertain, 1 cancelled"]
    assert column(listed, "took") == ["—"]
    shown = words_of(operator.get(reverse("admin:governance_batch_change", args=[batch])))
    assert "3 of 4</strong> calls have ended" in shown
    assert f"{LIST}?batch={batch}&amp;state=uncertain" in shown
    assert "it may have cost something" in shown
    of_batch = operator.get(LIST, {"batch": str(batch), "state": "uncertain"})
    assert column(of_batch, "part_of") == ["place 2"]
    assert page(rows[1]) in text_of(of_batch)


# --- Withdrawing ----------------------------------------------------------------------------------------------------


def test_an_operator_withdraws_a_call_and_the_trail_says_so(operator: Client) -> None:
    submission = handed_in()
    assert withdrawal(submission) in text_of(operator.get(page(submission)))
    asked = operator.get(withdrawal(submission))
    assert "One call is still queued" in words_of(asked)
    assert row(submission).state == SubmissionState.QUEUED  # asked, and nothing done
    done = operator.post(withdrawal(submission), {"reason": "typed twice"}, follow=True)
    assert "Withdrawn: 1 call(s)" in text_of(done)
    assert row(submission).state == SubmissionState.CANCELLED
    event = AuditEvent.objects.get()
    assert (event.action, event.kind, event.record, event.author, event.channel, event.reason) == (
        "cancelled", "submission", str(submission), "olivia", "admin", "typed twice",
    )  # fmt: skip
    assert not verify().flaws
    assert withdrawal(submission) not in text_of(operator.get(page(submission)))


def test_what_a_worker_has_is_not_withdrawn(operator: Client) -> None:
    submission = handed_in()
    taken_up(submission)
    assert withdrawal(submission) not in text_of(operator.get(page(submission)))
    assert "there is nothing to withdraw" in words_of(operator.get(withdrawal(submission)))
    told = operator.post(withdrawal(submission), {}, follow=True)
    assert "Nothing was withdrawn" in text_of(told)
    assert row(submission).state == SubmissionState.RUNNING
    assert not AuditEvent.objects.exists()


def test_of_a_batch_everything_that_is_queued_is_withdrawn(operator: Client) -> None:
    batch = submit_batch([order() for _ in range(3)], caller=HELPDESK)
    taken_up(Submission.objects.get(batch=batch, position=1).pk)
    address = reverse("admin:governance_batch_cancel", args=[batch])
    assert "2 calls are still queued" in words_of(operator.get(address))
    assert "Withdrawn: 2 call(s)" in text_of(operator.post(address, {"reason": ""}, follow=True))
    assert AuditEvent.objects.get().kind == "batch"
    assert sorted(Submission.objects.values_list("state", flat=True)) == ["cancelled", "cancelled", "running"]


def test_a_reason_that_is_too_long_withdraws_nothing(operator: Client) -> None:
    submission = handed_in()
    refused = operator.post(withdrawal(submission), {"reason": "x" * 501})
    assert refused.status_code == 200
    assert "at most 500" in text_of(refused)
    assert row(submission).state == SubmissionState.QUEUED


def test_an_auditor_looks_and_withdraws_nothing(auditor: Client) -> None:
    submission = handed_in()
    assert withdrawal(submission) not in text_of(auditor.get(page(submission)))
    assert auditor.post(withdrawal(submission), {}).status_code == 403
    assert row(submission).state == SubmissionState.QUEUED


def test_a_call_that_is_not_there(operator: Client) -> None:
    gone = handed_in()
    Submission.objects.filter(pk=gone).delete()
    assert "exist. Perhaps it was deleted?" in text_of(operator.get(withdrawal(gone), follow=True))


def test_a_call_whose_time_has_passed_is_the_sweepers(operator: Client) -> None:
    submission = handed_in()
    Submission.objects.filter(pk=submission).update(due_at=NOW - timedelta(seconds=1))
    assert "the next sweep looks after it" in words_of(operator.get(page(submission)))
