"""*Budgets*: what is in force and how it stands, the fullest first, in as many queries for many as for one."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from budgets.ledger import settle
from budgets.models import Account
from budgets.scopes import EACH, AccountKey, Scope
from budgets.windows import WindowKind, window_at
from governance.models import BudgetTier
from governance.tab import budgets
from routing.core.money import NANOS, Money
from tests.budgets.claims import claim, hold
from tests.factories import BudgetFactory, LanguageModelFactory
from tests.governance.admin.pages import text_of, words_of

pytestmark = pytest.mark.django_db


def spend(amount: int, **scope: str) -> str:
    """Some nano-units of this month in Berlin; gives the account's address."""
    now = timezone.now()
    window = window_at(WindowKind.MONTH, zone="Europe/Berlin", moment=now)
    key = AccountKey(scope=Scope(**scope), currency="USD", window=window)
    settle(attempt=hold(claim(key, amount=amount, limit=None), now=now), cost=Money(amount, "USD"), now=now)
    return reverse("admin:budgets_account_change", args=[Account.objects.get(identity=key.identity).pk])


def panel_of(browser: Client) -> Any:
    return browser.get(budgets.PANEL.url).context["panel"]


def test_those_closest_to_their_limit_come_first(operator: Client) -> None:
    BudgetFactory.create(identifier="untouched", application="", limit=NANOS, user="agent-3")
    BudgetFactory.create(identifier="half", application="", limit=2 * NANOS, user="agent-1")
    BudgetFactory.create(identifier="over", application="", limit=NANOS, user="agent-2", is_hard=False)
    BudgetFactory.create(identifier="off", application="", limit=NANOS, is_active=False)
    spend(NANOS, user="agent-1")
    account = spend(3 * NANOS, user="agent-2")
    panel = panel_of(operator)
    assert [row.identifier for row in panel.budgets] == ["over", "half", "untouched"]
    assert panel.heading == "3 budgets in force, 1 with nothing left"
    over, half, untouched = panel.budgets
    assert (over.is_exhausted, half.is_exhausted, untouched.is_exhausted) == (True, False, False)
    assert (over.rule, half.rule) == (
        "user agent-2: 1 USD, calendar month, soft",
        "user agent-1: 2 USD, calendar month, hard",
    )
    assert (over.bars[0].spent_percent, over.bars[0].left, over.bars[0].address) == (100, "-2 USD", account)
    page = text_of(operator.get(budgets.PANEL.url))
    assert f'href="{account}"' in page
    assert over.url in page


def test_a_budget_of_each_shows_the_fullest_and_says_how_many_there_are_besides(operator: Client) -> None:
    BudgetFactory.create(identifier="people", application="", user=EACH, limit=100 * NANOS)
    for number in range(1, 13):
        spend(number * NANOS, user=f"agent-{number}")
    (row,) = panel_of(operator).budgets
    assert [bar.scope for bar in row.bars] == [f"user agent-{number}" for number in range(12, 2, -1)]
    assert row.others == 2
    assert "2 more that have spent less" in words_of(operator.get(budgets.PANEL.url))


def test_an_increase_counts_while_it_lasts(operator: Client) -> None:
    until = timezone.now() + timedelta(days=1)
    BudgetFactory.create(application="", limit=NANOS, increase=NANOS, increase_until=until)
    (row,) = panel_of(operator).budgets
    assert row.is_increased
    assert ": 2 USD," in row.rule


def test_a_ladder_is_told_and_which_step_is_in_force(operator: Client) -> None:
    for name in ("mid", "other"):
        LanguageModelFactory.create(identifier=name)
    LanguageModelFactory.create(identifier="small", is_active=False)
    for name, limit, is_strict in (("advised", 4 * NANOS, False), ("used-up", 0, True)):
        row = BudgetFactory.create(
            identifier=name, application="", user=name, limit=limit, is_hard=False, enforce_targets=is_strict
        )
        for threshold, model in ((50, "mid"), (50, "other"), (80, "small")):
            BudgetTier(budget=row, threshold=threshold, model=model, position=len(model)).save()
    rows = {row.identifier: row for row in panel_of(operator).budgets}
    assert rows["advised"].ladder == (
        "From 50 % on mid, other goes first; from 80 % on small goes first. Not in service: small."
    )
    assert rows["used-up"].ladder.startswith(
        "From 50 % on only mid, other may serve; from 80 % on only small may serve."
    )
    assert [row.bars[0].tier for row in rows.values()] == ["Tier from 80 % in force: only small may serve", ""]
    assert rows["advised"].ladder in words_of(operator.get(budgets.PANEL.url))


def test_without_a_budget_an_operator_is_led_to_one(operator: Client, auditor: Client) -> None:
    link = reverse("admin:governance_budget_add")
    assert link in text_of(operator.get(budgets.PANEL.url))
    assert "No budget is in force" in words_of(auditor.get(budgets.PANEL.url))
    assert f'class="sb-button" href="{link}"' not in text_of(auditor.get(budgets.PANEL.url))


def test_as_many_queries_for_many_as_for_one(operator: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as asked:
            assert operator.get(budgets.PANEL.url).status_code == 200
        return len(asked)

    BudgetFactory.create(application="", user="agent-0", limit=NANOS)
    spend(1, user="agent-0")
    queries()
    one = queries()
    for number in range(1, 6):
        BudgetFactory.create(application="", user=f"agent-{number}", limit=NANOS)
        spend(number, user=f"agent-{number}")
    assert queries() == one
