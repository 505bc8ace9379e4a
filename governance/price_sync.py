"""Prices of models compared with public price lists, and taken over from them: one comparison for the command, the page
and the REST interface.

A price that a person entered stands: only a model without a price, or one whose price came from the lists before, is
given another. A move that looks like a mistake is held until somebody approves it or turns it down; what was turned
down is not held again until the lists say something else. Nothing is stored about what is held: it is what the lists
of the installed version say beside what is in force.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from django.core.exceptions import ValidationError
from django.db import transaction

from governance.audit.actions import Author
from governance.changes.records import save_record
from governance.spelling import spell_rate
from routing.core.price_moves import RateMove, moves_between
from routing.core.pricing import Price, Rates, price_at
from routing.core.vocabulary import Capability, ServiceTier
from routing.models import CatalogueVersion, LanguageModel
from routing.models import Price as PriceRow
from routing.price_catalogue import Listing, PriceCatalogue, is_from_catalogue
from routing.providers.registry import ADAPTER_TYPES
from routing.snapshots import price_of


class PriceStanding(StrEnum):
    """How a model's price stands beside the lists."""

    FIRST = "first"
    MOVED = "moved"
    HELD = "held"
    DECLINED = "declined"
    SAME = "same"
    MANUAL = "manual"
    UNFIT = "unfit"
    ABSENT = "absent"


PRICE_STANDING_LABELS = {
    PriceStanding.FIRST: "First price",
    PriceStanding.MOVED: "Other price",
    PriceStanding.HELD: "Held for a person",
    PriceStanding.DECLINED: "Turned down",
    PriceStanding.SAME: "As listed",
    PriceStanding.MANUAL: "Entered by hand",
    PriceStanding.UNFIT: "Cannot be taken over",
    PriceStanding.ABSENT: "Not in the lists",
}

TAKEN = frozenset({PriceStanding.FIRST, PriceStanding.MOVED})
"""What is taken over without anybody asking for it by name."""

DECIDABLE = frozenset({*TAKEN, PriceStanding.HELD, PriceStanding.DECLINED})
"""What a person may take over."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One model beside the lists.

    Attributes:
        model: its identifier.
        route: provider and model, as people speak of it.
        standing: what would be done.
        why: that in a sentence, where it needs one.
        current: the price in force; ``None`` if it is unpriced.
        provenance: where that came from.
        listing: what the lists say; ``None`` if nothing.
        moves: the rates that would move.
    """

    model: str
    route: str
    standing: PriceStanding
    why: str
    current: Price | None
    provenance: str
    listing: Listing | None
    moves: tuple[RateMove, ...] = ()

    @property
    def listed(self) -> str:
        """The listed price in one line, by which somebody says which one they mean; empty if there is none."""
        return "" if self.listing is None or self.listing.price is None else spell_price(self.listing.price)


def spell_price(price: Price) -> str:
    """A price in one line: every rate it has, per million tokens."""
    words = f"{_spell_rates(price.rates)} {price.currency}"
    tier = price.long_prompt
    if tier is None:
        return words
    bound = "from" if tier.inclusive else "above"
    return f"{words}; {bound} {tier.threshold:,} prompt tokens {_spell_rates(tier.rates)}"


def compare(catalogue: PriceCatalogue, *, models: Collection[str] | None = None) -> list[Comparison]:
    """Every model that is not retired, or those named, beside the lists: two queries."""
    rows = LanguageModel.objects.filter(retired_at=None).select_related("provider").prefetch_related("prices")
    if models is not None:
        rows = rows.filter(identifier__in=models)
    now = datetime.now(UTC)
    return [_compare(row, catalogue, now) for row in rows.order_by("provider__identifier", "identifier")]


def take_over(
    catalogue: PriceCatalogue,
    comparisons: Iterable[Comparison],
    *,
    author: Author,
    reason: str = "",
) -> list[Comparison]:
    """Give models the prices of comparisons that were shown; gives those that were taken.

    Each model is a transaction of its own and is compared again in it: what was shown and is not so any more is left
    alone. Whoever hands in a comparison that is held, or was turned down, approves it.
    """
    return [each for each in comparisons if _take(catalogue, each, author=author, reason=reason)]


def decline(comparison: Comparison, *, author: Author, reason: str = "") -> None:
    """Turn a held price down: it is held no more until the lists say something else.

    Raises:
        ValidationError: nothing is held.
    """
    if comparison.standing is not PriceStanding.HELD:
        raise ValidationError(f"Nothing is held for {comparison.model}.")
    model = LanguageModel.objects.get(identifier=comparison.model)
    model.declined_price = comparison.listed
    why = reason or f"Turned down what the price lists say: {comparison.listed}"
    save_record(model, author=author, reason=why, only=["declined_price"], validate=False)


def count_standings(comparisons: Iterable[Comparison]) -> dict[PriceStanding, int]:
    """How many models stand how, in the order in which people read them."""
    found = Counter(each.standing for each in comparisons)
    return {standing: found[standing] for standing in PriceStanding if found[standing]}


