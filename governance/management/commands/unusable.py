"""``manage.py unusable``: routes in service that nothing can select. Most often somebody mistyped something."""

from typing import Any

from django.core.management.base import BaseCommand

from governance.route_health import read_routes, unusable_among


class Command(BaseCommand):
    """List routes that nothing can select, each with the reason."""

    help = "List the routes in service that nothing can select, each with the reason."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Say which."""
        unusable = unusable_among(read_routes())
        for each in unusable:
            self.stdout.write(f"{each.model.route}: {each.unusable}")
        if not unusable:
            self.stdout.write("Every route in service can be selected.")
