"""Alerts on their way, over real connections: receivers that take, refuse, stall, redirect, or are no place to go."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from governance.alerts import outbox, sender
from governance.alerts.outbox import LEASE
from governance.alerts.sender import send_due, send_one
from governance.alerts.signing import sign
from governance.gateway.bridge import Bridge
from governance.models import AlertDelivery, AuditEvent, DeliveryState, Revision
from routing.providers.base import Timeouts
from routing.providers.outbound import OutboundPolicy
from routing.providers.transport import HttpTransport
from tests.governance.alerts.rows import SECRET, VAULT, crossing, delivery, stored, webhook
from tests.servers.fake_provider import FakeProvider, Reset, Script, Stall, whole

pytestmark = pytest.mark.usefixtures("tables")

TAKEN = whole(b"", 204)


def run(
    do: Callable[..., Awaitable[Any]],
    *scripts: Script,
    arrange: Callable[[str], Any] | None = None,
    allowed: bool = True,
) -> FakeProvider:
    """Do something with a transport and a bridge, against a receiver; gives the receiver.

    ``arrange`` is handed the receiver's URL before anything is sent.
    """

    async def within() -> FakeProvider:
        async with FakeProvider(*(scripts or [TAKEN])) as receiver:
            policy = OutboundPolicy(allow=frozenset([receiver.host_port] if allowed else []))
            transport, bridge = HttpTransport(policy=policy), Bridge()
            if arrange is not None:
                await bridge.cross(arrange, f"http://{receiver.host_port}/hooks/signalbox")
            try:
                await do(transport=transport, cross=bridge.cross, vault=VAULT)
            finally:
                await transport.aclose()
                await asyncio.to_thread(bridge.close)
            return receiver

    return asyncio.run(within())


def waiting(url: str) -> AlertDelivery:
    return delivery(url=url)


def only() -> AlertDelivery:
    return AlertDelivery.objects.get()


def test_an_alert_arrives_signed_and_is_told_as_delivered() -> None:
    def arrange(url: str) -> None:
        webhook(url=url)
        crossing()

    receiver = run(send_due, arrange=arrange)
    (got,) = receiver.requests
    row = only()
    assert got.line == "POST /hooks/signalbox HTTP/1.1"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["webhook-id"] == str(row.pk)
    timestamp = int(got.headers["webhook-timestamp"])
    assert abs(datetime.now(UTC).timestamp() - timestamp) < 60
    expected = sign(SECRET, message=str(row.pk), timestamp=timestamp, body=got.body)
    assert got.headers["webhook-signature"] == expected["webhook-signature"]
    assert json.loads(got.body)["data"]["budget"] == "desk-month"
    assert (row.state, row.attempts, row.last_status, row.last_error) == (DeliveryState.DELIVERED, 1, 204, "")


@pytest.mark.parametrize("status", [302, 400, 429, 500, 503])
def test_every_other_status_is_tried_again_and_none_leads_elsewhere(status: int) -> None:
    elsewhere = {"location": "https://elsewhere.example.com/"}
    receiver = run(send_due, whole(b"later", status, elsewhere), arrange=waiting)
    row = only()
    assert len(receiver.requests) == 1
    assert (row.state, row.last_status) == (DeliveryState.WAITING, status)
    assert row.last_error == f"pager answered with status {status}"
    assert row.due_at is not None
    assert row.due_at > datetime.now(UTC)


def test_gone_ends_it() -> None:
    run(send_due, whole(b"", 410), arrange=waiting)
    assert (only().state, only().last_status) == (DeliveryState.FAILED, 410)


def test_a_receiver_that_says_nothing_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "TIMEOUTS", Timeouts(connect=0.2, total=0.2))
    run(send_due, [Stall()], arrange=waiting)
    assert (only().state, only().last_status) == (DeliveryState.WAITING, None)
    assert "0.2 s" in only().last_error


def test_what_is_said_besides_is_not_kept() -> None:
    run(send_due, whole(b"the words of a receiver", 500), arrange=waiting)
    assert "the words" not in only().last_error


def test_an_address_inside_is_not_called() -> None:
    receiver = run(send_due, arrange=lambda url: waiting(url.replace("http:", "https:")), allowed=False)
    assert receiver.connections == 0
    assert "SIGNALBOX_OUTBOUND_ALLOW" in only().last_error
    assert only().state == DeliveryState.WAITING


def test_a_name_that_leads_inside_is_not_called() -> None:
    """``localhost`` resolves to an address that is not public."""
    receiver = run(
        send_due,
        arrange=lambda url: waiting(url.replace("127.0.0.1", "localhost").replace("http:", "https:")),
        allowed=False,
    )
    assert receiver.connections == 0
    assert "not public" in only().last_error


def test_two_senders_at_a_time_send_once() -> None:
    async def both(**means: Any) -> None:
        await asyncio.gather(send_due(**means), send_due(**means))

    def arrange(url: str) -> None:
        webhook(url=url)
        for threshold in range(10, 60, 10):
            crossing(threshold=threshold)

    receiver = run(both, arrange=arrange)
    ids = [each.headers["webhook-id"] for each in receiver.requests]
    assert len(ids) == len(set(ids)) == 5
    assert set(AlertDelivery.objects.values_list("state", flat=True)) == {DeliveryState.DELIVERED}


def test_a_sender_killed_between_sending_and_marking_sends_it_again_under_the_same_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: Any, **__: Any) -> bool:
        raise Killed

    async def twice(**means: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(outbox, "mark", die)
            with pytest.raises(Killed):
                await send_one(only_pk[0], **means)
        assert await send_one(only_pk[0], **means) is not None, "it is held until the lease ends"
        await means["cross"](partial(AlertDelivery.objects.update, due_at=datetime.now(UTC)))
        assert await send_one(only_pk[0], **means) is None

    only_pk: list[Any] = []
    receiver = run(twice, arrange=lambda url: only_pk.append(waiting(url).pk))
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert (only().state, only().attempts) == (DeliveryState.DELIVERED, 2)
    assert LEASE.total_seconds() > 2 * sender.SECONDS


def test_a_secret_that_does_not_open_is_told_and_sends_nothing() -> None:
    def arrange(url: str) -> None:
        row = waiting(url)
        row.webhook.sealed_secret = b"\x01\x02k9nothing"
        row.webhook.save()

    receiver = run(send_due, arrange=arrange)
    assert receiver.requests == []
    assert only().last_error.startswith("its secret or its address cannot be opened")


QUERY = "sig=Zm9v%3D%2Bb&code=aHVzaC1odXNo"


def test_what_follows_the_question_mark_arrives_as_it_was_entered() -> None:
    receiver = run(send_due, arrange=lambda url: waiting(f"{url}?{QUERY}"))
    assert receiver.requests[0].line == f"POST /hooks/signalbox?{QUERY} HTTP/1.1"


@pytest.mark.parametrize("script", [whole(b"", 500), (Reset(),)])
def test_no_secret_is_in_a_log_a_row_or_the_trail(caplog: pytest.LogCaptureFixture, script: Script) -> None:
    caplog.set_level(logging.DEBUG)
    run(send_due, script, arrange=lambda url: waiting(f"{url}?{QUERY}"))
    told = [caplog.text, *(repr(row.__dict__) for row in AlertDelivery.objects.all())]
    told += [repr(row.__dict__) for row in (*AuditEvent.objects.all(), *Revision.objects.all())]
    assert "did not arrive at pager (try 1 of 10)" in caplog.text
    assert Revision.objects.exists()
    for text in told:
        assert SECRET not in text
        assert SECRET.removeprefix("whsec_") not in text
        assert "aHVzaC1odXNo" not in text
    assert stored(only().pk).state == DeliveryState.WAITING
