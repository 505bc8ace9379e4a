"""The panels of figures: signals used, operations and routed calls. Each shows what the readouts and the rulings say,
with the way on where there is nothing to show."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from governance.changes.settings import store_setting
from governance.gateway.service import standing_now
from governance.questions import Question, ask
from governance.tab import operations, policy, routed, signals
from governance.tab.choices import NextStep, next_step
from routing.core.vocabulary import Operation
from tests.authors import SOMEBODY
from tests.factories import CallFactory, ConfigurationFactory, DecisionRecordFactory, LanguageModelFactory
from tests.governance.admin.pages import text_of, words_of

FIGURES = (signals.PANEL, operations.PANEL, routed.PANEL)


def ago(**amount: float) -> datetime:
    return timezone.now() - timedelta(**amount)


def called(**changes: Any) -> Any:
    """A call of an hour ago to ``prod-east/fast``, decided by quality."""
    return CallFactory.create(**{"started_at": ago(hours=1), "routing_signal_quality": True, **changes})


def panel_of(browser: Client, url: str, **asked: str) -> Any:
    answer = browser.get(url, asked)
    assert answer.status_code == 200
    return answer.context["panel"]


@pytest.fixture
def catalogue(db: None) -> None:
    LanguageModelFactory.create(identifier="fast", priced=True)
    ConfigurationFactory.create(identifier="support-chat", criteria=True, policy_mode="balanced")


# --- Signals used ---------------------------------------------------------------------------------------------------


def test_what_moved_decisions_in_all_and_by_configuration(operator: Client, catalogue: None) -> None:
    called(routing_signal_health=True)
    called(routing_signal_quality=False, operation="tools")
    called(routing_signal_quality=False, policy_mode="listed:cheapest", requested="letters")
    panel = panel_of(operator, signals.PANEL.url)
    assert panel.heading == "What moved 3 decisions"
    assert [(bar.label, bar.shown, bar.share) for bar in panel.bars] == [
        ("Measured quality", "1", "33.3 %"),
        ("Provider health", "1", "33.3 %"),
        ("List price", "0", "0.0 %"),
        ("Measured latency", "0", "0.0 %"),
        ("Measured cost of a call", "0", "0.0 %"),
        ("No signal: priority and ties", "1", "33.3 %"),
        ("The order of the list", "1", "33.3 %"),
    ]
    rows = {(row.configuration, row.operation): row for row in panel.rows}
    listed = rows["letters", "Chat, whole answer"]
    assert listed.modes == "listed, cheapest published price first"
    assert {cell.count for cell in listed.cells} == {"—"}, "no signal takes part, which is not none"
    moved = rows["support-chat", "Chat, whole answer"]
    assert [(cell.share, cell.count) for cell in moved.cells] == [
        ("100.0 %", "1"), ("100.0 %", "1"), ("", "0"), ("", "0"), ("", "0"), ("", "0"),
    ]  # fmt: skip


def test_a_period_is_chosen_by_an_address(operator: Client, catalogue: None) -> None:
    called()
    called(started_at=ago(days=3))
    called(started_at=ago(days=20))
    counts = {period: panel_of(operator, signals.PANEL.url, period=period).decided for period in ("24h", "7d", "30d")}
    assert counts == {"24h": 1, "7d": 2, "30d": 3}
    panel = panel_of(operator, signals.PANEL.url, period="for ever")
    assert [(choice.label, choice.is_current) for choice in panel.periods] == [
        ("24 hours", False), ("7 days", True), ("30 days", False),
    ]  # fmt: skip
    for choice in panel.periods:
        assert panel_of(operator, choice.url).period == choice.label


def test_a_row_leads_to_its_question_and_its_calls(operator: Client, catalogue: None) -> None:
    call = called(operation="tools")
    called()
    row = next(row for row in panel_of(operator, signals.PANEL.url).rows if row.operation == "Chat with tools")
    form = operator.get(row.url).context["panel"].form
    assert (form.cleaned_data["configuration"], form.cleaned_data["operation"]) == ("support-chat", "tools")
    assert [each.url for each in panel_of(operator, row.calls_url).rows] == [call_page(call)]


# --- Operations -----------------------------------------------------------------------------------------------------


def test_the_busiest_operation_is_shown_unless_another_is_asked_for(operator: Client, catalogue: None) -> None:
    assert panel_of(operator, operations.PANEL.url).operation == "Chat, whole answer"
    called(operation="tools")
    assert panel_of(operator, operations.PANEL.url).operation == "Chat with tools"
    panel = panel_of(operator, operations.PANEL.url, operation="embed")
    assert panel.operation == "Embeddings"
    assert [choice.label for choice in panel.operations][3:5] == ["Chat with tools (1)", "Embeddings (0)"]
    assert panel_of(operator, operations.PANEL.url, operation="dance").operation == "Chat with tools"


def test_who_would_be_chosen_is_what_a_question_answers(operator: Client, catalogue: None) -> None:
    LanguageModelFactory.create(identifier="sight", capabilities=["vision"])
    ConfigurationFactory.create(identifier="pictures", fixed=True, fixed_model__identifier="lens")
    ConfigurationFactory.create(identifier="asleep", criteria=True, is_active=False)
    now = timezone.now()
    for operation in Operation:
        panel = panel_of(operator, operations.PANEL.url, operation=operation.value)
        assert [row.configuration for row in panel.chosen] == ["pictures", "support-chat"]
        for row in panel.chosen:
            answer = ask(standing_now(), Question(row.configuration, operation), now=now).explanation
            assert row.is_served is (answer.selected is not None)
            assert row.route == (answer.selected.model.route if answer.selected else "Every candidate was refused")


def test_a_candidate_has_each_column_of_its_own_population(operator: Client, catalogue: None) -> None:
    LanguageModelFactory.create(identifier="silent")
    for latency in (100.0, 200.0, 900.0):
        called(latency_ms=latency, actual_cost_nanos=18_412_345)
    called(served_provider="lab", served_model="huge", fallback_attempts=1, first_failure_kind="transient")
    rows = {row.route: row for row in panel_of(operator, operations.PANEL.url).rows}
    fast = rows["prod-east/fast"]
    assert (fast.shown, fast.share, fast.mean, fast.median, fast.p95) == ("3", "75.0 %", "400 ms", "200 ms", "900 ms")
    assert (fast.costs, fast.success, fast.attempts) == (["0.0184 USD"], "75.0 %", "3 of 4")
    assert (fast.is_in_service, fast.chosen_by) == (True, "support-chat")
    huge = rows["lab/huge"]
    assert (huge.shown, huge.share, huge.mean, huge.costs, huge.attempts) == ("1", "25.0 %", "—", ["—"], "none")
    assert not huge.is_in_service
    silent = rows["prod-east-2/silent"]
    assert (silent.shown, silent.share, silent.mean, silent.success) == ("0", "—", "—", "—")


def test_the_page_says_which_calls_each_column_counts(operator: Client, catalogue: None) -> None:
    called()
    page = words_of(operator.get(operations.PANEL.url))
    for name, text in operations.POPULATIONS:
        assert f"<dt>{name}</dt>" in page
        assert text.partition("'")[0] in page
    assert "too many calls to rank all" not in page


def test_percentiles_of_the_latest_calls_say_since_when(
    operator: Client, catalogue: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.readouts.operations.LOOKED_AT", 1)
    called()
    called()
    assert "There are too many calls to rank all" in words_of(operator.get(operations.PANEL.url))


def test_all_operations_at_a_glance(operator: Client, catalogue: None) -> None:
    called()
    called(operation="tools")
    called(operation="tools", served_model="huge", served_provider="lab")
    matrix = {row.route: {column: (calls, share) for column, calls, share in row.cells} for row in
              panel_of(operator, operations.PANEL.url).matrix}  # fmt: skip
    assert list(matrix) == ["prod-east/fast", "lab/huge"]
    assert matrix["prod-east/fast"]["Chat with tools"] == ("1", "50.0 %")
    assert matrix["lab/huge"]["Chat, whole answer"] == ("", "")


# --- Routed calls ---------------------------------------------------------------------------------------------------


def call_page(call: Any) -> str:
    return reverse("admin:telemetry_call_change", args=[call.pk])


def test_a_routed_call_leads_to_itself_and_to_its_record(operator: Client, catalogue: None) -> None:
    record = DecisionRecordFactory.create()
    call = called(decision=record, routing_signal_latency=True, rejection_reasons="notPermitted", facts_tools=1)
    called(started_at=ago(minutes=1), routing_signal_quality=False, source="demo", candidates=1)
    other, row = panel_of(operator, routed.PANEL.url).rows
    assert row.url == call_page(call)
    assert operator.get(row.url).status_code == operator.get(row.record_url).status_code == 200
    assert (row.mode, row.candidates, row.moved) == (
        "balanced", "3 candidates", "Measured quality, Measured latency",
    )  # fmt: skip
    assert (row.refused, row.is_demo) == ("The key does not allow this model", False)
    assert row.size == "1 tool"
    assert (other.record_url, other.moved, other.is_moved, other.candidates) == (
        "", "priority and ties decided", False, "1 candidate",
    )  # fmt: skip
    assert (other.is_demo, other.size, other.complexity) == (True, "not measured", "not measured")


@pytest.mark.parametrize(
    ("changes", "outcome", "is_failed"),
    [
        ({}, "", False),
        ({"cache_hit": True}, "from the cache", False),
        ({"fallback_attempts": 2}, "after 2 other routes", False),
        (
            {"fallback_attempts": 1, "served_configuration": "plain-chat"},
            "after 1 other route, by falling back to plain-chat",
            False,
        ),
        ({"success": False, "failure_kind": "of a later version", "served_model": ""}, "of a later version", True),
    ],
)
def test_how_it_ended_is_said_where_it_was_not_simply_well(
    changes: dict[str, Any], outcome: str, is_failed: bool, operator: Client, catalogue: None
) -> None:
    called(**changes)
    (row,) = panel_of(operator, routed.PANEL.url).rows
    assert (row.outcome, row.is_failed) == (outcome, is_failed)
    assert row.route == ("" if is_failed else "prod-east/fast")


def test_calls_are_filtered_by_an_address_and_cut(operator: Client, catalogue: None) -> None:
    for number in range(routed.SHOWN + 1):
        called(started_at=ago(minutes=number))
    called(operation="tools", requested="retired-since")
    called(policy_mode="")
    panel = panel_of(operator, routed.PANEL.url)
    assert (len(panel.rows), panel.is_cut, panel.is_filtered) == (routed.SHOWN, True, False)
    panel = panel_of(operator, routed.PANEL.url, configuration="retired-since", operation="tools")
    assert (len(panel.rows), panel.is_cut) == (1, False)
    assert [option.value for option in panel.configurations if option.is_chosen] == ["retired-since"]
    assert operator.get(panel.all_url).status_code == 200
    page = words_of(operator.get(routed.PANEL.url, {"operation": "embed"}))
    assert "No such call was decided" in page


def test_a_configuration_is_spelled_and_not_run(operator: Client, catalogue: None) -> None:
    page = text_of(operator.get(routed.PANEL.url, {"configuration": "<script>alert(1)</script>"}))
    assert "<script>alert(1)" not in page


# --- Nothing to show ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("panel", FIGURES, ids=[panel.slug for panel in FIGURES])
def test_an_empty_installation_says_what_comes_next(
    panel: Any, operator: Client, log_in: Callable[[str], Client]
) -> None:
    def steps() -> tuple[NextStep, NextStep]:
        found = [panel_of(browser, panel.url).step for browser in (operator, auditor)]
        assert found[0].what in words_of(operator.get(panel.url))
        return found[0], found[1]

    auditor = log_in("auditor")
    mine, theirs = steps()
    assert (mine.button, theirs.url) == ("Add a provider", "")
    LanguageModelFactory.create()
    assert steps()[0].button == "Make a configuration"
    ConfigurationFactory.create()
    mine, theirs = steps()
    assert mine == theirs
    assert mine.button == "To the overview"
    store_setting("telemetry.enabled", False, author=SOMEBODY)
    mine, theirs = steps()
    assert mine == theirs
    assert operator.get(mine.url).context["panel"].switch.key == "telemetry.enabled"
    assert operator.get(mine.url).context["current"] == policy.PANEL


def test_a_configuration_that_is_switched_off_is_not_the_way_on(operator: Client) -> None:
    LanguageModelFactory.create()
    ConfigurationFactory.create(is_active=False)
    step = next_step(standing_now(), User.objects.get(username="operator-1"))
    assert step.button == "Make a configuration"


# --- Cost -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("panel", FIGURES, ids=[panel.slug for panel in FIGURES])
def test_a_panel_takes_as_many_queries_for_many_rows_as_for_one(panel: Any, operator: Client, catalogue: None) -> None:
    called()
    operator.get(panel.url)
    with CaptureQueriesContext(connection) as few:
        operator.get(panel.url)
    for number in range(5):
        model = LanguageModelFactory.create()
        ConfigurationFactory.create(criteria=True)
        called(requested=f"configuration-{number}", served_model=model.identifier, decision=DecisionRecordFactory())
    with CaptureQueriesContext(connection) as many:
        operator.get(panel.url)
    assert len(many) == len(few), "\n".join(query["sql"] for query in many.captured_queries)


@pytest.mark.parametrize("panel", FIGURES, ids=[panel.slug for panel in FIGURES])
def test_whoever_looks_changes_nothing(panel: Any, auditor: Client, catalogue: None) -> None:
    for method in ("post", "put", "patch", "delete"):
        assert getattr(auditor, method)(panel.url, {"setting": "routing.callHistory"}).status_code == 405
