"""Who holds a call: each change of its state is one statement that says what it must have been before.

    queued ── take_up ──► running ── end ──► done, failed
      ▲                      │ announce_sending (once; from here on it is never sent again)
      ├── postpone ──────────┤ (a rate or quota is used up)
      └── sweeping ──────────┤
                             └── sweeping ──► uncertain, abandoned

A delivery holds a call by a lease that it renews, and by a token: a worker that was thought lost, and comes back, can
neither send nor end what has been given to another one. One word of it is still heard: how a call ended that had been
given up as uncertain, since it alone can know.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import orjson
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce

from governance import safekeeping
from governance.calls import CallOptions
from governance.gateway.context import Withdrawn
from governance.models import ContentKind, StoredContent, Submission, SubmissionState
from governance.settings_store.store import load_settings
from routing.core.failures import Failure, FailureKind
from routing.vault import VaultError
from telemetry.records import fitting_text

LEASE = timedelta(seconds=30)
"""How long a worker that says nothing more is waited for."""

RENEW_SECONDS = 10.0
"""How often a worker says that it is there."""

_FIRST_WAIT = timedelta(seconds=15)
_LONGEST_WAIT = timedelta(minutes=5)
"""How long a call waits for a limit at the least, the first time and later on."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One delivery of a call: what is to be executed, and in whose name. ``token`` proves that it is held. ``waits`` is
    how often it has waited for a limit."""

    submission: UUID
    token: UUID
    application: str
    key: str
    options: CallOptions
    submitted_at: datetime
    waits: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended: with an answer, or with a failure. A model that declines has answered, and both are there."""

    answer: bytes | None = field(repr=False)
    failure: Failure | None


class ClaimLost(Withdrawn):
    """The call is not, or no longer, this delivery's: it was taken for lost. Nothing may be sent for it."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(f"submission {claim.submission} is held by another worker, or has ended")


def take_up(submission: UUID, *, worker: str, now: datetime) -> Claim | None:
    """Take a queued call up; ``None`` if there is nothing to do: somebody else has it, it has ended, or it is gone."""
    token = uuid4()
    taken = Submission.objects.filter(pk=submission, state=SubmissionState.QUEUED.value).update(
        state=SubmissionState.RUNNING.value,
        claim=token,
        worker=fitting_text(worker, 255),
        deliveries=F("deliveries") + 1,
        started_at=now,
        due_at=now + LEASE,
        waits_until=None,
    )
    if not taken:
        return None
    row = Submission.objects.select_related("request").get(pk=submission)
    try:
        body = None if row.request is None else safekeeping.read(row.request, now=now)
    except VaultError as error:
        unread = Failure(FailureKind.TRANSIENT, f"the request cannot be opened: {error}", code="content_unreadable")
        _end(submission, token, SubmissionState.FAILED, failure=unread, now=now)
        return None
    if body is None:
        _end(submission, token, SubmissionState.EXPIRED, now=now)
        return None
    return Claim(
        submission=row.pk,
        token=token,
        application=row.application,
        key=row.key,
        options=CallOptions(
            user=row.user, source=row.source, on_device=row.on_device, max_cost_nanos=row.max_cost_nanos
        ),
        submitted_at=row.submitted_at,
        waits=row.waits,
        body=body,
    )


def postpone(claim: Claim, *, wait: timedelta, expires_at: datetime, now: datetime) -> bool:
    """Let the call wait for a limit, as if nobody had taken it up; tells whether it was still held. Nothing was sent.

    The sweeper sends it again. The oftener it has waited the longer it does, since others wait for the same limit:
    calls that are tried all the time are work for nothing. It is tried once more before it expires.
    """
    longer = min(_FIRST_WAIT * 2 ** min(claim.waits, 10), _LONGEST_WAIT, (expires_at - now) / 2)
    wait = max(wait, longer)
    return bool(
        _held(claim)
        .filter(sent_at=None)
        .update(
            state=SubmissionState.QUEUED.value,
            claim=None,
            deliveries=F("deliveries") - 1,
            waits=F("waits") + 1,
            waits_until=now + wait,
            due_at=now + wait,
        )
    )


def renew(claim: Claim, *, now: datetime) -> bool:
    """Hold the call for another lease; tells whether it was still held."""
    return bool(_held(claim).update(due_at=now + LEASE))


def announce_sending(claim: Claim, *, now: datetime) -> None:
    """Say, before the first request to a provider, that it is about to be sent. May be said again.

    Raises:
        ClaimLost: it must not be sent.
    """
    if not _held(claim).update(sent_at=Coalesce("sent_at", now), due_at=now + LEASE):
        raise ClaimLost(claim)


def end(claim: Claim, ending: Ending, *, now: datetime) -> bool:
    """Say how the call ended, and keep that; tells whether it was heard."""
    state = SubmissionState.FAILED if ending.answer is None else SubmissionState.DONE
    return _end(claim.submission, claim.token, state, answer=ending.answer, failure=ending.failure, now=now)


def write_failure(failure: Failure) -> bytes:
    """A failure in full, to be sealed: its sentence may quote the request."""
    return orjson.dumps(
        {
            "kind": failure.kind.value,
            "message": failure.message,
            "code": failure.code,
            "parameter": failure.parameter,
            "retry_after": failure.retry_after,
        }
    )


def read_failure(content: bytes) -> Failure:
    """What :func:`write_failure` wrote."""
    document = orjson.loads(content)
    return Failure(
        kind=FailureKind(document["kind"]),
        message=document["message"],
        retry_after=document["retry_after"],
        code=document["code"],
        parameter=document["parameter"],
    )


def _held(claim: Claim) -> QuerySet[Submission]:
    return Submission.objects.filter(pk=claim.submission, claim=claim.token, state=SubmissionState.RUNNING.value)


def _end(
    submission: UUID,
    token: UUID,
    state: SubmissionState,
    *,
    answer: bytes | None = None,
    failure: Failure | None = None,
    now: datetime,
) -> bool:
    """End a call that a delivery holds, or held until it was given up as uncertain: one transaction."""
    rows = Submission.objects.filter(
        pk=submission, claim=token, state__in=(SubmissionState.RUNNING.value, SubmissionState.UNCERTAIN.value)
    )
    with transaction.atomic():
        if not rows.update(
            state=state.value,
            due_at=None,
            ended_at=now,
            failure_kind="" if failure is None else failure.kind.value,
            failure_code="" if failure is None else fitting_text(failure.code, 100),
        ):
            return False
        row = Submission.objects.only("application", "request").get(pk=submission)
        outcome = _outcome(row.application, answer=answer, failure=failure, now=now)
        request = row.request_id
        if outcome is not None:
            outcome.save(force_insert=True)
        Submission.objects.filter(pk=submission).update(outcome=outcome, request=None)
        if request is not None:
            safekeeping.remove([request])
    return True


def _outcome(owner: str, *, answer: bytes | None, failure: Failure | None, now: datetime) -> StoredContent | None:
    kept = load_settings().submissions.content_kept
    if answer is not None:
        return safekeeping.seal(answer, kind=ContentKind.ANSWER, owner=owner, now=now, kept=kept)
    if failure is not None:
        return safekeeping.seal(write_failure(failure), kind=ContentKind.FAILURE, owner=owner, now=now, kept=kept)
    return None
