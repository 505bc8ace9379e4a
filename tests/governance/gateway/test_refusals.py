"""People are told that a budget refuses calls: once, and only if calls are refused for want of room that lasts."""

from datetime import timedelta
from unittest.mock import patch

import pytest
from django.db import OperationalError
from django.utils import timezone

from budgets import refusals
from budgets.models import Account, Crossing, Hold
from governance.models import Budget
from routing.models import Price
from tests.factories import BudgetFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.test_budget import settled
from tests.governance.gateway.test_queries import counted


@pytest.fixture
def budget(world: World) -> Budget:
    """A hard budget without thresholds, for less than the dearest call and more than a short one."""
    row: Budget = BudgetFactory(limit=10_000_000, alert_thresholds=[])
    world.gateway.refresh()
    return row


def ask(world: World, *, tokens: int) -> int:
    status = world.gateway.chat(max_tokens=tokens).status
    settled(world)
    return status


@pytest.mark.usefixtures("tables")
class TestRefusedCalls:
    def test_are_told_of_once(self, world: World, budget: Budget) -> None:
        assert ask(world, tokens=100) == 200
        with patch.object(refusals, "record", wraps=refusals.record) as written:
            assert [ask(world, tokens=2_000) for _ in range(3)] == [402] * 3
        assert written.call_count == 1
        row = Crossing.objects.get()
        account = Account.objects.get()
        assert (row.budget, row.account_id, row.threshold, row.limit) == ("desk-month", account.pk, None, 10_000_000)
        assert (row.spent, row.uncertain) == (account.spent, 0)
        assert row.needed is not None
        assert 2_000 * 10_000 < row.needed < 2_001 * 10_000

    def test_add_no_query_once_it_is_known(self, world: World, budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
        for known in (False, True):
            with counted(monkeypatch) as statements:
                assert ask(world, tokens=2_000) == 402
            assert any("budgets_crossing" in sql for _, sql in statements) is not known

    def test_are_taken_again_where_they_could_not_be_noted(self, world: World, budget: Budget) -> None:
        with patch.object(refusals, "record", side_effect=OperationalError):
            assert ask(world, tokens=2_000) == 402
        assert not Crossing.objects.exists()
        assert ask(world, tokens=2_000) == 402
        assert Crossing.objects.count() == 1

    def test_are_told_of_of_streams_too(self, world: World, budget: Budget) -> None:
        assert world.gateway.chat(stream=True).status == 402
        settled(world)
        assert Crossing.objects.get().budget == "desk-month"


@pytest.mark.usefixtures("tables")
class TestNobodyIsTold:
    def test_where_a_cheaper_route_answers(self, world: World, budget: Budget) -> None:
        Price.objects.filter(model=world.models[1]).delete()
        Price(model=world.models[1], valid_from=timezone.now() - timedelta(days=1), input_rate=0, output_rate=1).save()
        world.gateway.refresh()
        assert ask(world, tokens=2_000) == 200
        assert world.asked == [0, 1, 0]
        assert not Crossing.objects.exists()

    def test_where_only_what_others_hold_is_in_the_way(self, world: World, budget: Budget) -> None:
        assert ask(world, tokens=100) == 200
        Account.objects.update(reserved=9_990_000)
        assert ask(world, tokens=100) == 402
        assert not Crossing.objects.exists()
        assert not Hold.objects.exists()
        Account.objects.update(reserved=0)
