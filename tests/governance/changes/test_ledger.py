"""Somebody says what became of an attempt that nobody knew anything of."""

import pytest

from budgets.ledger import settle
from budgets.models import Hold
from budgets.proof import check
from budgets.scopes import Scope
from governance.changes.ledger import resolve
from governance.models import AuditEvent
from tests.authors import SOMEBODY
from tests.budgets.claims import LATER, ONE, balance, claim, hold, key_of

pytestmark = pytest.mark.django_db

EVERYBODY = key_of(Scope())


@pytest.mark.parametrize(("was_charged", "spent", "action"), [(True, ONE, "booked"), (False, 0, "givenBack")])
def test_an_uncertain_attempt_is_resolved_in_all_its_accounts(was_charged: bool, spent: int, action: str) -> None:
    attempt = hold(claim(), claim(EVERYBODY))
    settle(attempt=attempt, cost=None, now=LATER)
    assert resolve(attempt, was_charged=was_charged, author=SOMEBODY, reason="It is on the bill.") is True
    assert balance() == balance(EVERYBODY) == (spent, 0, 0, 0)
    event = AuditEvent.objects.get()
    assert (event.action, event.kind, event.record, event.reason) == (
        action, "attempt", str(attempt), "It is on the bill.",
    )  # fmt: skip
    assert resolve(attempt, was_charged=was_charged, author=SOMEBODY) is False
    assert AuditEvent.objects.count() == 1
    assert check().flaws == ()


def test_an_attempt_under_way_is_its_own_process_business() -> None:
    attempt = hold()
    assert resolve(attempt, was_charged=False, author=SOMEBODY) is False
    assert Hold.objects.count() == 1
    assert not AuditEvent.objects.exists()
