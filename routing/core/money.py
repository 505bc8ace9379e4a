"""Money as whole nano-units (1e-9) of a named currency, and its decimal spelling.

Sums, rates and costs are integers everywhere: rows, ledger, JSON (as a decimal string). There is no exchange
rate, because a rate has a date and a source exactly as a price has.
"""

from dataclasses import dataclass
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation, localcontext

NANOS = 1_000_000_000
"""Nano-units in one unit of a currency."""

MOST_NANOS = 2**63 - 1
"""The largest amount that a column of 64 bits holds: about nine thousand million units of a currency."""

_MOST_DIGITS = 19  # digits before the point; a cheap bound, so that an exponent cannot cost memory
_EXACT = Context(prec=60, traps=[InvalidOperation, Inexact])  # nothing is rounded without an exception


class MoneyError(ValueError):
    """A text that is no exact amount of money."""


@dataclass(frozen=True, slots=True)
class Money:
    """An amount: ``nanos`` is a signed whole number of nano-units, ``currency`` an upper-case code."""

    nanos: int
    currency: str

    @property
    def amount(self) -> str:
        """The decimal spelling without trailing zeros, such as ``0.0067``."""
        return format_nanos(self.nanos)

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}"


def parse_nanos(text: str) -> int:
    """Read a decimal text into whole nano-units, exactly.

    Raises:
        MoneyError: the text is no finite decimal number, has digits below a nano-unit, or exceeds
            :data:`MOST_NANOS` either way.
    """
    try:
        with localcontext(_EXACT):
            value = Decimal(text.strip())
            if not value.is_finite():
                raise MoneyError(f"{text!r} is not a finite amount")
            if value.adjusted() > _MOST_DIGITS:
                raise MoneyError(f"{text!r} is too large an amount")
            nanos = int((value * NANOS).to_integral_exact())
    except InvalidOperation as error:
        raise MoneyError(f"{text!r} is not a decimal number") from error
    except DecimalException as error:
        raise MoneyError(f"{text!r} has more than nine decimal places") from error
    if abs(nanos) > MOST_NANOS:
        raise MoneyError(f"{text!r} is too large an amount")
    return nanos


def format_nanos(nanos: int) -> str:
    """Spell nano-units as a decimal without trailing zeros: 2500000000 is ``2.5``, 0 is ``0``."""
    sign = "-" if nanos < 0 else ""
    whole, fraction = divmod(abs(nanos), NANOS)
    if fraction == 0:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{fraction:09d}".rstrip("0")


def round_half_up(numerator: int, denominator: int) -> int:
    """Divide whole numbers, rounding half away from zero (``denominator`` positive)."""
    quotient = (2 * abs(numerator) + denominator) // (2 * denominator)
    return -quotient if numerator < 0 else quotient
