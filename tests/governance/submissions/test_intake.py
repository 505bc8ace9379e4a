"""Handing calls in, one or many, and withdrawing them."""

from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from governance import safekeeping
from governance.audit.trail import verify
from governance.calls import CallOptions
from governance.changes.settings import store_setting
from governance.gateway.errors import RequestProblem
from governance.models import AuditEvent, Batch, StoredContent, Submission, SubmissionState
from governance.settings_store.registry import CONTENT_HOURS, MAX_BATCH_CALLS
from governance.submissions.intake import (
    AlreadySubmitted,
    CallOrder,
    cancel,
    cancel_batch,
    submit,
    submit_batch,
)
from tests.authors import SOMEBODY
from tests.governance.submissions.orders import HELPDESK, PROMPT, WEB_SHOP, body, handed_in, order, row, taken_up

pytestmark = pytest.mark.django_db


def test_a_call_waits_under_an_id_that_will_be_its_own() -> None:
    submission = submit(
        CallOrder(
            body=body(user="agent-17"), options=CallOptions(source="night-run", on_device=True, max_cost_nanos=5)
        ),
        caller=HELPDESK,
    )
    waiting = row(submission)
    assert waiting.state == SubmissionState.QUEUED
    assert submission.version == 7
    assert waiting.task == str(submission)
    assert (waiting.application, waiting.key, waiting.user, waiting.source) == ("helpdesk", "", "agent-17", "night-run")
    assert (waiting.requested, waiting.on_device, waiting.max_cost_nanos) == ("support-chat", True, 5)
    assert (waiting.deliveries, waiting.claim, waiting.sent_at, waiting.ended_at) == (0, None, None, None)
    assert waiting.request is not None
    assert safekeeping.read(waiting.request, now=waiting.submitted_at) == body(user="agent-17")
    assert waiting.request.owner == "helpdesk"


def test_its_content_is_kept_for_as_long_as_the_setting_says() -> None:
    store_setting(CONTENT_HOURS.key, 3, author=SOMEBODY)
    waiting = row(handed_in())
    assert waiting.request is not None
    assert (waiting.request.expires_at - waiting.submitted_at).total_seconds() == 3 * 3600


def test_nothing_that_was_said_is_in_a_column() -> None:
    handed_in()
    submit_batch([order(), order()], caller=HELPDESK)
    with connection.cursor() as cursor:
        for table in ("submission", "batch", "storedcontent"):
            cursor.execute(f'SELECT * FROM "governance_{table}"')  # noqa: S608
            for values in cursor.fetchall():
                text = b" ".join(bytes(v) if isinstance(v, memoryview | bytes) else str(v).encode() for v in values)
                assert PROMPT.encode() not in text


@pytest.mark.parametrize(
    ("request_body", "parameter"),
    [
        (b"{", ""),
        (b'{"messages": []}', "model"),
        (orjson.dumps({"model": "support-chat", "messages": []}), "messages"),
        (body(stream=True), "stream"),
        (body(api_base="https://elsewhere.example"), "api_base"),
    ],
)
def test_what_cannot_become_a_call_is_refused_at_once(request_body: bytes, parameter: str) -> None:
    with pytest.raises(RequestProblem) as refused:
        submit(CallOrder(body=request_body), caller=HELPDESK)
    assert (refused.value.problem.status, refused.value.problem.parameter) == (400, parameter)
    assert not Submission.objects.exists()
    assert not StoredContent.objects.exists()


def test_one_task_is_one_call_however_often_its_message_comes() -> None:
    task = str(uuid4())
    first = handed_in(task=task)
    with pytest.raises(AlreadySubmitted) as again:
        handed_in(task=task)
    assert again.value.submission == first
    assert Submission.objects.count() == StoredContent.objects.count() == 1


def test_a_task_of_another_application_is_not_taken_over() -> None:
    handed_in(task="nightly-42")
    with pytest.raises(RequestProblem, match="another application"):
        handed_in(caller=WEB_SHOP, task="nightly-42")
    assert Submission.objects.get().application == "helpdesk"
    assert StoredContent.objects.count() == 1


