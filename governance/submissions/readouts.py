"""What became of a submitted call, and how far a batch is.

Whoever asks names an application and hears of its own calls alone; of any other call they hear that there is none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import Count, Max, Q, QuerySet

from governance import safekeeping
from governance.models import OPEN, Batch, ContentKind, Submission, SubmissionState
from governance.submissions.claims import read_failure
from routing.core.failures import Failure, FailureKind


class SubmissionNotFound(LookupError):
    """There is no such submitted call, or batch, of this application."""


@dataclass(frozen=True, slots=True)
class SubmissionStatus:
    """Where a submitted call stands. The telemetry of the call itself has the same id, once it has been executed."""

    id: UUID
    application: str
    requested: str
    state: SubmissionState
    batch: UUID | None
    position: int | None
    submitted_at: datetime
    started_at: datetime | None
    sent_at: datetime | None
    ended_at: datetime | None
    deliveries: int
    waits: int
    waits_until: datetime | None
    failure_kind: FailureKind | None
    failure_code: str

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state not in OPEN


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """A submitted call with what came of it, for as long as that is kept.

    ``answer`` is what a caller of ``/v1/chat/completions`` would have got. ``failure`` says why there is none, or that
    the model declined. Of a call that is over and has neither, the content has expired, or never was.
    """

    status: SubmissionStatus
    answer: bytes | None = field(repr=False)
    failure: Failure | None
    kept_until: datetime | None


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a batch is: how many of its calls are in which state. ``ended_at`` is known once all have ended."""

    id: UUID
    application: str
    size: int
    submitted_at: datetime
    counts: Mapping[SubmissionState, int]
    ended_at: datetime | None

    @property
    def ended(self) -> int:
        """Calls of which nothing more will come."""
        return sum(count for state, count in self.counts.items() if state not in OPEN)

    @property
    def is_over(self) -> bool:
        """Whether that is all of them."""
        return not any(self.counts.get(state) for state in OPEN)


def find_status(submission: UUID) -> SubmissionStatus | None:
    """One call's state, whoever's it is; ``None`` if its row is gone."""
    row = Submission.objects.filter(pk=submission).first()
    return None if row is None else status_of(row)


def read_status(submission: UUID, *, application: str) -> SubmissionStatus:
    """One call's state: one query.

    Raises:
        SubmissionNotFound: the application has no such call.
    """
    return status_of(_row(Submission.objects.all(), submission, application))


def read_result(submission: UUID | str, *, application: str, now: datetime | None = None) -> SubmissionResult:
    """One call's state, with its answer: one query. A call may also be named by the task that handed it in.

    Raises:
        SubmissionNotFound: the application has no such call.
        VaultError: what is kept does not open.
    """
    row = _row(Submission.objects.select_related("outcome"), submission, application)
    outcome = row.outcome
    content = None if outcome is None else safekeeping.read(outcome, now=now or datetime.now(UTC))
    answer, failure = None, None
    if content is not None and outcome is not None:
        if outcome.kind == ContentKind.FAILURE:
            failure = read_failure(content)
        else:
            answer = content
            failure = _declined(row)
    return SubmissionResult(
        status=status_of(row),
        answer=answer,
        failure=failure,
        kept_until=None if outcome is None or content is None else outcome.expires_at,
    )


def read_progress(batch: UUID, *, application: str) -> BatchProgress:
    """How far a batch is: two queries.

    Raises:
        SubmissionNotFound: the application has no such batch.
    """
    row = Batch.objects.filter(pk=batch, application=application).first()
    if row is None:
        raise SubmissionNotFound(f"there is no batch {batch}")
    return progress_of([row])[row.pk]


def read_calls(batch: UUID, *, application: str, after: int = -1, limit: int = 100) -> list[SubmissionStatus]:
    """A batch's calls in their order, from the place behind ``after``: one query."""
    rows = Submission.objects.filter(batch=batch, application=application, position__gt=after).order_by("position")
    return [status_of(row) for row in rows[:limit]]


def progress_of(batches: list[Batch]) -> dict[UUID, BatchProgress]:
    """How far some batches are, by id: one query, however many they are."""
    counts: dict[UUID, dict[SubmissionState, int]] = {row.pk: {} for row in batches}
    last: dict[UUID, datetime | None] = {}
    rows = Submission.objects.filter(batch__in=[row.pk for row in batches]).order_by()
    for batch, state, count, ended_at in rows.values_list("batch", "state").annotate(Count("pk"), Max("ended_at")):
        counts[batch][SubmissionState(state)] = count
        known = last.get(batch)
        last[batch] = ended_at if known is None or (ended_at is not None and ended_at > known) else known
    return {
        row.pk: BatchProgress(
            id=row.pk,
            application=row.application,
            size=row.size,
            submitted_at=row.submitted_at,
            counts=counts[row.pk],
            ended_at=None if any(counts[row.pk].get(state) for state in OPEN) else last.get(row.pk),
        )
        for row in batches
    }


def status_of(row: Submission) -> SubmissionStatus:
    """A row as a value."""
    return SubmissionStatus(
        id=row.pk,
        application=row.application,
        requested=row.requested,
        state=SubmissionState(row.state),
        batch=row.batch_id,
        position=row.position,
        submitted_at=row.submitted_at,
        started_at=row.started_at,
        sent_at=row.sent_at,
        ended_at=row.ended_at,
        deliveries=row.deliveries,
        waits=row.waits,
        waits_until=row.waits_until if row.state == SubmissionState.QUEUED else None,
        failure_kind=FailureKind(row.failure_kind) if row.failure_kind else None,
        failure_code=row.failure_code,
    )


def _declined(row: Submission) -> Failure | None:
    """The failure of a call that has an answer: the model declined, and the answer says so."""
    if not row.failure_kind:
        return None
    return Failure(FailureKind(row.failure_kind), "the model declined to answer", code=row.failure_code)


def _row(rows: QuerySet[Submission], submission: UUID | str, application: str) -> Submission:
    row = rows.filter(_named(submission), application=application).first()
    if row is None:
        raise SubmissionNotFound(f"there is no submitted call {submission}")
    return row


def _named(submission: UUID | str) -> Q:
    if isinstance(submission, UUID):
        return Q(pk=submission)
    try:
        return Q(pk=UUID(submission)) | Q(task=submission)
    except ValueError:
        return Q(task=submission)
