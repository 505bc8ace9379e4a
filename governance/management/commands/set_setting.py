"""``manage.py set_setting``: store the value of a setting, checked by the registry."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from governance.audit.actions import Author, Channel
from governance.changes.settings import clear_setting, store_setting
from governance.settings_store.registry import REGISTRY, read_typed, spell_typed

AUTHOR = Author("manage.py set_setting", Channel.COMMAND)


class Command(BaseCommand):
    """Store one setting, or go back to its default. Running processes read it within a second."""

    help = "Store the value of a setting. Settings: " + ", ".join(REGISTRY)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("key", help="the setting, such as routing.callHistory")
        parser.add_argument("value", nargs="?", help="true, false, a number or a word")
        parser.add_argument("--reason", default="", help="why, for the audit trail")
        parser.add_argument("--default", action="store_true", help="forget the stored value instead")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Store or forget."""
        key, text = options["key"], options["value"]
        if key not in REGISTRY:
            raise CommandError(f"There is no setting {key}. Choose one of {', '.join(REGISTRY)}.")
        if (text is None) is not options["default"]:
            raise CommandError("Give either a value or --default.")
        try:
            if text is None:
                clear_setting(key, author=AUTHOR, reason=options["reason"])
                said = f"{key} is at its default, {spell_typed(REGISTRY[key].default)}."
            else:
                value = read_typed(text)
                store_setting(key, value, author=AUTHOR, reason=options["reason"])
                said = f"{key} is now {spell_typed(value)}."
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        self.stdout.write(said)
