"""Budgets in front of every request to a provider: what is reserved, what is booked, and what a caller is told."""

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import orjson
import pytest
from django.db import OperationalError
from django.utils import timezone

from budgets import ledger
from budgets.models import Account, Entry, Hold
from budgets.proof import check
from governance.gateway import bookkeeper
from governance.gateway.middleware import budget
from governance.models import Budget
from governance.reconciliation import reconcile
from routing.models import Price
from tests.factories import BudgetFactory
from tests.governance.gateway.conftest import World, relist
from tests.governance.gateway.test_queries import counted
from tests.governance.gateway.upstream import answers, fails, streams
from tests.servers.fake_provider import Close, Reset, Script, Send, Stall, head
from tests.servers.web import wait_until

ONE = 1_000_000_000


@pytest.fixture(autouse=True)
def adds_up(tables: None) -> Iterator[None]:
    """Whatever a test does, the ledger adds up afterwards, and the reports say the same: two hours later, when nothing
    is under way any more."""
    yield
    assert check().flaws == ()
    compared = reconcile(now=timezone.now() + timedelta(hours=2))
    assert [str(each) for each in compared.differences if not each.is_explained] == []


def limited(world: World, **columns: Any) -> None:
    BudgetFactory(**columns)
    world.gateway.refresh()


def balance(**scope: str) -> tuple[int, int, int, int]:
    """Spent, reserved, uncertain, unmeasured of the only account of a scope."""
    account = Account.objects.get(scope=scope or {"application": "helpdesk"})
    return account.spent, account.reserved, account.uncertain, account.unmeasured


def cost(world: World) -> int:
    nanos = world.calls()[-1].actual_cost_nanos
    assert nanos is not None
    return nanos


def settled(world: World) -> None:
    """Wait for what is booked after an answer."""
    wait_until(lambda: not world.gateway.service.services.owed, seconds=30)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_booked_at_what_it_cost(world: World, stream: bool) -> None:
    limited(world)
    world.script(streams() if stream else answers())
    assert world.gateway.chat(stream=stream).status == 200
    settled(world)
    assert balance() == (cost(world), 0, 0, 0)
    assert cost(world) > 0
    assert not Hold.objects.exists()
    call = world.call()
    entries = Entry.objects.order_by("pk")
    assert [(each.kind, each.call, each.limit) for each in entries] == [
        ("reserved", call.pk, 10 * ONE), ("settled", call.pk, None),
    ]  # fmt: skip
    # 16 000 tokens of output at 10 dollars a million, and the prompt at the dearest rate of 2.50.
    reserved = entries[0].reserved
    assert reserved == (call.facts_token_estimate or 0) * 2_500 + 16_000 * 10_000


def test_images_and_files_are_reserved_for(world: World) -> None:
    """Of a request with two pictures and a document: 5,000 tokens each, and 100,000, beside its text."""
    limited(world)
    world.models[0].capabilities, world.models[0].context_length = ["chat", "vision"], 128_000
    world.models[0].save()
    world.gateway.refresh()
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/parcel.png"}}
    content = [{"type": "text", "text": "Why?"}, picture, picture, {"type": "file", "file": {"file_id": "file-7"}}]
    assert world.gateway.chat(messages=[{"role": "user", "content": content}], max_tokens=10).status == 200
    settled(world)
    reserved = Entry.objects.get(kind="reserved").reserved
    assert reserved == (1 + 2 * 5_000 + 100_000) * 2_500 + 10 * 10_000
    assert not Entry.objects.get(kind="settled").is_overrun


def test_what_is_reserved_is_what_the_caller_allows(world: World) -> None:
    limited(world)
    world.gateway.chat(max_tokens=100, n=3)
    prompt = world.call().facts_token_estimate or 0
    assert Entry.objects.order_by("pk")[0].reserved == prompt * 2_500 + 3 * 100 * 10_000


@pytest.mark.parametrize("stream", [False, True])
def test_nothing_is_sent_over_budget_and_the_caller_is_told_everything(world: World, stream: bool) -> None:
    limited(world, limit=100_000_000)
    reply = world.gateway.chat(stream=stream)
    assert (reply.status, world.asked) == (402, [0, 0, 0])
    error = reply.error
    assert (error["type"], error["code"]) == ("over_budget", "budget_exceeded")
    needed = Decimal(error["details"].pop("needed"))
    assert Decimal("0.16") < needed < Decimal("0.17")
    account = error["details"]
    resets = datetime.fromisoformat(account.pop("resets_at"))
    assert account == {
        "budget": "desk-month", "scope": "application helpdesk", "currency": "USD", "limit": "0.1", "spent": "0",
        "reserved": "0", "uncertain": "0", "window": f"month {berlin():%Y-%m} Europe/Berlin",
    }  # fmt: skip
    seconds = (resets - timezone.now()).total_seconds()
    assert abs(int(reply.headers["retry-after"]) - seconds) < 5
    for word in ("desk-month", "application helpdesk", "0.1 USD left of 0.1", f"up to {needed} USD", "prod-west/wise"):
        assert word in error["message"]
    call = world.call()
    assert (call.success, call.failure_kind, call.error_class) == (False, "over_budget", "budget_exceeded")
    assert [each.skip_reason for each in call.attempts.order_by("index")] == ["notAffordable"] * 3
    assert not Entry.objects.exists()


