"""``manage.py rotate_provider_keys``: seal every provider's key, and every webhook's secret, with the first key of the
ring."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from governance.audit.actions import Author, Channel
from governance.changes.providers import reseal_keys
from governance.changes.webhooks import reseal_secrets
from routing.vault import Vault, VaultError

AUTHOR = Author("manage.py rotate_provider_keys", Channel.COMMAND)


class Command(BaseCommand):
    """Seal again what an older key of SIGNALBOX_ENCRYPTION_KEYS sealed. May be interrupted and run again."""

    help = "Seal every provider's key and every webhook's secret with the first of SIGNALBOX_ENCRYPTION_KEYS."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Rotate, and say what was done."""
        done = 0
        try:
            vault = Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)
            for reseal in (reseal_keys, reseal_secrets):
                for identifier in reseal(author=AUTHOR, vault=vault):
                    done += 1
                    self.stdout.write(f"{identifier}: sealed again.")
        except VaultError as error:
            raise CommandError(f"Sealed again: {done}. But {error}.") from None
        self.stdout.write(
            f"Sealed again: {done}. All provider keys and secrets of webhooks are sealed with {vault.current_key!r} "
            "now. The others can be taken out of SIGNALBOX_ENCRYPTION_KEYS once the content of submitted calls that "
            "they sealed has expired (the setting calls.contentHours)."
        )
