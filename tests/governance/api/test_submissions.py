"""Calls that are handed in: taken at once, waited for by whoever wants to, withdrawn while they are queued, and nobody
else's business."""

import threading
import time
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import orjson
import pytest
from django.db import connection

from governance.api import calls
from governance.gateway.bridge import THREADS
from governance.models import AccessKey, AuditEvent, StoredContent, Submission
from governance.submissions.claims import Ending, end, take_up
from routing.core.failures import Failure, FailureKind
from tests.factories import AccessKeyFactory, ApplicationFactory, CallFactory
from tests.governance.api.program import Program, complaints
from tests.servers.postgres import PostgresServer
from tests.servers.web import running_web, wait_until

PROMPT = "zanzibarquokka"
CHAT: dict[str, Any] = {"model": "support-chat", "messages": [{"role": "user", "content": PROMPT}]}
ORDER: dict[str, Any] = {"request": CHAT}
REPLY = {"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": "Hello."}}]}


@pytest.fixture
def others(db: None) -> Program:
    """An application that is not the first one."""
    _, secret = AccessKeyFactory.create(application=ApplicationFactory.create(identifier="web-shop"))
    return Program(secret)


def handed_in(program: Program, order: dict[str, Any] = ORDER, **settings: Any) -> str:
    """The id of a call that was taken."""
    answer = program.post("calls", order, **settings)
    assert answer.status_code == 202, answer.content
    return str(answer.json()["id"])


def answered(call: str, *, failure: Failure | None = None) -> None:
    """A worker takes the call up and ends it."""
    now = datetime.now(UTC)
    claim = take_up(UUID(call), worker="worker-1", now=now)
    assert claim is not None
    assert end(claim, Ending(None if failure else orjson.dumps(REPLY), failure), now=now)


# --- Handing in -----------------------------------------------------------------------------------------------------


def test_a_call_is_taken_at_once_and_told_as_it_goes_on(key_holder: Program, key: AccessKey) -> None:
    answer = key_holder.post("calls", {**ORDER, "user": "agent-17", "max_cost": "0.50", "on_device": True})
    assert answer.status_code == 202
    told = answer.json()
    assert answer.headers["Location"] == f"/api/v1/calls/{told['id']}"
    assert (told["state"], told["is_over"], told["answer"], told["record"]) == ("queued", False, None, None)
    row = Submission.objects.get()
    assert (row.application, row.key, row.user, row.on_device, row.max_cost_nanos) == (
        "helpdesk", str(key.pk), "agent-17", True, 500_000_000,
    )  # fmt: skip
    assert PROMPT.encode() not in bytes(StoredContent.objects.get().sealed)

    answered(told["id"])
    CallFactory.create(id=told["id"])
    later = key_holder.get(answer.headers["Location"]).json()
    assert (later["state"], later["is_over"], later["answer"], later["failure"]) == ("done", True, REPLY, None)
    assert later["kept_until"] is not None
    assert later["record"]["served"]["model"] == "fast"
    assert later["submission"]["deliveries"] == 1


def test_a_call_that_fails_says_why(key_holder: Program) -> None:
    call = handed_in(key_holder)
    answered(call, failure=Failure(FailureKind.RATE_LIMITED, "prod-east is busy", retry_after=3.0, code="slow_down"))
    told = key_holder.get(f"calls/{call}").json()
    assert (told["state"], told["answer"]) == ("failed", None)
    assert told["failure"] == {
        "kind": "rate_limited", "message": "prod-east is busy", "code": "slow_down", "field": "", "retry_after": 3.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({}, "request"),
        ({"request": "Hello"}, "request"),
        ({"request": {"messages": []}}, "model"),
        ({"request": {"model": "support-chat", "messages": []}}, "messages"),
        ({"request": {**CHAT, "stream": True}}, "stream"),
        ({"request": {**CHAT, "base_url": "https://elsewhere.example"}}, "base_url"),
        ({**ORDER, "max_cost": "-1"}, "max_cost"),
        ({**ORDER, "max_cost": 0.5}, "max_cost"),
        ({**ORDER, "modle": "support-chat"}, "modle"),
        ({**ORDER, "on_device": "perhaps"}, "on_device"),
    ],
)
def test_what_cannot_become_a_call_is_refused_by_its_field(
    key_holder: Program, sent: dict[str, Any], field: str
) -> None:
    answer = key_holder.post("calls", sent)
    assert (answer.status_code, list(complaints(answer))) == (400, [field])
    assert PROMPT not in answer.content.decode()
    assert not Submission.objects.exists()