def berlin() -> datetime:
    return timezone.now().astimezone(ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {"model": "support-chat", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}),
        ("/v1/responses", {"model": "support-chat", "input": "Hi"}),
    ],
)  # fmt: skip
def test_every_protocol_tells_it_in_its_own_envelope(world: World, path: str, body: dict[str, Any]) -> None:
    limited(world, limit=1)
    reply = world.gateway.request(orjson.dumps(body), path=path)
    assert reply.status == 402
    assert reply.headers["retry-after"]
    assert reply.error["details"]["budget"] == "desk-month"
    assert reply.error["code"] == "budget_exceeded"


def test_an_all_time_budget_never_resets(world: World) -> None:
    limited(world, limit=1, window="total")
    reply = world.gateway.chat()
    assert "retry-after" not in reply.headers
    assert reply.error["details"]["resets_at"] is None


def test_a_route_that_is_affordable_is_asked_instead(world: World) -> None:
    Price.objects.filter(model=world.models[0]).delete()
    for model, rate in ((world.models[0], 900), (world.models[1], 1)):
        Price.objects.filter(model=model).delete()
        Price(model=model, valid_from=timezone.now() - timedelta(days=1), input_rate=0, output_rate=rate * ONE).save()
    limited(world, limit=ONE)
    reply = world.gateway.chat()
    assert (reply.status, world.asked) == (200, [0, 1, 0])
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (notAffordable)"


def test_all_budgets_bind_and_each_each_has_an_account_of_its_own(world: World) -> None:
    BudgetFactory(identifier="everybody", application="", limit=100 * ONE)
    BudgetFactory(identifier="people", application="*", user="*", limit=200_000_000)
    BudgetFactory(identifier="west", application="", provider="prod-west", limit=0)
    BudgetFactory(identifier="shop", application="web-shop", limit=0)
    limited(world)
    assert world.gateway.chat(user="agent-17").status == 200
    paid = cost(world)
    settled(world)
    booked = {tuple(sorted(account.scope.items())): account.spent for account in Account.objects.all()}
    desk = ("application", "helpdesk")
    assert booked == {(): paid, (desk,): paid, (desk, ("user", "agent-17")): paid}
    exhausted = world.gateway.chat(user="agent-18", max_tokens=25_000)
    assert exhausted.error["details"]["budget"] == "people"
    assert exhausted.error["details"]["scope"] == "application helpdesk, user agent-18"
    assert world.gateway.chat(user="agent-17").status == 200


def test_a_soft_budget_counts_and_refuses_nothing(world: World) -> None:
    limited(world, limit=0, is_hard=False)
    assert world.gateway.chat().status == 200
    settled(world)
    assert balance() == (cost(world), 0, 0, 0)


def test_budgets_that_are_switched_off_or_retired_bind_nobody(world: World) -> None:
    BudgetFactory(identifier="off", limit=0, is_active=False)
    limited(world, identifier="retired", limit=0, retired_at=timezone.now())
    assert world.gateway.chat().status == 200


def test_an_increase_ends_by_itself(world: World) -> None:
    limited(world, limit=0, increase=ONE, increase_until=timezone.now() + timedelta(hours=1))
    assert world.gateway.chat().status == 200
    over = timezone.now() - timedelta(seconds=1)
    row = Budget.objects.get()
    row.increase_until = over
    row.save()
    world.gateway.refresh()
    assert world.gateway.chat().status == 402


