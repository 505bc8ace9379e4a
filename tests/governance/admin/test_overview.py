"""The first page: figures in words, charts with a table that says the same, and the steps that are still open."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from budgets.scopes import Scope
from budgets.windows import WindowKind
from governance.changes.settings import store_setting
from governance.spelling import spell_milliseconds, spell_period, spell_share, spell_sum
from routing.core.money import Money
from telemetry.readouts.periods import Period
from tests.authors import SOMEBODY
from tests.budgets.claims import key_of
from tests.factories import (
    AccessKeyFactory,
    ApplicationFactory,
    CallFactory,
    ConfigurationFactory,
    LanguageModelFactory,
    ProviderFactory,
    UsageDayFactory,
)
from tests.governance.admin.pages import text_of
from tests.governance.alerts.rows import crossing

INDEX = reverse("admin:index")
STEPS = ["Connect a provider", "Add a model", "Make a configuration", "Issue a key", "Make the first call"]


def overview_of(browser: Client, period: str = "7d") -> Any:
    return browser.get(INDEX, {"period": period}).context["overview"]


# --- Words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nanos", "shown"),
    [
        (0, "0.00 USD"),
        (1_234_567_890_000, "1,234.57 USD"),
        (5_000_000_000, "5.00 USD"),
        (10_000_000, "0.01 USD"),
        (6_400_000, "0.0064 USD"),
        (123_456, "0.00012 USD"),
        (99_999, "below 0.0001 USD"),
        (1, "below 0.0001 USD"),
    ],
)
def test_a_sum_at_a_glance_is_never_zero_unless_it_is(nanos: int, shown: str) -> None:
    assert spell_sum(Money(nanos, "USD")) == shown


def test_shares_and_times() -> None:
    assert [spell_share(each) for each in (None, 0.0, 0.0004, 0.0213, 1.0)] == [
        "—", "0.0 %", "below 0.1 %", "2.1 %", "100.0 %",
    ]  # fmt: skip
    assert [spell_milliseconds(each) for each in (412.4, 1_237.0, 12_345.0)] == ["412 ms", "1,237 ms", "12.3 s"]
    assert [spell_period(timedelta(seconds=each)) for each in (1, 90, 600, 7200, 86_400, 90_000)] == [
        "1 second", "90 seconds", "10 minutes", "2 hours", "1 day", "25 hours",
    ]  # fmt: skip


# --- Who sees it ----------------------------------------------------------------------------------------------------


def test_whoever_may_not_look_at_calls_gets_the_list_of_pages(staff: Callable[..., Client]) -> None:
    browser = staff("view_provider")
    page = browser.get(INDEX)
    assert "overview" not in page.context
    assert "sb-tile" not in text_of(page)
    assert reverse("admin:routing_provider_changelist") in text_of(page)


def test_an_auditor_sees_it_and_is_offered_nothing_to_do(auditor: Client) -> None:
    overview = overview_of(auditor)
    assert [step.url for step in overview.steps] == [""] * len(STEPS)
    assert "An operator can do this." in text_of(auditor.get(INDEX))


# --- Setting up -----------------------------------------------------------------------------------------------------


def next_step(browser: Client) -> tuple[str, str]:
    (step,) = [step for step in overview_of(browser).steps if step.is_next]
    return step.title, step.url


def test_the_steps_lead_from_nothing_to_the_first_call(operator: Client) -> None:
    assert [step.title for step in overview_of(operator).steps] == STEPS
    assert next_step(operator) == (STEPS[0], reverse("admin:routing_provider_add"))
    provider = ProviderFactory()
    assert next_step(operator) == (STEPS[1], reverse("admin:routing_languagemodel_add"))
    LanguageModelFactory(provider=provider)
    assert next_step(operator) == (STEPS[2], reverse("admin:routing_configuration_add"))
    ConfigurationFactory(identifier="support-chat")
    assert next_step(operator) == (STEPS[3], reverse("admin:governance_application_add"))
    application = ApplicationFactory()
    assert next_step(operator) == (STEPS[3], reverse("admin:governance_accesskey_add"))
    AccessKeyFactory(application=application)
    assert next_step(operator) == (STEPS[4], "")
    page = unescape(text_of(operator.get(INDEX)))
    assert "curl http://testserver/v1/chat/completions" in page
    assert '"model": "support-chat"' in page
    UsageDayFactory()
    assert overview_of(operator).is_set_up
    assert "Connect a provider" not in text_of(operator.get(INDEX))


def test_what_serves_nobody_is_no_step_taken(operator: Client) -> None:
    now = timezone.now()
    LanguageModelFactory(provider=ProviderFactory(is_active=False, retired_at=now))
    ConfigurationFactory(is_active=False)
    AccessKeyFactory(expires_at=now - timedelta(days=1))
    assert [step.is_done for step in overview_of(operator).steps] == [False] * len(STEPS)


# --- Figures --------------------------------------------------------------------------------------------------------


def test_an_empty_period_has_dashes_and_no_charts(operator: Client) -> None:
    page = text_of(operator.get(INDEX))
    assert {tile.label: tile.figures for tile in overview_of(operator).tiles} == {
        "Cost": ("—",),
        "Requests": ("0",),
        "Tokens": ("—",),
        "Failure rate": ("—",),
        "Time to first token": ("—",),
    }
    assert "No call was made in this period." in page
    assert "<canvas" not in page


def test_the_figures_and_what_they_mean(operator: Client) -> None:
    today = datetime.now(UTC).date()
    UsageDayFactory(day=today, requests=8, failures=2, cost_nanos=5_310_000_000, unpriced_requests=1)
    UsageDayFactory(day=today, requests=2, currency="EUR", cost_nanos=20_000_000, provider="lab")
    CallFactory(started_at=timezone.now(), streamed=True, first_token_ms=412.0)
    tiles = {tile.label: tile for tile in overview_of(operator).tiles}
    assert tiles["Cost"].figures == ("5.31 USD", "0.02 EUR")
    assert tiles["Cost"].meaning.endswith("1 answered call without a known price.")
    assert tiles["Failure rate"].figures == ("20.0 %",)
    assert tiles["Failure rate"].meaning == "2 of 10 calls got no answer."
    assert tiles["Time to first token"].figures == ("412 ms",)
    assert tiles["Time to first token"].meaning == "Median of 1 streamed call."


@pytest.mark.parametrize("period", list(Period))
def test_every_chart_has_a_table_that_says_the_same(period: Period, operator: Client) -> None:
    now = timezone.now()
    for day in range(3):
        UsageDayFactory(day=(now - timedelta(days=day)).date(), requests=day + 1, cost_nanos=10_000_000 * (day + 1))
        CallFactory(started_at=now - timedelta(hours=day), actual_cost_nanos=10_000_000 * (day + 1))
    overview = overview_of(operator, period.value)
    requests, cost = [json.loads(chart.data)["datasets"][0]["data"] for chart in overview.charts]
    assert [f"{value:,}" for value in requests] == [row.requests for row in reversed(overview.bars)]
    assert ["—" if value is None else f"{value:.2f} USD" for value in cost] == [
        row.cost for row in reversed(overview.bars)
    ]
    page = unescape(text_of(operator.get(INDEX, {"period": period.value})))
    assert page.count("<canvas") == 2
    assert f'data-value="{overview.charts[0].data}"' in page
    assert all(f'<th scope="row">{row.start}</th>' in page for row in overview.bars)
    assert re.search(rf'href="\?period={period.value}" aria-current="true"', page)


def test_no_bar_stands_where_nothing_was_priced(operator: Client) -> None:
    UsageDayFactory(day=datetime.now(UTC).date(), currency="", cost_nanos=0, unpriced_requests=4)
    overview = overview_of(operator)
    assert [chart.title for chart in overview.charts] == ["Requests per day"]
    assert overview.bars[0].cost == "—"


def test_demo_data_is_marked(operator: Client) -> None:
    UsageDayFactory(day=datetime.now(UTC).date(), source="web-shop")
    assert "demo data" not in text_of(operator.get(INDEX))
    UsageDayFactory(day=datetime.now(UTC).date(), source="demo")
    assert "demo data" in text_of(operator.get(INDEX))


def test_it_is_said_that_calls_are_not_recorded(operator: Client) -> None:
    assert "Calls are not recorded" not in text_of(operator.get(INDEX))
    store_setting("telemetry.enabled", False, author=SOMEBODY)
    assert "Calls are not recorded" in text_of(operator.get(INDEX))


@pytest.mark.parametrize("period", list(Period))
def test_the_page_takes_as_many_queries_for_many_rows_as_for_one(period: Period, operator: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            operator.get(INDEX, {"period": period.value})
        return len(asked)

    AccessKeyFactory()
    ConfigurationFactory(listed=True)
    CallFactory(started_at=timezone.now(), first_token_ms=3.0)
    UsageDayFactory(day=datetime.now(UTC).date())
    queries()  # what is asked once per process
    few = queries()
    for number in range(10):
        UsageDayFactory(day=datetime.now(UTC).date() - timedelta(days=number), provider=f"prod-{number}")
        CallFactory(started_at=timezone.now() - timedelta(hours=number), first_token_ms=3.0)
        ConfigurationFactory(listed=True)
    assert queries() == few
    assert few < 20


def test_alerts_of_windows_that_last_are_shown_the_latest_first(
    operator: Client, django_user_model: type[User]
) -> None:
    month, over = key_of(Scope(user="agent-17"), window=WindowKind.TOTAL), timezone.now() - timedelta(days=62)
    crossing("long-ago", key=key_of(Scope(user="agent-17"), moment=over))
    for threshold in range(10, 80, 10):
        crossing("desk-month", threshold=threshold, key=month)
    crossing("desk-month", threshold=None, key=month)
    alerts = operator.get(INDEX).context["overview"].alerts
    assert [(each.budget, each.told) for each in alerts] == [
        ("desk-month", told) for told in ("refuses calls", *(f"past {threshold} %" for threshold in (70, 60, 50, 40)))
    ]
    assert (alerts[0].whose, alerts[0].window) == ("user agent-17", "total")
    assert f'href="{alerts[0].url}"' in operator.get(INDEX).content.decode()
    looks = django_user_model.objects.create_user("lena", is_staff=True)
    looks.user_permissions.add(Permission.objects.get(codename="view_call"))
    browser = Client()
    browser.force_login(looks)
    assert browser.get(INDEX).context["overview"].alerts == ()


def test_log_in_leads_here(db: None) -> None:
    user = User.objects.create_user("olga", password="a long pass phrase", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    answer = Client().post(reverse("admin:login"), {"username": "olga", "password": "a long pass phrase"})
    assert (answer.status_code, answer.headers["Location"]) == (302, INDEX)
