"""The ledger of budgets beside the reports: for each account, usage filtered by its scope and window is what it has
settled.

Both are told by the same call, but apart: the ledger before and after each request, usage once the call has ended. What
lies between is a difference that has a reason; one that has none is a fault of one of the two.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from budgets.proof import Booked, booked
from budgets.scopes import BudgetSpec, Scope
from budgets.windows import window_at
from governance.access.budgets import spec_of
from governance.models import Budget
from routing.core.money import format_nanos
from telemetry.readouts.charges import read_charges

UNDER_WAY = timedelta(hours=1)
"""How long a call may be under way after one of its requests was settled; then usage has it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An account that settled something else than is reported; amounts in nano-units.

    ``reason`` is the likely one. ``is_explained`` if the figures are within what the reason allows for.
    """

    account: int
    scope: Scope
    currency: str
    window: str
    settled: int
    reported: int
    reason: str
    is_explained: bool

    def __str__(self) -> str:
        settled, reported = format_nanos(self.settled), format_nanos(self.reported)
        named = f"account {self.account} ({self.scope}; {self.window})"
        return f"{named}: settled {settled} {self.currency}, reported {reported}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What was compared. ``untold`` are accounts whose windows usage cannot tell of any more, or never could."""

    agreeing: int
    untold: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class _Counting:
    """A budget, whether it is in force, and since when it is what it is."""

    spec: BudgetSpec
    is_in_force: bool
    changed_at: datetime


def reconcile(*, now: datetime) -> Reconciliation:
    """Compare every account with the reports.

    One query of the ledger, and one for each window, currency and kind of scope, however many accounts there are; where
    usage has more than was settled, one besides for each hour in which such accounts were opened.
    """
    budgets = [
        _Counting(spec_of(row), row.is_active and row.retired_at is None, row.updated_at)
        for row in Budget.objects.order_by("identifier")
    ]
    reports = _Reports(now)
    agreeing = untold = 0
    differences: list[Difference] = []
    for account in booked(since=now - UNDER_WAY):
        reported = reports.of(account)
        if reported is None:
            untold += 1
        elif reported == account.spent:
            agreeing += 1
        else:
            differences.append(_difference(account, reported, reports, budgets))
    return Reconciliation(agreeing=agreeing, untold=untold, differences=tuple(differences))


class _Reports:
    """Sums of usage by window, currency and kind of scope; those of one window at a time are remembered."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._window = ("", "")
        self._sums: dict[tuple[tuple[str, ...], datetime | None], Mapping[tuple[str, ...], int] | None] = {}

    def of(self, account: Booked) -> int | None:
        """What usage says of an account's scope and window; ``None`` if it cannot tell."""
        return self._read(account, account.starts_at)

    def since_opened(self, account: Booked) -> int | None:
        """The same of the time since counting had begun for certain; ``None`` if it cannot tell."""
        whole_days = account.starts_at is None
        return self._read(account, _after(account.opened_at, timedelta(days=1) if whole_days else timedelta(hours=1)))

    def _read(self, account: Booked, starts: datetime | None) -> int | None:
        if self._window != (account.window, account.currency):
            self._window = (account.window, account.currency)
            self._sums.clear()
        named = account.scope.document
        key = (tuple(named), starts)
        if key not in self._sums:
            self._sums[key] = read_charges(
                by=tuple(named), currency=account.currency, starts=starts, ends=account.ends_at, now=self._now
            )
        sums = self._sums[key]
        return None if sums is None else sums.get(tuple(named.values()), 0)


def _after(moment: datetime, step: timedelta) -> datetime:
    """The first full hour, or day of UTC, after a moment."""
    midnight = datetime.combine(moment.astimezone(UTC).date(), time(), UTC)
    return midnight + step * ((moment - midnight) // step + 1)


def _difference(account: Booked, reported: int, reports: _Reports, budgets: Iterable[_Counting]) -> Difference:
    reason, is_explained = _reason(account, reported, reports, budgets)
    return Difference(
        account=account.account,
        scope=account.scope,
        currency=account.currency,
        window=account.window,
        settled=account.spent,
        reported=reported,
        reason=reason,
        is_explained=is_explained,
    )


def _reason(account: Booked, reported: int, reports: _Reports, budgets: Iterable[_Counting]) -> tuple[str, bool]:
    """The likely reason of a difference, and whether it accounts for all of it.

    Usage may lack what was settled when the call was over or is not over yet; it may have besides what is still held.
    """
    least, most = account.spent - account.late - account.fresh, account.spent + account.held
    if reported < least:
        return "calls are missing in usage: a process ended before it wrote them down", False
    if reported < account.spent:
        words = {
            f"{format_nanos(account.late)} was uncertain before, and booked after its call had ended": account.late,
            f"{format_nanos(account.fresh)} is of the last hour, of calls that may be under way": account.fresh,
        }
        return "; ".join(told for told, amount in words.items() if amount), True
    if reported <= most:
        return f"{format_nanos(account.held)} is held, reserved or uncertain", True
    began_within = account.starts_at is None or account.opened_at > account.starts_at
    if began_within and (since := reports.since_opened(account)) is not None and since <= most:
        return f"counting began within the window, at {account.opened_at:%Y-%m-%d %H:%M} UTC", True
    return _not_counted(account, budgets)


def _not_counted(account: Booked, budgets: Iterable[_Counting]) -> tuple[str, bool]:
    """Why an account has less than was used: nobody counted for a while."""
    counting = [each for each in budgets if _counts(each.spec, account)]
    if not any(each.is_in_force for each in counting):
        return "no budget counts there any more", True
    changed = max((each.changed_at for each in counting if each.changed_at > account.opened_at), default=None)
    if changed is not None:
        return f"a budget was changed at {changed:%Y-%m-%d %H:%M} UTC, and may not have counted before", True
    return "calls were not booked: the ledger could not be reached under a soft budget, or has lost them", False


def _counts(budget: BudgetSpec, account: Booked) -> bool:
    window = window_at(budget.window, zone=budget.zone, moment=account.starts_at or account.opened_at)
    is_same = (window.identity, budget.currency) == (account.window, account.currency)
    return is_same and budget.scope.covers(account.scope)