def test_a_request_that_names_itself_is_one_call_however_often_it_comes(key_holder: Program, others: Program) -> None:
    named = {"Idempotency-Key": "order-17"}
    first = handed_in(key_holder, headers=named)
    again = key_holder.post("calls", ORDER, headers=named)
    assert (again.status_code, again.json()["id"]) == (202, first)
    answered(first)
    late = key_holder.post("calls", ORDER, headers=named)
    assert (late.status_code, late.json()["answer"]) == (200, REPLY)
    assert handed_in(others, headers=named) != first
    assert handed_in(key_holder, headers={"Idempotency-Key": "order-18"}) != first
    assert Submission.objects.count() == 3
    other = key_holder.post("calls", {**ORDER, "on_device": True}, headers=named)
    assert (other.status_code, other.json()["type"]) == (409, "conflict")
    assert "another one before" in other.json()["detail"]
    asked = {**ORDER["request"], "messages": [{"role": "user", "content": "Another question"}]}
    assert key_holder.post("calls", {**ORDER, "request": asked}, headers=named).status_code == 409
    assert Submission.objects.count() == 3
    for name in ("two words", "x" * 101):
        refused = key_holder.post("calls", ORDER, headers={"Idempotency-Key": name})
        assert (refused.status_code, list(complaints(refused))) == (400, ["Idempotency-Key"])


# --- Reading --------------------------------------------------------------------------------------------------------


def test_a_call_is_its_applications_alone(key_holder: Program, others: Program) -> None:
    call = handed_in(key_holder)
    answered(call)
    for path, method in ((f"calls/{call}", "GET"), (f"calls/{call}/cancel", "POST")):
        answer = others.send(method, path)
        assert (answer.status_code, answer.json()["type"]) == (404, "not_found")
    assert others.get("submissions").json()["items"] == []
    assert others.get(f"calls/{uuid4()}").json()["detail"].startswith("There is no call")


def test_who_is_logged_in_sees_how_far_it_is_and_not_what_was_said(key_holder: Program, auditor: Program) -> None:
    call = handed_in(key_holder)
    answered(call)
    answer = auditor.get(f"calls/{call}")
    told = answer.json()
    assert (told["state"], told["answer"], told["failure"]) == ("done", None, None)
    assert b"Hello." not in answer.content
    assert [each["id"] for each in auditor.get("submissions?application=helpdesk&state=done").json()["items"]] == [call]
    assert auditor.post(f"calls/{call}/cancel").status_code == 403


def test_a_call_of_the_gateway_is_read_at_the_same_address(key_holder: Program) -> None:
    call = CallFactory.create(success=False, failure_kind="timeout")
    told = key_holder.get(f"calls/{call.pk}?wait=30").json()
    assert (told["state"], told["is_over"], told["submission"]) == ("failed", True, None)
    assert told["record"]["failure_kind"] == "timeout"


# --- Waiting --------------------------------------------------------------------------------------------------------


