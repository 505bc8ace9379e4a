"""``manage.py sweep_submissions``: what Celery's beat does every few seconds, once and by hand."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand

from governance.submissions.sweeping import remove_old, sweep
from governance.tasks import send


class Command(BaseCommand):
    """Look after submitted calls. Doing it while others do the same does no harm."""

    help = (
        "Send submitted calls again whose message or worker was lost, end those that cannot go on, and remove content "
        "whose time is over."
    )

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Sweep once and say what was found."""
        now = datetime.now(UTC)
        found = sweep(now=now)
        sent = send(found.deliveries)
        removed = remove_old(now=now)
        self.stdout.write(
            f"{sent} of {len(found.deliveries)} calls sent to the workers; {found.uncertain} ended uncertain, "
            f"{found.abandoned} abandoned, {found.expired} expired; content of {removed.contents} calls removed, and "
            f"{removed.submissions} rows."
        )
        if sent < len(found.deliveries):
            self.stderr.write("The broker is away: the others wait for the next sweep. Is REDIS_URL right?")
