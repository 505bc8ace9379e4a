"""Pages of budgets and of the accounts behind them."""

import pytest
from django.test import Client
from django.urls import reverse

from budgets.crossings import Crossings, Spending, watches_of
from budgets.models import Account
from budgets.scopes import Subject
from governance.access.budgets import spec_of
from governance.models import Budget
from tests.budgets.claims import LATER, NOW, ONE, claim, hold
from tests.factories import BudgetFactory

pytestmark = pytest.mark.django_db


def test_an_account_says_which_thresholds_were_crossed_in_it(admin_client: Client) -> None:
    budget = spec_of(BudgetFactory.create(limit=10 * ONE, application="helpdesk", alert_thresholds=[80]))
    subject = Subject(application="helpdesk", key="", user="", configuration="", provider="")
    account = budget.account_of(subject, moment=NOW)
    hold(claim(account))
    page = reverse("admin:budgets_account_change", args=[Account.objects.get().pk])
    assert "None so far." in admin_client.get(page).content.decode()
    watches = watches_of([budget], subject, began=NOW, now=LATER)
    Crossings().note(watches, {account.identity: Spending(8 * ONE + ONE // 2, 0)}, now=LATER)
    text = admin_client.get(page).content.decode()
    assert "80 %" in text
    assert "85 %" in text
    assert "8.5 USD" in text
    assert "2026-11-30 12:10:00" in text


def test_thresholds_are_typed_with_commas(admin_client: Client) -> None:
    form = {
        "identifier": "desk", "name": "Desk", "limit": "250", "currency": "USD", "window": "month", "zone": "UTC",
        "unpriced": "refuse", "is_active": "on", "alert_thresholds": "80, 50",
    }  # fmt: skip
    page = reverse("admin:governance_budget_add")
    assert admin_client.post(page, {**form, "alert_thresholds": "50, 101"}).status_code == 200
    assert not Budget.objects.exists()
    assert admin_client.post(page, form).status_code == 302
    budget = Budget.objects.get()
    assert budget.alert_thresholds == [50, 80]
    assert "50, 80" in admin_client.get(reverse("admin:governance_budget_change", args=[budget.pk])).content.decode()
