"""``manage.py send_alerts``: what is due goes out, and a webhook can be tried."""

import json
from collections.abc import Iterator
from io import StringIO

import pytest
from django.conf import settings as installed
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from governance.changes.webhooks import save_webhook
from governance.models import AlertDelivery, DeliveryState, Webhook
from routing.vault import Vault
from tests.authors import SOMEBODY
from tests.governance.alerts.rows import crossing
from tests.governance.gateway.harness import LoopThread
from tests.servers.fake_provider import FakeProvider, whole

pytestmark = pytest.mark.usefixtures("tables")


@pytest.fixture
def receiver(loop_thread: LoopThread, settings: Settings) -> Iterator[FakeProvider]:
    """A receiver that takes everything, and a webhook ``pager`` that leads to it."""
    fake = FakeProvider(whole(b"", 204))
    loop_thread.run(fake.__aenter__())
    settings.SIGNALBOX_OUTBOUND_ALLOW = [("127.0.0.1", fake.port)]
    yield fake
    loop_thread.run(fake.__aexit__(None, None, None))


@pytest.fixture
def pager(receiver: FakeProvider, tables: None) -> Webhook:
    webhook = Webhook(identifier="pager", url=receiver.url)
    save_webhook(webhook, author=SOMEBODY, vault=Vault(installed.SIGNALBOX_ENCRYPTION_KEYS))
    return webhook


def run(*arguments: str) -> str:
    said = StringIO()
    call_command("send_alerts", *arguments, stdout=said)
    return said.getvalue()


def test_what_is_due_goes_out_once(pager: Webhook, receiver: FakeProvider) -> None:
    crossing()
    assert run() == "Alerts that have arrived: 1.\n"
    assert run() == "Alerts that have arrived: 0.\n"
    (got,) = receiver.requests
    assert json.loads(got.body)["data"]["threshold_percent"] == 80


def test_a_test_says_whether_it_has_arrived(pager: Webhook, receiver: FakeProvider) -> None:
    assert run("--test", "pager") == "The test has arrived at pager.\n"
    assert json.loads(receiver.requests[0].body)["type"] == "test"
    receiver.answer_in_turn(whole(b"", 500))
    with pytest.raises(CommandError, match="did not arrive: pager answered with status 500"):
        run("--test", "pager")
    states = AlertDelivery.objects.order_by("created_at").values_list("state", flat=True)
    assert list(states) == [DeliveryState.DELIVERED, DeliveryState.WAITING]


def test_a_webhook_that_is_not_there_is_named(tables: None) -> None:
    with pytest.raises(CommandError, match="There is no webhook wall"):
        run("--test", "wall")
