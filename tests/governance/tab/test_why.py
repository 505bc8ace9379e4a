"""*Why this model?*: every question has an address, every address an answer or a clear complaint."""

import json
import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from django.core.management import call_command
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from governance import questions
from governance.changes.settings import store_setting
from governance.gateway.service import standing_now
from governance.questions import Question
from governance.tab.addresses import address_of
from governance.tab.why import PANEL, QuestionForm
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.transcript import canonical, digest, document, outline
from routing.core.vocabulary import Operation
from routing.models import Configuration
from tests import factories
from tests.authors import SOMEBODY
from tests.governance.admin.pages import text_of, words_of
from tests.governance.tab.test_explained import decided
from tests.governance.test_decisions import CONFIGURATIONS

HTMX = {"HX-Request": "true"}


@pytest.fixture
def catalogue(db: None) -> None:
    """Two models, of which the one that goes first by name is the slower; calls enough to know it."""
    east = factories.ProviderFactory.create()
    west = factories.ProviderFactory.create(identifier="prod-west", adapter_type="custom")
    factories.LanguageModelFactory.create(provider=east, identifier="grand", model_id="gpt-x-maxi", name="A grand one")
    factories.LanguageModelFactory.create(provider=west, identifier="swift", model_id="cu-9-mini", name="B swift one")
    factories.ConfigurationFactory.create(criteria=True)
    factories.ConfigurationFactory.create(identifier="off-chat", criteria=True, is_active=False)


@pytest.fixture
def measured(catalogue: None) -> None:
    """What their calls took: the worked figures of the design."""
    for model_id, adapter_type, took in (("gpt-x-maxi", "openai", 9094.0), ("cu-9-mini", "custom", 4259.0)):
        factories.CallFactory.create_batch(
            5,
            started_at=timezone.now() - timedelta(hours=1),
            served_model_id=model_id,
            served_adapter_type=adapter_type,
            latency_ms=took,
        )


def ask(browser: Client, **question: Any) -> Any:
    return browser.get(PANEL.url, question)


# --- Addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [None, *Operation])
@pytest.mark.parametrize("mode", [None, *PolicyMode])
@pytest.mark.parametrize("history", [None, True, False])
def test_a_question_survives_its_address(
    operation: Operation | None, mode: PolicyMode | None, history: bool | None
) -> None:
    question = Question("ranked", operation, mode, history, frozenset({"vision", "reasoning"}), "helpdesk")
    form = QuestionForm(
        QueryDict(urlsplit(address_of(question)).query),
        configurations=CONFIGURATIONS,
        policy=RoutingPolicy(),
        applications=["helpdesk"],
    )
    assert form.is_valid(), form.errors
    assert form.question == question


def test_an_address_leaves_out_what_is_in_force() -> None:
    assert parse_qsl(urlsplit(address_of(Question("ranked"))).query) == [("configuration", "ranked")]


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ({"configuration": "nowhere"}, "configuration: nowhere is none of those offered; choose one."),
        ({"operation": "chat"}, "configuration: none is named; choose one."),
        ({"configuration": "support-chat", "operation": "sing"}, "operation: sing is none of those offered"),
        ({"configuration": "support-chat", "mode": "ECONOMY"}, "mode: ECONOMY is none of those offered"),
        ({"configuration": "support-chat", "history": "yes"}, "history: yes is none of those offered"),
        ({"configuration": "support-chat", "needs": "telepathy"}, "needs: telepathy is none of those offered"),
        ({"configuration": "<script>"}, "configuration: &lt;script&gt; is none of those offered"),
    ],
)
def test_a_bad_question_is_answered_with_what_is_wrong(
    question: dict[str, str], complaint: str, catalogue: None, operator: Client
) -> None:
    for headers in ({}, HTMX):
        answer = operator.get(PANEL.url, question, headers=headers)
        assert answer.status_code == 200
        page = words_of(answer)
        assert complaint in page
        assert "Every candidate" not in page


# --- Scenarios ------------------------------------------------------------------------------------------------------


