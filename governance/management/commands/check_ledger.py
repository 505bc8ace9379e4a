"""``manage.py check_ledger``: add the ledger up and say whether it is right."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from budgets.proof import check


class Command(BaseCommand):
    """Add everything up. Exit code 1 and every difference, or how much was read."""

    help = (
        "Prove the ledger of budgets: every balance is the sum of its entries, what attempts hold is what is reserved, "
        "and no reservation was admitted beyond its limit."
    )

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Check, and say what was found."""
        verdict = check()
        read = f"{verdict.accounts} accounts, {verdict.entries} entries"
        if verdict.flaws:
            flaws = "\n".join(f"  account {flaw.account}: {flaw.what}" for flaw in verdict.flaws)
            raise CommandError(f"The ledger does not add up ({read}):\n{flaws}")
        self.stdout.write(f"The ledger adds up: {read}.")
