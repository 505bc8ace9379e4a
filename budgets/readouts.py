"""How budgets stand: the accounts of the window that a moment is in, what is left, and when it will be used up."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from budgets.crossings import percent_of
from budgets.models import Account
from budgets.scopes import EACH, BudgetSpec, Scope, scope_of
from budgets.windows import Window, window_at

MOST_SHOWN = 200
"""Accounts of one budget that counts each on its own: those that spent most."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One budget in one account, in nano-units. ``pk`` is ``None`` of an account in which nothing was ever reserved.

    ``counts_from`` is when counting began: an account that was opened within its window knows nothing of before.
    ``reached_at`` is when the limit is reached if spending goes on as it has so far; ``None`` if not in this window.
    """

    pk: int | None
    scope: Scope
    currency: str
    window: Window
    limit: int
    spent: int
    reserved: int
    uncertain: int
    unmeasured: int
    counts_from: datetime | None
    reached_at: datetime | None

    @property
    def left(self) -> int:
        """What is left of the limit; less than nothing where it was overrun."""
        return self.limit - self.spent - self.reserved - self.uncertain

    def percent(self, part: int) -> int:
        """A part of the limit in whole per cent, at most 100."""
        return percent_of(part, limit=self.limit)


def standings(budgets: Iterable[BudgetSpec], *, now: datetime) -> Mapping[str, tuple[Standing, ...]]:
    """How budgets stand in the window of this moment, by identifier: one query.

    A budget that counts each on its own has as many as have spent something, those first that spent most.
    """
    wanted = {each: window_at(each.window, zone=each.zone, moment=now) for each in budgets}
    rows = Account.objects.filter(
        window__in={window.identity for window in wanted.values()}, currency__in={each.currency for each in wanted}
    )
    accounts = [(row, scope_of(row.scope)) for row in rows]
    return {budget.identifier: _of(budget, window, accounts, now=now)[:MOST_SHOWN] for budget, window in wanted.items()}


def _of(
    budget: BudgetSpec, window: Window, accounts: list[tuple[Account, Scope]], *, now: datetime
) -> tuple[Standing, ...]:
    mine = [
        _standing(budget, window, row, scope, now=now)
        for row, scope in accounts
        if row.window == window.identity and row.currency == budget.currency and budget.scope.covers(scope)
    ]
    is_one = EACH not in budget.scope.document.values()
    if is_one and not mine:
        return (_untouched(budget, window, now=now),)
    return tuple(sorted(mine, key=lambda each: each.left))


def _standing(budget: BudgetSpec, window: Window, row: Account, scope: Scope, *, now: datetime) -> Standing:
    limit = budget.limit_at(now)
    used = row.spent + row.uncertain
    return Standing(
        pk=row.pk,
        scope=scope,
        currency=row.currency,
        window=window,
        limit=limit,
        spent=row.spent,
        reserved=row.reserved,
        uncertain=row.uncertain,
        unmeasured=row.unmeasured,
        counts_from=row.opened_at,
        reached_at=reached_at(used=used, limit=limit, since=row.opened_at, window=window, now=now),
    )


def _untouched(budget: BudgetSpec, window: Window, *, now: datetime) -> Standing:
    return Standing(
        pk=None,
        scope=budget.scope,
        currency=budget.currency,
        window=window,
        limit=budget.limit_at(now),
        spent=0,
        reserved=0,
        uncertain=0,
        unmeasured=0,
        counts_from=None,
        reached_at=None,
    )


def reached_at(*, used: int, limit: int, since: datetime, window: Window, now: datetime) -> datetime | None:
    """When a limit is reached if spending goes on as it has since counting began; ``None`` if not in this window.

    A limit that is reached already is reached now. Of less than an hour nothing is concluded.
    """
    if used >= limit:
        return now
    began = since if window.starts is None else max(since, window.starts)
    elapsed = (now - began).total_seconds()
    if used <= 0 or elapsed < 3600:
        return None
    seconds = (limit - used) * elapsed / used
    last = now + timedelta(days=3650) if window.ends is None else window.ends
    return now + timedelta(seconds=seconds) if seconds < (last - now).total_seconds() else None
