"""Calls in the admin: what happened, why this model, and nothing to change."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from governance.admin import finding
from governance.admin.finding import BoundedPaginator
from governance.spelling import ABSENT
from governance.tab.explained import NO_DATA
from routing.core.configuration import ConfigurationSpec
from routing.core.decision import Decision, decide
from routing.core.money import Money
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.requirements import Requirements
from routing.core.signals import Figures, HealthFigure, HistoryFigure
from routing.core.transcript import canonical, digest, document
from routing.core.vocabulary import LABELS, Operation, RejectionReason, Selection, SkipReason
from routing.snapshots import load_snapshot
from telemetry.models import Attempt, Call, DecisionRecord
from telemetry.outcomes import Judgement, report
from tests import factories
from tests.governance.admin.pages import column, text_of

LIST = reverse("admin:telemetry_call_changelist")
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
CRITERIA = ConfigurationSpec(identifier="support-chat", selection=Selection.CRITERIA)


def page_of(call: Call) -> str:
    return reverse("admin:telemetry_call_change", args=[call.pk])


def decided(*, configuration: ConfigurationSpec = CRITERIA, **policy: Any) -> Decision:
    """A decision about three models: one measured, one without figures, one refused."""
    if not load_snapshot().catalogue.models:
        provider = factories.ProviderFactory.create()
        factories.LanguageModelFactory.create(provider=provider, identifier="fast", priced=True)
        factories.LanguageModelFactory.create(provider=provider, identifier="thorough", model_id="gpt-x-maxi")
        factories.LanguageModelFactory.create(
            provider=provider, identifier="blind", model_id="gpt-x-text", capabilities=["chat"]
        )
    history = HistoryFigure(calls=12, mean_latency_ms=4259.0, priced_calls=12, mean_cost=Money(6_700_000, "USD"))
    return decide(
        configuration=configuration,
        catalogue=load_snapshot().catalogue,
        requirements=Requirements(operation=Operation.TOOLS, needs=frozenset({"tools"})),
        policy=RoutingPolicy(**{"mode": PolicyMode.BALANCED, "call_history": True, **policy}),
        now=NOW,
        figures=Figures(
            quality={"fast": 0.8, "blind": 0.9},
            health={"fast": HealthFigure(samples=20, successes=19, mean_latency_ms=800.0)},
            history={
                Operation.TOOLS: {
                    "fast": history,
                    "thorough": replace(history, calls=8, mean_latency_ms=9094.0, mean_cost=None, priced_calls=0),
                }
            },
        ),
    )


def recorded(decision: Decision) -> DecisionRecord:
    content = document(decision)
    record: DecisionRecord = factories.DecisionRecordFactory.create(digest=digest(canonical(content)), document=content)
    return record


# --- Why this model -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [{"version": 99}, {"version": 1, "candidates": [{}]}, [], "text", 5])
def test_a_damaged_record_breaks_no_page(operator: Client, content: Any) -> None:
    record = factories.DecisionRecordFactory.create(document=content)
    call = factories.CallFactory.create(decision=record)
    for page in (page_of(call), reverse("admin:telemetry_decisionrecord_change", args=[record.pk])):
        assert "in a form that this version does not read" in text_of(operator.get(page))


def test_the_page_of_a_call_says_why_this_model(operator: Client) -> None:
    decision = decided()
    call = factories.CallFactory.create(decision=recorded(decision), operation="tools")
    page = text_of(operator.get(page_of(call)))
    for text in (
        "Why this model",
        "Ranked by the policy in force",
        "prod-east/fast (served)",
        "mean 4,259 ms of 12 calls",
        "0.5937",
        "mean score 0.800",
        NO_DATA,
        LABELS[RejectionReason.OPERATION_CAPABILITY_MISSING],
        "0.0064 USD",
    ):
        assert text in page, text
    record_page = text_of(operator.get(reverse("admin:telemetry_decisionrecord_change", args=[call.decision_id])))
    assert "0.5937" in record_page


def test_how_it_went_and_why_come_before_everything_else(operator: Client) -> None:
    call = factories.CallFactory.create(decision=recorded(decided()))
    page = text_of(operator.get(page_of(call)))
    order = ["First token after", 'id="why-this-model"', 'id="attempts"', "Sent to and served by", "What decided"]
    places = [page.index(text) for text in order]
    assert places == sorted(places)


def test_a_call_shows_what_decided_then_and_not_what_would_decide_today(operator: Client) -> None:
    call = factories.CallFactory.create(decision=recorded(decided()))
    price = load_snapshot().providers["prod-east"].models.get(identifier="fast").prices.get()
    price.input_rate = 99_000_000_000
    price.save()
    page = text_of(operator.get(page_of(call)))
    assert "2.50 + 10.00 USD" in page
    assert "99.00" not in page


def test_a_call_without_a_decision_says_so(operator: Client) -> None:
    call = factories.CallFactory.create(decision=None)
    assert "Nothing was decided for this call." in text_of(operator.get(page_of(call)))


# --- Attempts, costs, outcomes ------------------------------------------------------------------------------------


def test_the_page_of_a_call_shows_its_attempts_in_order(operator: Client) -> None:
    call = factories.CallFactory.create(fallback_attempts=1, requests_sent=2)
    factories.AttemptFactory.create(call=call, index=1, model="thorough", cost_nanos=0, cost_currency="USD")
    factories.AttemptFactory.create(call=call, index=0, failure_kind="rate_limited", error_code="slow_down")
    page = text_of(operator.get(page_of(call)))
    assert page.index("The provider limits our rate (slow_down)") < page.index("prod-east/thorough")
    assert '<td data-label="Cost">0 USD</td>' in page
    assert f'<td data-label="Cost">{ABSENT}</td>' in page
    assert "served, after 1 other route(s)" in page


def test_the_page_of_a_call_shows_what_was_passed_over(operator: Client) -> None:
    call = factories.CallFactory.create(requests_sent=1)
    factories.AttemptFactory.create(call=call, index=0, skip_reason="unusable", latency_ms=0.0)
    factories.AttemptFactory.create(call=call, index=1, model="thorough")
    page = text_of(operator.get(page_of(call)))
    assert f"passed over: {LABELS[SkipReason.UNUSABLE]}".replace("'", "&#x27;") in page
    assert f'<td data-label="Took">{ABSENT}</td>' in page
    assert page.index("passed over:") < page.index("prod-east/thorough")
    # A reason that another version has written.
    factories.AttemptFactory.create(call=call, index=2, skip_reason="tooFarAway")
    assert "passed over: tooFarAway" in text_of(operator.get(page_of(call)))


def test_a_call_of_one_attempt_needs_no_table(operator: Client) -> None:
    assert "One request was sent" in text_of(operator.get(page_of(factories.CallFactory.create())))
    unsent = factories.CallFactory.create(requests_sent=0, success=False, failure_kind="over_budget")
    assert "Nothing was sent to a provider." in text_of(operator.get(page_of(unsent)))


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({}, "0.0064 USD"),
        ({"actual_cost_nanos": 1, "cost_currency": "EUR"}, "0.000000001 EUR"),
        ({"actual_cost_nanos": 0}, "0 USD"),
        ({"actual_cost_nanos": None, "cost_currency": ""}, ABSENT),
    ],
)
def test_a_cost_is_a_decimal_with_its_currency(operator: Client, values: dict[str, Any], shown: str) -> None:
    call = factories.CallFactory.create(**values)
    assert column(operator.get(LIST), "cost") == [shown]
    assert shown in text_of(operator.get(page_of(call)))


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({}, "served"),
        ({"cache_hit": True}, "served from the cache"),
        ({"success": False, "failure_kind": "rate_limited"}, "The provider limits our rate"),
        ({"success": False, "failure_kind": "of_tomorrow"}, "of_tomorrow"),
        ({"success": False, "failure_kind": ""}, "failed"),
    ],
)
def test_an_outcome_is_in_words(operator: Client, values: dict[str, Any], shown: str) -> None:
    factories.CallFactory.create(**values)
    assert column(operator.get(LIST), "outcome") == [shown]


def test_the_page_of_a_hit_leads_to_the_call_whose_answer_it_was(operator: Client) -> None:
    made = factories.CallFactory.create()
    given = factories.CallFactory.create(cache_hit=True, replay_of=made.pk)
    assert f'the answer of <a href="{page_of(made)}">{made.pk}</a>' in text_of(operator.get(page_of(given)))
    assert "the answer of" not in text_of(operator.get(page_of(made)))


def test_a_row_of_the_list_says_when_what_was_asked_and_what_served(operator: Client) -> None:
    factories.CallFactory.create(started_at=NOW, served_provider="prod-west")
    factories.CallFactory.create(started_at=NOW, served_provider="", served_model="")
    page = operator.get(LIST)
    assert column(page, "when") == ["2026-11-29 12:00:00"] * 2
    assert column(page, "asked") == ["support-chathelpdesk, chat"] * 2
    assert sorted(column(page, "route")) == ["fastprod-west", ABSENT]


# --- Finding ------------------------------------------------------------------------------------------------------


def found(operator: Client, **query: str) -> set[str]:
    page = text_of(operator.get(LIST, query))
    return {str(call.pk) for call in Call.objects.all() if page_of(call) in page}


def test_a_call_is_found_by_its_id_and_by_nothing_like_it(operator: Client) -> None:
    call, other = factories.CallFactory.create(), factories.CallFactory.create()
    assert found(operator) == {str(call.pk), str(other.pk)}
    assert found(operator, q=str(call.pk)) == {str(call.pk)}
    assert found(operator, q=f" {str(call.pk).upper()} ") == {str(call.pk)}
    assert found(operator, q=call.pk.hex) == {str(call.pk)}
    assert found(operator, q=str(call.pk)[:13]) == set()
    assert found(operator, q="00000000-0000-7000-8000-000000000000") == set()


@pytest.mark.parametrize(
    "column", ["application", "requested", "served_configuration", "served_provider", "served_model"]
)
def test_calls_are_found_by_the_beginning_of_an_identifier(operator: Client, column: str) -> None:
    call = factories.CallFactory.create(**{column: "zebra-crossing"})
    factories.CallFactory.create()
    assert found(operator, q="zebra-c") == {str(call.pk)}
    assert found(operator, q="crossing") == set()
    assert found(operator, q="zebra_c") == set()
    assert found(operator, q="%") == set()


def test_filters_offer_what_the_catalogue_knows(operator: Client) -> None:
    factories.ApplicationFactory.create(identifier="never-called")
    call = factories.CallFactory.create(application="web-shop")
    factories.CallFactory.create(application="helpdesk")
    page = text_of(operator.get(LIST))
    assert "?application=never-called" in page
    assert "?application=web-shop" not in page
    assert found(operator, application="web-shop") == {str(call.pk)}
    assert found(operator, application="never-called") == set()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"outcome": "served"}, {"good"}),
        ({"outcome": "failed"}, {"limited", "refused"}),
        ({"outcome": "rate_limited"}, {"limited"}),
        ({"operation": "embed"}, {"refused"}),
        ({"served_model": "fast", "outcome": "served"}, {"good"}),
        ({"served_provider": "prod-west"}, set()),
        ({"requested": "support-chat", "operation": "chat"}, {"good", "limited"}),
        ({"started_at__gte": "2026-11-29 00:00:00+00:00", "outcome": "served"}, {"good"}),
    ],
)
def test_calls_are_filtered(operator: Client, query: dict[str, str], expected: set[str]) -> None:
    calls = {
        "good": factories.CallFactory.create(),
        "limited": factories.CallFactory.create(success=False, failure_kind="rate_limited"),
        "refused": factories.CallFactory.create(success=False, failure_kind="refused", operation="embed"),
    }
    names = {str(call.pk): name for name, call in calls.items()}
    assert {names[pk] for pk in found(operator, **query)} == expected


def test_attempts_are_found_by_their_call(operator: Client) -> None:
    attempt: Attempt = factories.AttemptFactory.create()
    factories.AttemptFactory.create()
    page = operator.get(reverse("admin:telemetry_attempt_changelist"), {"q": str(attempt.call_id)})
    assert column(page, "number") == ["1."]
    assert str(attempt.pk) in text_of(page)


# --- Speed --------------------------------------------------------------------------------------------------------


def test_the_list_asks_the_calls_for_one_page_and_a_bounded_count(operator: Client) -> None:
    for number in range(60):
        factories.CallFactory.create(started_at=NOW - timedelta(minutes=number))
    with CaptureQueriesContext(connection) as captured:
        operator.get(LIST)
    asked = [query["sql"] for query in captured.captured_queries if "telemetry_call" in query["sql"]]
    count, page = asked
    assert "COUNT(*)" in count
    assert f"LIMIT {finding.MOST_COUNTED}" in count
    assert "ORDER BY" not in count
    assert "LIMIT 50" in page
    assert not any("telemetry_decisionrecord" in query["sql"] for query in captured.captured_queries)


@pytest.mark.django_db
def test_pages_are_offered_as_far_as_rows_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MOST_COUNTED", 5)
    for number in range(7):
        factories.CallFactory.create(started_at=NOW - timedelta(minutes=number))
    paginator = BoundedPaginator(Call.objects.order_by("-started_at"), 2)
    assert (paginator.count, paginator.num_pages) == (5, 3)
    assert len(BoundedPaginator(Call.objects.none(), 2).page(1)) == 0


@pytest.mark.parametrize("attempts", [0, 2, 8])
def test_the_page_of_a_call_takes_the_same_queries_for_many_attempts(operator: Client, attempts: int) -> None:
    call = factories.CallFactory.create(decision=recorded(decided()))
    for index in range(attempts):
        factories.AttemptFactory.create(call=call, index=index)
    with CaptureQueriesContext(connection) as captured:
        operator.get(page_of(call))
    assert len(captured) == 6, [query["sql"] for query in captured.captured_queries]


def test_what_became_of_the_answer_is_on_the_calls_page(auditor: Client) -> None:
    call = factories.CallFactory.create()
    page = reverse("admin:telemetry_call_change", args=[call.pk])
    assert "as the caller said" not in text_of(auditor.get(page))
    for judgement in (Judgement.HELPFUL, Judgement.EDITED):
        report(call, judgement, key=call.key, now=datetime(2026, 11, 29, 12, 30, tzinfo=UTC))
    assert "Used after changes, as the caller said on 2026-11-29 at 12:30 UTC" in text_of(auditor.get(page))
