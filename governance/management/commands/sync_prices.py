"""``manage.py sync_prices``: compare prices with public price lists, and take them over."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from governance.audit.actions import Author, Channel
from governance.price_sync import (
    DECIDABLE,
    PRICE_STANDING_LABELS,
    TAKEN,
    Comparison,
    PriceStanding,
    compare,
    count_standings,
    spell_price,
    take_over,
)
from routing.models import LanguageModel
from routing.price_catalogue import CatalogueMissing, PriceCatalogue

AUTHOR = Author("manage.py sync_prices", Channel.COMMAND)

QUIET = frozenset({PriceStanding.SAME, PriceStanding.MANUAL, PriceStanding.ABSENT})
"""What is only counted, unless everything is asked for."""


class Command(BaseCommand):
    """Shows what would change; changes it with ``--apply``. A price that somebody entered is never touched, and a move
    that looks like a mistake is held until it is approved: on the page of the models, by REST, or by ``--approve``."""

    help = "Compare models' prices with the price lists of the package genai-prices, and take them over with --apply."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("models", nargs="*", metavar="model", help="identifiers of models; all, if none is named")
        parser.add_argument("--apply", action="store_true", help="write what is shown; otherwise nothing is written")
        parser.add_argument("--approve", action="store_true", help="of the models named, also what is held")
        parser.add_argument("--all", action="store_true", help="also tell of models that nothing is done with")
        parser.add_argument("--reason", default="", help="why, for the audit trail")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Compare, show, and write."""
        named: list[str] = options["models"]
        if options["approve"] and not named:
            raise CommandError("Name the models whose held prices you approve.")
        try:
            catalogue = PriceCatalogue()
        except CatalogueMissing as missing:
            raise CommandError(str(missing)) from None
        found = compare(catalogue, models=named or None)
        self._refuse_unknown(named, found)
        for each in found:
            if options["all"] or named or each.standing not in QUIET:
                self._tell(each)
        counts = ", ".join(f"{_words(standing)} {count}" for standing, count in count_standings(found).items())
        self.stdout.write(f"{catalogue.label}: {counts or 'no models'}.")
        wanted = [each for each in found if each.standing in (DECIDABLE if options["approve"] else TAKEN)]
        if not options["apply"]:
            self.stdout.write(f"Nothing was written; --apply would write {len(wanted)}.")
            return
        taken = take_over(catalogue, wanted, author=AUTHOR, reason=options["reason"])
        self.stdout.write(f"Written: {len(taken)}.")
        if len(taken) < len(wanted):
            raise CommandError(f"{len(wanted) - len(taken)} changed meanwhile and were left alone; run it again.")

    def _refuse_unknown(self, named: list[str], found: list[Comparison]) -> None:
        missing = sorted(set(named) - {each.model for each in found})
        if missing:
            there = LanguageModel.objects.filter(retired_at=None).values_list("identifier", flat=True)[:20]
            raise CommandError(f"There is no model {', '.join(missing)}. There are {', '.join(there) or 'none'}.")

    def _tell(self, each: Comparison) -> None:
        self.stdout.write(f"{each.route}: {_words(each.standing)}")
        if each.why:
            self.stdout.write(f"    {each.why}")
        if each.current is not None:
            self.stdout.write(f"    now     {spell_price(each.current)} ({each.provenance})")
        if each.listing is not None and each.listed:
            self.stdout.write(f"    listed  {each.listed} ({each.listing.name})")
        if each.listing is not None and each.listing.left_out:
            self.stdout.write(f"    not in our rates: {', '.join(each.listing.left_out)}")


def _words(standing: PriceStanding) -> str:
    return PRICE_STANDING_LABELS[standing].lower()
