"""Handing calls in, and withdrawing what no worker has taken up yet."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from governance import safekeeping
from governance.access.directory import Caller
from governance.audit.actions import AuditAction, Author, RecordKind
from governance.audit.trail import append
from governance.calls import NO_OPTIONS, CallOptions
from governance.gateway.errors import RequestProblem
from governance.gateway.protocols import openai_chat
from governance.models import Batch, ContentKind, StoredContent, Submission, SubmissionState
from governance.settings_store.store import load_settings
from telemetry.records import fitting_text, new_call_id

ON_ITS_WAY = timedelta(seconds=60)
"""How long a message may be on its way before the sweeper sends another."""

_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class CallOrder:
    """One call to be executed later.

    ``body`` is the request, as it would be posted to ``/v1/chat/completions``.
    """

    body: bytes = field(repr=False)
    options: CallOptions = NO_OPTIONS


class AlreadySubmitted(Exception):
    """A task's message has come before: the call is there. ``submission`` is its id."""

    def __init__(self, submission: UUID) -> None:
        super().__init__(f"the call is submitted already, as {submission}")
        self.submission = submission


def submit(order: CallOrder, *, caller: Caller, task: str = "") -> UUID:
    """Hand a call in; gives its id, which is the call's own. Nobody is told: see ``governance.tasks.submit``.

    Args:
        order: the call.
        caller: in whose name. What it may do is asked again when the call is executed.
        task: the id of the Celery task whose result is waited for; the submission's own if there is none.

    Raises:
        RequestProblem: the request cannot become a call; the problem names the field. Or the same task has handed in
            another one before.
        AlreadySubmitted: the same task has handed it in before.
    """
    kept = load_settings().submissions.content_kept
    row, content = _prepare(order, caller=caller, now=datetime.now(UTC), kept=kept, task=task)
    with transaction.atomic():
        content.save(force_insert=True)
        # Ignoring a conflict: whoever comes second with a task's id finds the row of whoever came first.
        Submission.objects.bulk_create([row], ignore_conflicts=bool(task))
        first = Submission.objects.only("pk", "application", "mark").get(task=row.task)
        if first != row:
            transaction.set_rollback(True)
    if first.application != caller.application:
        raise RequestProblem(409, "task: another application has used this task's id", code="task_taken")
    if first.mark and first.mark != row.mark:
        raise RequestProblem(
            409,
            "this request has the name of another one before, which asked for something else; give it another name",
            code="name_taken",
        )
    if first != row:
        raise AlreadySubmitted(first.pk)
    return row.pk


def submit_batch(orders: Sequence[CallOrder], *, caller: Caller) -> UUID:
    """Hand many calls in together, all of them or none; gives the batch's id. Their places are those in ``orders``.

    Raises:
        RequestProblem: there are none, or too many, or one of them cannot become a call; the parameter says which.
    """
    policy = load_settings().submissions
    if not 0 < len(orders) <= policy.max_batch_calls:
        raise RequestProblem(
            400,
            f"calls: from 1 to {policy.max_batch_calls} are needed (the setting calls.maxBatchCalls)",
            code="invalid_value",
            parameter="calls",
        )
    now = datetime.now(UTC)
    batch = Batch(
        id=new_call_id(),
        application=caller.application,
        key=caller.key,
        source=caller.source,
        size=len(orders),
        submitted_at=now,
    )
    prepared = []
    for position, order in enumerate(orders):
        try:
            row, content = _prepare(order, caller=caller, now=now, kept=policy.content_kept)
        except RequestProblem as refused:
            raise refused.within(f"calls[{position}]") from None
        row.batch, row.position = batch, position
        prepared.append((row, content))
    with transaction.atomic():
        batch.save(force_insert=True)
        StoredContent.objects.bulk_create([content for _, content in prepared], batch_size=_ROWS_AT_ONCE)
        Submission.objects.bulk_create([row for row, _ in prepared], batch_size=_ROWS_AT_ONCE)
    return batch.pk


def cancel(submission: UUID, *, author: Author | None = None, reason: str = "") -> bool:
    """Withdraw a call that is still queued; tells whether it was.

    ``author`` is the operator who does it, for the audit trail; without one it is the application's own wish.
    """
    with transaction.atomic():
        withdrawn = _withdraw(Submission.objects.filter(pk=submission))
        if withdrawn and author is not None:
            _tell(RecordKind.SUBMISSION, submission, author, reason)
    return bool(withdrawn)


def cancel_batch(batch: UUID, *, author: Author | None = None, reason: str = "") -> int:
    """Withdraw the calls of a batch that are still queued; gives how many they were."""
    with transaction.atomic():
        withdrawn = _withdraw(Submission.objects.filter(batch=batch))
        if withdrawn and author is not None:
            _tell(RecordKind.BATCH, batch, author, reason)
    return withdrawn


def _prepare(
    order: CallOrder, *, caller: Caller, now: datetime, kept: timedelta, task: str = ""
) -> tuple[Submission, StoredContent]:
    """The rows of one call, not saved yet."""
    request = openai_chat.read_request(order.body)
    if request.stream:
        raise RequestProblem(
            400,
            "stream: a call that is handed in cannot be streamed; leave it out, or post it to /v1/chat/completions",
            code="invalid_value",
            parameter="stream",
        )
    content = safekeeping.seal(order.body, kind=ContentKind.REQUEST, owner=caller.application, now=now, kept=kept)
    submission = new_call_id()
    row = Submission(
        id=submission,
        task=task or str(submission),
        application=caller.application,
        key=caller.key,
        user=fitting_text(order.options.user or request.user, 128),
        source=fitting_text(order.options.source or caller.source, 64),
        mark=safekeeping.mark(
            order.body, str(order.options.on_device).encode(), str(order.options.max_cost_nanos).encode()
        ),
        requested=fitting_text(request.target, 300),
        on_device=order.options.on_device,
        max_cost_nanos=order.options.max_cost_nanos,
        submitted_at=now,
        due_at=now + ON_ITS_WAY,
        request=content,
    )
    return row, content


def _withdraw(rows: QuerySet[Submission]) -> int:
    """Those that are queued by now, in one statement: nobody can take one up in between."""
    withdrawn = rows.filter(state=SubmissionState.QUEUED.value).update(
        state=SubmissionState.CANCELLED.value, due_at=None, ended_at=datetime.now(UTC)
    )
    if withdrawn:
        safekeeping.remove(rows.filter(state=SubmissionState.CANCELLED.value).values("request"))
    return withdrawn


def _tell(kind: RecordKind, record: UUID, author: Author, reason: str) -> None:
    append(action=AuditAction.CANCELLED, kind=kind, record=str(record), author=author, reason=reason)
