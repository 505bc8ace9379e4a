"""The recorder writes every call once, waits while the database is away, and never lets one record cost another."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import DataError, InterfaceError, InternalError, OperationalError, connection, connections, transaction

from telemetry import recorder as module
from telemetry.models import Attempt, Call, DecisionRecord, UsageDay
from telemetry.recorder import Recorder
from telemetry.records import NO_ROUTE, CallRecord, RouteName, TokenCounts
from telemetry.usage import add_usage
from tests.telemetry.records import DECISION, DOCUMENT, EAST, FACTS, NOON, TOKENS, WEST, attempt, record


def identifiers() -> list[UUID]:
    """The calls in the table."""
    return list(Call.objects.values_list("pk", flat=True))


def filled(recorder: Recorder, number: int, **changes: Any) -> list[CallRecord]:
    """Append some records."""
    records = [record(**changes) for _ in range(number)]
    for each in records:
        recorder.append(each)
    return records


@contextmanager
def database_away(monkeypatch: pytest.MonkeyPatch, error: Exception, *, after: int = 0) -> Iterator[None]:
    """Inside the block, every transaction of a recorder but the first ones fails, and nobody answers."""
    left = {"transactions": after}
    write = Recorder._write

    def write_or_fail(self: Recorder, batch: Any) -> None:
        if left["transactions"] <= 0:
            raise error
        left["transactions"] -= 1
        write(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "_write", write_or_fail)
        patched.setattr(module, "_is_there", lambda: False)
        yield


# --- What is written ------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_every_field_has_its_column() -> None:
    written = record(
        requested="prod-west/wise",
        operation="stream_tools",
        streamed=True,
        first=EAST,
        served=WEST,
        response_model="gpt-x-pro-2026",
        requested_tier="priority",
        served_tier="default",
        success=False,
        failure_kind="timeout",
        first_failure_kind="rate_limited",
        error_class="total_timeout",
        first_token_ms=90.5,
        replay_of=UUID("0193c1a0-0000-7000-8000-00000000000a"),
        fallback_attempts=2,
        retries=3,
        requests_sent=6,
        decision=DECISION,
        facts=FACTS,
        complexity_score=61,
        context_percent=140,
        cost_currency="EUR",
        attempts=(
            attempt(0, EAST, failure_kind="rate_limited", error_code="slow_down", waited_ms=0.5),
            attempt(1, WEST, tokens=TOKENS, cost_nanos=7, cost_currency="EUR"),
        ),
    )
    recorder = Recorder()
    recorder.append(written)
    assert recorder.flush() == 1
    assert recorder.waiting == 0
    assert Call.objects.values().get() == {
        "id": written.call_id,
        "started_at": NOON,
        "requested": "prod-west/wise",
        "operation": "stream_tools",
        "streamed": True,
        "application": "helpdesk",
        "key": "5f0c7c0e-9b7e-4a44-a1bd-0f6f3a7b9d21",
        "user": "agent-17",
        "source": "web-shop",
        "first_provider": "prod-east",
        "first_adapter_type": "openai",
        "first_model": "fast",
        "first_model_id": "gpt-x-mini",
        "first_failure_kind": "rate_limited",
        "served_configuration": "plain-chat",
        "served_provider": "prod-west",
        "served_adapter_type": "custom",
        "served_model": "wise",
        "served_model_id": "gpt-x-pro",
        "response_model": "gpt-x-pro-2026",
        "requested_tier": "priority",
        "served_tier": "default",
        "success": False,
        "failure_kind": "timeout",
        "error_class": "total_timeout",
        "latency_ms": 812.5,
        "first_token_ms": 90.5,
        "cache_hit": True,
        "replay_of": UUID("0193c1a0-0000-7000-8000-00000000000a"),
        "fallback_attempts": 2,
        "retries": 3,
        "requests_sent": 6,
        "policy_mode": "balanced",
        "candidates": 3,
        "rejection_reasons": "capabilityMissing,notPermitted",
        "preference": "pin",
        "routing_signal_quality": True,
        "routing_signal_health": False,
        "routing_signal_cost": False,
        "routing_signal_latency": False,
        "routing_signal_call_cost": True,
        "decision_id": "d" * 64,
        "facts_messages": 5,
        "facts_turns": 4,
        "facts_tools": 2,
        "facts_payload_bytes": 4000,
        "facts_token_estimate": 1250,
        "facts_shape": "toolAssisted",
        "complexity_score": 61,
        "context_percent": 140,
        "actual_input_tokens": 1000,
        "actual_cache_read_tokens": 200,
        "actual_cache_write_tokens": 30,
        "actual_output_tokens": 340,
        "actual_reasoning_tokens": 40,
        "usage_coverage": "exact",
        "actual_cost_nanos": 6_400_000,
        "cost_currency": "EUR",
    }
    assert DecisionRecord.objects.get().document == json.loads(DOCUMENT)
    first, second = Attempt.objects.order_by("index")
    assert (first.provider, first.adapter_type, first.model, first.model_id) == (
        "prod-east",
        "openai",
        "fast",
        "gpt-x-mini",
    )
    assert (first.failure_kind, first.error_code, first.waited_ms, first.output_tokens) == (
        "rate_limited",
        "slow_down",
        0.5,
        None,
    )
    assert (second.configuration, second.output_tokens, second.cost_nanos, second.cost_currency) == (
        "plain-chat",
        340,
        7,
        "EUR",
    )


@pytest.mark.django_db
def test_what_is_not_known_is_null() -> None:
    recorder = Recorder()
    recorder.append(
        record(first=NO_ROUTE, served=NO_ROUTE, tokens=None, cost_nanos=None, cost_currency="", coverage="absent")
    )
    recorder.flush()
    row = Call.objects.values().get()
    for name in (
        "first_token_ms", "candidates", "decision_id", "facts_messages", "facts_turns", "facts_tools",
        "facts_payload_bytes", "facts_token_estimate", "complexity_score", "context_percent", "actual_input_tokens",
        "actual_cache_read_tokens", "actual_cache_write_tokens", "actual_output_tokens", "actual_reasoning_tokens",
        "actual_cost_nanos",
    ):  # fmt: skip
        assert row[name] is None, name


@pytest.mark.django_db
def test_texts_are_made_to_fit() -> None:
    recorder = Recorder()
    recorder.append(
        record(
            requested="r\x00" * 400,
            user="\x00u" * 400,
            source="s" * 400,
            error_class="e" * 400,
            response_model="m\x00" * 400,
            attempts=(attempt(0, EAST, error_code="\x00c" * 400), attempt(1, EAST)),
        )
    )
    recorder.flush()
    call = Call.objects.get()
    assert (call.requested, call.user, call.source) == ("r" * 300, "u" * 128, "s" * 64)
    assert (call.error_class, call.response_model) == ("e" * 100, "m" * 150)
    assert call.attempts.get(index=0).error_code == "c" * 100


INCREDIBLE: dict[str, dict[str, Any]] = {
    "tokens": {"tokens": TokenCounts(10**9 + 1, 0, 0, 5, 0)},
    "a class of tokens": {"tokens": TokenCounts(5, 0, 10**12, 5, 0)},
    "less than nothing": {"tokens": TokenCounts(5, -1, 0, 5, 0)},
    "a cost": {"cost_nanos": 10**15 + 1},
    "a cost that no column holds": {"cost_nanos": 2**63},
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", INCREDIBLE)
def test_figures_that_cannot_be_true_are_left_out_and_not_cut(name: str, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    bad = record(**INCREDIBLE[name], attempts=(attempt(0, EAST, **INCREDIBLE[name]), attempt(1, EAST, tokens=TOKENS)))
    recorder.append(bad)
    recorder.append(record())
    assert recorder.flush() == 2
    assert recorder.lost == 0
    call = Call.objects.get(pk=bad.call_id)
    knows_tokens = "cost" in name
    assert (call.actual_input_tokens, call.actual_output_tokens) == ((1000, 340) if knows_tokens else (None, None))
    assert call.usage_coverage == ("exact" if knows_tokens else "absent")
    assert (call.actual_cost_nanos, call.cost_currency, call.success) == (None, "", True)
    first, second = call.attempts.order_by("index")
    assert (first.output_tokens, first.cost_nanos, second.output_tokens) == (None, None, 340)
    assert f"call {bad.call_id}: its" in caplog.text
    known, unknown = UsageDay.objects.get(currency="USD"), UsageDay.objects.get(currency="")
    assert (known.requests, known.output_tokens, known.cost_nanos) == (1, 340, 6_400_000)
    assert (unknown.requests, unknown.unpriced_requests, unknown.cost_nanos) == (1, 1, 0)


@pytest.mark.django_db
def test_the_largest_credible_figures_fit() -> None:
    most = TokenCounts(10**9, 10**9, 10**9, 10**9, 10**9)
    recorder = Recorder()
    filled(recorder, 3, tokens=most, cost_nanos=10**15)
    assert recorder.flush() == 3
    assert recorder.lost == 0
    row = UsageDay.objects.get()
    assert (row.cost_nanos, row.input_tokens) == (3 * 10**15, 3 * 10**9)


@pytest.mark.django_db
def test_a_single_attempt_has_no_row() -> None:
    recorder = Recorder()
    recorder.append(record(attempts=(attempt(0, EAST),)))
    recorder.flush()
    assert not Attempt.objects.exists()


@pytest.mark.django_db
def test_a_decision_is_stored_once_by_any_number_of_processes() -> None:
    for recorder in (Recorder(), Recorder()):
        filled(recorder, 3, decision=DECISION)
        recorder.flush()
        filled(recorder, 3, decision=DECISION)
        recorder.flush()
    assert DecisionRecord.objects.count() == 1
    assert DecisionRecord.objects.get().calls.count() == 12


def test_a_decision_that_was_removed_is_stored_again(tables: None) -> None:
    """A process that remembers having stored it loses nothing by that."""
    recorder = Recorder()
    filled(recorder, 2, decision=DECISION)
    recorder.flush()
    Call.objects.all().delete()
    DecisionRecord.objects.all().delete()
    again = filled(recorder, 2, decision=DECISION)
    assert recorder.flush() == 2
    assert recorder.lost == 0
    assert set(identifiers()) == {each.call_id for each in again}
    assert DecisionRecord.objects.count() == 1


@pytest.mark.django_db
def test_without_telemetry_only_the_day_is_counted() -> None:
    recorder = Recorder()
    recorder.append(record(decision=DECISION), telemetry=False)
    recorder.append(record())
    assert recorder.flush() == 2
    assert Call.objects.count() == 1
    assert not DecisionRecord.objects.exists()
    assert UsageDay.objects.get().requests == 2


def test_whoever_writes_is_woken_by_every_call() -> None:
    woken: list[int] = []
    recorder = Recorder(on_append=lambda: woken.append(recorder.waiting))
    filled(recorder, 3)
    assert woken == [1, 2, 3]


# --- When writing fails ---------------------------------------------------------------------------------------------

AWAY: list[Callable[[], Exception]] = [
    lambda: OperationalError("the server closed the connection"),
    lambda: InterfaceError("the connection is closed"),
    lambda: InternalError("cannot execute INSERT in a read-only transaction"),  # a server that became a standby
]


@pytest.mark.django_db
@pytest.mark.parametrize("error", AWAY, ids=["operational", "interface", "internal"])
def test_records_wait_while_the_database_is_away(
    monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception]
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    recorder = Recorder()
    before = filled(recorder, 5)
    with database_away(monkeypatch, error(), after=1):
        for _ in range(3):
            with pytest.raises(type(error())):
                recorder.flush()
        assert recorder.waiting == 3
        after = filled(recorder, 2)
        with pytest.raises(type(error())):
            recorder.flush()
    assert [each.record for each in recorder._queue] == [*before[2:], *after]  # in order
    assert recorder.flush() == 5
    assert set(identifiers()) == {each.call_id for each in before + after}
    assert UsageDay.objects.get().requests == 7
    assert recorder.lost == 0


@pytest.mark.django_db
def test_beyond_its_capacity_the_oldest_are_lost_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(capacity=4)
    first = filled(recorder, 3)
    with database_away(monkeypatch, OperationalError("away")):
        with pytest.raises(OperationalError):
            recorder.flush()
        rest = filled(recorder, 3)
    assert (recorder.waiting, recorder.lost) == (4, 2)
    assert "1 records of calls were lost" in caplog.text
    assert recorder.flush() == 4
    assert set(identifiers()) == {first[2].call_id, *(each.call_id for each in rest)}


def test_what_is_put_back_is_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that end while a batch fails to be written must not make the queue longer than it may be."""
    recorder = Recorder(capacity=3)
    first = filled(recorder, 3)

    def fail(batch: Any) -> None:
        filled(recorder, 2)
        raise OperationalError("away")

    monkeypatch.setattr(recorder, "_write", fail)
    monkeypatch.setattr(module, "_is_there", lambda: False)
    with pytest.raises(OperationalError):
        recorder.flush()
    assert (recorder.waiting, recorder.lost) == (3, 2)
    assert recorder._queue[0].record is first[2]


