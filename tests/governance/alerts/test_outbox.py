"""The outbox: every webhook is told of every crossing once, whoever fills it; a row is held by one sender."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from budgets.scopes import Scope
from governance.alerts import outbox
from governance.alerts.outbox import LEASE, MOST_ATTEMPTS, TOLD_AFTER, WAITS, Outcome
from governance.changes.records import retire, switch
from governance.models import AlertDelivery, DeliveryState
from tests.authors import SOMEBODY
from tests.budgets.claims import key_of
from tests.governance.alerts.rows import crossing, delivery, stored, webhook

pytestmark = pytest.mark.django_db

ARRIVED = Outcome(status=204)
AWAY = Outcome(status=503, error="pager answered with status 503")


def now() -> datetime:
    return datetime.now(UTC)


def test_each_webhook_is_told_of_each_crossing_once() -> None:
    webhook("pager")
    webhook("wall")
    first, second = crossing(threshold=50), crossing(threshold=80)
    assert outbox.fill(now=now()) == 4
    assert outbox.fill(now=now()) == 0
    third = crossing(threshold=100)
    assert outbox.fill(now=now()) == 2
    rows = AlertDelivery.objects.order_by("crossing", "webhook__identifier").values_list(
        "crossing", "webhook__identifier", "budget"
    )
    assert list(rows) == [
        (each.pk, name, "desk-month") for each in (first, second, third) for name in ("pager", "wall")
    ]


def test_two_that_fill_at_a_time_make_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one has looked before the first has written."""
    webhook()
    crossing()
    write = AlertDelivery.objects.bulk_create

    def beaten(rows: list[AlertDelivery], **kwargs: Any) -> object:
        monkeypatch.undo()
        assert outbox.fill(now=now()) == 1
        return write(rows, **kwargs)

    monkeypatch.setattr(type(AlertDelivery.objects), "bulk_create", lambda _, rows, **kwargs: beaten(rows, **kwargs))
    outbox.fill(now=now())
    assert AlertDelivery.objects.count() == 1


def test_the_next_window_is_told_of_anew() -> None:
    """An account is of one window: what was crossed in December is another crossing than November's."""
    webhook()
    scope = Scope(application="helpdesk")
    for months in (0, 1):
        crossing(key=key_of(scope, moment=now() + timedelta(days=31 * months)))
    assert outbox.fill(now=now()) == 2


def test_a_webhook_hears_of_nothing_that_was_before_it_or_is_long_ago() -> None:
    crossing(threshold=50)
    pager = webhook()
    assert outbox.fill(now=now()) == 0
    crossing(threshold=80)
    assert outbox.fill(now=pager.created_at + TOLD_AFTER + timedelta(minutes=1)) == 0
    assert outbox.fill(now=now()) == 1


def test_one_that_is_switched_off_is_told_later_and_a_retired_one_never() -> None:
    pager, wall = webhook("pager"), webhook("wall")
    crossing()
    switch(pager, on=False, author=SOMEBODY)
    retire(wall, author=SOMEBODY)
    assert outbox.fill(now=now()) == 0
    switch(pager, on=True, author=SOMEBODY)
    assert outbox.fill(now=now()) == 1
    switch(pager, on=False, author=SOMEBODY)
    assert outbox.due(now=now()) == []
    switch(pager, on=True, author=SOMEBODY)
    assert len(outbox.due(now=now())) == 1


def test_without_a_webhook_filling_is_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    crossing()
    with django_assert_num_queries(1):
        outbox.fill(now=now())


def test_of_two_senders_one_has_it() -> None:
    row = delivery()
    claim = outbox.claim(row.pk, now=now())
    assert claim is not None
    assert outbox.claim(row.pk, now=now()) is None
    assert outbox.due(now=now()) == []
    assert outbox.mark(claim, ARRIVED, now=now())
    done = stored(row.pk)
    assert (done.state, done.attempts, done.last_status, done.due_at) == (DeliveryState.DELIVERED, 1, 204, None)
    assert outbox.claim(row.pk, now=now() + LEASE) is None


def test_what_a_killed_sender_had_is_sent_again_under_the_same_id() -> None:
    row = delivery()
    killed = outbox.claim(row.pk, now=now())
    assert killed is not None
    later = now() + LEASE
    assert outbox.due(now=later) == [row.pk]
    again = outbox.claim(row.pk, now=later)
    assert again is not None
    assert (again.delivery, again.body, again.attempt) == (killed.delivery, killed.body, 2)
    assert not outbox.mark(killed, AWAY, now=later), "one that was taken for lost is not heard any more"
    assert outbox.mark(again, ARRIVED, now=later)
    assert stored(row.pk).state == DeliveryState.DELIVERED


def test_tries_come_further_and_further_apart_and_end() -> None:
    row, moment, waits = delivery(), now(), []
    while (claim := outbox.claim(row.pk, now=moment)) is not None:
        outbox.mark(claim, AWAY, now=moment)
        due_at = stored(row.pk).due_at
        if due_at is None:
            break
        waits.append(due_at - moment)
        assert outbox.claim(row.pk, now=due_at - timedelta(seconds=1)) is None
        moment = due_at
    assert tuple(waits) == WAITS
    assert list(waits) == sorted(waits)
    failed = stored(row.pk)
    assert (failed.state, failed.attempts, failed.last_status) == (DeliveryState.FAILED, MOST_ATTEMPTS, 503)
    assert failed.last_error == "pager answered with status 503"
    assert failed.ended_at == moment


def test_one_that_is_gone_is_not_asked_again() -> None:
    row = delivery()
    claim = outbox.claim(row.pk, now=now())
    assert claim is not None
    outbox.mark(claim, Outcome(status=410, error="pager answered with status 410", is_final=True), now=now())
    assert (stored(row.pk).state, stored(row.pk).attempts) == (DeliveryState.FAILED, 1)


def test_only_what_has_failed_is_sent_again() -> None:
    row = delivery()
    assert not outbox.send_again(row.pk, now=now())
    claim = outbox.claim(row.pk, now=now())
    assert claim is not None
    outbox.mark(claim, Outcome(status=410, error="gone", is_final=True), now=now())
    assert outbox.send_again(row.pk, now=now())
    assert not outbox.send_again(row.pk, now=now())
    assert (stored(row.pk).state, stored(row.pk).attempts) == (DeliveryState.WAITING, 0)
    assert outbox.due(now=now()) == [row.pk]
