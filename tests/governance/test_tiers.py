"""Tiers of budgets in what is in force: decided, remembered, explained."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from budgets.crossings import Crossings
from budgets.models import Account, Crossing
from budgets.scopes import EACH
from governance.access.budgets import spec_of
from governance.access.directory import task_caller
from governance.decisions import NOBODY, Standing, rule
from governance.gateway.service import standing_now
from governance.models import Application, Budget, BudgetTier
from governance.questions import Question, ask
from governance.route_health import read_routes, unusable_among
from governance.standing_poll import StandingPoll
from governance.tab.addresses import address_of
from governance.tab.choices import address
from governance.tab.consequences import foresee
from governance.tab.explained import page_of
from governance.tab.words import WHOSE
from routing.core.requirements import Requirements
from routing.core.vocabulary import Operation
from routing.models import LanguageModel
from tests.budgets.claims import claim, hold
from tests.factories import (
    AccessKeyFactory,
    ApplicationFactory,
    BudgetFactory,
    CallFactory,
    ConfigurationFactory,
    DecisionRecordFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
)
from tests.governance.api.program import Program
from tests.governance.test_decisions import alone

pytestmark = pytest.mark.django_db

CHAT = Requirements(operation=Operation.CHAT, prompt_tokens=100)


@pytest.fixture
def now() -> datetime:
    return timezone.now()


@pytest.fixture
def budget() -> Budget:
    """Past 80 % only ``cheap`` may serve ``support-chat``, which is fixed to ``dear``."""
    dear, _ = (LanguageModelFactory.create(identifier=name) for name in ("dear", "cheap"))
    ConfigurationFactory.create(identifier="support-chat", fixed=True, fixed_model=dear)
    row: Budget = BudgetFactory.create(application="", configuration="support-chat", enforce_targets=True)
    BudgetTier(budget=row, threshold=80, model="cheap").save()
    return row


def cross(budget: Budget, now: datetime, *, configuration: str = "support-chat", application: str = "") -> None:
    """Somebody writes down that 83 % are used up."""
    who = replace(NOBODY, configuration=configuration, application=application)
    account = spec_of(budget).account_of(who, moment=now)
    hold(claim(account), now=now)
    row = Account.objects.get(identity=account.identity)
    Crossing(account=row, budget=budget.identifier, threshold=80, limit=100, spent=83, uncertain=0, at=now).save()


def selected(standing: Standing, now: datetime) -> str | None:
    spec = standing.snapshot.configurations["support-chat"]
    chosen = rule(standing, spec, requirements=CHAT, now=now).decision.selected
    return None if chosen is None else chosen.model.identifier


def test_a_ruling_that_is_remembered_is_none_of_other_tiers(budget: Budget, now: datetime) -> None:
    poll = StandingPoll(circuits=alone())
    standing = poll.refresh()
    assert selected(standing, timezone.now()) == "dear"
    cross(budget, now)
    assert poll.refresh() is standing
    assert selected(standing, timezone.now()) == "cheap"


def test_what_is_crossed_is_read_where_a_budget_has_thresholds_alone(
    budget: Budget, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    poll = StandingPoll(circuits=alone())
    poll.refresh()
    with django_assert_num_queries(4):  # three versions, and what is crossed
        poll.refresh()
    BudgetTier.objects.get().delete()
    poll.refresh()
    with django_assert_num_queries(3):
        poll.refresh()


def test_nobody_looks_more_often_than_once_a_minute_unless_budgets_were_edited(
    budget: Budget, now: datetime, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    poll = StandingPoll(circuits=alone())
    poll.refresh()
    for moment, queries in ((now, 1), (now, 0), (now + timedelta(seconds=59), 0), (now + timedelta(seconds=60), 1)):
        with django_assert_num_queries(queries):
            poll.look_for_crossings(now=moment)
    budget.limit = 7
    budget.save()
    poll.refresh()
    with django_assert_num_queries(1):
        poll.look_for_crossings(now=now + timedelta(seconds=61))


def test_what_cannot_be_read_hides_nothing_else(budget: Budget, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(Crossings, "read", fail)
    standing = StandingPoll(circuits=alone()).refresh()
    assert selected(standing, timezone.now()) is None
    monkeypatch.undo()
    assert selected(StandingPoll(circuits=alone()).refresh(), timezone.now()) == "dear"


def test_a_question_is_answered_within_the_tiers_and_says_so(budget: Budget, now: datetime) -> None:
    cross(budget, now)
    standing = StandingPoll(circuits=alone()).refresh()
    answer = ask(standing, Question("support-chat", Operation.CHAT), now=timezone.now())
    assert [step.model.identifier for step in answer.plan.steps] == ["cheap"]
    words = "83 % of the budget desk-month are used up, which is past its tier at 80 %"
    page = page_of(answer.explanation)
    assert page.tiers == [f"{words}: only cheap may serve."]
    assert [(each.route.partition("/")[2], each.detail) for each in page.rows if each.reason] == [("dear", words)]


@pytest.fixture
def helpdesks(budget: Budget, now: datetime) -> Budget:
    """The same of one application, which has crossed it."""
    ApplicationFactory.create()
    budget.application = "helpdesk"
    budget.save()
    cross(budget, now, application="helpdesk")
    return budget


def test_whoever_asks_is_answered_within_the_tiers_of_its_own_budgets(helpdesks: Budget) -> None:
    standing = StandingPoll(circuits=alone()).refresh()
    question = Question("support-chat", Operation.CHAT)
    for application, chosen in (("helpdesk", "cheap"), ("web-shop", "dear"), ("", "dear")):
        by_a_page = ask(standing, replace(question, application=application), now=timezone.now())
        by_a_key = ask(standing, question, now=timezone.now(), caller=task_caller(application))
        for answer in (by_a_page, by_a_key):
            assert [step.model.identifier for step in answer.plan.steps] == [chosen]
            assert bool(answer.explanation.tiers) is (chosen == "cheap")


def test_a_page_can_be_asked_as_an_application(helpdesks: Budget, admin_client: Client) -> None:
    question = Question("support-chat", Operation.CHAT)
    nobody, theirs = (
        admin_client.get(address_of(each)).context["panel"]
        for each in (question, replace(question, application="helpdesk"))
    )
    assert nobody.form.fields["application"].choices == [
        ("", "nobody in particular"),
        ("helpdesk", "the application helpdesk"),
    ]
    assert (nobody.reply.routes[0].name.partition("/")[2], theirs.reply.routes[0].name.partition("/")[2]) == (
        "dear",
        "cheap",
    )
    assert nobody.reply.whose.startswith("Asked as nobody in particular: ")
    assert theirs.reply.whose.startswith("Asked as the application helpdesk, ")
    assert "application=helpdesk" in theirs.reply.url
    (foresight,) = foresee(standing_now(), [{"routing.policyMode": "quality"}], now=timezone.now())
    assert foresight.is_of_nobody
    assert admin_client.get(address("operations", operation="chat")).context["panel"].whose == WHOSE


def test_who_asks_is_not_asked_where_it_makes_no_difference(budget: Budget, admin_client: Client) -> None:
    page = admin_client.get(address_of(Question("support-chat", Operation.CHAT, application="helpdesk")))
    panel = page.context["panel"]
    assert "application" not in panel.form.fields
    assert panel.reply.whose == ""


def test_a_calls_page_leads_to_the_question_of_its_application(budget: Budget, admin_client: Client) -> None:
    standing = StandingPoll(circuits=alone()).refresh()
    spec = standing.snapshot.configurations["support-chat"]
    made = rule(standing, spec, requirements=CHAT, now=timezone.now())
    record = DecisionRecordFactory.create(digest=made.digest, document=json.loads(made.document))
    call = CallFactory.create(decision=record, application="helpdesk")
    page = admin_client.get(reverse("admin:telemetry_call_change", args=[call.pk]))
    assert page.context["decision"].ask_url.endswith("configuration=support-chat&operation=chat&application=helpdesk")


def test_programs_ask_as_an_application_and_keys_as_their_own(helpdesks: Budget, admin_user: User) -> None:
    def asked(program: Program, application: str) -> Any:
        sent = {"configuration": "support-chat", "operation": "chat", "application": application}
        answer = program.post("explain", sent)
        return answer.json()["plan"][0]["route"].partition("/")[2] if answer.status_code == 200 else answer.status_code

    operator = Program()
    operator.client.force_login(admin_user)
    key = Program(AccessKeyFactory.create(application=Application.objects.get()).secret)
    assert [asked(operator, each) for each in ("", "helpdesk", "nobodys")] == ["dear", "cheap", 404]
    assert [asked(key, each) for each in ("", "helpdesk", "nobodys")] == ["cheap", "cheap", 403]


def test_programs_are_told_the_tiers(budget: Budget, now: datetime) -> None:
    cross(budget, now)
    sent = {"configuration": "support-chat", "operation": "chat"}
    told = Program(AccessKeyFactory.create().secret).post("explain", sent).json()["explanation"]
    assert told["tiers"] == [
        {"budget": "desk-month", "threshold": 80, "percent": 83, "targets": ["cheap"], "is_strict": True}
    ]


@pytest.mark.parametrize("is_strict", [True, False], ids=["strict", "advisory"])
def test_every_page_says_what_a_call_does(budget: Budget, now: datetime, is_strict: bool, admin_client: Client) -> None:
    """Ranked by quality ``dear`` goes first, and ``cheap`` by its name where nothing is measured: past the tier it does
    either way, so a switch that would have moved calls moves none."""
    budget.enforce_targets = is_strict
    budget.configuration = EACH
    budget.save()
    for name, score in (("dear", 0.9), ("cheap", 0.2)):
        EvaluationResultFactory.create(model=LanguageModel.objects.get(identifier=name), mean_score=score)
    ConfigurationFactory.create(identifier="by-installation", criteria=True)
    ranked, fixed = (Question(name, Operation.CHAT) for name in ("by-installation", "support-chat"))
    (before,) = foresee(standing_now(), [{"routing.policyMode": "quality"}], now=timezone.now())
    assert [each.configuration for each in before.elsewhere] == ["by-installation"]
    assert first_of(admin_client, fixed) == "dear"

    for name in ("support-chat", "by-installation"):
        cross(budget, now, configuration=name)
    assert [first_of(admin_client, question) for question in (ranked, fixed)] == ["cheap", "cheap"]
    (after,) = foresee(standing_now(), [{"routing.policyMode": "quality"}], now=timezone.now())
    assert (after.elsewhere, after.is_of_nobody) == ((), False)
    unusable = {each.model.identifier: each.unusable for each in unusable_among(read_routes())}
    told = "83 % of the budget desk-month are used up, which is past its tier at 80 %"
    assert unusable == ({"dear": told} if is_strict else {})


def first_of(browser: Client, question: Question) -> str:
    """The model that goes first, in the same words everywhere."""
    standing, now = standing_now(), timezone.now()
    answer = ask(standing, question, now=now)
    first = answer.plan.steps[0].model
    assert answer.explanation.selected is not None
    assert answer.explanation.selected.model == first
    reply = browser.get(address_of(question)).context["panel"].reply
    assert reply.verdict.startswith(f"{first.route} ")
    assert (reply.decision.rows[0].route, reply.routes[0].name) == (first.route, first.route)
    chosen = browser.get(address("operations", operation="chat")).context["panel"].chosen
    row = next(each for each in chosen if each.configuration == question.configuration)
    assert row.route == first.route
    told = Program(AccessKeyFactory.create().secret).post(
        "explain", {"configuration": question.configuration, "operation": "chat"}
    )
    document = told.json()
    assert document["plan"][0]["route"] == document["explanation"]["candidates"][0]["route"] == first.route
    if answer.explanation.tiers:
        is_strict = answer.explanation.tiers[0].is_strict
        assert row.by == ("the only one that may serve" if is_strict else "a tier of a budget")
    return first.identifier


def test_what_a_ladder_alone_names_is_not_unusable(budget: Budget, now: datetime) -> None:
    assert unusable_among(read_routes()) == []
    BudgetTier.objects.get().delete()
    budget.save()
    assert [each.model.identifier for each in unusable_among(read_routes())] == ["cheap"]
