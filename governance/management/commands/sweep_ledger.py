"""``manage.py sweep_ledger``: what Celery's beat does every minute, once and by hand."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand

from budgets.ledger import sweep


class Command(BaseCommand):
    """Look after reservations of dead processes. Doing it while others do the same does no harm."""

    help = (
        "Hold what dead processes have reserved and not settled as uncertain. It counts against its budgets until "
        "somebody says what it cost: nothing is refunded in silence."
    )

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Sweep until nothing is left and say how much there was."""
        swept = 0
        while found := sweep(now=datetime.now(UTC)):
            swept += found
        self.stdout.write(f"{swept} attempts became uncertain.")
