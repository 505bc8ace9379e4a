"""``manage.py check_ledger``: add the ledger up, hold it beside the reports, and say whether it is right."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from budgets.proof import check, one_moment
from governance.reconciliation import reconcile


class Command(BaseCommand):
    """Add everything up. Exit code 1 and everything that is wrong, or how much was read."""

    help = (
        "Prove the ledger of budgets: every balance is the sum of its entries, what attempts hold is what is reserved, "
        "and no reservation was admitted beyond its limit. Then compare what each account has settled with the reports "
        "of usage, filtered by its scope and window."
    )

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Check, and say what was found."""
        with one_moment():
            verdict, compared = check(), reconcile(now=datetime.now(UTC))
        carried = f", {verdict.carried} carried over" if verdict.carried else ""
        read = f"{verdict.accounts} accounts, {verdict.entries} entries{carried}"
        if verdict.flaws:
            flaws = "\n".join(f"  account {flaw.account}: {flaw.what}" for flaw in verdict.flaws)
            raise CommandError(f"The ledger does not add up ({read}):\n{flaws}")
        self.stdout.write(f"The ledger adds up: {read}.")
        explained = [each for each in compared.differences if each.is_explained]
        told = f"{compared.agreeing} accounts settled what is reported"
        untold = f", of {compared.untold} usage cannot tell" if compared.untold else ""
        self.stdout.write(f"{told}{untold}." if not explained else f"{told}{untold}; otherwise, with a reason:")
        for each in explained:
            self.stdout.write(f"  {each}")
        if len(explained) < len(compared.differences):
            others = "\n".join(f"  {each}" for each in compared.differences if not each.is_explained)
            raise CommandError(f"The reports say something else:\n{others}")
