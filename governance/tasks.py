"""Everything that Celery does for Signalbox. Tasks carry ids; what was said stays in the sealed rows.

    run_call      hands a call in from another project, by name; the one message that holds content
    read_answer   what became of it; the one result that holds content
    execute       makes a call that was handed in; sent by ``submit``, ``run_call`` and the sweeper
    sweep         looks after calls whose message or worker was lost
    remove_old    removes what has grown old
    prune_ledger  carries over what is old in the ledger, and removes what is older
    sweep_ledger  looks after what dead processes hold of budgets

Whoever may write to the broker may do what these do: no key is in a message, and an application says whether it may
run tasks at all. The application of Celery is made here and not in the project, so that importing a task is enough to
send it.
"""

import logging
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from celery import Celery, Task
from celery.exceptions import Ignore, OperationalError
from django.conf import settings
from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError
from django.db import transaction

from budgets import ledger
from governance import replays
from governance.access.directory import Caller, find_task_caller
from governance.calls import CallOptions
from governance.gateway import home
from governance.gateway.errors import RequestProblem
from governance.pruning import prune
from governance.shared_state import table
from governance.submissions import execution, intake, sweeping
from governance.submissions.intake import AlreadySubmitted, CallOrder
from governance.submissions.readouts import SubmissionNotFound, SubmissionStatus, find_status, read_result
from governance.submissions.sweeping import Delivery
from governance.trace import Mark, marks, note
from routing.core.money import MoneyError, parse_nanos
from telemetry.usage import remove_old_hours

logger = logging.getLogger(__name__)

CORRELATION_HEADER = "signalbox_correlation"
"""The header of a message that names the request it was sent for."""

_LONGEST_TASK_ID = 255

app = Celery("signalbox")
app.config_from_object("django.conf:settings", namespace="CELERY")


class CallRefused(ValueError):
    """The call cannot be handed in. The sentence names the field or the application, and nothing of what was said."""


@app.on_after_configure.connect
def make_folders(**_: Any) -> None:
    """The folders of the broker that needs no server: ours alone, since a message may hold a prompt."""
    for folder in settings.SIGNALBOX_TASK_FOLDERS.values():
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)


# --- Handing in ------------------------------------------------------------------------------------------------------


def submit(order: CallOrder, *, caller: Caller, again: str = "") -> UUID:
    """Hand a call in and send it to the workers once the transaction around this, if any, is committed; gives its id.

    Args:
        order: the call.
        caller: in whose name.
        again: what the application calls the order, if it may come again: the second time it is the call of the first.

    Raises:
        RequestProblem: the request cannot become a call.
    """
    task = f"{caller.application}:{again}" if again else ""
    with transaction.atomic():
        try:
            submission = intake.submit(order, caller=caller, task=task)
        except AlreadySubmitted as before:
            return before.submission
        transaction.on_commit(partial(send, [Delivery(submission, task or str(submission))]))
    return submission


def submit_batch(orders: Sequence[CallOrder], *, caller: Caller) -> UUID:
    """Hand many calls in together, as :func:`submit` does with one; gives the batch's id.

    Raises:
        RequestProblem: the size of the batch, or one of the calls, which the parameter names.
    """
    with transaction.atomic():
        batch = intake.submit_batch(orders, caller=caller)
        transaction.on_commit(lambda: send(sweeping.deliveries_of(batch)))
    return batch


def send(deliveries: Iterable[Delivery]) -> int:
    """Send calls to the workers; gives how many were sent. While the broker is away they wait for the sweeper.

    A message bears the correlation id of the request that sends it.
    """
    correlation = marks().get(Mark.CORRELATION)
    headers = {} if correlation is None else {CORRELATION_HEADER: correlation}
    sent = 0
    for delivery in deliveries:
        waited_for = delivery.task != str(delivery.submission)
        try:
            execute.apply_async(
                args=(str(delivery.submission),), task_id=delivery.task, headers=headers, ignore_result=not waited_for
            )
        except (OperationalError, OSError) as error:
            logger.warning("calls wait for the sweeper: the broker is away (%s)", type(error).__name__)
            break
        sent += 1
    return sent


# --- Tasks -----------------------------------------------------------------------------------------------------------


@app.task(
    name="signalbox.run_call",
    bind=True,
    throws=(CallRefused,),
    # Acknowledged when the call is sealed in its row, which is at once; a worker that is killed before that has not
    # had the message.
    acks_late=True,
    reject_on_worker_lost=True,
    autoretry_for=(DatabaseFault,),
    retry_backoff=True,
    max_retries=10,
)
def run_call(
    self: "Task[..., Any]",
    *,
    application: str,
    request: Mapping[str, Any],
    user: str = "",
    source: str = "",
    on_device: bool = False,
    max_cost: str | None = None,
) -> None:
    """Hand a call in, in an application's name. Its result is that of the call's execution, under this task's id.

    Args:
        application: the identifier of an application that may run tasks.
        request: what would be posted to ``/v1/chat/completions``, without ``stream``.
        user: the end user, for attribution.
        source: the calling feature.
        on_device: only models on our own machines may serve it.
        max_cost: the most it may cost, a decimal in the installation's currency.

    Raises:
        CallRefused: the call cannot be handed in.
    """
    task = str(self.request.id)
    caller = find_task_caller(application)
    if caller is None:
        raise CallRefused(f"the application {application} may not run tasks; its page in the admin says whether it may")
    options = CallOptions(user=user, source=source, on_device=on_device, max_cost_nanos=_nanos(max_cost))
    if len(task) > _LONGEST_TASK_ID:
        raise CallRefused(f"a task's id has at most {_LONGEST_TASK_ID} characters")
    try:
        submission = intake.submit(CallOrder(body=_body(request), options=options), caller=caller, task=task)
    except RequestProblem as refused:
        raise CallRefused(str(refused)) from None
    except AlreadySubmitted as before:
        submission = before.submission
    send([Delivery(submission, task)])
    raise Ignore


