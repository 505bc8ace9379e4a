"""Tiers of budgets: past one, calls go elsewhere, or nowhere."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from django.db import OperationalError
from django.utils import timezone

from budgets import crossings
from budgets.crossings import Crossings, Spending, watches_of
from budgets.models import Account, Crossing
from budgets.scopes import Subject
from governance import decisions, standing_poll
from governance.access.budgets import spec_of
from governance.changes.settings import store_setting
from governance.gateway.middleware import decide, retry
from governance.models import Application, Budget, BudgetTier
from routing.core.plan import Plan
from tests.authors import SOMEBODY
from tests.factories import BudgetFactory, ConfigurationFactory, FallbackLinkFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.test_budget import cost, settled
from tests.governance.gateway.upstream import answers, fails

CALL = 100  # tokens of output that a call allows


def tiered(world: World, *steps: tuple[int, str], limit: int = 10**9, **columns: Any) -> Budget:
    """A soft budget with a ladder, in force."""
    columns = {"is_hard": False, "limit": limit, **columns}
    budget: Budget = BudgetFactory(**columns)
    for position, (threshold, model) in enumerate(steps):
        BudgetTier(budget=budget, threshold=threshold, model=model, position=position).save()
    world.gateway.refresh()
    return budget


def spend(world: World, budget: Budget, percent: int) -> None:
    """Make one call, and set the limit so that it has used up so much of it."""
    assert world.gateway.chat(max_tokens=CALL).status == 200
    settled(world)
    set_limit(world, budget, cost(world) * 100 // percent)
    world.forget()


def another_key(world: World, **columns: Any) -> str:
    """A further key of the same application."""
    return world.issue(application=Application.objects.get(identifier="helpdesk"), **columns)


def set_limit(world: World, budget: Budget, limit: int) -> None:
    budget.limit = limit
    budget.save()
    world.gateway.refresh()


def test_past_an_advisory_tier_calls_go_to_its_model_and_stay_there_when_the_limit_is_raised(world: World) -> None:
    budget = tiered(world, (80, "huge"))
    spend(world, budget, 85)
    assert world.gateway.chat(max_tokens=CALL).status == 200
    assert world.asked == [0, 0, 1]
    assert world.calls()[-1].preference == "tier:desk-month"
    set_limit(world, budget, 10**12)
    assert world.gateway.chat(max_tokens=CALL).status == 200
    assert world.asked == [0, 0, 2]
    assert [each.threshold for each in Crossing.objects.all()] == [80]


def test_when_the_model_of_an_advisory_tier_fails_the_others_are_asked(world: World) -> None:
    budget = tiered(world, (80, "huge"))
    spend(world, budget, 85)
    world.script(answers(), answers(), fails(500))
    assert world.gateway.chat(max_tokens=CALL).status == 200
    assert world.asked == [1, 0, 1]


def test_past_a_strict_tier_nobody_else_is_asked_even_when_it_fails(world: World) -> None:
    budget = tiered(world, (80, "huge"), enforce_targets=True)
    spend(world, budget, 85)
    assert world.gateway.chat(max_tokens=CALL).status == 200
    world.script(answers(), answers(), fails(500))
    assert world.gateway.chat(max_tokens=CALL).status == 503
    assert world.asked == [0, 0, 2]


def test_a_fixed_configuration_is_served_by_the_tiers_model(world: World) -> None:
    ConfigurationFactory(identifier="one", fixed=True, fixed_model=world.models[0])
    budget = tiered(world, (80, "huge"), enforce_targets=True)
    spend(world, budget, 85)
    assert world.gateway.chat(model="one", max_tokens=CALL).status == 200
    assert world.asked == [0, 0, 1]
    call = world.calls()[-1]
    assert call.decision is not None
    assert call.decision.document["tiers"] == [
        {"budget": "desk-month", "threshold": 80, "percent": 85, "targets": ["huge"], "is_strict": True}
    ]
    assert "budgetTargetOnly" in call.rejection_reasons


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
        ("/v1/messages", {"max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}),
        ("/v1/responses", {"input": "Hi"}),
        ("/v1/completions", {"prompt": "Hi"}),
        ("/v1/embeddings", {"input": "Hi"}),
    ],
)
def test_a_model_that_is_named_past_a_strict_tier_is_refused_in_every_protocol(
    world: World, path: str, body: dict[str, Any]
) -> None:
    budget = tiered(world, (80, "huge"), enforce_targets=True)
    spend(world, budget, 85)
    world.gateway.secret = another_key(world, may_name_models=True)
    reply = world.gateway.request(orjson.dumps({"model": "prod-east/fast", **body}), path=path)
    assert (reply.status, world.asked) == (402, [0, 0, 0])
    assert "85 % of the budget desk-month are used up, which is past its tier at 80 %" in reply.error["message"]
    if path != "/v1/messages":
        assert reply.error["code"] == "budget_target_unavailable"
    assert reply.error["details"] == {
        "budget": "desk-month", "threshold": "80", "percent": "85", "targets": "huge",
    }  # fmt: skip
    call = world.calls()[-1]
    assert (call.failure_kind, call.error_class) == ("over_budget", "budget_target_unavailable")
    assert call.attempts.count() == 0
    world.gateway.request(orjson.dumps({"model": "lab/huge", **body}), path=path)
    assert world.asked == [0, 0, 1]


def test_a_key_that_does_not_allow_the_tiers_model_is_refused(world: World) -> None:
    budget = tiered(world, (80, "huge"), enforce_targets=True)
    spend(world, budget, 85)
    world.gateway.secret = another_key(world, allowed_models=["fast", "wise"])
    reply = world.gateway.chat(max_tokens=CALL)
    assert (reply.status, reply.error["code"]) == (402, "budget_target_unavailable")
    assert "huge" not in reply.error["message"]
    assert reply.error["details"]["targets"] is None
    assert world.asked == [0, 0, 0]


def test_the_configurations_own_budget_binds_what_it_falls_back_to(world: World) -> None:
    spare = ConfigurationFactory(identifier="spare", fixed=True, fixed_model=world.models[1])
    first = ConfigurationFactory(identifier="first", fixed=True, fixed_model=world.models[0])
    FallbackLinkFactory(configuration=first, fallback=spare)
    budget = tiered(world, (80, "fast"), enforce_targets=True, application="", configuration="first")
    assert world.gateway.chat(model="first", max_tokens=CALL).status == 200
    settled(world)
    set_limit(world, budget, cost(world) * 100 // 85)
    world.forget()
    world.script(fails(500))
    assert world.gateway.chat(model="first", max_tokens=CALL).status == 503
    assert world.asked == [1, 0, 0]
    assert world.gateway.chat(model="spare", max_tokens=CALL).status == 200


def test_what_cannot_be_read_refuses_whom_it_is_meant_for_and_nobody_else(world: World) -> None:
    with patch.object(Crossings, "read", side_effect=OperationalError):
        tiered(world, (80, "huge"), enforce_targets=True, user="agent-17")
        refused = world.gateway.chat(user="agent-17", max_tokens=CALL)
        assert (refused.status, refused.error["code"]) == (503, "budget_tiers_unread")
        assert refused.headers["retry-after"] == "1"
        assert world.asked == [0, 0, 0]
        assert world.gateway.chat(user="agent-18", max_tokens=CALL).status == 200
    world.gateway.refresh()
    assert world.gateway.chat(user="agent-17", max_tokens=CALL).status == 200


def test_calls_ask_no_database_for_tiers(world: World) -> None:
    budget = tiered(world, (80, "huge"))
    spend(world, budget, 85)
    account = Account.objects.get()
    known = world.gateway.service.in_force
    assert known is not None
    assert known.standing.crossings.of(account.identity, "desk-month")
    with patch.object(Crossing.objects, "filter", side_effect=AssertionError):
        assert world.gateway.chat(max_tokens=CALL).status == 200
    assert world.asked == [0, 0, 1]


def price_of_a_call(world: World) -> int:
    """What every call here costs."""
    world.gateway.chat(max_tokens=CALL)
    world.forget()
    return cost(world)


def crossing(world: World, budget: Budget, *, percent: int) -> Callable[[], None]:
    """What lets this process know that a threshold was crossed, as if it had just been noted."""
    known = world.gateway.service.in_force
    assert known is not None
    subject = Subject(application="helpdesk", key="", user="", configuration="", provider="")
    now = timezone.now()
    (watch,) = watches_of([spec_of(budget)], subject, began=now, now=now)
    spending = {watch.account.identity: Spending(watch.limit * percent // 100, 0)}
    noted = known.standing.crossings
    return partial(noted._learn, noted.news([watch], spending, now=now))


def test_what_a_call_crosses_counts_for_the_next_call_of_the_process_at_once(world: World) -> None:
    paid = price_of_a_call(world)
    tiered(world, (80, "huge"), limit=2 * paid)
    for asked in ([1, 0, 0], [2, 0, 0], [2, 0, 1], [2, 0, 2]):
        assert world.gateway.chat(max_tokens=CALL).status == 200
        settled(world)
        assert world.asked == asked
    row = Crossing.objects.get()
    assert (row.threshold, row.limit, row.spent, row.uncertain) == (80, 2 * paid, 2 * paid, 0)


def test_a_threshold_is_written_down_once_however_many_calls_follow(world: World) -> None:
    paid = price_of_a_call(world)
    tiered(world, limit=paid, alert_thresholds=[50, 100])
    with patch.object(crossings, "record", wraps=crossings.record) as written:
        for _ in range(3):
            world.gateway.chat(max_tokens=CALL)
            settled(world)
    assert written.call_count == 1
    assert [each.threshold for each in Crossing.objects.order_by("threshold")] == [50, 100]


def test_what_cannot_be_written_down_is_found_by_the_next_look(world: World) -> None:
    paid = price_of_a_call(world)
    tiered(world, (80, "huge"), limit=paid)
    with patch.object(crossings, "record", side_effect=OperationalError):
        assert world.gateway.chat(max_tokens=CALL).status == 200
        settled(world)
    assert not Crossing.objects.exists()
    with patch.object(standing_poll, "LOOK_AGE", timedelta()):
        world.gateway.refresh()
    assert Crossing.objects.get().threshold == 80
    world.forget()
    assert world.gateway.chat(max_tokens=CALL).status == 200
    assert world.asked == [0, 0, 1]


def test_what_another_process_writes_down_counts_with_the_next_poll(world: World) -> None:
    budget = tiered(world, (80, "huge"), limit=10**12)
    assert world.gateway.chat(max_tokens=CALL).status == 200
    settled(world)
    account = Account.objects.get()
    Crossing(
        account=account, budget=budget.identifier, threshold=80, limit=1, spent=1, uncertain=0, at=timezone.now()
    ).save()
    world.forget()
    world.gateway.chat(max_tokens=CALL)
    world.gateway.refresh()
    world.gateway.chat(max_tokens=CALL)
    assert world.asked == [1, 0, 1]


def test_a_strict_tier_that_comes_into_force_binds_a_call_that_is_under_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the repetition nor the next route is asked once nobody but the target may serve."""
    budget = tiered(world, (80, "huge"), enforce_targets=True)

    cross = crossing(world, budget, percent=80)

    async def wait(seconds: float) -> None:
        cross()

    monkeypatch.setattr(retry, "sleep", wait)
    store_setting("retry.attempts", 2, author=SOMEBODY)
    world.gateway.refresh()
    world.script(fails(500))
    assert world.gateway.chat(max_tokens=CALL).status == 200
    assert world.asked == [1, 0, 1]
    skips = [(each.model, each.skip_reason) for each in world.call().attempts.order_by("index")]
    assert skips == [("fast", ""), ("wise", "budgetTargetOnly"), ("huge", "")]


def test_a_call_that_was_planned_before_is_refused_if_no_target_is_in_its_plan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = tiered(world, (80, "huge"), enforce_targets=True)
    ConfigurationFactory(identifier="one", fixed=True, fixed_model=world.models[0])
    world.gateway.refresh()
    real, cross = decisions.lay_out, crossing(world, budget, percent=80)

    def lay_out(*args: Any, **kwargs: Any) -> Plan:
        laid_out = real(*args, **kwargs)
        cross()
        return laid_out

    monkeypatch.setattr(decide, "lay_out", lay_out)
    reply = world.gateway.chat(model="one", max_tokens=CALL)
    assert (reply.status, reply.error["code"]) == (402, "budget_target_changed")
    assert reply.error["details"]["targets"] == "huge"
    assert world.asked == [0, 0, 0]
    monkeypatch.setattr(decide, "lay_out", real)
    assert world.gateway.chat(model="one", max_tokens=CALL).status == 200
    assert world.asked == [0, 0, 1]
