"""``manage.py prune_ledger``: what Celery's beat does every few hours, once and by hand."""

from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from governance.pruning import prune
from governance.settings_store.registry import ENTRY_DAYS


class Command(BaseCommand):
    """Carry old entries over and remove what is older. Doing it while others do the same, or while calls are made, does
    no harm."""

    help = (
        "Remove entries of the ledger whose window ended longer ago than the setting budgets.entryDays says, and those "
        "of all time that are as old. Their sums are carried over, so that check_ledger proves every balance as "
        "before. An account that something is held in since then is left as it is. Then accounts are removed whose "
        "window ended longer ago than budgets.accountDays says, with their alerts, and what webhooks were told longer "
        "ago than budgets.deliveryDays says."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """How many days instead of the setting's."""
        parser.add_argument("--days", type=int, help="Keep entries for so many days, this once.")

    def handle(self, *_args: Any, days: int | None, **_options: Any) -> None:
        """Carry over, and say how much."""
        if days is not None and (wrong := ENTRY_DAYS.accepts(days)):
            raise CommandError(f"--days: {wrong}")
        pruned = prune(now=datetime.now(UTC), entries_kept=None if days is None else timedelta(days=days))
        self.stdout.write(
            f"{pruned.carried.entries} entries of {pruned.carried.accounts} accounts carried over; "
            f"{pruned.accounts} accounts and {pruned.deliveries} deliveries of alerts removed."
        )
