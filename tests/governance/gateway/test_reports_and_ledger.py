"""What the reports say was spent is what budgets have settled: also where a call makes several requests that cost
something, at several providers, and where nobody knows what an answer has cost."""

from datetime import timedelta

import pytest
from django.utils import timezone

from budgets.models import Account
from governance.reconciliation import Reconciliation, reconcile
from telemetry.models import UsageDay, UsageHour
from tests.factories import BudgetFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.upstream import ROLE, answers, chunk_of, fails, usage_chunk
from tests.servers.fake_provider import Reset, events
from tests.servers.web import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

GOOD, BAD = '{"city": "Ulm"}', '{"city": 7}'
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
COST = 5_950_000
"""Of an answer that the providers of these tests give."""


@pytest.fixture(autouse=True)
def budgets(world: World) -> None:
    """One of the application, one of each provider and configuration, and one of the whole installation by the day."""
    BudgetFactory(identifier="desk")
    BudgetFactory(identifier="routes", application="", provider="*", configuration="*")
    BudgetFactory(identifier="whole", application="", window="day", zone="UTC", is_hard=False)
    world.gateway.refresh()


def compared(world: World) -> Reconciliation:
    wait_until(lambda: not world.gateway.service.services.owed)
    world.calls()
    return reconcile(now=timezone.now() + timedelta(hours=2))


def usage(world: World) -> list[tuple[str, int, int, int, int]]:
    """Provider, requests, failures, cost and unpriced of each row of usage."""
    world.calls()
    columns = ("provider", "requests", "failures", "cost_nanos", "unpriced_requests")
    days, hours = ([*table.objects.order_by("provider").values_list(*columns)] for table in (UsageDay, UsageHour))
    assert days == hours
    return days


def test_an_answer(world: World) -> None:
    assert world.gateway.chat().status == 200
    assert compared(world) == Reconciliation(agreeing=3, untold=0, differences=())
    assert usage(world) == [("prod-east", 1, 0, COST, 0)]


def test_an_answer_that_is_thrown_away_is_charged_where_it_was_made(world: World) -> None:
    """It does not fit the schema, so the next provider is asked: both are paid."""
    world.script(answers(text=BAD), answers(text=GOOD))
    assert world.gateway.chat(response_format=FORMAT).status == 200
    assert compared(world) == Reconciliation(agreeing=4, untold=0, differences=())
    assert usage(world) == [("prod-east", 0, 0, COST, 0), ("prod-west", 1, 0, COST, 0)]
    assert sorted(Account.objects.values_list("spent", flat=True)) == [COST, COST, 2 * COST, 2 * COST]


def test_answers_that_nobody_gets_are_charged_too(world: World) -> None:
    world.script(*[answers(text=BAD)] * 3)
    assert world.gateway.chat(response_format=FORMAT).status == 502
    found = compared(world)
    assert (found.differences, found.untold) == ((), 0)
    assert sum(cost for *_, cost, _ in usage(world)) == 3 * COST
    assert [row for row in usage(world) if row[1]] == [("", 1, 1, 0, 0)]  # the call: one, and served by nobody


def test_a_repair_is_charged_besides(world: World) -> None:
    world.configuration.repairs_output = True
    world.configuration.save()
    world.gateway.refresh()
    world.upstreams[0].answer_in_turn(answers(text=BAD), answers(text=GOOD))
    assert world.gateway.chat(response_format=FORMAT).status == 200
    assert compared(world).differences == ()
    assert usage(world) == [("prod-east", 1, 0, 2 * COST, 0)]


def test_failures_that_cost_nothing_add_nothing(world: World) -> None:
    world.script(fails(503), answers())
    assert world.gateway.chat().status == 200
    assert compared(world).differences == ()
    assert usage(world) == [("prod-west", 1, 0, COST, 0)]


def test_what_an_answer_reports_before_it_breaks_off_is_not_what_it_cost(world: World) -> None:
    """It stays uncertain, and in the reports it is a call whose cost is not known."""
    world.script(events(ROLE, chunk_of({"content": "The parcel "}), usage_chunk(), end=[Reset()]))
    assert world.gateway.chat(stream=True).status == 200
    assert compared(world).differences == ()
    held = Account.objects.get(scope={"application": "helpdesk"})
    assert (held.spent, held.uncertain > 0) == (0, True)
    assert usage(world) == [("prod-east", 1, 1, 0, 1)]
    assert world.call().actual_cost_nanos == COST  # what was reported so far


@pytest.mark.parametrize("user", ["agent\x0017", "a" * 300])
def test_users_are_counted_by_the_name_that_is_told(world: World, user: str) -> None:
    """Whatever a caller sends: budgets count by what usage keeps of it."""
    BudgetFactory(identifier="users", user="*")
    world.gateway.refresh()
    assert world.gateway.chat(user=user).status == 200
    assert compared(world).differences == ()
    (told,) = Account.objects.filter(scope__has_key="user").values_list("scope__user", flat=True)
    assert told == UsageDay.objects.get().user == user.replace("\x00", "")[:128]
