"""``manage.py send_alerts``: sends the alerts that are due, or a test to one webhook."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from governance.gateway import home
from governance.models import Webhook
from governance.telling import send_alerts, try_webhook


class Command(BaseCommand):
    """Send once, and say what became of it. Servers do so by themselves."""

    help = "Send the alerts that are due to their webhooks, as every server does by itself every five seconds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the option that tries a webhook instead."""
        parser.add_argument("--test", metavar="WEBHOOK", help="send a test to this webhook, and nothing else")

    def handle(self, *_args: Any, **options: Any) -> None:
        """One line."""
        try:
            self._test(options["test"]) if options["test"] else self._send()
        finally:
            home.close()

    def _send(self) -> None:
        self.stdout.write(f"Alerts that have arrived: {send_alerts()}.")

    def _test(self, identifier: str) -> None:
        webhook = Webhook.objects.filter(identifier=identifier, retired_at=None).first()
        if webhook is None:
            raise CommandError(f"There is no webhook {identifier}, or it is retired.")
        problem = try_webhook(webhook).problem
        if problem:
            raise CommandError(f"The test did not arrive: {problem}.")
        self.stdout.write(f"The test has arrived at {identifier}.")
