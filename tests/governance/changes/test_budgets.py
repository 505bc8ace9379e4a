"""What a budget may name, and what it must have."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django.core.exceptions import ValidationError

from budgets.scopes import Scope
from governance.access.budgets import load_budgets
from governance.changes.keys import revoke_key
from governance.changes.records import retire, save_record
from governance.models import Budget
from tests.authors import SOMEBODY
from tests.factories import AccessKeyFactory, ApplicationFactory, BudgetFactory, ConfigurationFactory, ProviderFactory

pytestmark = pytest.mark.django_db


def complaints(**columns: Any) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as refused:
        save_record(Budget(**{"identifier": "desk", "limit": 5, **columns}), author=SOMEBODY)
    assert not Budget.objects.exists()
    return dict(refused.value.message_dict)


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"application": "nobody"}, "application"),
        ({"configuration": "nothing"}, "configuration"),
        ({"provider": "nowhere"}, "provider"),
        ({"key": "no id"}, "key"),
        ({"key": str(uuid4())}, "key"),
        ({"zone": "Europe/Nowhere"}, "zone"),
        ({"currency": "usd"}, "currency"),
        ({"limit": None}, "limit"),
        ({"limit": -1}, "limit"),
        ({"window": "fortnight"}, "window"),
        ({"increase": 5}, "increase_until"),
        ({"increase_until": datetime(2026, 12, 1, tzinfo=UTC)}, "increase"),
        ({"alert_thresholds": [0]}, "alert_thresholds"),
        ({"alert_thresholds": [101]}, "alert_thresholds"),
        ({"alert_thresholds": [50, 50]}, "alert_thresholds"),
        ({"alert_thresholds": [True]}, "alert_thresholds"),
        ({"alert_thresholds": "50"}, "alert_thresholds"),
        ({"alert_thresholds": [*range(1, 12)]}, "alert_thresholds"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(columns: dict[str, Any], field: str) -> None:
    assert list(complaints(**columns)) == [field]


def test_a_budget_names_what_is_there_and_each() -> None:
    key = AccessKeyFactory.create().record
    scope = {
        "application": key.application.identifier, "key": str(key.pk), "user": "agent-17",
        "configuration": ConfigurationFactory.create().identifier, "provider": ProviderFactory.create().identifier,
    }  # fmt: skip
    save_record(Budget(identifier="narrow", limit=5, **scope), author=SOMEBODY)
    save_record(Budget(identifier="wide", limit=0, **dict.fromkeys(scope, "*")), author=SOMEBODY)
    narrow, wide = load_budgets().budgets
    assert narrow.scope == Scope(**scope)
    assert wide.scope == Scope(**dict.fromkeys(scope, "*"))


def test_the_thresholds_of_alerts_are_ascending() -> None:
    save_record(Budget(identifier="desk", limit=5, alert_thresholds=[100, 1, 80]), author=SOMEBODY)
    assert load_budgets().budgets[0].thresholds == (1, 80, 100)


def test_what_a_budget_names_already_may_be_retired() -> None:
    key = AccessKeyFactory.create().record
    budget = Budget(identifier="desk", limit=5, application="helpdesk", key=str(key.pk))
    save_record(budget, author=SOMEBODY)
    revoke_key(key, author=SOMEBODY)
    retire(key.application, author=SOMEBODY)
    budget.limit = 6
    save_record(budget, author=SOMEBODY, only=["limit"])
    assert load_budgets().budgets[0].limit == 6


def test_retired_and_switched_off_budgets_are_not_in_force() -> None:
    ApplicationFactory.create()
    BudgetFactory.create(is_active=False)
    retire(BudgetFactory.create(), author=SOMEBODY)
    assert load_budgets().budgets == ()
