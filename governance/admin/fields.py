"""Form fields for what rows hold in a shape that people do not type: rates in nano-units, lists of words."""

import re
from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.core.exceptions import ValidationError

from governance.admin.generic import CheckboxesWidget, Column, TextWidget
from governance.spelling import spell_rate
from routing.core.money import MoneyError, parse_nanos
from routing.core.vocabulary import LABELS, Capability

_DECIMAL = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)", re.ASCII)


class RateField(forms.Field):
    """A decimal per million tokens in the form, whole nano-units in the row. Nothing is rounded."""

    widget = TextWidget(attrs={"inputmode": "decimal", "autocomplete": "off"})
    default_error_messages = {  # noqa: RUF012 (Django merges it up the classes)
        "invalid": "Write a price per million tokens in digits with a decimal point, such as 2.50.",
        "comma": "Write a point before the decimals, and nothing between thousands, such as 1250.50.",
        "negative": "A price cannot be negative.",
        "places": "At most nine decimals are kept: a billionth is the smallest part of a price.",
        "large": "This is more than can be stored.",
    }

    def prepare_value(self, value: Any) -> Any:
        return spell_rate(value) if isinstance(value, int) else value

    def to_python(self, value: Any) -> int | None:
        text = "" if value is None else str(value).strip()
        if not text:
            return None
        if text.startswith("-") and _DECIMAL.fullmatch(text[1:]):
            raise self._refusal("negative")
        if not _DECIMAL.fullmatch(text):
            raise self._refusal("comma" if re.fullmatch(r"[0-9.,' ]+", text) else "invalid")
        if len(text.partition(".")[2].rstrip("0")) > 9:
            raise self._refusal("places")
        try:
            return parse_nanos(text)
        except MoneyError:
            raise self._refusal("large") from None

    def _refusal(self, code: str) -> ValidationError:
        return ValidationError(self.error_messages[code], code=code)


class AmountField(RateField):
    """A decimal amount in the form, whole nano-units in the row."""

    default_error_messages = {  # noqa: RUF012 (as above)
        "invalid": "Write an amount in digits with a decimal point, such as 250.00.",
        "comma": "Write a point before the decimals, and nothing between thousands, such as 1250.50.",
        "negative": "An amount cannot be negative.",
        "places": "At most nine decimals are kept: a billionth is the smallest part of an amount.",
        "large": "This is more than can be stored.",
    }


class PercentsField(forms.Field):
    """Whole per cents, typed with commas between them; a list in the row, ascending."""

    widget = TextWidget(attrs={"inputmode": "numeric", "autocomplete": "off"})
    default_error_messages = {"invalid": "Write whole per cents with commas between them, such as 50, 80, 100."}  # noqa: RUF012

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[int]:
        words = re.split(r"[\s,;]+", str(value or "").replace("%", " ").strip())
        if words == [""]:
            return []
        if not all(re.fullmatch(r"[0-9]{1,3}", word, re.ASCII) for word in words):
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return sorted(map(int, words))

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return self.to_python(data) != sorted(initial or [])
        except ValidationError:
            return True


def without_menu(field: Any) -> Any:
    """A field that names another record, without the menu that changes that record in a window of its own: a change is
    made on a record's page, where it has a reason."""
    if field is not None and isinstance(field.widget, RelatedFieldWidgetWrapper):
        field.widget = field.widget.widget
    return field


class ReasonField(forms.CharField):
    """Room to say why something is changed. ``room`` is how many characters there are."""

    def __init__(self, *, room: int = 500) -> None:
        super().__init__(
            label="Reason",
            required=False,
            max_length=room,
            widget=TextWidget(attrs={"autocomplete": "off"}),
            help_text="Why, for whoever reads the audit trail later. May stay empty.",
        )


def rate_field(field: Column, *, help_text: str | None = None) -> RateField:
    """The form field of a column of nano-units."""
    label = str(field.verbose_name)
    return RateField(
        label=label[:1].upper() + label[1:],
        required=not field.blank,
        help_text=str(field.help_text) if help_text is None else help_text,
    )


class WordsField(forms.MultipleChoiceField):
    """A list of known words, each a checkbox, kept in the order in which they are offered."""

    widget = CheckboxesWidget

    def clean(self, value: Any) -> list[str]:
        chosen = set(super().clean(value))
        offered: Any = self.choices
        return [word for word, _ in offered if word in chosen]


def words_field(field: Column, choices: Iterable[tuple[str, str]], *, help_text: str | None = None) -> WordsField:
    """The form field of a column that holds a list of words."""
    label = str(field.verbose_name)
    return WordsField(
        label=label[:1].upper() + label[1:],
        choices=list(choices),
        required=False,
        help_text=str(field.help_text) if help_text is None else help_text,
    )


def capability_choices() -> list[tuple[str, str]]:
    """Every capability with its words."""
    return [(each.value, LABELS[each]) for each in Capability]
