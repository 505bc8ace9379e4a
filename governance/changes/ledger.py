"""What people say of attempts whose outcome nobody knew: the one change of the ledger that has an author."""

from datetime import UTC, datetime
from uuid import UUID

from django.db import transaction

from budgets import ledger
from budgets.models import Hold
from governance.audit.actions import AuditAction, Author, RecordKind
from governance.audit.trail import append
from routing.core.money import Money


def resolve(attempt: UUID, *, was_charged: bool, author: Author, reason: str = "") -> bool:
    """Book what an attempt holds as spent, or give it back; tells whether it still held anything.

    Only of an attempt that is uncertain: of one that is under way its own process will say what became of it.
    """
    with transaction.atomic():
        hold = Hold.objects.select_related("account").filter(attempt=attempt, is_uncertain=True).first()
        if hold is None:
            return False
        now = datetime.now(UTC)
        if was_charged:
            cost = Money(hold.amount or 0, hold.account.currency)
            is_done = ledger.settle(attempt=attempt, cost=cost, now=now)
        else:
            is_done = ledger.release(attempt=attempt, now=now)
        if is_done:
            action = AuditAction.BOOKED if was_charged else AuditAction.GIVEN_BACK
            append(action=action, kind=RecordKind.ATTEMPT, record=str(attempt), author=author, reason=reason)
    return is_done
