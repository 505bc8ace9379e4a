"""Thresholds that were crossed: once in an account, told with the figures that crossed them, and never taken back.

An account is of one window, so a threshold is crossed again in the next window's account; a limit that is raised
afterwards undoes nothing. What counts is spent and uncertain: a reservation is a bound of which most comes back, and
what comes back must not have switched or alarmed anything for the rest of a month.

Whatever books in accounts asks :meth:`Crossings.news` afterwards; thresholds are compared with what the balance has
reached, so that a crossing which a killed process did not note is noted with the next one, or by :func:`look`.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from threading import Lock

from django.db.models import BigIntegerField, ExpressionWrapper, F, Q, QuerySet

from budgets.models import Account, Crossing
from budgets.scopes import AccountKey, BudgetSpec, Subject, scope_of
from budgets.windows import window_at

SETTLING = 5.0
"""Seconds for which rows are read again: ids are given before they are visible, and not in that order."""

GRACE = timedelta(hours=1)
"""How long after a window's end its crossings are remembered: calls that began in it may still be under way."""


def percent_of(*parts: int, limit: int) -> int:
    """How much of a limit amounts make up, in whole per cent and at most 100. No limit at all is 100, and so is an
    amount below nothing, which no balance can have."""
    if limit <= 0 or min(parts) < 0:
        return 100
    return min(100, sum(parts) * 100 // limit)


@dataclass(frozen=True, slots=True)
class Watch:
    """The thresholds of one budget over one account, and the limit in force."""

    budget: str
    account: AccountKey
    limit: int
    thresholds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spending:
    """What an account stands at, right after something was booked in it."""

    spent: int
    uncertain: int


@dataclass(frozen=True, slots=True)
class Crossed:
    """A threshold that an account has crossed, told by the account's identity, and the figures that were compared.

    ``ends_at`` is when the account's window ends; ``None`` for all time.
    """

    account: str
    budget: str
    threshold: int
    limit: int
    spent: int
    uncertain: int
    at: datetime
    ends_at: datetime | None

    @property
    def percent(self) -> int:
        """How much of the limit was used up at that moment."""
        return percent_of(self.spent, self.uncertain, limit=self.limit)


def watches_of(budgets: Iterable[BudgetSpec], subject: Subject, *, began: datetime, now: datetime) -> tuple[Watch, ...]:
    """What has to be watched of the budgets that count an attempt: of its account, by the call's beginning, with the
    limit of this moment. Empty where none of them has thresholds."""
    return tuple(
        Watch(each.identifier, each.account_of(subject, moment=began), each.limit_at(now), each.thresholds)
        for each in budgets
        if each.thresholds
    )


def crossed_by(watch: Watch, spending: Spending, *, at: datetime) -> tuple[Crossed, ...]:
    """The thresholds that an account has crossed or reached, known or not."""
    percent = percent_of(spending.spent, spending.uncertain, limit=watch.limit)
    return tuple(
        Crossed(
            account=watch.account.identity,
            budget=watch.budget,
            threshold=threshold,
            limit=watch.limit,
            spent=spending.spent,
            uncertain=spending.uncertain,
            at=at,
            ends_at=watch.account.window.ends,
        )
        for threshold in watch.thresholds
        if threshold <= percent
    )


class Crossings:
    """The crossings of the windows of this moment, as one process knows them: what it noted itself at once, what others
    noted with the next :meth:`read`. Any thread may ask; asking reads no database."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Crossed, ...]] = {}
        self._changing = Lock()
        self._read_up_to = 0
        self._newest = 0
        self._settled_at: float | None = None
        self.is_read = False
        """Whether what is recorded was ever read here."""

    def of(self, account: str, budget: str) -> tuple[Crossed, ...]:
        """What a budget has crossed in an account, by its identity, ascending by threshold."""
        return self._known.get((account, budget), ())

    def news(self, watches: Iterable[Watch], spendings: Mapping[str, Spending], *, now: datetime) -> list[Crossed]:
        """What has been crossed and is not known yet. No database is asked.

        Args:
            watches: what is watched.
            spendings: what accounts stand at, by their identities; of others nothing is concluded.
            now: the moment of the crossings.
        """
        return [
            crossed
            for watch in watches
            if (spending := spendings.get(watch.account.identity)) is not None
            for crossed in crossed_by(watch, spending, at=now)
            if not self._knows(crossed)
        ]

    def note(self, news: Sequence[Crossed]) -> None:
        """Record crossings, and know them: two statements, where there are any.

        Raises:
            django.db.Error: nothing was recorded; whoever looks next finds it again.
        """
        if news:
            record(news)
            self._learn(news)

    def read(self, *, now: datetime) -> None:
        """Learn what is recorded: one query over what is new.

        A row becomes visible later than rows with higher ids where its transaction took longer, so whatever is new is
        read for :data:`SETTLING` seconds.
        """
        rows = _thresholds(_of_current_windows("account__", now), pk__gt=self._read_up_to).order_by("pk")
        found = list(rows.values_list("pk", *_COLUMNS))
        self._learn(Crossed(*values) for _, *values in found)
        self._settle(found[-1][0] if found else self._read_up_to)
        self._forget(now)
        self.is_read = True

    def _knows(self, crossed: Crossed) -> bool:
        known = self.of(crossed.account, crossed.budget)
        return any(each.threshold == crossed.threshold for each in known)

    def _learn(self, crossed: Iterable[Crossed]) -> None:
        """Add them; what is recorded goes before what this process thought, since only the first one is recorded."""
        with self._changing:
            for each in crossed:
                place = (each.account, each.budget)
                others = [known for known in self._known.get(place, ()) if known.threshold != each.threshold]
                self._known[place] = tuple(sorted((*others, each), key=lambda known: known.threshold))

    def _settle(self, newest: int) -> None:
        """Read rows no more that have been seen for long enough."""
        moment = time.monotonic()
        if self._settled_at is None or moment - self._settled_at >= SETTLING:
            self._read_up_to, self._newest, self._settled_at = self._newest, newest, moment

    def _forget(self, now: datetime) -> None:
        """Drop what belongs to windows that are over."""
        with self._changing:
            over = [
                place for place, (first, *_) in self._known.items() if first.ends_at and first.ends_at + GRACE <= now
            ]
            for place in over:
                del self._known[place]


_COLUMNS = ("account__identity", "budget", "threshold", "limit", "spent", "uncertain", "at", "account__ends_at")


def crossed_in(accounts: Iterable[int]) -> dict[tuple[int, str], tuple[Crossed, ...]]:
    """What was crossed in accounts, ascending by threshold, by their ids and the budgets' identifiers: one query."""
    found: dict[tuple[int, str], tuple[Crossed, ...]] = {}
    rows = _thresholds(account__in=accounts).order_by("threshold")
    for account, *values in rows.values_list("account_id", *_COLUMNS):
        crossed = Crossed(*values)
        found[account, crossed.budget] = (*found.get((account, crossed.budget), ()), crossed)
    return found


def record(crossed: Sequence[Crossed]) -> None:
    """Write crossings down. Of two that note the same one the first counts."""
    identities = {each.account for each in crossed}
    accounts = dict(Account.objects.filter(identity__in=identities).values_list("identity", "pk"))
    rows = [
        Crossing(
            account_id=accounts[each.account],
            budget=each.budget,
            threshold=each.threshold,
            limit=each.limit,
            spent=each.spent,
            uncertain=each.uncertain,
            at=each.at,
        )
        for each in crossed
    ]
    Crossing.objects.bulk_create(rows, ignore_conflicts=True)


def look(budgets: Iterable[BudgetSpec], crossings: Crossings, *, now: datetime) -> list[Crossed]:
    """Note what accounts have crossed without anybody having noted it: after an edit of a budget, or of a process that
    was killed. One query, and none where no budget has thresholds."""
    watched = {each: window_at(each.window, zone=each.zone, moment=now) for each in budgets if each.thresholds}
    if not watched:
        return []
    least: dict[tuple[str, str], int] = {}  # what has to be used up for anything to be crossed
    for budget, window in watched.items():
        place, needed = (window.identity, budget.currency), -(-budget.limit_at(now) * budget.thresholds[0] // 100)
        least[place] = min(needed, least.get(place, needed))
    reached = [Q(window=name, currency=currency, used__gte=used) for (name, currency), used in least.items()]
    # Django takes the sum of two columns for a short integer: beyond 2^31 it would ask the database nothing.
    used_up = ExpressionWrapper(F("spent") + F("uncertain"), output_field=BigIntegerField())
    rows = Account.objects.annotate(used=used_up).filter(reduce(or_, reached))
    watches: list[Watch] = []
    spendings: dict[str, Spending] = {}
    for row in rows:
        scope = scope_of(row.scope)
        spendings[row.identity] = Spending(row.spent, row.uncertain)
        watches += [
            Watch(budget.identifier, AccountKey(scope, row.currency, window), budget.limit_at(now), budget.thresholds)
            for budget, window in watched.items()
            if (window.identity, budget.currency) == (row.window, row.currency) and budget.scope.covers(scope)
        ]
    found = crossings.news(watches, spendings, now=now)
    crossings.note(found)
    return found


def _thresholds(*conditions: Q, **values: object) -> QuerySet[Crossing]:
    """Crossings of thresholds: what was refused is in the same table, and is ``refusals``' business."""
    return Crossing.objects.filter(*conditions, threshold__isnull=False, **values)


def _of_current_windows(prefix: str, now: datetime) -> Q:
    return Q(**{f"{prefix}ends_at": None}) | Q(**{f"{prefix}ends_at__gt": now - GRACE})
