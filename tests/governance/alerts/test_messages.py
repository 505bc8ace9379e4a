"""What an alert says: names and figures, amounts as decimal strings."""

import json
from datetime import timedelta
from typing import Any

import pytest

from budgets.models import Crossing
from budgets.scopes import Scope
from budgets.windows import WindowKind
from governance.alerts.messages import crossed_message, trial_message
from governance.models import Budget
from tests.budgets.claims import ONE, key_of
from tests.governance.alerts.rows import NOW, crossing


def said_of(row: Crossing, budget: Budget | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(crossed_message(row, budget))
    return found


@pytest.mark.django_db
def test_a_crossing() -> None:
    budget = Budget(identifier="desk-month", name="The desk's month", is_hard=False)
    assert said_of(crossing(at=NOW), budget) == {
        "type": "budget.threshold_crossed",
        "version": 1,
        "timestamp": "2026-11-30T12:00:00Z",
        "data": {
            "budget": "desk-month",
            "name": "The desk's month",
            "is_hard": False,
            "scope": {"application": "helpdesk"},
            "whose": "application helpdesk",
            "window": {
                "name": "month 2026-11 Europe/Berlin",
                "starts_at": "2026-10-31T23:00:00Z",
                "ends_at": "2026-11-30T23:00:00Z",
            },
            "threshold_percent": 80,
            "used_percent": 85,
            "currency": "USD",
            "limit": "10",
            "spent": "8",
            "uncertain": "0.5",
            "left": "1.5",
            "forecast": {"limit_reached_at": None},  # 8.5 in ten days leave 1.5 for more than the eleven hours left
        },
    }


@pytest.mark.django_db
def test_a_limit_that_will_be_reached_in_the_window_has_its_day() -> None:
    """9 of 10 in ten days: the last one in another ten ninths of a day."""
    key = key_of(Scope(user="agent-17"), window=WindowKind.TOTAL)
    data = said_of(crossing(at=NOW, key=key, spent=9 * ONE, uncertain=0))["data"]
    assert data["window"] == {"name": "total", "starts_at": None, "ends_at": None}
    reached = NOW + timedelta(days=10) / 9
    assert data["forecast"]["limit_reached_at"].startswith(f"{reached:%Y-%m-%dT%H:%M}")
    assert (data["name"], data["is_hard"]) == (None, None)


@pytest.mark.django_db
def test_an_overrun_is_told_as_it_is() -> None:
    data = said_of(crossing(at=NOW, spent=12 * ONE, uncertain=0, threshold=100))["data"]
    assert (data["left"], data["used_percent"]) == ("-2", 100)
    assert data["forecast"]["limit_reached_at"] == "2026-11-30T12:00:00Z"


@pytest.mark.django_db
@pytest.mark.parametrize(("needed", "told"), [(6 * ONE // 10, "0.6"), (None, None)])
def test_a_call_that_was_refused(needed: int | None, told: str | None) -> None:
    said = said_of(crossing(at=NOW, threshold=None, spent=9 * ONE, needed=needed))
    assert (said["type"], said["version"]) == ("budget.refusing_calls", 1)
    assert "threshold_percent" not in said["data"]
    assert {name: said["data"][name] for name in ("needed", "used_percent", "limit", "left")} == {
        "needed": told, "used_percent": 95, "limit": "10", "left": "0.5",
    }  # fmt: skip


def test_a_trial() -> None:
    said = json.loads(trial_message("pager", now=NOW))
    assert (said["type"], said["version"], said["data"]["webhook"]) == ("test", 1, "pager")
