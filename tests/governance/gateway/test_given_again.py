"""Answers that are given again: every surface says whose they are, and no figure of any route is made of them."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from budgets.models import Entry
from telemetry.health import read_health
from telemetry.history import read_history
from telemetry.models import Call
from telemetry.querysets import CallQuerySet
from telemetry.readouts.operations import read_operations
from tests.factories import BudgetFactory
from tests.governance.admin.pages import text_of, words_of
from tests.governance.api.program import Program
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import question
from tests.governance.gateway.upstream import answers

WAYS = {
    "responseCache": "its configuration keeps answers",
    "idempotencyKey": "under the same Idempotency-Key",
}
POPULATIONS: list[Callable[[CallQuerySet], CallQuerySet]] = [
    CallQuerySet.answered, CallQuerySet.first_attempts, CallQuerySet.self_served,
]  # fmt: skip
"""The calls that figures of routes are made of."""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pair(world: World, way: str) -> tuple[Call, Call]:
    """A call that was made, and one that was given its answer."""
    headers = {"idempotency-key": "order-17"} if way == "idempotencyKey" else {}
    world.configuration.cache_seconds = None if headers else 600
    world.configuration.save()
    BudgetFactory()
    world.gateway.refresh()
    world.script(answers())
    for _ in range(2):
        assert world.gateway.request(question(temperature=0), headers=headers).status == 200
    assert world.asked == [1, 0, 0]
    made, given = world.calls()
    return made, given


@pytest.fixture
def browser(world: World) -> Iterator[Client]:
    browser = Client()
    browser.force_login(User.objects.create_superuser("olivia", password="a long pass phrase"))
    yield browser
    User.objects.all().delete()  # the tables that are emptied are ours only


def page_of(call: Call) -> str:
    return reverse("admin:telemetry_call_change", args=[call.pk])


def explanation(world: World, call: Call) -> Any:
    answer = Program(world.gateway.secret).get(f"calls/{call.pk}/explanation")
    assert answer.status_code == 200
    return answer.json()


def test_no_figure_of_a_route_is_made_of_it(world: World, pair: tuple[Call, Call]) -> None:
    made, given = pair
    assert (given.cache_hit, given.replay_of, given.success, given.requests_sent) == (True, made.pk, True, 0)
    for population in POPULATIONS:
        assert [each.pk for each in population(Call.objects.all())] == [made.pk], population
    now = datetime.now(UTC)
    assert [each.calls for each in read_history(now=now, currency="USD").values()] == [1]
    assert [each.samples for each in read_health(now=now).values()] == [1]
    figures = read_operations(since=now - timedelta(hours=1), now=now).figures
    assert [(each.answered, each.self_served, each.attempts) for each in figures] == [(1, 1, 1)]
    assert set(Entry.objects.values_list("call", flat=True)) == {made.pk}


def test_its_page_says_whose_answer_it_is(browser: Client, pair: tuple[Call, Call], way: str) -> None:
    made, given = pair
    page = text_of(browser.get(page_of(given)))
    assert "No model was asked: " in page
    assert WAYS[way] in page
    assert f'href="{page_of(made)}#why-this-model"' in page
    assert "Nothing was decided for this call" not in page
    assert ("decided for this call before its answer was found" in page) is (way == "responseCache")
    assert "No model was asked" not in text_of(browser.get(page_of(made)))


def test_a_program_is_told_whose_answer_it_is_and_what_led_to_it(
    world: World, pair: tuple[Call, Call], way: str
) -> None:
    made, given = pair
    told, of_made = explanation(world, given), explanation(world, made)
    there = f"/api/v1/calls/{made.pk}/explanation"
    assert told["given_again"] == {"recognition": way, "call": str(made.pk), "explanation": there}
    assert (of_made["given_again"], of_made["call"]) == (None, str(made.pk))
    assert told["call"] == str(given.pk if way == "responseCache" else made.pk)
    assert [each["route"] for each in told["candidates"]] == [each["route"] for each in of_made["candidates"]]
    record = Program(world.gateway.secret).get(f"calls/{given.pk}").json()["record"]
    assert (record["cache_hit"], record["replay_of"]) == (True, str(made.pk))


def test_where_the_call_that_was_made_is_gone(world: World, pair: tuple[Call, Call], way: str) -> None:
    made, given = pair
    Call.objects.filter(pk=made.pk).delete()
    answer = Program(world.gateway.secret).get(f"calls/{given.pk}/explanation")
    if way == "responseCache":
        assert answer.json()["given_again"]["call"] == str(made.pk)
    else:
        assert answer.status_code == 404
        assert f"given the answer of the call {made.pk}" in answer.json()["detail"]


def test_routed_calls_lead_to_the_call_whose_answer_it_was(browser: Client, pair: tuple[Call, Call], way: str) -> None:
    made, _ = pair
    page = words_of(browser.get(reverse("admin:governance_tab_routed_calls")))
    leads = f'href="{page_of(made)}" aria-label="from the cache: the call whose answer it was given"'
    assert (leads in page, "from the cache" in page) == ((way == "responseCache",) * 2)  # the other was not decided


def test_an_answer_that_was_given_again_and_is_given_once_more_is_still_of_the_call_that_was_made(world: World) -> None:
    """However many times an answer has been given, it leads to the call that a model was asked for."""
    world.configuration.cache_seconds = 600
    world.configuration.save()
    world.gateway.refresh()
    world.script(answers())
    named = {"idempotency-key": "order-17"}
    for headers in ({}, named, named):
        world.gateway.request(question(temperature=0), headers=headers)
    made, *given = world.calls()
    assert [each.replay_of for each in given] == [made.pk] * 2
