"""Removes what is old of budgets, by the settings: entries of the ledger, accounts of windows that ended long ago, what
webhooks were told.

What was told goes with the alert that it was about at the latest; alerts go with the account in which they arose.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from budgets.retention import Carried, carry_over, remove_accounts
from governance.alerts import outbox
from governance.settings_store.store import load_settings


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much went: entries that were carried over, accounts, and deliveries of alerts."""

    carried: Carried
    accounts: int
    deliveries: int


def prune(*, now: datetime, entries_kept: timedelta | None = None) -> Pruned:
    """Remove what is old. Doing it while others do the same, or while calls are made, does no harm.

    Args:
        now: this moment.
        entries_kept: how long entries are kept, this once; by the setting if not said.
    """
    kept = load_settings()
    carried = carry_over(before=now - (kept.entries_kept if entries_kept is None else entries_kept))
    deliveries = outbox.remove_old(before=now - kept.deliveries_kept)
    accounts = 0
    for removed in remove_accounts(before=now - kept.accounts_kept):
        accounts += removed.accounts
        deliveries += outbox.remove_of(removed.crossings)
    return Pruned(carried=carried, accounts=accounts, deliveries=deliveries)
