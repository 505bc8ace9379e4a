"""What is done about calls whose message or whose worker was lost, and about what has grown old.

May be done by anybody, at any time, by several at once: each step is a statement that says what the rows must be.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet

from governance import safekeeping
from governance.models import Batch, Submission, SubmissionState
from governance.settings_store.store import load_settings
from governance.submissions.intake import ON_ITS_WAY

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Delivery:
    """A call to send to the workers: its id, and the id of the task that its result belongs to."""

    submission: UUID
    task: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep found: calls to send, and how many ended in which way.

    A call that ended is sent too where somebody may wait for the result of its task: a worker that finds nothing to do
    says what became of it.
    """

    deliveries: tuple[Delivery, ...]
    uncertain: int
    abandoned: int
    expired: int


@dataclass(frozen=True, slots=True)
class Removal:
    """What had grown old and was removed: pieces of content, rows of calls, rows of batches."""

    contents: int
    submissions: int
    batches: int


def deliveries_of(batch: UUID) -> list[Delivery]:
    """The calls of a batch that wait, in their order, to be sent for the first time."""
    rows = Submission.objects.filter(batch=batch, state=SubmissionState.QUEUED.value).order_by("position")
    return [Delivery(*each) for each in rows.values_list("pk", "task")]


def sweep(*, now: datetime) -> Sweep:
    """Look at everything whose time has passed. Whoever calls this sends the deliveries."""
    policy = load_settings().submissions
    lapsed = Submission.objects.filter(state=SubmissionState.RUNNING.value, due_at__lte=now)
    uncertain = _end(lapsed.filter(sent_at__isnull=False), SubmissionState.UNCERTAIN, now)
    unsent = lapsed.filter(sent_at=None)
    abandoned = _end(unsent.filter(deliveries__gte=policy.max_deliveries), SubmissionState.ABANDONED, now)
    unsent.update(state=SubmissionState.QUEUED.value, claim=None, due_at=now)
    queued = Submission.objects.filter(state=SubmissionState.QUEUED.value, due_at__lte=now)
    expired = _end(queued.filter(submitted_at__lte=now - policy.content_kept), SubmissionState.EXPIRED, now)
    told = [each for each in (*uncertain, *abandoned, *expired) if each.task != str(each.submission)]
    return Sweep(
        deliveries=(*_due(queued, policy.content_kept, now), *told),
        uncertain=len(uncertain),
        abandoned=len(abandoned),
        expired=len(expired),
    )


def remove_old(*, now: datetime) -> Removal:
    """Remove content whose time is over, and rows that ended long enough ago."""
    contents = safekeeping.remove_expired(now=now)
    before = now - load_settings().submissions.rows_kept
    submissions = 0
    ended = Submission.objects.filter(ended_at__lt=before).order_by()
    while ids := list(ended.values_list("pk", flat=True)[:_AT_ONCE]):
        safekeeping.remove(Submission.objects.filter(pk__in=ids).exclude(outcome=None).values("outcome"))
        submissions += Submission.objects.filter(pk__in=ids).delete()[0]
    batches, _ = Batch.objects.filter(submitted_at__lt=before, submissions=None).delete()
    return Removal(contents=contents, submissions=submissions, batches=batches)


def _end(rows: QuerySet[Submission], state: SubmissionState, now: datetime) -> list[Delivery]:
    """End rows, and remove the requests that nobody will need any more."""
    found = [Delivery(*each) for each in rows.values_list("pk", "task")[:_AT_ONCE]]
    if found:
        ids = [each.submission for each in found]
        rows.filter(pk__in=ids).update(state=state.value, due_at=None, ended_at=now)
        safekeeping.remove(Submission.objects.filter(pk__in=ids, state=state.value).values("request"))
    return found


def _due(queued: QuerySet[Submission], kept: timedelta, now: datetime) -> tuple[Delivery, ...]:
    """Calls to send again, the longest due first. The longer one has waited the later it is looked at again: if there
    are simply more calls than workers, another message for each would only lengthen the queue."""
    deliveries = []
    for row in queued.order_by("due_at").only("pk", "task", "submitted_at", "due_at")[:_AT_ONCE]:
        due_at = min(now + max(ON_ITS_WAY, now - row.submitted_at), row.submitted_at + kept)
        if queued.filter(pk=row.pk, due_at=row.due_at).update(due_at=due_at):
            deliveries.append(Delivery(submission=row.pk, task=row.task))
    return tuple(deliveries)
