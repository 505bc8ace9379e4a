"""``manage.py simulator``: run the provider simulator in this process. No database, no checks."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from governance.demo.arguments import port_or_any
from governance.demo.simulator import BehaviourError, build_application, load_behaviours
from governance.demo.simulator.server import is_loopback, prepare


class Command(BaseCommand):
    """Serve simulated OpenAI-compatible providers, on loopback unless it is told to expose them."""

    help = "Run a simulator of OpenAI-compatible providers (no real model answers)."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
        parser.add_argument(
            "--port", type=port_or_any, default=8900, help="port, 0 for any free one (default: %(default)s)"
        )
        parser.add_argument("--behaviours", type=Path, metavar="FILE", help="JSON file of behaviours")
        parser.add_argument("--key", help="key that callers have to send as a bearer token")
        parser.add_argument("--seed", type=int, default=0, help="start of the random sequences")
        parser.add_argument("--record-bodies", action="store_true", help="keep the last 100 request bodies for reading")
        parser.add_argument("--expose", action="store_true", help="allow an address that other machines can reach")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Serve until interrupted."""
        host: str = options["host"]
        if not is_loopback(host) and not options["expose"]:
            raise CommandError(f"{host} is not a loopback address; add --expose to listen there all the same.")
        try:
            application = build_application(
                behaviours=None if options["behaviours"] is None else load_behaviours(options["behaviours"]),
                seed=options["seed"],
                key=options["key"],
                record_bodies=options["record_bodies"],
            )
            station = prepare(application, host=host, port=options["port"])
        except BehaviourError as error:
            raise CommandError(f"Behaviours: {error}") from error
        except OSError as error:
            raise CommandError(f"Cannot listen at {host}:{options['port']}: {error}") from error
        self.stdout.write(f"Simulated providers at {station.url}/<provider>/v1 (no real model answers).")
        self.stdout.flush()
        station.run()
