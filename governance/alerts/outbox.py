"""The outbox: a row for every alert and webhook, and who may send it now. Each step is one statement that says what the
row must have been before, so any number of processes may do this at once.

    waiting ── claim ──► waiting, held for a lease ── mark ──► delivered, or waiting again, or failed
       ▲                              │ a sender that was killed: due again when the lease ends
       └──────────────────────────────┘

What was sent and not marked is sent again, under the same id: an alert may come twice, and is never lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db.models import F, QuerySet

from budgets.models import Crossing
from governance.alerts.messages import crossed_message, trial_message
from governance.models import AlertDelivery, Budget, DeliveryState, Webhook

LEASE = timedelta(seconds=60)
"""For how long a sender that says nothing more is waited for; longer than a post may take."""

WAITS = tuple(
    timedelta(seconds=seconds) for seconds in (5, 30, 120, 600, 1800, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600)
)
"""Between two tries. After the last one follows the last try: some 32 hours after the first."""

MOST_ATTEMPTS = len(WAITS) + 1

TOLD_AFTER = timedelta(days=3)
"""How old a crossing may be that is still told of: older ones were not told while no process ran."""

_AT_ONCE = 100
_REMOVED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Claim:
    """An alert that this process may send, until its lease ends. ``token`` proves that it is held."""

    delivery: UUID
    token: UUID
    attempt: int
    webhook: Webhook = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one try: ``status`` is the receiver's, if it answered; without an ``error`` it has the alert.
    ``is_final`` where trying again would be of no use."""

    status: int | None
    error: str = ""
    is_final: bool = False


def has_receivers() -> bool:
    """Whether any webhook is in service: else nothing is to be told, and nothing is due."""
    return Webhook.objects.filter(is_active=True, retired_at=None).exists()


def fill(*, now: datetime) -> int:
    """Make the rows of crossings that webhooks have not been told of yet; gives how many there were. A webhook hears of
    what was crossed since it was made."""
    made = 0
    for webhook in Webhook.objects.filter(is_active=True, retired_at=None):
        since = max(webhook.created_at, now - TOLD_AFTER)
        told = AlertDelivery.objects.filter(webhook=webhook, crossing__isnull=False).values("crossing")
        untold = Crossing.objects.filter(at__gte=since).exclude(pk__in=told).select_related("account").order_by("pk")
        rows = list(untold[:_AT_ONCE])
        if not rows:
            continue
        budgets = {each.identifier: each for each in Budget.objects.filter(identifier__in={row.budget for row in rows})}
        deliveries = [
            AlertDelivery(
                webhook=webhook,
                crossing=row.pk,
                budget=row.budget,
                payload=crossed_message(row, budgets.get(row.budget)),
                created_at=now,
                due_at=now,
            )
            for row in rows
        ]
        AlertDelivery.objects.bulk_create(deliveries, ignore_conflicts=True)
        made += len(deliveries)
    return made


def add_test(webhook: Webhook, *, now: datetime) -> UUID:
    """Make a row that tries a webhook; gives its id."""
    delivery = AlertDelivery(
        webhook=webhook, payload=trial_message(webhook.identifier, now=now), created_at=now, due_at=now
    )
    delivery.save(force_insert=True)
    return delivery.pk


def due(*, now: datetime) -> list[UUID]:
    """What is due, longest due first. What webhooks would hear that are switched off waits."""
    rows = _due(now).filter(webhook__is_active=True, webhook__retired_at=None).order_by("due_at")
    return list(rows.values_list("pk", flat=True)[:_AT_ONCE])


def claim(delivery: UUID, *, now: datetime) -> Claim | None:
    """Claim one alert that is due; ``None`` if somebody else holds it, or it is over."""
    token = uuid4()
    if not _due(now).filter(pk=delivery).update(claim=token, due_at=now + LEASE, attempts=F("attempts") + 1):
        return None
    row = AlertDelivery.objects.select_related("webhook").get(pk=delivery)
    return Claim(row.pk, token, row.attempts, row.webhook, row.payload.encode())


def mark(claim: Claim, outcome: Outcome, *, now: datetime) -> bool:
    """Say what became of a try; tells whether that was heard. After the last try the alert has failed."""
    held = AlertDelivery.objects.filter(pk=claim.delivery, claim=claim.token, state=DeliveryState.WAITING)
    is_delivered = not outcome.error
    is_over = is_delivered or outcome.is_final or claim.attempt >= MOST_ATTEMPTS
    state = DeliveryState.WAITING
    if is_over:
        state = DeliveryState.DELIVERED if is_delivered else DeliveryState.FAILED
    return bool(
        held.update(
            state=state,
            claim=None,
            due_at=None if is_over else now + WAITS[claim.attempt - 1],
            ended_at=now if is_over else None,
            last_status=outcome.status,
            last_error=outcome.error[:500],
        )
    )


def send_again(delivery: UUID, *, now: datetime) -> bool:
    """Let an alert that has failed be tried anew, all tries over; tells whether it had failed."""
    failed = AlertDelivery.objects.filter(pk=delivery, state=DeliveryState.FAILED)
    return bool(failed.update(state=DeliveryState.WAITING, attempts=0, due_at=now, ended_at=None, claim=None))


def remove_old(*, before: datetime) -> int:
    """Remove the rows from before a moment, also those that wait for a webhook that is switched off; gives how many."""
    return _remove(AlertDelivery.objects.filter(created_at__lt=before))


def remove_of(crossings: Sequence[int]) -> int:
    """Remove what was told of crossings that are not kept any more, by their ids; gives how many rows that were."""
    return _remove(AlertDelivery.objects.filter(crossing__in=crossings)) if crossings else 0


def _remove(rows: QuerySet[AlertDelivery]) -> int:
    removed = 0
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:_REMOVED_AT_ONCE]):
        removed += AlertDelivery.objects.filter(pk__in=ids).delete()[0]
    return removed


def _due(now: datetime) -> QuerySet[AlertDelivery]:
    return AlertDelivery.objects.filter(state=DeliveryState.WAITING, due_at__lte=now)
