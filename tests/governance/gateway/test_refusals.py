"""People are told that a budget refuses calls: once, and only if calls are refused for want of room that lasts."""

import base64
from datetime import timedelta
from unittest.mock import patch

import orjson
import pytest
from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from budgets import refusals
from budgets.models import Account, Crossing, Hold
from governance.alerts.signing import sign
from governance.changes.webhooks import save_webhook
from governance.models import Budget, Webhook
from routing.models import Price
from routing.vault import Vault
from tests.authors import SOMEBODY
from tests.factories import BudgetFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.test_budget import settled
from tests.governance.gateway.test_queries import counted
from tests.servers.fake_provider import whole


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

    def test_reach_a_webhook_signed_and_once(self, world: World, budget: Budget) -> None:
        """From the call that is refused to what its receiver may believe, over real connections."""
        receiver, secret = world.upstreams[2], f"whsec_{base64.b64encode(b'of the pager' * 3).decode()}"
        receiver.answer_in_turn(whole(b"", 204))
        save_webhook(
            Webhook(identifier="pager", url=f"{receiver.url}/hooks"),
            author=SOMEBODY,
            vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS),
            secret=secret,
        )
        world.gateway.refresh()
        assert [ask(world, tokens=2_000) for _ in range(2)] == [402] * 2
        sent = [world.gateway.threads.run(world.gateway.service.send_alerts()) for _ in range(2)]
        assert sent == [1, 0]
        (received,) = receiver.requests
        told = orjson.loads(received.body)
        assert (told["type"], told["data"]["budget"]) == ("budget.refusing_calls", "desk-month")
        moment = int(received.headers["webhook-timestamp"])
        signed = sign(secret, message=received.headers["webhook-id"], timestamp=moment, body=received.body)
        assert received.headers["webhook-signature"] == signed["webhook-signature"]


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
