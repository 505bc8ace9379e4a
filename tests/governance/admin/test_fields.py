"""Rates in forms: decimals a person types, nano-units a row keeps, and nothing in between."""

from decimal import Decimal

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from governance.admin.fields import PercentsField, RateField, WordsField
from governance.spelling import ABSENT, spell_cost, spell_rate

FIELD = RateField()


@pytest.mark.parametrize(
    ("typed", "nanos"),
    [
        ("2.50", 2_500_000_000),
        ("2.5", 2_500_000_000),
        (" 10 ", 10_000_000_000),
        ("10.", 10_000_000_000),
        (".25", 250_000_000),
        ("0", 0),
        ("0.00", 0),
        ("0.000000001", 1),
        ("0.0000000010000", 1),
        ("007.5", 7_500_000_000),
        ("9223372036.854775807", 2**63 - 1),
    ],
)
def test_decimals_become_nano_units_exactly(typed: str, nanos: int) -> None:
    assert FIELD.clean(typed) == nanos


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ("", "required"),
        ("   ", "required"),
        ("2,50", "Write a point before the decimals"),
        ("1,250.50", "Write a point before the decimals"),
        ("1.250.50", "Write a point before the decimals"),
        ("$2.50", "such as 2.50"),
        ("2.50 USD", "such as 2.50"),
        ("free", "such as 2.50"),
        ("1e3", "such as 2.50"),
        ("1_000", "such as 2.50"),
        ("NaN", "such as 2.50"),
        ("Infinity", "such as 2.50"),
        (".", "decimal"),
        ("٢", "such as 2.50"),
        ("-2.50", "cannot be negative"),
        ("-0.0000000001", "cannot be negative"),
        ("0.0000000001", "nine decimals"),
        ("2.1234567891", "nine decimals"),
        ("9223372036.854775808", "more than can be stored"),
        ("9" * 400, "more than can be stored"),
    ],
)
def test_what_is_no_exact_price_is_refused_with_a_reason(typed: str, complaint: str) -> None:
    with pytest.raises(ValidationError) as refused:
        FIELD.clean(typed)
    assert complaint in refused.value.messages[0]


def test_an_optional_rate_may_be_absent_which_is_not_zero() -> None:
    field = RateField(required=False)
    assert field.clean("") is None
    assert field.clean("0") == 0
    assert field.has_changed(None, "0")
    assert field.has_changed(0, "")
    assert not field.has_changed(None, "")


@given(nanos=st.integers(min_value=0, max_value=2**63 - 1))
def test_what_is_shown_is_read_back(nanos: int) -> None:
    shown = FIELD.prepare_value(nanos)
    assert FIELD.clean(shown) == nanos
    assert not FIELD.has_changed(nanos, shown)
    assert Decimal(shown) == Decimal(nanos) / 10**9
    assert len(shown.partition(".")[2]) >= 2


@pytest.mark.parametrize(
    ("nanos", "shown"),
    [(2_500_000_000, "2.50"), (0, "0.00"), (75_000_000, "0.075"), (10_000_000_000, "10.00"), (1, "0.000000001")],
)
def test_prices_are_shown_as_people_write_them(nanos: int, shown: str) -> None:
    assert spell_rate(nanos) == shown


def test_the_same_price_in_another_spelling_is_no_change() -> None:
    assert not FIELD.has_changed(2_500_000_000, "2.5")
    assert FIELD.has_changed(2_500_000_000, "2.51")
    assert FIELD.has_changed(2_500_000_000, "nonsense")


def test_what_was_typed_comes_back_as_it_was_typed() -> None:
    assert FIELD.prepare_value("2,50") == "2,50"


def test_a_cost_that_is_not_known_is_not_zero() -> None:
    assert spell_cost(None, "USD") == ABSENT
    assert spell_cost(0, "USD") == "0 USD"
    assert spell_cost(6_400_000, "EUR") == "0.0064 EUR"


def test_words_keep_the_order_in_which_they_are_offered() -> None:
    field = WordsField(choices=[("chat", "Chat"), ("tools", "Tools"), ("vision", "Vision")], required=False)
    assert field.clean(["vision", "chat"]) == ["chat", "vision"]
    assert field.clean([]) == []
    with pytest.raises(ValidationError):
        field.clean(["dance"])


def test_per_cents_are_typed_with_commas_and_kept_ascending() -> None:
    field = PercentsField(required=False)
    assert field.clean("100, 50 %;80") == [50, 80, 100]
    assert field.clean("") == []
    assert field.prepare_value([50, 80]) == "50, 80"
    assert field.prepare_value("half") == "half"
    assert not field.has_changed([80, 50], "50,80")
    assert field.has_changed([50], "50, half")
    for typed in ("half", "-5", "5.5", "1000"):
        with pytest.raises(ValidationError, match="whole per cents"):
            field.clean(typed)
