"""``manage.py create_key``: issue a key for an application; its secret is shown or written once."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from governance.audit.actions import Author, Channel
from governance.changes.keys import issue_key
from governance.models import AccessKey, Application
from routing.models import Configuration, LanguageModel, NamedRecord

AUTHOR = Author("manage.py create_key", Channel.COMMAND)


class Command(BaseCommand):
    """Issue a key. The secret alone goes to standard output, or into a file that only its owner reads."""

    help = "Issue a key for an application and show its secret once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--application", required=True, help="identifier of the application the key belongs to")
        parser.add_argument("--name", required=True, help="what the key is for")
        parser.add_argument(
            "--configuration",
            action="extend",
            nargs="+",
            metavar="IDENTIFIER",
            help="configurations it may ask for (default: all)",
        )
        parser.add_argument(
            "--model",
            action="extend",
            nargs="+",
            metavar="IDENTIFIER",
            help="models that may serve it (default: all)",
        )
        parser.add_argument(
            "--may-name-models", action="store_true", help="allow it to ask for provider/model directly"
        )
        parser.add_argument("--reason", default="", help="why, for the audit trail")
        parser.add_argument(
            "--output", type=Path, metavar="FILE", help="write the secret into a new file instead of showing it"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Issue the key."""
        application = Application.objects.filter(identifier=options["application"], retired_at=None).first()
        if application is None:
            raise CommandError(f"There is no application {options['application']}; {_known(Application)}.")
        configurations = _named(Configuration, options["configuration"], option="--configuration")
        models = _named(LanguageModel, options["model"], option="--model")
        output: Path | None = options["output"]
        # Before the key is made, so that no key is made whose secret went nowhere.
        target = None if output is None else _new_file(output)
        key = AccessKey(
            application=application,
            name=options["name"],
            allowed_configurations=configurations,
            allowed_models=models,
            may_name_models=options["may_name_models"],
        )
        try:
            secret = issue_key(key, author=AUTHOR, reason=options["reason"])
        except Exception as error:
            if output is not None and target is not None:
                os.close(target)
                output.unlink()
            if isinstance(error, ValidationError):
                raise CommandError("; ".join(error.messages)) from None
            raise
        if target is None:
            self.stdout.write(secret)
            self.stderr.write(f"Issued {key}. The secret is not kept and is not shown again.")
        else:
            with os.fdopen(target, "w", encoding="ascii") as file:
                file.write(f"{secret}\n")
            self.stdout.write(f"Issued {key}. Its secret is in {output}, and nowhere else.")


def _named(records: type[NamedRecord], names: list[str] | None, *, option: str) -> list[str] | None:
    """The identifiers, each once; a name that stands for nothing would silently allow nothing."""
    if names is None:
        return None
    wanted = list(dict.fromkeys(names))
    rows = records._default_manager.filter(identifier__in=wanted, retired_at=None)
    unknown = [name for name in wanted if name not in set(rows.values_list("identifier", flat=True))]
    if unknown:
        raise CommandError(f"{option}: there is no {', '.join(unknown)}; {_known(records)}.")
    return wanted


def _known(records: type[NamedRecord]) -> str:
    rows = records._default_manager.filter(retired_at=None).order_by("identifier")
    names = list(rows.values_list("identifier", flat=True)[:21])
    if not names:
        return "there is none yet, make one in the admin"
    return f"choose one of {', '.join(names[:20])}{' …' if len(names) > 20 else ''}"


def _new_file(path: Path) -> int:
    """Open a file that was not there before and that only its owner may read."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandError(f"{path} is there already, and is left as it is; name a new file.") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
