"""``manage.py remove_demo``: take every row that is marked as the demo's out of the database."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from governance.demo.folder import DemoFolder
from governance.demo.removal import RemovalBlocked, remove_demo
from governance.demo.running import DemoProblem, alone


class Command(BaseCommand):
    """Remove the demo. Settings stay as they are."""

    help = (
        "Remove every record and row of the demo, its operator and its files of keys. Settings stay as they are. "
        "Stop a running demo first."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the option that skips the question."""
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Ask, remove, and say what went."""
        if not options["yes"] and input("Remove everything of the demo? [y/N] ").strip().lower() not in ("y", "yes"):
            self.stdout.write("Nothing was removed.")
            return
        folder = DemoFolder(Path(settings.DATA_DIR))
        try:
            with alone(folder):
                removed = remove_demo()
                folder.forget_secrets()
        except DemoProblem as problem:
            raise CommandError(str(problem)) from problem
        except RemovalBlocked as blocked:
            raise CommandError(f"{str(blocked)[0].upper()}{str(blocked)[1:]}.") from blocked
        listed = ", ".join(f"{count} {name}" for name, count in removed.items() if count)
        self.stdout.write(f"Removed: {listed}." if listed else "There was nothing of the demo.")
