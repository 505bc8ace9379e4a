"""How far prices move."""

from datetime import UTC, datetime

import pytest

from routing.core.price_moves import RateMove, moves_between
from routing.core.pricing import LongPrompt, Price, Rates

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def price(rates: Rates, long_prompt: LongPrompt | None = None) -> Price:
    return Price(valid_from=NOW, currency="USD", rates=rates, long_prompt=long_prompt)


@pytest.mark.parametrize(
    ("before", "after", "suspicious"),
    [
        (100, 150, False),  # by half exactly
        (100, 151, True),
        (100, 50, False),
        (100, 49, True),
        (3, 4, False),
        (1, 2, True),
        (100, 0, True),
        (1, 0, True),
        (0, 1_000_000, False),  # what was free may cost anything
    ],
)  # fmt: skip
def test_a_move_is_suspicious_beyond_half_and_to_nothing(before: int, after: int, suspicious: bool) -> None:
    assert RateMove("input", before, after).is_suspicious is suspicious


def test_only_rates_that_differ_are_moves() -> None:
    before, after = price(Rates(100, 400)), price(Rates(110, 400))
    assert moves_between(before, before) == ()
    assert [move.name for move in moves_between(before, after)] == [
        "input", "cached input", "cache write", "cache write for an hour",
        "long input", "long cached input", "long cache write", "long cache write for an hour",
    ]  # fmt: skip


def test_a_rate_that_appears_is_compared_with_what_was_paid_before_it() -> None:
    before, after = price(Rates(100, 400)), price(Rates(100, 400, cached_input=10))
    moves = moves_between(before, after)
    assert moves[0] == RateMove("cached input", 100, 10)
    assert moves[0].is_suspicious


def test_a_tier_that_appears_is_compared_with_the_rates_of_a_short_prompt() -> None:
    tier = LongPrompt(threshold=200, rates=Rates(200, 600))
    moves = moves_between(price(Rates(100, 400)), price(Rates(100, 400), tier))
    assert [(move.name, move.before, move.after) for move in moves[:2]] == [
        ("long input", 100, 200), ("long output", 400, 600),
    ]  # fmt: skip
    assert [move.is_suspicious for move in moves[:2]] == [True, False]