def _compare(row: LanguageModel, catalogue: PriceCatalogue, now: datetime) -> Comparison:
    standard = [price for price in row.prices.all() if price.service_tier == ServiceTier.STANDARD]
    stored = sorted(standard, key=lambda price: price.valid_from)
    current = price_at([price_of(price) for price in stored], now)
    provenance = "" if current is None else _provenance(stored, current)
    kind = ADAPTER_TYPES.get(row.provider.adapter_type)
    address = row.provider.base_url or ("" if kind is None else kind.base_url)
    listing = catalogue.find(base_url=address, model_id=row.model_id, now=now)
    moves: tuple[RateMove, ...] = ()
    if current is not None and listing is not None and listing.price is not None:
        moves = moves_between(current, listing.price)
    standing, why = _judge(row, current=current, provenance=provenance, listing=listing, moves=moves)
    return Comparison(
        model=row.identifier,
        route=f"{row.provider.identifier}/{row.identifier}",
        standing=standing,
        why=why,
        current=current,
        provenance=provenance,
        listing=listing,
        moves=moves,
    )


def _provenance(stored: list[PriceRow], current: Price) -> str:
    return next(row.provenance for row in stored if row.valid_from == current.valid_from)


def _judge(
    row: LanguageModel,
    *,
    current: Price | None,
    provenance: str,
    listing: Listing | None,
    moves: tuple[RateMove, ...],
) -> tuple[PriceStanding, str]:
    if listing is None:
        return PriceStanding.ABSENT, f"No list is of this address and has {row.model_id}."
    if current is not None and not is_from_catalogue(provenance):
        return PriceStanding.MANUAL, f"It came from “{provenance}” and stands."
    if listing.price is None:
        return PriceStanding.UNFIT, listing.problem
    if current is None:
        doubt = _doubt_of_first(row, listing.price)
    elif not _differ(current, listing.price):
        return PriceStanding.SAME, ""
    else:
        doubt = "; ".join(_spell_move(move) for move in moves if move.is_suspicious)
    if doubt:
        declined = row.declined_price == spell_price(listing.price)
        return (PriceStanding.DECLINED if declined else PriceStanding.HELD), doubt
    return (PriceStanding.FIRST if current is None else PriceStanding.MOVED), ""


def _doubt_of_first(row: LanguageModel, price: Price) -> str:
    """Why a first price may be a mistake of the lists, which have no output rate for some models that generate."""
    if price.list_nanos == 0:
        return "Listed as free."
    generates = set(row.capabilities) != {Capability.EMBEDDINGS}
    return "What it generates is listed as free." if price.rates.output == 0 and generates else ""


def _differ(current: Price, listed: Price) -> bool:
    """Whether another price is to be written: rates that stand in for missing ones count, when they begin does not."""
    return spell_price(current) != spell_price(listed)


def _take(catalogue: PriceCatalogue, shown: Comparison, *, author: Author, reason: str) -> bool:
    if shown.standing not in DECIDABLE or shown.listing is None or shown.listing.price is None:
        return False
    with transaction.atomic():
        CatalogueVersion.bump()  # everybody who changes a model waits here, so what is read now is the latest
        again = compare(catalogue, models=[shown.model])
        if not again or (again[0].standing, again[0].listed) != (shown.standing, shown.listed):
            return False
        model = LanguageModel.objects.get(identifier=shown.model)
        row = _row(model, shown.listing.price, label=catalogue.label)
        why = reason or f"From the price lists ({shown.listing.name})"
        save_record(model, author=author, reason=why, parts=[row], only=[], validate=True)
    return True


def _row(model: LanguageModel, price: Price, *, label: str) -> PriceRow:
    """The price as a row, in force from now on."""
    moment = datetime.now(UTC).replace(microsecond=0)
    taken = set(model.prices.values_list("valid_from", flat=True))
    while moment in taken:
        moment += timedelta(seconds=1)
    tier = price.long_prompt
    return PriceRow(
        model=model,
        valid_from=moment,
        currency=price.currency,
        provenance=label,
        input_rate=price.rates.input,
        output_rate=price.rates.output,
        cached_input_rate=price.rates.cached_input,
        cache_write_rate=price.rates.cache_write,
        cache_write_hour_rate=price.rates.cache_write_hour,
        long_prompt_threshold=None if tier is None else tier.threshold,
        long_prompt_inclusive=tier is not None and tier.inclusive,
        long_input_rate=None if tier is None else tier.rates.input,
        long_output_rate=None if tier is None else tier.rates.output,
        long_cached_input_rate=None if tier is None else tier.rates.cached_input,
        long_cache_write_rate=None if tier is None else tier.rates.cache_write,
        long_cache_write_hour_rate=None if tier is None else tier.rates.cache_write_hour,
    )


def _spell_rates(rates: Rates) -> str:
    named = (
        ("in", rates.input),
        ("out", rates.output),
        ("cached", rates.cached_input),
        ("write", rates.cache_write),
        ("write for an hour", rates.cache_write_hour),
    )
    return ", ".join(f"{name} {spell_rate(rate)}" for name, rate in named if rate is not None)


def _spell_move(move: RateMove) -> str:
    return f"{move.name} {spell_rate(move.before)} → {spell_rate(move.after)}"