def test_what_columns_cannot_hold_is_cut() -> None:
    waiting = row(
        submit(CallOrder(body=body(), options=CallOptions(user="a\x00" * 200, source="s" * 80)), caller=HELPDESK)
    )
    assert (waiting.user, waiting.source) == ("a" * 128, "s" * 64)


# --- Batches --------------------------------------------------------------------------------------------------------


def test_a_batch_keeps_the_order_of_its_calls() -> None:
    batch = submit_batch([order(user=f"agent-{number}") for number in range(3)], caller=HELPDESK)
    rows = Submission.objects.filter(batch=batch).order_by("position")
    assert [(each.position, each.user, each.state) for each in rows] == [
        (0, "agent-0", "queued"), (1, "agent-1", "queued"), (2, "agent-2", "queued"),
    ]  # fmt: skip
    assert Batch.objects.get().size == 3


@pytest.mark.parametrize("size", [1, 30])  # SQLite takes 999 values in a statement
def test_a_batch_takes_the_same_queries_however_large(
    size: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(7):  # settings (2), a savepoint around three inserts
        submit_batch([order() for _ in range(size)], caller=HELPDESK)


@pytest.mark.parametrize("size", [0, 4])
def test_a_batch_has_a_size(size: int) -> None:
    store_setting(MAX_BATCH_CALLS.key, 3, author=SOMEBODY)
    with pytest.raises(RequestProblem, match="from 1 to 3 are needed"):
        submit_batch([order()] * size, caller=HELPDESK)


def test_one_bad_call_refuses_the_batch_and_is_named() -> None:
    with pytest.raises(RequestProblem) as refused:
        submit_batch([order(), CallOrder(body=b'{"model": "support-chat"}'), order()], caller=HELPDESK)
    assert refused.value.problem.parameter == "calls[1].messages"
    assert str(refused.value).startswith("calls[1]: messages: ")
    assert not Submission.objects.exists()


# --- Withdrawing ----------------------------------------------------------------------------------------------------


def test_a_queued_call_can_be_withdrawn() -> None:
    submission = handed_in()
    assert cancel(submission) is True
    assert (row(submission).state, row(submission).request, row(submission).due_at) == ("cancelled", None, None)
    assert row(submission).ended_at is not None
    assert not StoredContent.objects.exists()
    assert cancel(submission) is False
    assert not AuditEvent.objects.exists()  # the application's own wish is nobody's change


def test_a_call_that_a_worker_has_cannot() -> None:
    submission = handed_in()
    taken_up(submission)
    assert cancel(submission, author=SOMEBODY) is False
    assert row(submission).state == SubmissionState.RUNNING
    assert row(submission).request is not None
    assert not AuditEvent.objects.exists()


def test_of_a_batch_the_queued_ones_are_withdrawn() -> None:
    batch = submit_batch([order() for _ in range(3)], caller=HELPDESK)
    bystander = handed_in()
    running: UUID = Submission.objects.values_list("pk", flat=True).get(batch=batch, position=1)
    taken_up(running)
    assert cancel_batch(batch) == 2
    states = Submission.objects.filter(batch=batch).order_by("position").values_list("state", flat=True)
    assert list(states) == ["cancelled", "running", "cancelled"]
    assert row(bystander).state == SubmissionState.QUEUED
    assert StoredContent.objects.count() == 2
    assert cancel_batch(batch) == 0


@pytest.mark.parametrize("kind", ["submission", "batch"])
def test_an_operator_who_withdraws_is_in_the_trail(kind: str) -> None:
    withdraw: Any
    withdraw, record = (cancel, handed_in()) if kind == "submission" else (
        cancel_batch, submit_batch([order()], caller=HELPDESK),
    )  # fmt: skip
    assert withdraw(record, author=SOMEBODY, reason="typed twice")
    event = AuditEvent.objects.get()
    assert (event.action, event.kind, event.record, event.reason) == ("cancelled", kind, str(record), "typed twice")
    assert not verify().flaws