def test_who_waits_is_answered_when_it_is_over_or_the_time_is(
    key_holder: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[UUID] = []
    look = calls._is_over

    def count(call: UUID, caller: Any) -> bool:
        looks.append(call)
        if len(looks) == 3:
            answered(str(call))
        return look(call, caller)

    monkeypatch.setattr(calls, "_is_over", count)
    monkeypatch.setattr(calls, "FIRST_PAUSE", 0.01)
    answer = key_holder.post("calls?wait=30", ORDER)
    assert (answer.status_code, answer.json()["answer"], len(looks)) == (200, REPLY, 3)

    begun = time.monotonic()
    answer = key_holder.post("calls?wait=1", ORDER)
    assert (answer.status_code, answer.json()["state"]) == (202, "queued")
    assert 1.0 <= time.monotonic() - begun < 3.0


@pytest.mark.parametrize("wait", ["31", "-1", "1.5", "long"])
def test_nobody_waits_for_longer(key_holder: Program, wait: str) -> None:
    for answer in (key_holder.post(f"calls?wait={wait}", ORDER), key_holder.get(f"calls/{uuid4()}?wait={wait}")):
        assert (answer.status_code, list(complaints(answer))) == (400, ["wait"])


# --- Withdrawing ----------------------------------------------------------------------------------------------------


def test_a_queued_call_is_withdrawn_and_another_is_not(key_holder: Program, operator: Program) -> None:
    mine, running, theirs = (handed_in(key_holder) for _ in range(3))
    assert key_holder.post(f"calls/{mine}/cancel").json()["state"] == "cancelled"
    assert key_holder.post(f"calls/{mine}/cancel").status_code == 200  # again changes nothing
    take_up(UUID(running), worker="worker-1", now=datetime.now(UTC))
    refused = key_holder.post(f"calls/{running}/cancel")
    assert (refused.status_code, refused.json()["type"]) == (409, "conflict")
    assert "running" in refused.json()["detail"]
    assert not AuditEvent.objects.exists()
    operator.post(f"calls/{theirs}/cancel", {"reason": "By mistake."})
    event = AuditEvent.objects.get()
    assert (event.action, event.record, event.author, event.reason) == (
        "cancelled", theirs, "operator-1", "By mistake.",
    )  # fmt: skip


# --- Batches --------------------------------------------------------------------------------------------------------


def test_a_batch_is_taken_whole_and_its_progress_told(key_holder: Program, others: Program, auditor: Program) -> None:
    orders = [{"request": {**CHAT, "model": f"chat-{number}"}} for number in range(5)]
    answer = key_holder.post("batches", {"calls": orders})
    assert answer.status_code == 202
    told = answer.json()
    path = answer.headers["Location"]
    assert (told["size"], told["ended"], told["is_over"], told["states"]) == (5, 0, False, {"queued": 5})

    first = key_holder.get(f"submissions?batch={told['id']}&limit=3").json()
    rest = key_holder.get(first["next"]).json()
    walked = [*first["items"], *rest["items"]]
    assert [(each["position"], each["requested"]) for each in walked] == [(at, f"chat-{at}") for at in range(5)]
    answered(walked[0]["id"])
    answered(walked[3]["id"], failure=Failure(FailureKind.TIMEOUT, "too slow"))
    told = key_holder.get(path).json()
    assert (told["ended"], told["states"]) == (2, {"done": 1, "failed": 1, "queued": 3})
    assert key_holder.get(f"submissions?batch={told['id']}&state=failed").json()["items"][0]["position"] == 3

    over = key_holder.post(f"{path}/cancel").json()
    assert (over["is_over"], over["states"]["cancelled"], over["ended_at"] is not None) == (True, 3, True)
    assert [each["id"] for each in key_holder.get("batches").json()["items"]] == [told["id"]]
    assert [each["id"] for each in auditor.get("batches?application=helpdesk").json()["items"]] == [told["id"]]
    assert others.get("batches").json()["items"] == []
    for method, address in (("GET", path), ("POST", f"{path}/cancel")):
        assert others.send(method, address).status_code == 404


def test_one_bad_call_keeps_a_batch_out_and_is_named_by_its_place(key_holder: Program) -> None:
    bad = {"request": {**CHAT, "stream": True}}
    answer = key_holder.post("batches", {"calls": [ORDER, bad]})
    assert (answer.status_code, list(complaints(answer))) == (400, ["calls[1].stream"])
    answer = key_holder.post("batches", {"calls": [ORDER, {**ORDER, "user": 7, "modle": "x"}]})
    assert set(complaints(answer)) == {"calls[1].modle"}
    for sent, field in (({"calls": []}, "calls"), ({"calls": "x"}, "calls"), ({}, "calls")):
        assert list(complaints(key_holder.post("batches", sent))) == [field]
    assert not Submission.objects.exists()


def test_lists_cost_the_same_however_long_they_are(key_holder: Program, django_assert_num_queries: Any) -> None:
    for _ in range(4):
        key_holder.post("batches", {"calls": [ORDER] * 3})
    with django_assert_num_queries(2):
        assert len(key_holder.get("submissions").json()["items"]) == 12
    with django_assert_num_queries(3):
        assert len(key_holder.get("batches").json()["items"]) == 4


# --- In a real server -----------------------------------------------------------------------------------------------


def test_who_waits_holds_no_connection(postgres_server: PostgresServer, django_db_blocker: Any) -> None:
    """Thirty wait for calls that nobody makes; the process has no more connections than the gateway has threads."""
    waiting = 30
    with (
        postgres_server.database() as database_url,
        django_db_blocker.unblock(),
        running_web(database_url=database_url, start=False) as web,
    ):
        with web.records():
            _, secret = AccessKeyFactory.create()
        web.start()
        address = f"{web.url}/api/v1/calls"
        headers = {"Authorization": f"Bearer {secret}"}
        with httpx.Client(trust_env=False, timeout=60.0, headers=headers) as client:
            handed = [client.post(address, json=ORDER).json()["id"] for _ in range(waiting)]
            told: dict[str, Any] = {}

            def wait(call: str) -> None:
                told[call] = client.get(f"{address}/{call}", params={"wait": 20}).json()

            threads = [threading.Thread(target=wait, args=(call,)) for call in handed]
            for thread in threads:
                thread.start()
            try:
                time.sleep(2.0)
                with web.records():
                    with connection.cursor() as cursor:
                        cursor.execute(
                            "SELECT count(*) FROM pg_stat_activity "
                            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                        )
                        (connections,) = cursor.fetchone()
                    assert 0 < connections <= THREADS
                    begun = time.monotonic()
                    for call in handed:
                        answered(call)
                wait_until(lambda: len(told) == waiting, seconds=10.0)
                assert time.monotonic() - begun < 10.0
            finally:
                for thread in threads:
                    thread.join(30.0)
    assert {each["state"] for each in told.values()} == {"done"}
    assert all(each["answer"] == REPLY for each in told.values())
