"""How pages spell what is not text: money, rates, times, shares, capabilities, and what is not there.

Prices and single costs are exact, never rounded. Sums, means, times and shares are as one reads them at a glance.
"""

from collections.abc import Iterable
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal

from routing.core.money import NANOS, Money, format_nanos
from routing.core.vocabulary import LABELS, Capability

ABSENT = "—"
"""What pages show where there is no figure."""

_CENT = Decimal("0.01")
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


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


def spell_sum(money: Money) -> str:
    """A sum as one reads it at a glance: to the cent, and below a cent to two digits that count."""
    amount = Decimal(money.nanos) / NANOS
    if amount and abs(amount) < _CENT:
        shown = f"{amount:.2g}" if abs(amount) >= Decimal("0.0001") else "below 0.0001"
    else:
        shown = f"{amount.quantize(_CENT, ROUND_HALF_UP):,}"
    return f"{shown} {money.currency}"


def spell_mean(money: Money) -> str:
    """A mean as one reads it at a glance: to the cent, and below one to three digits that count."""
    amount = Decimal(money.nanos) / NANOS
    places = max(2, 2 - amount.adjusted()) if amount else 2
    return f"{amount:,.{places}f} {money.currency}"


def spell_share(share: float | None) -> str:
    """A share in percent; never 0.0 for something that is not nothing."""
    if share is None:
        return ABSENT
    return "below 0.1 %" if 0 < share < 0.001 else f"{share * 100:.1f} %"


def spell_period(period: timedelta) -> str:
    """A period in the largest unit that counts it in whole numbers."""
    seconds = int(period.total_seconds())
    unit, length = next((name, length) for name, length in _UNITS if seconds % length == 0)
    count = seconds // length
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def spell_milliseconds(milliseconds: float) -> str:
    """A time in the unit that suits it."""
    return f"{milliseconds / 1000:,.1f} s" if milliseconds >= 10_000 else f"{milliseconds:,.0f} ms"
