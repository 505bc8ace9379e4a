"""One decision, the same numbers everywhere: the page of a call, its record, the tab, a program, a scenario on paper.

A thousand states at random: models, prices, figures, policy, a configuration, a question. Each is decided as a call
would be and recorded; asked as a question; explained to a program as JSON; saved and decided on paper.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budgets.scopes import BudgetBook, BudgetSpec, Scope, Tier
from governance.api import explain as api_explain
from governance.api.explained import explanation_document
from governance.decisions import Standing, rule
from governance.explanations import SIGNALS, SignalStatus, explain
from governance.questions import Question, ask
from governance.shared_state.memory import MemoryStore
from governance.tab import why
from governance.tab.addresses import address_of
from governance.tab.explained import WORDS, CandidateRow, ExplanationPage, page_of, recorded_page, spell_value
from routing.circuits import Circuits
from routing.core.catalogue import Catalogue
from routing.core.configuration import ConfigurationSpec
from routing.core.policy import PolicyMode
from routing.core.requirements import Requirements
from routing.core.scenario import load_scenario
from routing.core.scenario_file import scenario_of, spell_scenario
from routing.core.transcript import outline
from routing.core.vocabulary import LABELS, ListedOrder, Operation, Selection
from routing.snapshots import CatalogueSnapshot
from tests.governance.admin.pages import words_of
from tests.governance.test_decisions import standing_of
from tests.routing.core.samples import NOW
from tests.routing.core.test_properties import CRITERIA, FIGURES, NAMES, POLICIES, models

STATES = 1000
PAGES = 40

CONFIGURATIONS = st.builds(
    ConfigurationSpec,
    identifier=st.just("assistant"),
    selection=st.just(Selection.CRITERIA),
    criteria=CRITERIA,
    policy_mode=st.none() | st.sampled_from(PolicyMode),
) | st.builds(
    ConfigurationSpec,
    identifier=st.just("assistant"),
    selection=st.just(Selection.LISTED),
    models=st.lists(st.sampled_from([*NAMES, "gone"]), max_size=5).map(tuple),
    order=st.sampled_from(ListedOrder),
) | st.builds(
    ConfigurationSpec,
    identifier=st.just("assistant"),
    selection=st.just(Selection.FIXED),
    models=st.sampled_from([(), ("a",), ("gone",)]),
)  # fmt: skip


BOOKS = st.lists(
    st.builds(
        BudgetSpec,
        identifier=st.sampled_from(["desk", "team"]),
        scope=st.just(Scope()),
        currency=st.just("USD"),
        limit=st.just(0),  # used up, whoever asks
        tiers=st.lists(st.sampled_from([*NAMES, "gone"]), min_size=1, max_size=2).map(
            lambda to: (Tier(80, tuple(to)),)
        ),
        enforces_targets=st.sampled_from([False, False, True]),
    ),
    max_size=2,
    unique_by=lambda each: each.identifier,
).map(BudgetBook.of)


@st.composite
def standings(draw: st.DrawFn) -> Standing:
    """What is in force: anything."""
    figures = draw(FIGURES)
    return Standing.of(
        settings=replace(standing_of().settings, routing=draw(POLICIES)),
        snapshot=CatalogueSnapshot(
            catalogue=Catalogue.of(draw(models())),
            configurations={"assistant": draw(CONFIGURATIONS)},
            providers={},
            quality=figures.quality,
            version=1,
        ),
        figures=figures,
        circuits=Circuits(store=MemoryStore()),
        now=NOW,
        budgets=draw(BOOKS),
    )


QUESTIONS = st.builds(
    Question,
    configuration=st.just("assistant"),
    operation=st.none() | st.sampled_from([Operation.CHAT, Operation.CHAT, *Operation]),
    mode=st.none() | st.sampled_from(PolicyMode),
    history=st.none() | st.booleans(),
    needs=st.sampled_from([frozenset(), frozenset({"tools"}), frozenset({"vision", "reasoning"})]),
)


def in_force(standing: Standing, question: Question) -> Standing:
    """What would be in force if somebody had really changed the settings that the question supposes."""
    policy, spec = standing.settings.routing, standing.snapshot.configurations["assistant"]
    if question.mode is not None:
        policy, spec = replace(policy, mode=question.mode), replace(spec, policy_mode=question.mode)
    if question.history is not None:
        policy = replace(policy, call_history=question.history)
    return replace(
        standing,
        settings=replace(standing.settings, routing=policy),
        snapshot=replace(standing.snapshot, configurations={"assistant": spec}),
        remembered={},
    )


@settings(max_examples=STATES, deadline=None, suppress_health_check=list(HealthCheck))
@given(standings(), QUESTIONS)
def test_a_thousand_states_have_the_same_numbers_everywhere(standing: Standing, question: Question) -> None:
    changed = in_force(standing, question)
    spec = changed.snapshot.configurations["assistant"]
    requirements = Requirements(operation=question.operation, needs=question.needs)
    call = rule(changed, spec, requirements=requirements, now=NOW)
    answer = ask(standing, question, now=NOW)
    first = answer.explanation.selected
    assert [step.model for step in answer.plan.steps[:1]] == ([] if first is None else [first.model])

    of_the_call = recorded_page(json.loads(call.document))
    on_the_tab = page_of(answer.explanation)
    assert of_the_call is not None
    assert without_question(of_the_call) == without_question(on_the_tab)

    program = json.loads(json.dumps(explanation_document(answer.explanation, caller=None, refusal="")))
    assert_spelled(on_the_tab, program)
    assert_decided(program, outline(call.decision))

    file = spell_scenario(scenario_of(answer.ruling.decision))
    on_paper = page_of(explain(load_scenario(file).decide()))
    assert [numbers(row) for row in on_paper.rows] == [numbers(row) for row in on_the_tab.rows]


def without_question(page: ExplanationPage) -> ExplanationPage:
    """A page without what only a question has: what is still open, and who would drop out for it."""
    return replace(page, open_needs=(), rows=[replace(row, lacking="") for row in page.rows])


def numbers(row: CandidateRow) -> tuple[Any, ...]:
    """Rank, score and everything about signals of a row."""
    return (row.rank, row.route, row.score, row.reason, row.leads_by, row.cells)


def assert_spelled(page: ExplanationPage, program: Any) -> None:
    """What a page spells is what a program reads, figure by figure."""
    assert len(page.rows) == len(program["candidates"])
    for row, candidate in zip(page.rows, program["candidates"], strict=True):
        assert (row.route, row.rank) == (candidate["route"], candidate["rank"])
        assert row.score == ("—" if candidate["score"] is None else spell_value(candidate["score"]))
        for name, cell, signal in zip(SIGNALS, row.cells, candidate["signals"], strict=True):
            assert (cell.column, name.value) == (LABELS[name], signal["name"])
            if signal["value"] is not None:
                assert cell.value == spell_value(signal["value"])
            elif signal["status"] == SignalStatus.NO_DATA:
                assert cell.value == WORDS[SignalStatus.NO_DATA]
            if signal["counted"] is not None:
                assert cell.counted == f"counted as {spell_value(signal['counted'])}, weight {signal['weight']:g}"


def assert_decided(program: Any, outlined: Any) -> None:
    """What a program reads is what ``manage.py explain`` prints of the same decision."""
    assert program["basis"] == outlined["basis"]
    assert program["signals_used"] == outlined["signals_used"]
    for candidate, expected in zip(program["candidates"], outlined["candidates"], strict=True):
        assert candidate["route"].partition("/")[2] == expected["identifier"]
        if expected["reason"] is not None:
            assert candidate["rejection"]["reason"] == expected["reason"]
            continue
        assert candidate["score"] == expected["score"]
        collected = {
            each["name"]: each["value"]
            for each in candidate["signals"]
            if each["status"] not in (SignalStatus.NOT_COLLECTED, SignalStatus.NOT_COMPARED)
        }
        assert collected == expected["signals"]


@pytest.mark.django_db
def test_pages_show_what_the_explanation_says(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same through the view and its template, and through the address for programs."""

    @settings(max_examples=PAGES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(standings(), QUESTIONS)
    def look(standing: Standing, question: Question) -> None:
        monkeypatch.setattr(why, "standing_now", lambda: standing)
        monkeypatch.setattr(api_explain, "standing_now", lambda: standing)
        now = datetime.now(UTC)
        page = words_of(operator.get(address_of(question)))
        shown = page_of(ask(standing, question, now=now).explanation)
        assert page.count("sb-is-refused") == sum(row.rank is None for row in shown.rows)
        for row in shown.rows:
            assert row.route in page
            for text in (row.score, *(cell.counted for cell in row.cells)) if row.rank and shown.ranked else ():
                assert text in page
        asked = {
            "configuration": question.configuration,
            "operation": question.operation,
            "mode": question.mode,
            "history": question.history,
            "needs": sorted(question.needs),
        }
        answer = operator.post("/api/v1/explain", json.dumps(asked), content_type="application/json")
        assert_spelled(shown, answer.json()["explanation"])

    look()
