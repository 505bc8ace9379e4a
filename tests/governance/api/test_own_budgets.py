"""What a key is told of the budgets that its calls count in: its application's figures, and of others' only what a
refusal would say."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from budgets.ledger import Claim, reserve, settle
from budgets.scopes import Subject
from governance.access.budgets import spec_of
from governance.models import AccessKey, Budget
from routing.core.money import Money
from tests.factories import AccessKeyFactory, ApplicationFactory, BudgetFactory
from tests.governance.api.program import Program

ONE = 1_000_000_000


@pytest.fixture
def others(db: None) -> Program:
    """The key of another application."""
    _, secret = AccessKeyFactory.create(application=ApplicationFactory.create(identifier="web-shop"))
    return Program(secret)


def spend(budget: Budget, amount: int, *, cost: int | None = None, **subject: str) -> None:
    """Reserve an amount under a budget; with a cost, settle it."""
    named = {"application": "helpdesk", "key": "", "user": "", "configuration": "", "provider": "prod-east"}
    spec, now, attempt = spec_of(budget), datetime.now(UTC), uuid4()
    account = spec.account_of(Subject(**{**named, **subject}), moment=now)
    claim = Claim(budget=spec.identifier, account=account, amount=amount, limit=None)
    reserve(attempt=attempt, call=uuid4(), claims=[claim], now=now, expires_at=now + timedelta(minutes=5))
    if cost is not None:
        settle(attempt=attempt, cost=Money(cost, spec.currency), now=now)


def told(program: Program, query: str = "") -> dict[str, list[dict[str, Any]]]:
    """The budgets that a program is told of, by identifier."""
    answer = program.get(f"usage{query}")
    assert answer.status_code == 200, answer.content
    found: dict[str, list[dict[str, Any]]] = {}
    for each in answer.json()["budgets"]:
        found.setdefault(each["budget"], []).append(each)
    return found


def test_a_budget_of_an_application_whole(key_holder: Program) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=400)
    desk = BudgetFactory.create(increase=ONE // 2, increase_until=until, is_hard=False)
    spend(desk, 2 * ONE, cost=ONE)
    spend(desk, 3 * ONE)
    (found,) = told(key_holder)["desk-month"]
    assert found.pop("window").endswith(" Europe/Berlin")
    assert datetime.fromisoformat(found.pop("resets_at")) > datetime.now(UTC)
    assert datetime.fromisoformat(found.pop("increase_until")) == until
    assert found == {
        "budget": "desk-month", "scope": {"application": "helpdesk"}, "is_own": True, "is_hard": False,
        "currency": "USD", "limit": "10.5", "increase": "0.5", "is_used_up": False, "spent": "1", "reserved": "3",
        "uncertain": "0", "left": "6.5", "unmeasured": 0,
    }  # fmt: skip


def test_an_increase_that_is_over_is_not_told(key_holder: Program) -> None:
    BudgetFactory.create(increase=ONE, increase_until=datetime.now(UTC) - timedelta(seconds=1), window="total")
    (found,) = told(key_holder)["desk-month"]
    assert (found["limit"], found["increase"], found["increase_until"], found["resets_at"]) == ("10", None, None, None)


def test_two_keys_see_what_is_theirs(key_holder: Program, key: AccessKey, others: Program) -> None:
    """Each ``*`` is the value of the key that asks; budgets of other keys and applications are none of its own."""
    by_key = BudgetFactory.create(identifier="each-key", application="", key="*")
    by_application = BudgetFactory.create(identifier="each-application", application="*")
    BudgetFactory.create(identifier="of-the-desk")
    BudgetFactory.create(identifier="of-the-shop", application="web-shop")
    BudgetFactory.create(identifier="of-another-key", key=str(uuid4()))
    BudgetFactory.create(identifier="off", is_active=False)
    BudgetFactory.create(identifier="retired", retired_at=datetime.now(UTC))
    spend(by_key, ONE, cost=ONE, key=str(key.pk))
    spend(by_application, 2 * ONE, cost=2 * ONE)
    spend(by_application, 3 * ONE, cost=3 * ONE, application="web-shop")
    desk, shop = told(key_holder), told(others)
    assert list(desk) == ["each-application", "each-key", "of-the-desk"]
    assert list(shop) == ["each-application", "each-key", "of-the-shop"]
    assert [(each["scope"], each["spent"]) for each in desk["each-key"]] == [({"key": str(key.pk)}, "1")]
    assert [each["spent"] for each in shop["each-key"]] == ["0"]
    assert [(each["scope"], each["spent"]) for each in desk["each-application"]] == [({"application": "helpdesk"}, "2")]
    assert [(each["scope"], each["spent"]) for each in shop["each-application"]] == [({"application": "web-shop"}, "3")]


def test_what_others_spend_is_not_told(key_holder: Program, others: Program) -> None:
    """Of a budget over several applications a key hears its limit, and whether there is anything left."""
    whole = BudgetFactory.create(identifier="whole", application="", limit=2 * ONE)
    spend(whole, ONE, cost=ONE, application="web-shop")
    figures = ("spent", "reserved", "uncertain", "left", "unmeasured")
    for program in (key_holder, others):
        (found,) = told(program)["whole"]
        assert [found[each] for each in figures] == [None] * 5
        assert (found["is_own"], found["scope"], found["limit"], found["is_used_up"]) == (False, {}, "2", False)
    spend(whole, ONE, application="web-shop")
    (found,) = told(key_holder)["whole"]
    assert (found["is_used_up"], found["left"]) == (True, None)


def test_others_users_are_not_named(key_holder: Program) -> None:
    each_user = BudgetFactory.create(identifier="each-user", application="", user="*")
    BudgetFactory.create(identifier="one-user", application="", user="agent-19")
    spend(each_user, 10 * ONE, user="agent-19", application="web-shop")
    (found,) = told(key_holder)["each-user"]
    assert (found["scope"], found["is_used_up"], found["spent"], found["limit"]) == ({"user": "*"}, None, None, "10")
    assert "one-user" not in told(key_holder)
    assert "one-user" not in told(key_holder, "?user=agent-19")


def test_an_applications_users_the_fullest_first_or_the_one_that_is_asked_for(key_holder: Program) -> None:
    users = BudgetFactory.create(identifier="users", user="*")
    for number in range(25):
        spend(users, ONE + number, user=f"agent-{number:02}")
    found = told(key_holder)["users"]
    assert [each["scope"]["user"] for each in found] == [f"agent-{number:02}" for number in range(24, 4, -1)]
    (one,) = told(key_holder, "?user=agent-03")["users"]
    assert (one["scope"], one["reserved"]) == ({"application": "helpdesk", "user": "agent-03"}, "1.000000003")
    (new,) = told(key_holder, "?user=agent-99")["users"]
    assert (new["scope"]["user"], new["left"]) == ("agent-99", "10")


def test_configurations_that_a_key_may_not_use_are_not_named(key_holder: Program, key: AccessKey) -> None:
    BudgetFactory.create(identifier="drafts", configuration="drafting")
    BudgetFactory.create(identifier="support", application="", configuration="support-chat")
    BudgetFactory.create(identifier="east", provider="prod-east")
    assert list(told(key_holder)) == ["drafts", "east", "support"]
    key.allowed_configurations = ["support-chat"]
    key.save()
    assert list(told(key_holder)) == ["east", "support"]
    assert list(told(key_holder, "?provider=prod-west")) == ["support"]


def test_whoever_is_logged_in_has_none(operator: Program) -> None:
    BudgetFactory.create()
    assert operator.get("usage").json()["budgets"] is None


def test_it_costs_the_same_however_many_there_are(key_holder: Program, django_assert_num_queries: Any) -> None:
    for number in range(3):
        spend(BudgetFactory.create(), ONE)
        users = BudgetFactory.create(user="*")
        for user in range(5):
            spend(users, ONE, user=f"agent-{user}-{number}")
    with django_assert_num_queries(6):  # the key; usage by day; budgets, tiers, accounts by identity, accounts of each
        assert len(told(key_holder)) == 6
