"""The usage report."""

import csv
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from governance.models import AccessKey
from tests.factories import AccessKeyFactory, UsageDayFactory, UsageHourFactory
from tests.governance.admin.pages import text_of

PAGE = reverse("admin:telemetry_usageday_report")


def today() -> Any:
    return datetime.now(UTC).date()


def used(**values: Any) -> None:
    """Usage of today, with an hour beside it."""
    UsageDayFactory(day=today(), **values)
    UsageHourFactory(hour=datetime.now(UTC).replace(minute=0, second=0, microsecond=0), **values)


def test_a_week_by_application_is_what_is_shown_first(operator: Client) -> None:
    used(application="helpdesk", requests=4, failures=1, cost_nanos=2_500_000_000)
    used(application="web-shop", requests=6, cost_nanos=500_000_000)
    page = text_of(operator.get(PAGE))
    assert "By application" in page
    assert page.index("web-shop") < page.index("helpdesk")
    for words in ("3.00 USD", "60.0 %", "1 got no answer", "Requests per day", "Cost per day (USD)"):
        assert words in page


def test_everything_that_is_asked_is_in_the_address(operator: Client) -> None:
    used(application="helpdesk", model="fast", requests=4)
    used(application="web-shop", model="wise", requests=6)
    page = text_of(operator.get(f"{PAGE}?by=model&application=helpdesk"))
    assert "fast" in page
    assert "wise" not in page
    assert f'href="{PAGE}?by=model"' in page  # all applications again
    assert f"{PAGE}?by=day&amp;application=helpdesk&amp;model=fast" in page  # one value's own report


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("since=2026-02-30", "Enter a valid date"),
        ("since=2026-05-02&until=2026-05-01", "It begins after 2026-05-01"),
        ("since=2020-01-01", "At most 366 days"),
        ("zone=Nowhere/Land", "There is no time zone"),
        ("zone=Asia/Kolkata", "do not begin at a full hour of UTC"),
        ("by=hour&since=2020-01-01&until=2020-03-01", "At most 14 days are told hour by hour"),
        ("by=moon", "Select a valid choice"),
    ],
)
def test_what_cannot_be_told_is_said_beside_its_field(operator: Client, query: str, complaint: str) -> None:
    answer = operator.get(f"{PAGE}?{query}")
    assert answer.status_code == 200
    assert complaint in text_of(answer)


def test_days_of_a_zone_are_made_of_hours(operator: Client) -> None:
    late = datetime.now(UTC).replace(hour=23, minute=0, second=0, microsecond=0) - timedelta(days=1)
    UsageHourFactory(hour=late, requests=7)
    span = f"since={late.date() + timedelta(days=1)}&until={late.date() + timedelta(days=1)}&by=day"
    assert "Nothing was used" in text_of(operator.get(f"{PAGE}?{span}"))
    assert f'<th scope="row" class="sb-break">{late.date() + timedelta(days=1)}</th>' in text_of(
        operator.get(f"{PAGE}?{span}&zone=Europe/Berlin")
    )


def test_hours_are_told_one_by_one(operator: Client) -> None:
    used(requests=3)
    page = text_of(operator.get(f"{PAGE}?by=hour&since={today()}&until={today()}"))
    assert "Requests per hour" in page
    assert f"{datetime.now(UTC):%Y-%m-%dT%H}:00+00:00" in page


def test_keys_are_called_what_people_call_them(operator: Client) -> None:
    key: AccessKey = AccessKeyFactory.create(name="Nightly run").record
    used(key=str(key.pk), requests=2)
    used(key="", requests=1)
    page = text_of(operator.get(f"{PAGE}?by=key"))
    assert f"Nightly run ({key.prefix}…)" in page
    assert "Nightly run" in text_of(operator.get(f"{PAGE}?by=day&key={key.pk}"))


def test_the_table_is_for_programs(operator: Client) -> None:
    used(application="helpdesk", requests=4, cost_nanos=2_500_000_000, input_tokens=10, output_tokens=3)
    used(application="=1+1", requests=1, cost_nanos=0, currency="")
    answer = operator.get(f"{PAGE}?format=csv")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(StringIO(text_of(answer))))
    assert [row["application"] for row in rows] == ["helpdesk", "'=1+1"]
    assert (rows[0]["requests"], rows[0]["input_tokens"], rows[0]["cost"], rows[0]["currency"]) == (
        "4",
        "10",
        "2.5",
        "USD",
    )
    assert (rows[1]["cost"], rows[1]["currency"]) == ("", "")


def test_it_costs_the_same_however_much_there_is(operator: Client, django_assert_max_num_queries: Any) -> None:
    for number in range(30):
        used(application=f"program-{number}", requests=1)
    with django_assert_max_num_queries(5):  # the session, who it is, two sums
        operator.get(PAGE)


def test_who_may_not_see_usage_does_not_see_it(staff: Callable[..., Client]) -> None:
    assert staff("view_provider").get(PAGE).status_code == 403
