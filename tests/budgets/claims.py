"""Claims and moments for tests of the ledger."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from budgets.crossings import Crossed, Crossings, Spending, Watch
from budgets.ledger import Claim, reserve
from budgets.models import Account
from budgets.scopes import AccountKey, Scope
from budgets.windows import WindowKind, window_at

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)
ONE = 1_000_000_000


def key_of(
    scope: Scope | None = None, *, currency: str = "USD", window: WindowKind = WindowKind.MONTH, moment: datetime = NOW
) -> AccountKey:
    scope = Scope(application="helpdesk") if scope is None else scope
    return AccountKey(scope=scope, currency=currency, window=window_at(window, zone="Europe/Berlin", moment=moment))


def claim(
    account: AccountKey | None = None, *, amount: int | None = ONE, limit: int | None = 10 * ONE, budget: str = "team"
) -> Claim:
    return Claim(budget=budget, account=account or key_of(), amount=amount, limit=limit)


def hold(*claims: Claim, attempt: UUID | None = None, call: UUID | None = None, now: datetime = NOW) -> UUID:
    """Reserve; gives the attempt."""
    attempt = attempt or uuid4()
    expires_at = now + timedelta(minutes=10)
    reserve(attempt=attempt, call=call or uuid4(), claims=claims or [claim()], now=now, expires_at=expires_at)
    return attempt


def balance(account: AccountKey | None = None) -> tuple[int, int, int, int]:
    """Spent, reserved, uncertain, unmeasured; nothing at all of an account that was never opened."""
    row = Account.objects.filter(identity=(account or key_of()).identity).first()
    return (0, 0, 0, 0) if row is None else (row.spent, row.reserved, row.uncertain, row.unmeasured)


def cross(
    known: Crossings, watches: Iterable[Watch], spendings: Mapping[str, Spending], *, now: datetime
) -> list[Crossed]:
    """Note what has been crossed; gives what was new."""
    news = known.news(watches, spendings, now=now)
    known.note(news)
    return news
