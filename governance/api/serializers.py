"""What addresses take and give, in general: nothing that was sent is dropped, money is a decimal text."""

import re
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.validators import UniqueTogetherValidator, UniqueValidator

from routing.core.money import MoneyError, format_nanos, parse_nanos
from routing.core.vocabulary import LABELS
from routing.models import NamedRecord

LONGEST_REASON = 500


class Strict(serializers.Serializer[Any]):
    """Refuses a field it does not know, and one that cannot be set, instead of dropping it."""

    def to_internal_value(self, data: Any) -> Any:
        """With a complaint about every stray field beside those of the others."""
        complaints: dict[str, list[str]] = {}
        if isinstance(data, Mapping):
            strays = [name for name in data if name not in self.fields or self.fields[name].read_only]
            complaints = {name: [self._stray(name)] for name in strays}
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as refused:
            if not complaints:
                raise
            raise serializers.ValidationError({**refused.detail, **complaints}) from None  # type: ignore[dict-item]
        if complaints:
            raise serializers.ValidationError(complaints)
        return value

    def _stray(self, name: str) -> str:
        if name in self.fields:
            return "It can be read only."
        known = ", ".join(sorted(field for field, each in self.fields.items() if not each.read_only))
        return f"There is no such field. There are: {known or 'none'}."


class StrictSerializer(Strict):
    """Plain fields."""


def reason_field(**settings: Any) -> serializers.CharField:
    """Why something is done."""
    return serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=LONGEST_REASON,
        help_text="Why, for whoever reads the audit trail later.",
        **settings,
    )


class RecordSerializer(Strict, serializers.ModelSerializer[Any]):
    """A record. Its fields are described by the model; whether values may be stored is the business of the change, so
    that a page and a program are told the same: here they are only read."""

    def build_standard_field(self, field_name: str, model_field: Any) -> Any:
        """Without a look for duplicates, which the change has under its lock."""
        cls, kwargs = super().build_standard_field(field_name, model_field)
        if "validators" in kwargs:
            kwargs["validators"] = [each for each in kwargs["validators"] if not isinstance(each, UniqueValidator)]
        return cls, kwargs

    def get_validators(self) -> list[Any]:
        """As above."""
        validators: list[Any] = super().get_validators()
        return [each for each in validators if not isinstance(each, UniqueTogetherValidator)]


class ReasonedSerializer(RecordSerializer):
    """A record, with room to say why it is made or changed."""

    reason = reason_field(write_only=True)


class Reason(StrictSerializer):
    """Why something is done."""

    reason = reason_field(default="")


class ReasonQuery(Reason):
    """Why something is done, where there is no body."""


class IdentifierField(serializers.SlugRelatedField[Any]):
    """Another record, by its identifier."""

    def __init__(self, records: type[NamedRecord], *, read_only: bool = False, **settings: Any) -> None:
        rows = None if read_only else records._default_manager.all()
        super().__init__(slug_field="identifier", queryset=rows, read_only=read_only, **settings)

    default_error_messages = {  # noqa: RUF012 (the framework merges it up the classes)
        "does_not_exist": "There is no {value}.",
        "invalid": "Give an identifier.",
    }


IDENTIFIERS = {"type": "array", "items": {"type": "string", "maxLength": 100}, "maxItems": 1000}


@extend_schema_field(IDENTIFIERS)
class IdentifiersField(serializers.Field[list[Any], list[str], list[str], Any]):
    """Other records in their order, by their identifiers: read from the rows in between, found in one query."""

    default_error_messages = {  # noqa: RUF012 (the framework merges it up the classes)
        "invalid": "Give a list of at most 1000 identifiers.",
        "unknown": "There is no {names}.",
        "twice": "{names}: named twice.",
    }

    def __init__(self, records: type[NamedRecord], *, through: str, **settings: Any) -> None:
        super().__init__(required=False, **settings)
        self._records = records
        self._through = through

    def to_internal_value(self, data: Any) -> list[Any]:
        """The records."""
        if not isinstance(data, list) or len(data) > 1000 or not all(_is_text(each) for each in data):
            self.fail("invalid")
        twice = [name for name, times in Counter(data).items() if times > 1]
        if twice:
            self.fail("twice", names=", ".join(twice))
        found = {each.identifier: each for each in self._records._default_manager.filter(identifier__in=data)}
        unknown = [name for name in data if name not in found]
        if unknown:
            self.fail("unknown", names=", ".join(unknown))
        return [found[name] for name in data]

    def to_representation(self, value: Any) -> list[str]:
        """The identifiers."""
        return [getattr(row, self._through).identifier for row in value.all()]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\x00" not in value and len(value) <= 100


def words_field(words: type[StrEnum], *, help_text: str) -> serializers.ListField:
    """A list of words of a closed set."""
    choices = [(each.value, LABELS[each]) for each in words]
    return serializers.ListField(
        child=serializers.ChoiceField(choices), required=False, max_length=len(choices), help_text=help_text
    )


class MoneySerializer(StrictSerializer):
    """An amount of money, exactly."""

    amount = serializers.CharField(help_text="A decimal text, such as 0.0067.")
    currency = serializers.CharField()


AMOUNT = r"^-?\d{1,10}(\.\d{1,9})?$"
RATE = r"^\d{1,10}(\.\d{1,9})?$"


@extend_schema_field({"type": "string", "pattern": RATE, "examples": ["2.50"]})
class RateField(serializers.Field[int, str, str, Any]):
    """A price per million tokens as a decimal text, stored as whole nano-units. Nothing is rounded."""

    default_error_messages = {  # noqa: RUF012 (the framework merges it up the classes)
        "invalid": "Write a price per million tokens as a text with a decimal point, such as “2.50”: at most nine "
        "decimals, no sign.",
        "large": "This is more than can be stored.",
    }

    def to_internal_value(self, data: Any) -> int:
        """Whole nano-units."""
        if not isinstance(data, str) or not re.fullmatch(RATE, data, re.ASCII):
            self.fail("invalid")
        try:
            return parse_nanos(data)
        except MoneyError:
            self.fail("large")

    def to_representation(self, value: int) -> str:
        """The decimal without trailing zeros."""
        return format_nanos(value)


@extend_schema_field({"type": "string", "pattern": AMOUNT, "examples": ["250"]})
class AmountField(RateField):
    """An amount of money as a decimal text, stored as whole nano-units. Only what is read can be less than nothing."""

    default_error_messages = {  # noqa: RUF012 (the framework merges it up the classes)
        "invalid": "Write an amount as a text with a decimal point, such as “250.00”: at most nine decimals, no sign.",
    }
