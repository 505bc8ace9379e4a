import pytest

from routing.core.money import MOST_NANOS, Money, MoneyError, format_nanos, parse_nanos, round_half_up


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("0.0067", 6_700_000),
        (" 2.50 ", 2_500_000_000),
        ("10", 10_000_000_000),
        ("-1.000000001", -1_000_000_001),
        ("1e-9", 1),
        ("2.5E+1", 25_000_000_000),
        ("0.000000001000000000000000000000", 1),
        ("9223372036.854775807", MOST_NANOS),
    ],
)
def test_an_amount_is_read_exactly(text: str, nanos: int) -> None:
    assert parse_nanos(text) == nanos


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not a decimal number"),
        ("two", "not a decimal number"),
        ("1,5", "not a decimal number"),
        ("NaN", "not a finite amount"),
        ("-Infinity", "not a finite amount"),
        ("0.0000000001", "more than nine decimal places"),
        ("1." + "0" * 70 + "1", "more than nine decimal places"),
        ("1e-1000000", "more than nine decimal places"),
        ("9223372036.854775808", "too large"),
        ("1e400", "too large"),
        ("1e999999", "too large"),
    ],
)
def test_what_is_no_exact_amount(text: str, complaint: str) -> None:
    with pytest.raises(MoneyError, match=complaint):
        parse_nanos(text)


@pytest.mark.parametrize(
    ("nanos", "text"),
    [(0, "0"), (2_500_000_000, "2.5"), (6_700_000, "0.0067"), (-1, "-0.000000001"), (10**10, "10")],
)
def test_an_amount_is_spelled_without_trailing_zeros(nanos: int, text: str) -> None:
    assert format_nanos(nanos) == text


def test_money_says_its_currency() -> None:
    assert str(Money(18_400_000, "EUR")) == "0.0184 EUR"
    assert Money(18_400_000, "EUR") != Money(18_400_000, "USD")


@pytest.mark.parametrize(
    ("numerator", "denominator", "rounded"), [(1, 2, 1), (-1, 2, -1), (3, 2, 2), (1, 3, 0), (2, 3, 1), (0, 7, 0)]
)
def test_halves_are_rounded_away_from_zero(numerator: int, denominator: int, rounded: int) -> None:
    assert round_half_up(numerator, denominator) == rounded
