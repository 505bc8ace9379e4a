"""Lists, a page at a time. The cursor is a place in the order, so that rows that come and go meanwhile neither repeat
nor hide others, and the ten thousandth page costs what the first one does."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core import signing
from django.db.models import Q, QuerySet
from django.http import QueryDict
from rest_framework import serializers
from rest_framework.request import Request

from governance.api.exceptions import wrong_field
from governance.api.serializers import StrictSerializer

USUAL, MOST = 50, 200
"""Items on a page, unless and at the most."""


class PageQuery(StrictSerializer):
    """Which page."""

    cursor = serializers.CharField(
        required=False, max_length=500, help_text="Where the page begins: take the address in “next”."
    )
    limit = serializers.IntegerField(
        required=False, default=USUAL, min_value=1, max_value=MOST, help_text="Items on the page."
    )


@dataclass(frozen=True, slots=True)
class Page:
    """The items of a page, and the address of the one after it; ``None`` where nothing follows."""

    items: Sequence[Any]
    next: str | None


def page_of(request: Request, rows: QuerySet[Any], *, order: Sequence[str], query: dict[str, Any]) -> Page:
    """One page of rows in an order of at most two columns, of which the last is nobody else's: one query."""
    limit: int = query["limit"]
    rows = rows.order_by(*order)
    cursor: str = query.get("cursor", "")
    salt = f"signalbox.api.cursor:{request.path}"
    if cursor:
        rows = rows.filter(_after(order, _read(cursor, salt=salt, columns=len(order))))
    found = list(rows[: limit + 1])
    items = found[:limit]
    if len(found) <= limit:
        return Page(items, None)
    address: QueryDict = request.query_params.copy()
    address["cursor"] = signing.dumps([_spell(getattr(items[-1], each.lstrip("-"))) for each in order], salt=salt)
    return Page(items, f"{request.path}?{address.urlencode()}")


def _after(order: Sequence[str], place: Sequence[Any]) -> Q:
    first, *others = (
        (f"{column.lstrip('-')}__{'lt' if column.startswith('-') else 'gt'}", value)
        for column, value in zip(order, place, strict=True)
    )
    if not others:
        return Q(first)
    # The first condition alone is one that an index serves.
    return Q((f"{first[0]}e", first[1])) & (Q(first) | Q(others[0]))


def _spell(value: Any) -> Any:
    return ["at", value.isoformat()] if isinstance(value, datetime) else value if isinstance(value, int) else str(value)


def _read(cursor: str, *, salt: str, columns: int) -> list[Any]:
    """The place that a cursor of this list names. It is signed, so nothing else gets into a query."""
    try:
        place = signing.loads(cursor, salt=salt)
    except signing.BadSignature:
        raise wrong_field("cursor", "This is no place in this list: take the address in “next” as it is.") from None
    return [datetime.fromisoformat(each[1]) if isinstance(each, list) else each for each in place[:columns]]
