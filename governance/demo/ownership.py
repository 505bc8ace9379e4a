"""Whose database is it? The demo sets policy in, and empties, only a database that was empty when it first came.

Anywhere else it is a guest: its rows are marked, nothing else is touched, and starting over removes those rows alone.
"""

from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection

from governance.demo.folder import DemoFolder, write_private
from governance.demo.removal import remove_demo
from governance.models import Application
from routing.models import Provider
from telemetry.models import Call


def claim(folder: DemoFolder) -> bool:
    """Whether the database is the demo's own; one that is empty becomes so. Call it once all migrations are applied."""
    if is_own(folder):
        return True
    if any(kind._default_manager.exists() for kind in (User, Application, Provider, Call)):
        return False
    write_private(folder.own_database, _name() + "\n")
    return True


def is_own(folder: DemoFolder) -> bool:
    """Whether the database was claimed before."""
    mark = folder.own_database
    return mark.exists() and mark.read_text(encoding="utf-8").strip() == _name()


def start_over(folder: DemoFolder) -> None:
    """Forget everything: an own database as a whole, of another one the demo's rows. Secrets go either way.

    Raises:
        RemovalBlocked: in another's database, records of theirs refer to the demo's.
    """
    if not is_own(folder):
        call_command("migrate", verbosity=0)
        remove_demo()
    elif connection.vendor == "sqlite":
        connection.close()
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{connection.settings_dict['NAME']}{suffix}").unlink(missing_ok=True)
    else:
        call_command("migrate", verbosity=0)
        call_command("flush", interactive=False, verbosity=0)
    if is_own(folder):
        forget_messages()
    folder.forget_secrets()


def forget_messages() -> None:
    """Remove what waits for a worker in the folders of tasks: it names calls that are forgotten.

    Where Redis carries messages there is nothing to remove: a worker that finds no such call lets its message go.
    """
    for folder in settings.SIGNALBOX_TASK_FOLDERS.values():
        for file in folder.glob("*"):
            if file.is_file():
                file.unlink(missing_ok=True)


def _name() -> str:
    """The database in one line."""
    place = connection.settings_dict
    return f"{connection.vendor} {place['NAME']} {place['HOST'] or '-'} {place['PORT'] or '-'}"
