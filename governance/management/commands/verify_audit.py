"""``manage.py verify_audit``: read the audit trail and say whether it is whole."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from governance.audit.trail import verify


class Command(BaseCommand):
    """Verify the trail. Exit code 1 and every flaw, or the number of entries and the last one's digest."""

    help = "Read the whole audit trail and name every entry that was changed, removed or added by somebody else."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Verify, and say what was found."""
        verdict = verify()
        if verdict.flaws:
            flaws = "\n".join(f"  {flaw.what}" for flaw in verdict.flaws)
            raise CommandError(f"The audit trail is not whole ({verdict.entries} entries):\n{flaws}")
        self.stdout.write(f"The audit trail is whole: {verdict.entries} entries.")
        if verdict.digest:
            self.stdout.write(f"Digest of the last one: {verdict.digest}")
