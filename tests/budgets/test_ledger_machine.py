"""Whatever is done in whatever order, twice or too late: the ledger holds what a few lines of arithmetic say."""

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from budgets.ledger import Claim, OverBudget, release, reserve, settle, sweep
from budgets.proof import check
from budgets.scopes import AccountKey, Scope
from budgets.windows import WindowKind, window_at
from routing.core.money import Money
from tests.budgets.claims import NOW, balance

amounts = st.integers(min_value=0, max_value=6)


@dataclass
class Expected:
    """An attempt as the arithmetic knows it."""

    amount: int
    accounts: frozenset[int]
    state: str = "held"
    cost: int = 0
    expires: int = 0


@dataclass
class Book:
    attempts: dict[UUID, Expected] = field(default_factory=dict)

    def committed(self, account: int) -> int:
        return sum(self.parts(account))

    def parts(self, account: int) -> tuple[int, int, int]:
        here = [each for each in self.attempts.values() if account in each.accounts]
        return (
            sum(each.cost for each in here if each.state == "settled"),
            sum(each.amount for each in here if each.state == "held"),
            sum(each.amount for each in here if each.state == "uncertain"),
        )


class LedgerMachine(RuleBasedStateMachine):
    attempts = Bundle("attempts")

    @initialize()
    def begin(self) -> None:
        self.book, self.minute = Book(), 0
        example = uuid4().hex  # accounts of this example's own: nothing has to be removed after it
        month = window_at(WindowKind.MONTH, zone="UTC", moment=NOW)
        self.keys = [AccountKey(Scope(user=f"{example}-{number}"), "USD", month) for number in range(3)]

    @rule(
        target=attempts,
        amount=amounts,
        accounts=st.frozensets(st.integers(0, 2), min_size=1),
        limits=st.lists(st.one_of(st.none(), st.integers(0, 15)), min_size=3, max_size=3),
    )
    def hold(self, amount: int, accounts: frozenset[int], limits: list[int | None]) -> object:
        attempt = uuid4()
        fits = all(
            amount == 0 or limits[each] is None or self.book.committed(each) + amount <= (limits[each] or 0)
            for each in accounts
        )
        claims = [Claim(f"budget-{each}", self.keys[each], amount, limits[each]) for each in accounts]
        try:
            self.reserve(attempt, claims)
        except OverBudget:
            assert not fits
            return multiple()
        assert fits
        self.book.attempts[attempt] = Expected(amount, accounts, expires=self.minute + 10)
        return attempt

    @rule(attempt=attempts)
    def hold_again(self, attempt: UUID) -> None:
        known = self.book.attempts[attempt]
        self.reserve(attempt, [Claim("again", self.keys[each], known.amount, None) for each in known.accounts])

    @rule(attempt=attempts, cost=st.integers(0, 9))
    def settle(self, attempt: UUID, cost: int) -> None:
        known = self.book.attempts[attempt]
        is_open = known.state in {"held", "uncertain"}
        assert settle(attempt=attempt, cost=Money(cost, "USD"), now=NOW) is is_open
        if is_open:
            known.state, known.cost = "settled", cost

    @rule(attempt=attempts)
    def release(self, attempt: UUID) -> None:
        known = self.book.attempts[attempt]
        is_open = known.state in {"held", "uncertain"}
        assert release(attempt=attempt, now=NOW) is is_open
        if is_open:
            known.state = "released"

    @rule(attempt=attempts)
    def lose(self, attempt: UUID) -> None:
        known = self.book.attempts[attempt]
        assert settle(attempt=attempt, cost=None, now=NOW) is (known.state == "held")
        if known.state == "held":
            known.state = "uncertain"

    @rule(minutes=st.integers(1, 8))
    def sweep(self, minutes: int) -> None:
        self.minute += minutes
        sweep(now=NOW + timedelta(minutes=self.minute))
        for known in self.book.attempts.values():
            if known.state == "held" and known.expires < self.minute:
                known.state = "uncertain"

    @invariant()
    def it_is_what_the_arithmetic_says(self) -> None:
        for number, key in enumerate(self.keys):
            assert balance(key)[:3] == self.book.parts(number)

    def reserve(self, attempt: UUID, claims: list[Claim]) -> None:
        expires_at = NOW + timedelta(minutes=self.minute + 10)
        reserve(attempt=attempt, call=attempt, claims=claims, now=NOW, expires_at=expires_at)


@pytest.mark.django_db
def test_the_ledger_is_what_the_arithmetic_says() -> None:
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    assert check().flaws == ()
