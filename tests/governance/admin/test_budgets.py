"""Pages of budgets and of the accounts behind them."""

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from budgets.crossings import Crossings, Spending, watches_of
from budgets.models import Account
from budgets.scopes import Subject, Tier
from governance.access.budgets import spec_of
from governance.models import Budget, BudgetTier, Revision
from tests.budgets.claims import LATER, NOW, ONE, claim, cross, hold
from tests.factories import BudgetFactory, LanguageModelFactory

pytestmark = pytest.mark.django_db


def test_an_account_says_which_thresholds_were_crossed_in_it(admin_client: Client) -> None:
    budget = spec_of(BudgetFactory.create(limit=10 * ONE, application="helpdesk", alert_thresholds=[80]))
    subject = Subject(application="helpdesk", key="", user="", configuration="", provider="")
    account = budget.account_of(subject, moment=NOW)
    hold(claim(account))
    page = reverse("admin:budgets_account_change", args=[Account.objects.get().pk])
    assert "None so far." in admin_client.get(page).content.decode()
    watches = watches_of([budget], subject, began=NOW, now=LATER)
    cross(Crossings(), watches, {account.identity: Spending(8 * ONE + ONE // 2, 0)}, now=LATER)
    text = admin_client.get(page).content.decode()
    assert "80 %" in text
    assert "85 %" in text
    assert "8.5 USD" in text
    assert "2026-11-30 12:10:00" in text


def form(*steps: tuple[int, str], **fields: str) -> dict[str, str]:
    """What a browser sends for a new budget with a ladder."""
    rows = {
        f"tiers-{index}-{field}": str(value)
        for index, step in enumerate(steps)
        for field, value in zip(("threshold", "model", "position"), (*step, index), strict=True)
    }
    return {
        "identifier": "desk", "name": "Desk", "limit": "250", "currency": "USD", "window": "month", "zone": "UTC",
        "unpriced": "refuse", "is_active": "on", "tiers-TOTAL_FORMS": str(len(steps)), "tiers-INITIAL_FORMS": "0",
        **rows, **fields,
    }  # fmt: skip


ADD = "admin:governance_budget_add"


def test_thresholds_are_typed_with_commas(admin_client: Client) -> None:
    assert admin_client.post(reverse(ADD), form(alert_thresholds="50, 101")).status_code == 200
    assert not Budget.objects.exists()
    assert admin_client.post(reverse(ADD), form(alert_thresholds="80, 50")).status_code == 302
    budget = Budget.objects.get()
    assert budget.alert_thresholds == [50, 80]
    assert "50, 80" in admin_client.get(reverse("admin:governance_budget_change", args=[budget.pk])).content.decode()


def test_a_ladder_is_built_in_the_form(admin_client: Client) -> None:
    for identifier in ("cheap", "small"):
        LanguageModelFactory.create(identifier=identifier)
    sent = form((90, "small"), (60, "cheap"), (90, "cheap"), enforce_targets="on")
    assert admin_client.post(reverse(ADD), sent).status_code == 302
    spec = spec_of(Budget.objects.get())
    assert spec.tiers == (Tier(60, ("cheap",)), Tier(90, ("small", "cheap")))
    assert spec.enforces_targets
    revision = Revision.objects.get(record="desk")
    assert revision.after is not None
    assert revision.after["tiers"] == [
        {"threshold": 60, "model": "cheap"}, {"threshold": 90, "model": "small"}, {"threshold": 90, "model": "cheap"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "fields", "words"),
    [
        ([(100, "cheap")], {}, "A tier that is not strict begins at 1 to 99 per cent, not at 100."),
        ([(80, "cheap"), (80, "cheap")], {}, "duplicate"),
        ([(80, "cheap")], {"provider": "*"}, "leave the provider empty, or leave out the tiers"),
        ([], {"enforce_targets": "on"}, "Strict tiers need at least one tier."),
        ([(80, "gone")], {}, "Select a valid choice"),
    ],
)
def test_what_is_wrong_with_a_ladder_is_said_in_the_form(
    admin_client: Client, steps: list[tuple[int, str]], fields: dict[str, str], words: str
) -> None:
    LanguageModelFactory.create(identifier="cheap")
    answer = admin_client.post(reverse(ADD), form(*steps, **fields))
    assert answer.status_code == 200
    assert words in answer.content.decode()
    assert not Budget.objects.exists()


def test_the_page_of_a_budget_says_which_tier_is_in_force_since_when(
    admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    model = LanguageModelFactory.create(identifier="cheap")
    row = BudgetFactory.create(limit=10 * ONE, application="helpdesk", zone="UTC", enforce_targets=True)
    BudgetTier(budget=row, threshold=80, model=model.identifier).save()
    now = timezone.now()
    budget = spec_of(row)
    subject = Subject(application="helpdesk", key="", user="", configuration="", provider="")
    account = budget.account_of(subject, moment=now)
    hold(claim(account), now=now)
    page = reverse("admin:governance_budget_change", args=[row.pk])
    assert "nothing" in admin_client.get(page).content.decode()
    watches = watches_of([budget], subject, began=now, now=now)
    cross(Crossings(), watches, {account.identity: Spending(9 * ONE, 0)}, now=now)
    text = admin_client.get(page).content.decode()
    assert f"80 % at {now:%Y-%m-%d %H:%M} UTC" in text
    assert "Tier from 80 % in force: only cheap may serve" in text
    for _ in range(3):
        BudgetTier(budget=row, threshold=90 + _, model=model.identifier).save()
    with django_assert_max_num_queries(20):
        admin_client.get(page)
