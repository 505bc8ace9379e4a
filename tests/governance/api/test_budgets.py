"""Budgets by the API: their ladder, and which thresholds were crossed."""

from typing import Any

import pytest
from django.utils import timezone

from budgets.crossings import Crossings, Spending, watches_of
from budgets.scopes import Subject
from governance.access.budgets import spec_of
from governance.models import Budget, BudgetTier
from tests.budgets.claims import ONE, claim, cross, hold
from tests.factories import BudgetFactory, LanguageModelFactory
from tests.governance.api.program import Program, complaints

LADDER = [{"threshold": 60, "targets": ["cheap"]}, {"threshold": 90, "targets": ["small", "cheap"]}]


@pytest.fixture(autouse=True)
def models(db: None) -> None:
    for identifier in ("cheap", "small"):
        LanguageModelFactory.create(identifier=identifier)


def test_a_ladder_is_sent_as_a_whole(operator: Program) -> None:
    made = operator.post("budgets", {"identifier": "desk", "limit": "250", "tiers": LADDER, "enforce_targets": True})
    assert made.status_code == 201
    assert (made.json()["tiers"], made.json()["enforce_targets"]) == (LADDER, True)
    kept = set(BudgetTier.objects.values_list("pk", flat=True))
    turned = [LADDER[0], {"threshold": 90, "targets": ["cheap", "small"]}]
    assert operator.patch("budgets/desk", {"tiers": turned}).json()["tiers"] == turned
    assert set(BudgetTier.objects.values_list("pk", flat=True)) == kept
    assert operator.patch("budgets/desk", {"tiers": LADDER[:1]}).json()["tiers"] == LADDER[:1]
    assert operator.patch("budgets/desk", {"name": "Desk"}).json()["tiers"] == LADDER[:1]
    emptied = operator.patch("budgets/desk", {"tiers": [], "enforce_targets": False})
    assert emptied.json()["tiers"] == []


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ({"tiers": [{"threshold": 100, "targets": ["cheap"]}]}, ["tiers"]),
        ({"tiers": [{"threshold": 80, "targets": ["gone"]}]}, ["tiers"]),
        ({"tiers": [{"threshold": 80, "targets": ["cheap", "cheap"]}]}, ["tiers"]),
        ({"tiers": [{"threshold": 0, "targets": ["cheap"]}]}, ["tiers[0].threshold"]),
        ({"tiers": [{"threshold": 101, "targets": ["cheap"]}], "enforce_targets": True}, ["tiers[0].threshold"]),
        ({"tiers": [{"threshold": 80, "targets": []}]}, ["tiers[0].targets"]),
        ({"tiers": [{"threshold": 80, "targets": ["cheap"]}], "provider": "*"}, ["provider"]),
        ({"enforce_targets": True}, ["tiers"]),
        ({"tiers": [{"threshold": 1 + each, "targets": ["cheap"]} for each in range(21)]}, ["tiers"]),
        ({"alert_thresholds": [50, 50]}, ["alert_thresholds"]),
    ],
)
def test_what_a_ladder_cannot_be(operator: Program, sent: dict[str, Any], fields: list[str]) -> None:
    answer = operator.post("budgets", {"identifier": "desk", "limit": "250", **sent})
    assert answer.status_code == 400
    assert list(complaints(answer)) == fields
    assert not Budget.objects.exists()


def test_a_strict_tier_begins_at_a_hundred_at_the_latest(operator: Program) -> None:
    tiers = [{"threshold": 100, "targets": ["cheap"]}]
    sent = {"identifier": "desk", "limit": "250", "tiers": tiers, "enforce_targets": True}
    assert operator.post("budgets", sent).status_code == 201
    assert list(complaints(operator.patch("budgets/desk", {"enforce_targets": False}))) == ["tiers"]


def test_what_was_crossed_is_told_with_how_the_budget_stands(operator: Program) -> None:
    row = BudgetFactory.create(identifier="desk", limit=10 * ONE, application="helpdesk", alert_thresholds=[50, 80])
    budget, now = spec_of(row), timezone.now()
    subject = Subject(application="helpdesk", key="", user="", configuration="", provider="")
    account = budget.account_of(subject, moment=now)
    hold(claim(account), now=now)
    watches = watches_of([budget], subject, began=now, now=now)
    cross(Crossings(), watches, {account.identity: Spending(6 * ONE, 0)}, now=now)
    (standing,) = operator.get("budgets/desk").json()["standings"]
    (crossed,) = standing["crossed"]
    assert crossed.pop("at").startswith(f"{now:%Y-%m-%dT%H:%M}")
    assert crossed == {"threshold": 50, "percent": 60, "limit": "10"}