POISON: dict[str, dict[str, Any]] = {
    "a number that no column holds": {"retries": 2**63},
    "a time that is none": {"started_at": None},
    "a document that is none": {"decision": DECISION, "facts": None, "served": None},
}


@pytest.mark.parametrize("name", POISON)
def test_one_bad_record_does_not_cost_its_neighbours_theirs(
    tables: None, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    recorder = Recorder()
    good = filled(recorder, 2)
    bad = record(**POISON[name])
    recorder.append(bad)
    good += filled(recorder, 2, decision=DECISION)
    recorder.flush()
    assert set(identifiers()) == {each.call_id for each in good}
    counted = 5 if "number" in name else 4  # of what cannot be written whole, what can be
    assert UsageDay.objects.get().requests == counted
    assert (recorder.waiting, recorder.lost) == (0, 1)
    assert str(bad.call_id) in caplog.text
    assert recorder.flush() == 0


def test_the_database_going_away_between_single_records_loses_none(
    tables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    good = filled(recorder, 2)
    recorder.append(record(started_at=None))
    good += filled(recorder, 2)
    with database_away(monkeypatch, OperationalError("away"), after=2), pytest.raises(OperationalError):
        recorder.flush()
    assert Call.objects.count() == 1  # the batch failed, one was written singly, then nothing could be
    assert recorder.flush() == 3
    assert set(identifiers()) == {each.call_id for each in good}
    assert recorder.lost == 1


def refusing(monkeypatch: pytest.MonkeyPatch, *poison: CallRecord) -> None:
    """Some records are refused by the database as if it were away, however they are written."""
    write = Recorder._write

    def write_or_refuse(self: Recorder, batch: Any) -> None:
        if any(waiting.record in poison for waiting in batch):
            raise OperationalError("index row size exceeds the maximum")
        write(self, batch)

    monkeypatch.setattr(Recorder, "_write", write_or_refuse)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_a_record_that_is_never_taken_does_not_block_the_queue(
    tables: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    recorder = Recorder()
    poison = [record() for _ in range(number)]
    refusing(monkeypatch, *poison)
    for each in poison:
        recorder.append(each)
    good: list[CallRecord] = []
    for tries in range(1, module.MOST_REFUSALS + 1):
        with pytest.raises(OperationalError):
            recorder.flush()  # nothing else waits: the database may be away
        assert (recorder.waiting, recorder.lost) == (number, 0)
        good += filled(recorder, 2)
        if tries < module.MOST_REFUSALS:
            with pytest.raises(OperationalError):
                recorder.flush()
        else:
            assert recorder.flush() == 2
        assert set(identifiers()) == {each.call_id for each in good}  # written at once, whoever was refused before
    assert (recorder.waiting, recorder.lost) == (0, number)
    assert all(f"the record of call {each.call_id} is refused" in caplog.text for each in poison)


@contextmanager
def refusing_all(monkeypatch: pytest.MonkeyPatch, *, after: int = 0) -> Iterator[None]:
    """Inside the block the database answers, takes some single records, and then nothing more."""
    left = {"taken": after}
    write = Recorder._write

    def write_or_fail(self: Recorder, batch: Any) -> None:
        if len(batch) > 1 or left["taken"] <= 0:
            raise InternalError("cannot execute INSERT in a read-only transaction")
        left["taken"] -= 1
        write(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "_write", write_or_fail)
        yield


def test_a_database_that_takes_nothing_blames_no_record(tables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is tried: a server that is read-only, or whose disk is full, takes them all later."""
    recorder = Recorder()
    waiting = filled(recorder, 5)
    with refusing_all(monkeypatch):
        for _ in range(5 * module.MOST_REFUSALS):
            with pytest.raises(InternalError):
                recorder.flush()
    assert [each.record for each in recorder._queue] == waiting
    assert recorder.flush() == 5
    assert recorder.lost == 0


def test_a_database_that_takes_nothing_again_and_again_blames_no_record(
    tables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time some are written first, and nothing is taken behind those that are refused."""
    recorder = Recorder()
    waiting = filled(recorder, 12)
    for _ in range(4):
        with refusing_all(monkeypatch, after=2), pytest.raises(InternalError):
            recorder.flush()
    assert recorder.lost == 0
    assert recorder.flush() == 4
    assert set(identifiers()) == {each.call_id for each in waiting}


def test_the_last_flush_is_bounded_by_a_table_that_is_locked(tables: None) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer, which waits for twenty seconds at the most")
    recorder = Recorder()
    filled(recorder, 3)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE telemetry_call IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        with pytest.raises(OperationalError):
            together(lambda: recorder.flush(seconds=0.5))
        assert 0.4 < time.monotonic() - started < 3
    assert recorder.waiting == 3
    assert recorder.flush() == 3


def test_the_last_flush_does_not_wait_for_another_for_ever() -> None:
    recorder = Recorder()
    filled(recorder, 1)
    with recorder._flushing, pytest.raises(TimeoutError):
        recorder.flush(seconds=0.05)
    assert recorder.waiting == 1


@pytest.mark.django_db
def test_the_last_flush_ends_between_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    recorder = Recorder()
    filled(recorder, 5)
    assert recorder.flush(seconds=0.0) == 0
    assert recorder.waiting == 5
    assert recorder.flush(seconds=5.0) == 5


# --- At the same time -----------------------------------------------------------------------------------------------


def together(*actions: Callable[[], object]) -> None:
    """Do things at the same time, each in a thread with a connection of its own."""
    start = threading.Barrier(len(actions))

    def act(action: Callable[[], object]) -> None:
        try:
            start.wait(5)
            action()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(actions)) as pool:
        for each in [pool.submit(act, action) for action in actions]:
            each.result(60)


def test_flushes_at_the_same_time_write_every_record_once(tables: None) -> None:
    recorder = Recorder()
    expected = {each.call_id for each in filled(recorder, 300, decision=DECISION)}

    def append_and_flush() -> None:
        for each in filled(recorder, 20):
            expected.add(each.call_id)
            recorder.flush()

    together(*[append_and_flush] * 3, *[recorder.flush] * 2)
    assert sorted(identifiers()) == sorted(expected)
    assert UsageDay.objects.get().requests == 360
    assert DecisionRecord.objects.count() == 1


def test_two_processes_never_lose_a_count_of_the_same_day(tables: None) -> None:
    """Nor wait for each other crosswise: they name the days in opposite order."""
    users = [f"agent-{number}" for number in range(8)]

    def process(order: list[str]) -> Callable[[], None]:
        def work() -> None:
            recorder = Recorder()
            for _ in range(12):
                for user in order:
                    recorder.append(record(user=user, cost_nanos=3))
                recorder.flush()

        return work

    together(process(users), process(users[::-1]), process(users[4:] + users[:4]))
    rows = list(UsageDay.objects.order_by("user"))
    assert [row.user for row in rows] == users
    assert {(row.requests, row.cost_nanos, row.output_tokens) for row in rows} == {(36, 108, 36 * 340)}


# --- Usage by day ---------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_what_a_day_adds_up() -> None:
    recorder = Recorder()
    filled(recorder, 2)
    recorder.append(record(success=False, failure_kind="transient", tokens=None, cost_nanos=None, cost_currency="USD"))
    recorder.append(record(tokens=None, cost_nanos=None, cost_currency="USD"))
    recorder.append(record(cost_nanos=None, cost_currency="USD", replay_of=UUID(int=7)))
    recorder.append(record(cost_nanos=0))
    recorder.flush()
    row = UsageDay.objects.values().get()
    assert {name: value for name, value in row.items() if name != "id"} == {
        "day": NOON.date(),
        "application": "helpdesk",
        "key": "5f0c7c0e-9b7e-4a44-a1bd-0f6f3a7b9d21",
        "user": "agent-17",
        "source": "web-shop",
        "configuration": "support-chat",
        "provider": "prod-east",
        "model": "fast",
        "operation": "chat",
        "currency": "USD",
        "requests": 6,
        "failures": 1,
        "input_tokens": 4 * 1000,
        "cache_read_tokens": 4 * 200,
        "cache_write_tokens": 4 * 30,
        "output_tokens": 4 * 340,
        "reasoning_tokens": 4 * 40,
        "cost_nanos": 2 * 6_400_000,
        "unpriced_requests": 1,  # neither a failure, nor a cache hit, nor what is free
    }


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        {"started_at": NOON + timedelta(days=1)},
        {"application": "another"},
        {"key": "another"},
        {"user": "another"},
        {"source": "another"},
        {"operation": "tools"},
        {"cost_currency": "EUR"},
        {"served": RouteName("another", "prod-east", "openai", "fast", "gpt-x-mini")},
        {"served": RouteName("support-chat", "another", "openai", "fast", "gpt-x-mini")},
        {"served": RouteName("support-chat", "prod-east", "openai", "another", "gpt-x-mini")},
    ],
    ids=range(10),
)
def test_what_makes_a_row_of_its_own(change: dict[str, Any]) -> None:
    recorder = Recorder()
    filled(recorder, 2)
    filled(recorder, 3, **change)
    recorder.flush()
    assert sorted(UsageDay.objects.values_list("requests", flat=True)) == [2, 3]


@pytest.mark.django_db
def test_what_does_not() -> None:
    recorder = Recorder()
    filled(recorder, 1)
    filled(recorder, 1, served=RouteName("support-chat", "prod-east", "custom", "fast", "gpt-x-pro"))
    filled(recorder, 1, requested="another", first=WEST, streamed=True)
    recorder.flush()
    assert UsageDay.objects.get().requests == 3


@pytest.mark.django_db
def test_a_day_is_one_of_utc() -> None:
    recorder = Recorder()
    late = datetime(2026, 11, 30, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    recorder.append(record(started_at=late))
    recorder.append(record(started_at=late + timedelta(minutes=30)))
    recorder.flush()
    assert sorted(str(row.day) for row in UsageDay.objects.all()) == ["2026-11-29", "2026-11-30"]


def test_a_day_that_is_full_does_not_cost_its_calls_their_rows(
    tables: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A sum that its column holds no longer: the calls of that key and day are still written, and so is the rest."""
    recorder = Recorder()
    written = filled(recorder, 1)
    recorder.flush()
    if connection.vendor == "postgresql":
        UsageDay.objects.update(cost_nanos=2**63 - 1)
    else:  # where such a sum becomes a floating-point number

        def refuse(records: Iterable[CallRecord]) -> None:
            added = list(records)
            if any(each.user == "agent-17" for each in added):
                raise DataError("bigint out of range")
            add_usage(added)

        monkeypatch.setattr(module, "add_usage", refuse)
    written += filled(recorder, 2)
    written += filled(recorder, 1, user="agent-18")
    recorder.flush()
    assert set(identifiers()) == {each.call_id for each in written}
    assert (recorder.waiting, recorder.lost) == (0, 2)
    assert caplog.text.count("the part of its day's usage cannot be written") == 2
    assert UsageDay.objects.get(user="agent-17").requests == 1
    assert UsageDay.objects.get(user="agent-18").requests == 1


@pytest.mark.django_db
def test_the_statement_holds_no_value() -> None:
    recorder = Recorder()
    recorder.append(record(user="'; DROP TABLE telemetry_call; --", source="%s%d"))
    recorder.append(record(user='"', source="\\"))
    recorder.flush()
    assert set(UsageDay.objects.values_list("user", "source")) == {
        ("'; DROP TABLE telemetry_call; --", "%s%d"),
        ('"', "\\"),
    }


@pytest.mark.django_db
def test_decisions_are_written_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers with the same decisions in opposite orders would wait for each other crosswise."""
    written: list[str] = []
    create = DecisionRecord.objects.bulk_create

    def note(rows: Any, **options: Any) -> Any:
        written.extend(row.digest for row in rows)
        return create(rows, **options)

    monkeypatch.setattr(DecisionRecord.objects, "bulk_create", note)
    recorder = Recorder()
    for letter in "cab":
        recorder.append(record(decision=replace(DECISION, digest=letter * 64)))
    recorder.flush()
    assert written == ["a" * 64, "b" * 64, "c" * 64]
