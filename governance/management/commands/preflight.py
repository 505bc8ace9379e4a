"""``manage.py preflight``: asks every provider what it lists, free of charge; exit status 1 if a route is denied."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from governance.audit.actions import Author, Channel
from governance.gateway import home
from governance.route_health import Access, preflight

AUTHOR = Author("manage.py preflight", Channel.COMMAND)


class Command(BaseCommand):
    """Ask, and say what each route's provider answered."""

    help = (
        "Ask every provider, free of charge, whether it accepts our key and lists our models. A route that is denied "
        "rests for five minutes; one that could not be checked is left as it is."
    )

    def handle(self, *_args: Any, **_options: Any) -> None:
        """One line a route."""
        found = preflight(author=AUTHOR)
        home.close()
        for each in found:
            self.stdout.write(f"{each.model.route}: {each.access.value}: {each.why}")
        if any(each.access is Access.DENIED for each in found):
            sys.exit(1)
