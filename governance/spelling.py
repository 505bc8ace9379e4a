"""How pages spell what is not text: money, rates, capabilities, and what is not there. Exact, never rounded."""

from collections.abc import Iterable

from routing.core.money import format_nanos
from routing.core.vocabulary import LABELS, Capability

ABSENT = "—"
"""What pages show where there is no figure."""


def spell_rate(nanos: int) -> str:
    """Nano-units as people write prices: at least two decimals, and as many as there are."""
    whole, _, decimals = format_nanos(nanos).partition(".")
    return f"{whole}.{decimals:0<2}"


def spell_cost(nanos: int | None, currency: str) -> str:
    """A cost with its currency, exactly; a dash where there is none, since an absence is not zero."""
    return ABSENT if nanos is None else f"{format_nanos(nanos)} {currency}"


def capability_words(stored: Iterable[str]) -> str:
    """Stored capabilities in words; one that this version does not know as it is."""
    labels = {each.value: LABELS[each] for each in Capability}
    return ", ".join(labels.get(each, each) for each in stored)
