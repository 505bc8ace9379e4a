"""How budgets stand: the accounts of the window that a moment is in, what is left, and when it will be used up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import connections, router
from django.db.models import F, Q, Value
from django.db.models.query import RawQuerySet

from budgets.crossings import Crossed, crossed_in, percent_of
from budgets.models import Account
from budgets.scopes import EACH, AccountKey, BudgetSpec, Scope, scope_of
from budgets.windows import Window, window_at

MOST_SHOWN = 200
"""Accounts of one budget that counts each on its own: those that spent most."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One budget in one account, in nano-units. ``pk`` is ``None`` of an account in which nothing was ever reserved.

    ``counts_from`` is when counting began: an account that was opened within its window knows nothing of before.
    ``reached_at`` is when the limit is reached if spending goes on as it has so far; ``None`` if not in this window.
    ``crossed`` are the budget's thresholds that were crossed in the account, ascending.
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
    crossed: tuple[Crossed, ...] = ()

    @property
    def left(self) -> int:
        """What is left of the limit; less than nothing where it was overrun."""
        return self.limit - self.spent - self.reserved - self.uncertain

    def percent(self, part: int) -> int:
        """A part of the limit in whole per cent, at most 100."""
        return percent_of(part, limit=self.limit)


Standings = tuple[Standing, ...]
_Wanted = tuple[BudgetSpec, Window]
_COMMITTED = F("spent") + F("reserved") + F("uncertain")


def standings(budgets: Iterable[BudgetSpec], *, now: datetime, most: int = MOST_SHOWN) -> Mapping[str, Standings]:
    """How budgets stand in the window of this moment, by identifier: two queries at the most, and a third where any has
    thresholds, however many accounts there are.

    A budget that counts each on its own has as many as have spent something, those first that spent most, and of
    those no more than ``most``.
    """
    wanted = [(each, window_at(each.window, zone=each.zone, moment=now)) for each in budgets]
    ones = _single_accounts([each for each in wanted if not each[0].scope.is_each])
    many = _fullest_accounts([each for each in wanted if each[0].scope.is_each], most=most)
    found: dict[str, Standings] = {}
    for budget, window in wanted:
        rows = many.get(budget.identifier, []) if budget.scope.is_each else ones.get(_identity(budget, window), [])
        told = tuple(_standing(budget, window, row, now=now) for row in rows)
        found[budget.identifier] = told if told or budget.scope.is_each else (_untouched(budget, window, now=now),)
    return _with_crossings(found) if any(budget.thresholds for budget, _ in wanted) else found


def _with_crossings(found: Mapping[str, Standings]) -> dict[str, Standings]:
    accounts = {each.pk for standings in found.values() for each in standings if each.pk is not None}
    crossed = crossed_in(accounts)
    return {
        name: tuple(
            each if each.pk is None else replace(each, crossed=crossed.get((each.pk, name), ())) for each in told
        )
        for name, told in found.items()
    }


def _identity(budget: BudgetSpec, window: Window) -> str:
    return AccountKey(budget.scope, budget.currency, window).identity


def _single_accounts(wanted: Sequence[_Wanted]) -> dict[str, list[Account]]:
    """The accounts of budgets that have one, by identity."""
    identities = {_identity(budget, window) for budget, window in wanted}
    rows = Account.objects.filter(identity__in=identities) if identities else ()
    return {row.identity: [row] for row in rows}


def _fullest_accounts(wanted: Sequence[_Wanted], *, most: int) -> dict[str, list[Account]]:
    """The accounts of budgets that count each on its own, the fullest first, by the budget's identifier.

    The database chooses, by one statement for all of them: as many rows are read as are shown.
    """
    if not wanted:
        return {}
    connection = connections[router.db_for_read(Account)]
    parts: list[str] = []
    values: list[Any] = []
    for index, (budget, window) in enumerate(wanted):
        rows = Account.objects.filter(_counts_for(budget.scope), window=window.identity, currency=budget.currency)
        rows = rows.annotate(place=Value(index)).order_by(_COMMITTED.desc(), "pk")[:most]
        text, parameters = rows.query.get_compiler(connection=connection).as_sql()
        parts.append(f"SELECT * FROM ({text}) part_{index}")  # noqa: S608
        values.extend(parameters)
    found: dict[str, list[Account]] = {}
    chosen: RawQuerySet[Any] = Account.objects.raw(" UNION ALL ".join(parts), values)
    for row in chosen:
        found.setdefault(wanted[row.place][0].identifier, []).append(row)
    return {name: sorted(accounts, key=lambda each: (-each.committed, each.pk)) for name, accounts in found.items()}


def _counts_for(wanted: Scope) -> Q:
    """The accounts whose scope is one of the many that the ``*`` of a budget's stand for."""
    condition = Q()
    for name, meant in wanted.parts(everything=True):
        if meant is None or meant == EACH:
            condition &= Q(**{f"scope__{name}__isnull": meant is None})
        else:
            condition &= Q(**{f"scope__{name}": meant})
    return condition


def _standing(budget: BudgetSpec, window: Window, row: Account, *, now: datetime) -> Standing:
    limit = budget.limit_at(now)
    used = row.spent + row.uncertain
    return Standing(
        pk=row.pk,
        scope=scope_of(row.scope),
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