def explained(path: Path, *, capsys: pytest.CaptureFixture[str]) -> Any:
    """What ``manage.py explain --json`` prints of a file; it ends the test if an expectation does not hold."""
    call_command("explain", str(path), "--json")
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "question",
    [
        {"operation": "chat"},
        {"operation": "chat", "mode": "balanced", "history": "on"},
        {"operation": "tools", "mode": "economy", "history": "off", "needs": "reasoning"},
        {"mode": "quality"},
    ],
)
def test_a_saved_answer_is_read_by_explain_and_decided_alike(
    question: dict[str, str], measured: None, operator: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = text_of(ask(operator, configuration="support-chat", **question))
    link = re.search(r'href="([^"]*scenario\.json[^"]*)"', page)
    assert link is not None
    answer = operator.get(unescape(link[1]))
    name = f"support-chat-{question.get('operation', 'no-operation')}.json"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    file = tmp_path / name
    file.write_bytes(answer.content)
    printed = explained(file, capsys=capsys)
    form = QuestionForm(QueryDict(urlencode({"configuration": "support-chat", **question})), **in_force())
    assert form.is_valid()
    decision = questions.ask(standing_now(), form.question, now=timezone.now()).ruling.decision
    assert printed == outline(decision)


def in_force() -> dict[str, Any]:
    standing = standing_now()
    configurations = list(standing.snapshot.configurations.values())
    return {"configurations": configurations, "policy": standing.settings.routing}


def test_a_question_that_cannot_be_asked_cannot_be_saved(catalogue: None, operator: Client) -> None:
    answer = operator.get(f"{PANEL.url}scenario.json", {"configuration": "nowhere"})
    assert answer.headers["Location"] == f"{PANEL.url}?configuration=nowhere"


def test_a_record_is_saved_from_its_page(operator: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decision = decided()
    content = document(decision)
    record = factories.DecisionRecordFactory.create(digest=digest(canonical(content)), document=content)
    call = factories.CallFactory.create(decision=record)
    link = reverse("admin:telemetry_decisionrecord_scenario", args=[record.pk])
    for page in (
        reverse("admin:telemetry_call_change", args=[call.pk]),
        reverse("admin:telemetry_decisionrecord_change", args=[record.pk]),
    ):
        assert f'href="{link}"' in text_of(operator.get(page))
    file = tmp_path / "record.json"
    file.write_bytes(operator.get(link).content)
    assert explained(file, capsys=capsys) == outline(decision)


def test_a_record_leads_to_the_same_question_of_today(operator: Client) -> None:
    content = document(decided())
    record = factories.DecisionRecordFactory.create(digest=digest(canonical(content)), document=content)
    page = text_of(operator.get(reverse("admin:telemetry_decisionrecord_change", args=[record.pk])))
    assert f'href="{PANEL.url}?configuration=support-chat&amp;operation=tools"' in page


# --- Answers ----------------------------------------------------------------------------------------------------------


def test_without_a_question_the_first_configuration_is_asked_about(catalogue: None, operator: Client) -> None:
    page = words_of(operator.get(PANEL.url))
    assert "prod-east/grand goes first, ahead of prod-west/swift by name." in page
    assert '<option value="support-chat" selected>' in page
    assert '<option value="chat" selected>' in page


def test_no_configuration_leads_to_the_first_step(operator: Client, auditor: Client) -> None:
    assert "/admin/routing/configuration/add/" in text_of(operator.get(PANEL.url))
    assert "/admin/routing/configuration/add/" not in text_of(auditor.get(PANEL.url)).split("sb-panel")[1]


def test_a_switched_off_configuration_is_answered_and_said_to_be_so(catalogue: None, operator: Client) -> None:
    page = words_of(ask(operator, configuration="off-chat", operation="chat"))
    assert "The configuration is switched off" in page
    assert "prod-east/grand goes first" in page


def test_a_refusal_is_the_callers_own(catalogue: None, operator: Client) -> None:
    page = words_of(ask(operator, configuration="support-chat", operation="chat", needs="vision"))
    assert "no model that could serve declares chat, vision, which chat needs" in page


def test_whether_an_answer_may_be_kept_is_said(catalogue: None, operator: Client) -> None:
    configuration = Configuration.objects.get(identifier="support-chat")
    configuration.cache_seconds = 600
    configuration.save()
    told = "this configuration keeps answers for 10 minutes"
    assert told in words_of(ask(operator, configuration="support-chat", operation="chat"))
    for nothing in ({"operation": "tools"}, {"operation": "chat", "needs": "tools"}):
        assert told not in words_of(ask(operator, configuration="support-chat", **nothing))
    assert "keeps answers" not in words_of(ask(operator, configuration="off-chat", operation="chat"))


def test_a_hypothetical_says_so_and_changes_nothing(measured: None, operator: Client) -> None:
    question = {"configuration": "support-chat", "operation": "chat"}
    page = words_of(ask(operator, **question, mode="balanced", history="on"))
    assert "As if policy mode balanced and call history on were in force" in page
    assert "The policy in force leads to prod-east/grand." in page
    assert "prod-west/swift goes first, ahead of prod-east/grand by score." in page
    assert "counted as 0.5937, weight 0.1" in page
    assert "counted as 0.4063, weight 0.1" in page
    assert "2 in force" in page
    in_force = words_of(ask(operator, **question))
    assert "hypothetical" not in in_force
    assert "prod-east/grand goes first, ahead of prod-west/swift by name." in in_force
    assert "not collected in this mode" in in_force
    assert "mean 9,094 ms of 5 calls" in in_force


def test_the_switch_that_was_thrown_a_moment_ago_counts(catalogue: None, operator: Client) -> None:
    store_setting("routing.policyMode", "economy", author=SOMEBODY)
    assert "<dd>economy</dd>" in text_of(ask(operator, configuration="support-chat", operation="chat"))


@pytest.mark.parametrize("operation", ["", *Operation])
def test_every_operation_is_offered_and_answered(operation: str, catalogue: None, operator: Client) -> None:
    page = text_of(ask(operator, configuration="support-chat", operation=operation))
    assert re.search(rf'<option value="{operation}" selected>', page)
    assert "Every candidate" in page


def test_no_operation_is_not_an_operation_that_needs_nothing(catalogue: None, operator: Client) -> None:
    without = words_of(ask(operator, configuration="support-chat"))
    nothing = words_of(ask(operator, configuration="support-chat", operation="embed"))
    assert "<dd>none chosen</dd>" in without
    assert "not known without an operation" in without
    assert "nothing in particular" in nothing


def test_a_page_takes_as_many_queries_for_many_records_as_for_few(catalogue: None, operator: Client) -> None:
    question = {"configuration": "support-chat", "operation": "chat", "mode": "balanced", "history": "on"}
    ask(operator, **question)
    with CaptureQueriesContext(connection) as few:
        ask(operator, **question)
    for number in range(9):
        model = factories.LanguageModelFactory.create(priced=True, model_id=f"gpt-x-{number}")
        configuration = factories.ConfigurationFactory.create(listed=True, models=[model])
        factories.FallbackLinkFactory.create(configuration=configuration)
        factories.EvaluationResultFactory.create(model=model)
        factories.CallFactory.create(decision=factories.DecisionRecordFactory.create())
    with CaptureQueriesContext(connection) as many:
        ask(operator, **question)
    assert len(many) == len(few), "\n".join(query["sql"] for query in many.captured_queries)
    assert len(many) <= 24
