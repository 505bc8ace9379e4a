from collections.abc import Callable
from decimal import Decimal

import pytest

from routing.core.fields import FieldError, Fields, as_number, parse, printable, shown
from routing.core.vocabulary import DataBoundary, Reach

KNOWN = {"name", "count", "share", "price", "reach", "tags", "inner", "rows", "on"}


def fields(**content: object) -> Fields:
    return Fields(content, "models[0]", KNOWN)


def test_numbers_with_a_point_are_kept_as_written() -> None:
    content = parse('{"price": 0.1000000000000000055, "count": 3}')
    assert content == {"price": Decimal("0.1000000000000000055"), "count": 3}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1, column 1: Expecting value"),
        ('{"a": 1,}', "line 1, column 9: "),
        ('{"a": 1, "b": 2, "a": 1}', "a: written twice in one object"),
        ('[{"x": {"y": 1, "y": 1}}]', "y: written twice"),
        ("NaN", "NaN is no number"),
        ('{"a": -Infinity}', "-Infinity is no number"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "a number that is too long"),
        ("1e999999999999999999999", "a number that is too long"),
    ],
    ids=["empty", "comma", "twice", "twice-inside", "nan", "infinity", "deep", "digits", "exponent"],
)
def test_what_is_no_json_or_could_be_read_in_two_ways(text: str, complaint: str) -> None:
    with pytest.raises(FieldError) as caught:
        parse(text)
    assert complaint in str(caught.value)


def test_every_complaint_names_the_field() -> None:
    subject = fields(name=3, count=-1, share=1.5, price="x", reach="moon", tags=["a", 1], inner=[], rows={}, on="yes")
    complaints: list[tuple[Callable[[], object], str]] = [
        (lambda: subject.text("name", ""), "models[0].name: a text is needed, not 3"),
        (lambda: subject.whole("count", 0), "models[0].count: a whole number from 0 is needed, not -1"),
        (lambda: subject.number("share", most=1), "models[0].share: a number from 0 to 1 is needed, not 1.5"),
        (lambda: subject.nanos("price"), "models[0].price: 'x' is not a decimal number"),
        (
            lambda: subject.word("reach", Reach, None),
            "models[0].reach: one of vendor_api, cloud_partner, private_endpoint, self_hosted is needed, not 'moon'",
        ),
        (lambda: subject.names("tags"), "models[0].tags: a list of names is needed, not ['a', 1]"),
        (lambda: subject.fields("inner", ()), "models[0].inner: an object is needed, not []"),
        (lambda: subject.records("rows", ()), "models[0].rows: a list is needed, not {}"),
        (lambda: subject.flag("on", False), "models[0].on: true or false is needed, not 'yes'"),
        (
            lambda: subject.only("reach", DataBoundary.INTERNAL),
            "models[0].reach: 'internal' (nothing else can be demanded) is needed, not 'moon'",
        ),
    ]
    for read, message in complaints:
        with pytest.raises(FieldError) as caught:
            read()
        assert str(caught.value) == message


def test_unknown_keys_and_other_things_than_objects() -> None:
    with pytest.raises(FieldError, match=r"^models\[0\]\.nmae: unknown key$"):
        fields(nmae="x")
    with pytest.raises(FieldError, match=r"^the document: an object is needed, not 3$"):
        Fields(3, "", KNOWN)


def test_null_counts_as_missing() -> None:
    subject = fields(name=None, count=None, price=None, on=None, tags=None, inner=None)
    assert subject.text("name", "x") == "x"
    assert subject.whole("count", None) is None
    assert subject.nanos("price") is None
    assert subject.flag("on", True) is True
    assert subject.names("tags") is None
    assert subject.fields("inner", ()).has("anything") is False


@pytest.mark.parametrize(
    "value", [True, False, "1", None, [], float("nan"), float("inf"), 10**400, Decimal("1e999")], ids=repr
)
def test_what_is_no_number(value: object) -> None:
    assert as_number(value) is None


def test_numbers_of_every_kind() -> None:
    assert [as_number(each) for each in (2, 0.5, Decimal("0.25"))] == [2.0, 0.5, 0.25]


@pytest.mark.parametrize("value", [True, 1.5, Decimal("2"), "3", -4])
def test_a_whole_number_is_written_without_a_point(value: object) -> None:
    with pytest.raises(FieldError):
        fields(count=value).whole("count", 0)


@pytest.mark.parametrize("value", ["2.50", 2.5, Decimal("2.50")], ids=repr)
def test_money_is_exact_in_any_spelling(value: object) -> None:
    assert fields(price=value).nanos("price") == 2_500_000_000


@pytest.mark.parametrize("value", [True, [], "-1", -2, float("nan")])
def test_what_is_no_amount(value: object) -> None:
    with pytest.raises(FieldError):
        fields(price=value).nanos("price")


def test_values_are_shown_on_one_short_line() -> None:
    assert len(shown("x" * 500)) < 80
    assert "\n" not in shown("a\nb")
    assert shown(Decimal("0.10")) == "0.10"


def test_names_cannot_break_a_line() -> None:
    assert printable("grün") == "grün"
    assert printable("a\nb\ud800") == "a\\nb\\ud800"