class TestUnpriced:
    def test_a_model_without_a_price_is_refused(self, world: World) -> None:
        Price.objects.all().delete()
        limited(world)
        reply = world.gateway.chat()
        assert (reply.status, world.asked) == (402, [0, 0, 0])
        assert "prod-east/fast has no price, and the budget desk-month refuses what has none" in reply.error["message"]

    @pytest.mark.parametrize("columns", [{"unpriced": "allow"}, {"is_hard": False}])
    def test_or_counted_as_unmeasured(self, world: World, columns: dict[str, Any]) -> None:
        Price.objects.all().delete()
        limited(world, **columns)
        assert world.gateway.chat().status == 200
        settled(world)
        assert balance() == (0, 0, 0, 1)

    def test_a_price_of_zero_is_a_price(self, world: World) -> None:
        for price in Price.objects.all():
            price.input_rate = price.output_rate = price.cached_input_rate = 0
            price.save()
        limited(world, limit=0)
        assert world.gateway.chat().status == 200
        settled(world)
        assert balance() == (0, 0, 0, 0)

    def test_another_currency_is_not_converted(self, world: World) -> None:
        limited(world, currency="EUR", unpriced="allow")
        reply = world.gateway.chat()
        assert reply.status == 402
        assert "prod-east/fast is priced in USD, and the budget desk-month counts EUR" in reply.error["message"]
        assert world.asked == [0, 0, 0]


BROKEN: Script = [head(length=900), Send(b'{"id":'), Close()]


class TestOutcomes:
    """What becomes of a reservation, by how the attempt ended."""

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503, 529])
    @pytest.mark.parametrize("stream", [False, True])
    def test_an_error_that_is_the_whole_answer_costs_nothing(self, world: World, status: int, stream: bool) -> None:
        limited(world)
        relist(world.configuration, world.models[:1])
        world.gateway.refresh()
        world.script(fails(status))
        world.gateway.chat(stream=stream)
        settled(world)
        assert balance() == (0, 0, 0, 0)
        assert Entry.objects.order_by("pk").last().kind == "released"  # type: ignore[union-attr]  # there is one

    @pytest.mark.parametrize("script", [[Reset()], BROKEN], ids=["reset", "cut off"])
    def test_what_broke_after_it_was_sent_stays_held(self, world: World, script: Script) -> None:
        limited(world)
        relist(world.configuration, world.models[:1])
        world.gateway.refresh()
        world.script(script)
        world.gateway.chat()
        settled(world)
        assert balance()[:2] == (0, 0)
        assert balance()[2] > 160_000_000

    def test_a_time_out_stays_held(self, world: World) -> None:
        limited(world)
        relist(world.configuration, world.models[:1])
        provider = world.models[0].provider
        provider.total_timeout = Decimal("0.2")
        provider.save()
        world.gateway.refresh()
        world.script([Stall()])
        assert world.gateway.chat().status == 504
        settled(world)
        assert balance()[2] > 0

    def test_nobody_there_is_not_sent(self, world: World) -> None:
        limited(world)
        relist(world.configuration, world.models[:1])
        provider = world.models[0].provider
        provider.base_url = "http://127.0.0.1:1/v1"
        provider.save()
        world.gateway.refresh()
        world.gateway.chat()
        settled(world)
        assert balance() == (0, 0, 0, 0)

    def test_an_answer_without_usage_stays_held(self, world: World) -> None:
        limited(world)
        world.script(answers(usage=None))
        assert world.gateway.chat().status == 200
        settled(world)
        assert balance()[0] == 0
        assert balance()[2] > 0

    def test_a_caller_that_hangs_up_leaves_its_bound_held(self, world: World) -> None:
        limited(world)
        world.script(streams("Left ", end=[Stall()]))
        conversation = world.gateway.begin_chat(stream=True)
        conversation.wait_for(b"Left ")
        settled(world)
        assert balance()[1] > 0
        conversation.hang_up()
        conversation.finish()
        settled(world)
        spent, reserved, uncertain, _ = balance()
        assert (spent, reserved) == (0, 0)
        assert uncertain > 0

    def test_a_caller_that_hangs_up_before_the_answer_too(self, world: World) -> None:
        limited(world)
        world.script([Stall()])
        conversation = world.gateway.begin_chat()
        world.wait_for_request(0)
        conversation.hang_up()
        conversation.finish()
        settled(world)
        wait_until(lambda: balance()[1] == 0)
        settled(world)
        assert balance()[2] > 0

    def test_every_attempt_is_one_of_its_own(self, world: World) -> None:
        limited(world)
        world.script([Reset()], fails(503), answers())
        assert world.gateway.chat().status == 200
        settled(world)
        kinds = list(Entry.objects.order_by("pk").values_list("kind", flat=True))
        assert [kind for kind in kinds if kind != "reserved"][-2:] == ["released", "settled"]
        assert kinds.count("reserved") == sum(world.asked)
        assert "uncertain" in kinds
        settled(world)
        assert balance()[0] == cost(world)


