"""The list of alerts: what was crossed with its figures, and what each webhook was told."""

import pytest

from tests.budgets.claims import ONE
from tests.governance.alerts.rows import crossing, delivery
from tests.governance.api.program import Program

pytestmark = pytest.mark.django_db


def test_an_alert_and_who_was_told(operator: Program) -> None:
    crossing("desk-month")
    row = delivery()
    latest, first = operator.get("alerts").json()["items"]
    assert latest["budget"] == "budget-of-pager"
    assert latest["deliveries"] == [
        {
            "id": str(row.pk),
            "webhook": "pager",
            "state": "waiting",
            "attempts": 0,
            "next_attempt_at": latest["deliveries"][0]["next_attempt_at"],
            "last_status": None,
            "last_error": "",
        }
    ]
    del first["at"]
    assert first == {
        "type": "budget.threshold_crossed",
        "budget": "desk-month",
        "threshold_percent": 80,
        "used_percent": 85,
        "scope": {"application": "helpdesk"},
        "window": "month 2026-11 Europe/Berlin",
        "currency": "USD",
        "limit": "10",
        "spent": "8",
        "uncertain": "0.5",
        "needed": None,
        "deliveries": [],  # the webhook was made later
    }


def test_calls_that_were_refused(operator: Program) -> None:
    crossing("desk-month", threshold=None, needed=2 * ONE)
    (found,) = operator.get("alerts").json()["items"]
    told = [found[name] for name in ("type", "threshold_percent", "used_percent", "needed")]
    assert told == ["budget.refusing_calls", None, 85, "2"]


def test_the_alerts_of_one_budget(operator: Program) -> None:
    crossing("desk-month")
    crossing("shop-month")
    found = operator.get("alerts?budget=shop-month").json()["items"]
    assert [each["budget"] for each in found] == ["shop-month"]
