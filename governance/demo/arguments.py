"""Arguments of the demo's commands whose values need a look. What cannot be used is named before anything is done."""

import math
from argparse import ArgumentTypeError

LAST_PORT = 65535


def port(text: str) -> int:
    """The number of a port to listen at."""
    number = port_or_any(text)
    if number == 0:
        raise ArgumentTypeError(f"0 is no port to listen at; choose one from 1 to {LAST_PORT}")
    return number


def port_or_any(text: str) -> int:
    """The same, or 0 for any port that is free."""
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no number of a port; choose one from 1 to {LAST_PORT}") from None
    if not 0 <= number <= LAST_PORT:
        raise ArgumentTypeError(f"{number} is no port; choose one from 1 to {LAST_PORT}")
    return number


def speed(text: str) -> float:
    """How many times faster something runs."""
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not (math.isfinite(factor) and factor > 0):
        raise ArgumentTypeError(f"{text!r} is no speed; choose a number above 0, such as 10")
    return factor