class TestUnreachable:
    """The ledger is away. Nothing is sent under a hard budget."""

    def test_a_hard_budget_fails_closed(self, world: World) -> None:
        limited(world)
        with patch.object(ledger, "_try_to_reserve", side_effect=OperationalError("gone")):
            reply = world.gateway.chat()
            assert (reply.status, reply.headers["retry-after"], world.asked) == (503, "1", [0, 0, 0])
            assert reply.error["code"] == "ledger_unreachable"
        settled(world)
        assert world.call().failure_kind == "transient"
        assert world.gateway.chat().status == 200

    def test_a_soft_one_is_not_booked(self, world: World) -> None:
        limited(world, is_hard=False)
        with patch.object(ledger, "_try_to_reserve", side_effect=OperationalError("gone")):
            assert world.gateway.chat().status == 200
        settled(world)
        assert not Entry.objects.exists()

    def test_a_ledger_that_does_not_answer_is_not_reachable(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limited(world)
        monkeypatch.setattr(budget, "PATIENCE", 0.1)
        may_go_on = threading.Event()
        real = ledger._try_to_reserve

        def slow(*args: Any) -> object:
            may_go_on.wait(10)
            return real(*args)

        with patch.object(ledger, "_try_to_reserve", side_effect=slow):
            assert world.gateway.chat().status == 503
            assert not Entry.objects.exists()
            may_go_on.set()
            settled(world)
        # One was under way. The others were not begun, and nobody wants them any more.
        assert sorted(Entry.objects.values_list("kind", flat=True)) == ["released", "reserved"]
        assert balance() == (0, 0, 0, 0)
        assert world.asked == [0, 0, 0]

    def test_it_is_waited_for_no_longer_than_the_call_may_take(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limited(world)
        monkeypatch.setattr(budget, "PATIENCE", 30.0)
        monkeypatch.setattr(budget, "seconds_left", lambda context: 0.1)
        may_go_on = threading.Event()
        with patch.object(ledger, "_try_to_reserve", side_effect=lambda *_: [may_go_on.wait(10) and None]):
            conversation = world.gateway.begin_chat()
            wait_until(lambda: bool(conversation.sent), seconds=5.0)
            may_go_on.set()
            assert conversation.reply().status == 503
            settled(world)

    def test_an_outcome_waits_until_the_ledger_is_back(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        limited(world)
        monkeypatch.setattr(budget, "_AGAIN", (0.01, 0.01, 0.01))
        real = ledger.close_all
        failures = iter([OperationalError("gone")] * 4)  # each is tried twice

        def twice_away(*args: Any) -> object:
            if (error := next(failures, None)) is not None:
                raise error
            return real(*args)

        with patch.object(bookkeeper, "close_all", side_effect=twice_away):
            assert world.gateway.chat().status == 200
            settled(world)
        assert balance() == (cost(world), 0, 0, 0)

    def test_an_answer_does_not_wait_for_a_ledger_that_stays_away(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is there, and it is paid for: what it cost is booked when the ledger is back."""
        limited(world)
        is_back, real = threading.Event(), ledger.close_all
        monkeypatch.setattr(budget, "_AGAIN", (0.05,) * 600)

        def away(*args: Any) -> object:
            if not is_back.is_set():
                raise OperationalError("gone")
            return real(*args)

        with patch.object(bookkeeper, "close_all", side_effect=away):
            conversation = world.gateway.begin_chat()
            try:
                assert conversation.reply().status == 200
                assert balance()[0] == 0
            finally:
                is_back.set()
            settled(world)
        assert balance() == (cost(world), 0, 0, 0)


class TestWhatItCosts:
    def test_a_call_without_a_budget_asks_the_database_nothing(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limited(world, application="web-shop")
        with counted(monkeypatch) as statements, world.gateway.service.services.recorder._flushing:
            assert world.gateway.chat().status == 200
        assert statements == []

    def test_no_connection_is_held_while_a_provider_is_waited_for(self, world: World) -> None:
        """More calls wait at a time than there are threads that have connections."""
        limited(world, limit=100 * ONE)
        world.script([Stall()])
        conversations = [world.gateway.begin_chat() for _ in range(24)]
        wait_until(lambda: world.asked[0] == 24, seconds=30)
        assert balance()[1] > 0
        for each in conversations:
            each.hang_up()
        for each in conversations:
            each.finish()
        settled(world)
        assert Entry.objects.filter(kind="uncertain").count() == 24

    def test_of_twenty_calls_at_a_budget_for_one_exactly_one_is_sent(self, world: World) -> None:
        limited(world, limit=170_000_000)
        world.script([Stall()])
        relist(world.configuration, world.models[:1])
        world.gateway.refresh()
        conversations = [world.gateway.begin_chat() for _ in range(20)]
        wait_until(lambda: sum(each.future.done() for each in conversations) == 19, seconds=30)
        assert world.asked == [1, 0, 0]
        (admitted,) = (each for each in conversations if not each.future.done())
        assert {each.reply().status for each in conversations if each is not admitted} == {402}
        admitted.hang_up()
        admitted.finish()
        settled(world)
