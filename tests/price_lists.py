"""Price lists made for a test."""

from collections.abc import Mapping
from datetime import datetime

from routing.core.pricing import Price, Rates
from routing.price_catalogue import Listing, PriceCatalogue

NANOS = 1_000_000_000


class ListsOfATest(PriceCatalogue):
    """Says what a test wrote for a model id, whatever the address."""

    def __init__(self, listed: Mapping[str, tuple[int, int] | Listing]) -> None:
        """``listed`` has whole units for input and output, or a listing, by model id."""
        self.label = "genai-prices 9.9"
        self.listed = dict(listed)

    def find(self, *, base_url: str, model_id: str, now: datetime) -> Listing | None:
        found = self.listed.get(model_id)
        if found is None or isinstance(found, Listing):
            return found
        price = Price(valid_from=now, currency="USD", rates=Rates(found[0] * NANOS, found[1] * NANOS))
        return Listing(name=f"vendor/{model_id}", price=price, problem="", left_out=("web searches",))
