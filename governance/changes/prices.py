"""What a change of a price says about where its figures come from."""

from collections.abc import Iterable

from django.db import models

from routing.models import Price
from routing.price_catalogue import is_from_catalogue
from routing.snapshots import price_of

MANUAL = "manual"


def mark_prices(parts: Iterable[models.Model]) -> None:
    """Mark what was a price from the lists as entered by hand, where a change gives it other figures and does not say
    where those come from. Price lists would take them back otherwise."""
    for part in parts:
        if isinstance(part, Price) and not part._state.adding and is_from_catalogue(part.provenance):
            stored = Price.objects.get(pk=part.pk)
            if stored.provenance == part.provenance and price_of(stored) != price_of(part):
                part.provenance = MANUAL
