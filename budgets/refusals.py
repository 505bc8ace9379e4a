"""Calls that a hard budget has refused: noted once in an account, so that people are told once in a window.

Only what lasts is noted: where there is no room beside what is spent and uncertain. What others hold at the moment
mostly comes back, and who was refused for their sake may get through a second later.

A process remembers what it has noted, so of a thousand calls that are refused one asks the database. Of what several
processes note the first counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from budgets.crossings import GRACE
from budgets.ledger import OverBudget
from budgets.models import Account, Crossing

_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that found no room: in which account, by its identity, of which budget, and what was compared.

    ``needed`` is the most that it could have cost, in nano-units as the others are; ``None`` where nobody could say.
    ``ends_at`` is when the account's window ends; ``None`` for all time.
    """

    account: str
    budget: str
    limit: int
    spent: int
    uncertain: int
    needed: int | None
    at: datetime
    ends_at: datetime | None


def lasting_refusal(refused: OverBudget, *, now: datetime) -> Refusal | None:
    """What is to be noted of a claim that did not fit; ``None`` where it would fit once nothing is held any more."""
    claim, balance = refused.claim, refused.balance
    limit, needed = claim.limit, claim.amount
    if limit is None or balance.spent + balance.uncertain + (1 if needed is None else needed) <= limit:
        return None
    return Refusal(
        account=claim.account.identity,
        budget=claim.budget,
        limit=limit,
        spent=balance.spent,
        uncertain=balance.uncertain,
        needed=needed,
        at=now,
        ends_at=claim.account.window.ends,
    )


class Refusals:
    """What one process has noted in the windows of this moment. Any thread may ask; asking reads no database."""

    def __init__(self) -> None:
        self._noted: dict[_Place, datetime | None] = {}
        self._changing = Lock()

    def take(self, refused: Iterable[OverBudget], *, now: datetime) -> list[Refusal]:
        """Those to be noted, for whoever asks first: it has to :meth:`note` them."""
        lasting = [each for one in refused if (each := lasting_refusal(one, now=now)) is not None]
        with self._changing:
            fresh = {(each.account, each.budget): each for each in lasting}
            fresh = {place: each for place, each in fresh.items() if place not in self._noted}
            if fresh:
                self._forget(now)
                self._noted.update({place: each.ends_at for place, each in fresh.items()})
        return list(fresh.values())

    def note(self, taken: Sequence[Refusal]) -> None:
        """Write them down: two statements.

        Raises:
            django.db.Error: nothing was written down; the next call that is refused is taken again.
        """
        try:
            record(taken)
        except BaseException:
            with self._changing:
                for each in taken:
                    self._noted.pop((each.account, each.budget), None)
            raise

    def _forget(self, now: datetime) -> None:
        """Drop what belongs to windows that are over."""
        self._noted = {
            place: ends_at for place, ends_at in self._noted.items() if ends_at is None or ends_at + GRACE > now
        }


def record(refusals: Sequence[Refusal]) -> None:
    """Write refusals down. Of two in the same account for the same budget the first counts."""
    accounts = dict(
        Account.objects.filter(identity__in={each.account for each in refusals}).values_list("identity", "pk")
    )
    rows = [
        Crossing(
            account_id=accounts[each.account],
            budget=each.budget,
            limit=each.limit,
            needed=each.needed,
            spent=each.spent,
            uncertain=each.uncertain,
            at=each.at,
        )
        for each in refusals
    ]
    Crossing.objects.bulk_create(rows, ignore_conflicts=True)