@app.task(
    name="signalbox.execute",
    bind=True,
    # A message that comes again finds nothing to do. Acknowledged at once, a worker that is killed would be told as the
    # failure of a task whose call the sweeper may still send again.
    acks_late=True,
    reject_on_worker_lost=True,
)
def execute(self: "Task[..., Any]", submission: str) -> dict[str, Any]:
    """Make a call that was handed in, if it is still to be made; gives its id and what became of it."""
    note(call=submission)
    try:
        home.wait(partial(execution.execute, submission=UUID(submission), worker=_worker()))
        status = find_status(UUID(submission))
    except DatabaseFault as error:
        # Not this delivery's failure: somebody may wait for the result of a call that the sweeper will send again.
        logger.warning("submission %s waits for the sweeper: the database is away (%s)", submission, error)
        raise Ignore from None
    if status is None or not status.is_over:
        raise Ignore
    logger.info("a submitted call has ended: %s", status.state.value)
    return summary_of(status)


@app.task(name="signalbox.read_answer", throws=(SubmissionNotFound,))
def read_answer(*, application: str, call: str) -> dict[str, Any]:
    """What became of a call that the application handed in by a task, with the answer, for as long as it is kept.

    Args:
        application: the identifier of the application; it must be one that may run tasks.
        call: the call's id, or that of the task that handed it in.

    Raises:
        SubmissionNotFound: the application has no such call, or may not run tasks.
    """
    if find_task_caller(application) is None:
        raise SubmissionNotFound(f"the application {application} may not run tasks")
    result = read_result(call, application=application)
    failure = result.failure
    return {
        **summary_of(result.status),
        "answer": None if result.answer is None else orjson.loads(result.answer),
        "failure": None
        if failure is None
        else {"kind": failure.kind.value, "message": failure.message, "code": failure.code, "field": failure.parameter},
        "kept_until": None if result.kept_until is None else result.kept_until.isoformat(),
    }


@app.task(name="signalbox.sweep", ignore_result=True)
def sweep() -> None:
    """Send what was lost again, and end what cannot go on."""
    found = sweeping.sweep(now=datetime.now(UTC))
    sent = send(found.deliveries)
    if sent or found.uncertain or found.abandoned or found.expired:
        logger.info(
            "swept: %d sent again, %d uncertain, %d abandoned, %d expired",
            sent,
            found.uncertain,
            found.abandoned,
            found.expired,
        )


@app.task(name="signalbox.remove_old", ignore_result=True)
def remove_old() -> None:
    """Remove what has grown old: content, rows of calls that ended long ago, hours of usage, what processes told one
    another."""
    now = datetime.now(UTC)
    removed = sweeping.remove_old(now=now)
    table.remove_expired(now=now)
    replays.remove_expired(now=now)
    remove_old_hours(now=now)
    if removed.contents or removed.submissions or removed.batches:
        logger.info(
            "removed: content of %d calls, %d rows of calls, %d of batches",
            removed.contents,
            removed.submissions,
            removed.batches,
        )


@app.task(name="signalbox.sweep_ledger", ignore_result=True)
def sweep_ledger() -> None:
    """Hold what dead processes have reserved as uncertain."""
    if swept := ledger.sweep(now=datetime.now(UTC)):
        logger.warning("%d attempts were never settled: their bounds stay held as uncertain", swept)


@app.task(name="signalbox.prune_ledger", ignore_result=True)
def prune_ledger() -> None:
    """Carry over what is old in the ledger, and remove what is older."""
    pruned = prune(now=datetime.now(UTC))
    carried = pruned.carried
    if carried.entries:
        logger.info("carried over: %d entries of %d accounts of the ledger", carried.entries, carried.accounts)
    if pruned.accounts or pruned.deliveries:
        logger.info("removed: %d accounts of the ledger, %d deliveries of alerts", pruned.accounts, pruned.deliveries)


def summary_of(status: SubmissionStatus) -> dict[str, Any]:
    """A call's end as a result holds it: ids and words, and nothing of what was said."""
    return {
        "call": str(status.id),
        "state": status.state.value,
        "failure": None
        if status.failure_kind is None
        else {"kind": status.failure_kind.value, "code": status.failure_code},
    }


def _body(request: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(request)
    except orjson.JSONEncodeError:
        raise CallRefused("request: numbers have at most 64 bits, texts are Unicode") from None


def _nanos(max_cost: str | None) -> int | None:
    if max_cost is None:
        return None
    try:
        nanos = parse_nanos(max_cost)
    except MoneyError as error:
        raise CallRefused(f"max_cost: {error}") from None
    if nanos < 0:
        raise CallRefused("max_cost: an amount cannot be negative")
    return nanos


def _worker() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
