"""Liveness depends on nothing; readiness says what is missing, and no more than that."""

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as installed
from django.db import InterfaceError, OperationalError, connection, connections
from django.db.migrations.recorder import MigrationRecorder
from django.test import AsyncClient, Client
from pytest_django import DjangoAssertNumQueries, Settings

from governance.models import Submission, SubmissionState
from governance.project.heartbeats import Role, give_sign
from governance.project.http import health, readiness
from governance.project.http.readiness import CHECKS, Condition, Reason, Watch
from routing.credentials import store_key
from routing.vault import Vault
from telemetry.records import new_call_id
from tests.factories import ProviderFactory
from tests.servers.ports import find_free_port
from tests.servers.valkey import ValkeyServer


@dataclass
class FakeRecorder:
    waiting: int = 0
    lost: int = 0


@dataclass
class FakeServices:
    recorder: FakeRecorder = field(default_factory=FakeRecorder)


@dataclass
class FakeShared:
    away: float | None = None

    def seconds_away(self) -> float | None:
        return self.away


@dataclass
class FakeService:
    """An open gateway, as far as readiness looks at it."""

    in_force: object | None = "keys and catalogue"
    seconds_since_read: float | None = 0.25
    services: FakeServices = field(default_factory=FakeServices)
    shared: FakeShared = field(default_factory=FakeShared)


@pytest.fixture(autouse=True)
def gateway(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> FakeService:
    """An open gateway, a watch that has seen nothing yet, and a data folder in which nobody has given a sign."""
    service = FakeService()
    settings.DATA_DIR = tmp_path
    monkeypatch.setattr(readiness, "opened_service", lambda: service)
    monkeypatch.setattr(health, "watch", Watch())
    return service


def sealed_with(ring: str, *, identifier: str) -> None:
    """A provider whose key was sealed by a ring of one key of this id."""
    provider = ProviderFactory(identifier=identifier)
    store_key(provider, "sk-of-the-provider-0001", vault=Vault(((ring, bytes(32)),)))
    provider.save()


def test_liveness_needs_no_database(client: Client) -> None:
    # No django_db mark: a query would fail this test.
    response = client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "alive"})
    assert response["Cache-Control"] == "no-store"


@pytest.mark.django_db
def test_an_installation_with_everything_is_ready(client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert response.json() == {
        "status": "ready",
        "checks": {
            "database": {"status": "ok"},
            "migrations": {"status": "ok"},
            "encryption_keys": {"status": "ok", "sealed": 0, "unopened": 0},
            "redis": {"status": "not configured"},
            "snapshot": {"status": "ok", "age_seconds": 0.2},
            "records": {"status": "ok", "waiting": 0, "lost": 0},
            "shared_state": {"status": "ok"},
            "workers": {"status": "not configured"},
            "schedule": {"status": "not configured"},
            "submissions": {"status": "ok", "waiting": 0},
        },
    }


@pytest.mark.django_db
def test_a_pending_migration_is_named_as_the_reason(client: Client) -> None:
    MigrationRecorder(connection).record_unapplied("sessions", "0001_initial")
    response = client.get("/readyz")
    assert response.status_code == 503
    answer = response.json()
    detail = "Migrations to apply: 1. Run `manage.py migrate`."
    assert (answer["status"], answer["reason"], answer["detail"]) == ("not ready", "migrations_pending", detail)
    assert answer["checks"]["migrations"] == {
        "status": "failed",
        "reason": "migrations_pending",
        "detail": detail,
        "pending": 1,
    }


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_named_as_the_reason_without_details(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    def refuse() -> None:
        raise error("connection to db.internal as clerk refused")

    monkeypatch.setattr(connection, "cursor", refuse)
    response = client.get("/readyz")
    assert response.status_code == 503
    answer = response.json()
    assert answer["reason"] == "database_unreachable"
    assert {name: found["status"] for name, found in answer["checks"].items()} == {
        "database": "failed",
        "migrations": "unknown",
        "encryption_keys": "unknown",
        "redis": "not configured",
        "snapshot": "ok",
        "records": "ok",
        "shared_state": "ok",
        "workers": "not configured",
        "schedule": "not configured",
        "submissions": "unknown",
    }
    assert "clerk" not in response.content.decode()
    assert "clerk refused" in caplog.text


# --- Encryption keys ------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_ring_that_lacks_a_key_is_told_and_takes_no_traffic_away(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    ring = installed.SIGNALBOX_ENCRYPTION_KEYS[0][0]
    sealed_with("lost-key", identifier="prod-east")
    opens = ProviderFactory(identifier="prod-west")
    store_key(opens, "sk-of-the-provider-0002", vault=Vault(installed.SIGNALBOX_ENCRYPTION_KEYS))
    opens.save()
    response = client.get("/readyz")
    found = response.json()["checks"]["encryption_keys"]
    assert (response.status_code, found["status"], found["reason"]) == (200, "warning", "encryption_keys_missing")
    assert (found["sealed"], found["unopened"]) == (2, 1)
    assert "SIGNALBOX_ENCRYPTION_KEYS" in found["detail"]
    assert "lost-key" not in response.content.decode()
    assert ring not in response.content.decode()
    assert "prod-east" in caplog.text
    assert "'lost-key'" in caplog.text
    assert "sk-of-the-provider" not in caplog.text


@pytest.mark.django_db
def test_a_ring_that_opens_nothing_is_another_installations(client: Client) -> None:
    sealed_with("lost-key", identifier="prod-east")
    ProviderFactory(identifier="local")  # without a key
    response = client.get("/readyz")
    assert (response.status_code, response.json()["reason"]) == (503, "encryption_keys_missing")


@pytest.mark.django_db
def test_other_bytes_under_the_same_id_are_found_too(client: Client) -> None:
    sealed_with(installed.SIGNALBOX_ENCRYPTION_KEYS[0][0], identifier="prod-east")
    assert client.get("/readyz").json()["checks"]["encryption_keys"]["unopened"] == 1


# --- Redis ----------------------------------------------------------------------------------------------------------


def with_redis(settings: Settings, url: str) -> None:
    settings.REDIS_URL = url


@pytest.mark.django_db
def test_a_redis_that_answers(client: Client, settings: Settings, valkey_server: ValkeyServer) -> None:
    with_redis(settings, valkey_server.url)
    assert client.get("/readyz").json()["checks"]["redis"] == {"status": "ok"}


@pytest.mark.django_db
def test_a_redis_that_is_away_is_told(client: Client, settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    with_redis(settings, f"redis://:sesame@127.0.0.1:{find_free_port()}/0")
    response = client.get("/readyz")
    found = response.json()["checks"]["redis"]
    assert (response.status_code, found["status"]) == (200, "warning")
    assert found["reason"] == "redis_unreachable"
    assert "sesame" not in response.content.decode() + caplog.text


# --- The gateway ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_process_without_a_gateway_gets_no_traffic(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "opened_service", lambda: None)
    response = client.get("/readyz")
    assert (response.status_code, response.json()["reason"]) == (503, "gateway_closed")
    assert response.json()["checks"]["records"] == {"status": "unknown"}


@pytest.mark.django_db
@pytest.mark.parametrize(("in_force", "age"), [(None, None), (None, 0.1), ("something", None)])
def test_a_gateway_that_has_read_nothing_gets_no_traffic(
    client: Client, gateway: FakeService, in_force: object, age: float | None
) -> None:
    gateway.in_force, gateway.seconds_since_read = in_force, age
    response = client.get("/readyz")
    assert (response.status_code, response.json()["reason"]) == (503, "nothing_in_force")


@pytest.mark.django_db
@pytest.mark.parametrize(("age", "status"), [(10.0, "ok"), (10.1, "warning")])
def test_an_old_picture_is_told(client: Client, gateway: FakeService, age: float, status: str) -> None:
    gateway.seconds_since_read = age
    response = client.get("/readyz")
    found = response.json()["checks"]["snapshot"]
    assert (response.status_code, found["status"], found["age_seconds"]) == (200, status, age)


@pytest.mark.django_db
@pytest.mark.parametrize(("waiting", "status"), [(999, "ok"), (1000, "warning")])
def test_records_that_wait_are_told(client: Client, gateway: FakeService, waiting: int, status: str) -> None:
    gateway.services.recorder = FakeRecorder(waiting=waiting, lost=3)
    response = client.get("/readyz")
    found = response.json()["checks"]["records"]
    assert (response.status_code, found["status"], found["waiting"], found["lost"]) == (200, status, waiting, 3)


@pytest.mark.django_db
def test_a_process_that_goes_by_itself_says_so(client: Client, gateway: FakeService) -> None:
    gateway.shared = FakeShared(away=12.34)
    response = client.get("/readyz")
    found = response.json()["checks"]["shared_state"]
    assert (response.status_code, found["status"], found["reason"]) == (200, "warning", "shared_state_away")
    assert found["away_seconds"] == 12.3


# --- Workers --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["files", "redis"])
def signs(request: pytest.FixtureRequest, settings: Settings) -> Iterator[str]:
    """Where signs of life are given."""
    with ExitStack() as stack:
        if request.param == "redis":
            server: ValkeyServer = request.getfixturevalue("valkey_server")
            with_redis(settings, stack.enter_context(server.database()))
        yield str(request.param)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("role", "check", "silent", "reason"),
    [(Role.WORKER, "workers", 30, "workers_silent"), (Role.SCHEDULE, "schedule", 60, "schedule_silent")],
)
def test_a_role_that_falls_silent_is_told_and_takes_no_traffic_away(
    client: Client, monkeypatch: pytest.MonkeyPatch, signs: str, role: Role, check: str, silent: int, reason: str
) -> None:
    assert client.get("/readyz").json()["checks"][check] == {"status": "not configured"}
    give_sign(role)
    given, found = time.time(), {}
    for later, status in ((1, "ok"), (silent - 2, "ok"), (silent + 2, "warning")):
        monkeypatch.setattr(time, "time", lambda later=later: given + later)
        monkeypatch.setattr(health, "watch", Watch())
        response = client.get("/readyz")
        found = response.json()["checks"][check]
        assert (response.status_code, found["status"]) == (200, status)
        assert found["silent_seconds"] == pytest.approx(later, abs=1)
    assert found["reason"] == reason


@pytest.mark.django_db
def test_nothing_is_known_of_workers_without_redis(client: Client, settings: Settings) -> None:
    with_redis(settings, f"redis://127.0.0.1:{find_free_port()}/0")
    give_sign(Role.WORKER)  # which stops nobody's work
    checks = client.get("/readyz").json()["checks"]
    assert (checks["workers"], checks["redis"]["status"]) == ({"status": "unknown"}, "warning")


@pytest.mark.django_db
@pytest.mark.parametrize(("seconds", "status"), [(55, "ok"), (65, "warning")])
def test_submitted_calls_that_wait_are_told(client: Client, seconds: int, status: str) -> None:
    now = datetime.now(UTC)
    for state in (SubmissionState.QUEUED, SubmissionState.QUEUED, SubmissionState.DONE):
        Submission.objects.create(
            id=new_call_id(),
            task=str(uuid4()),
            application="helpdesk",
            requested="support-chat",
            state=state.value,
            submitted_at=now - timedelta(seconds=seconds),
            due_at=None if state is SubmissionState.DONE else now,
        )
    response = client.get("/readyz")
    found = response.json()["checks"]["submissions"]
    assert (response.status_code, found["status"], found["waiting"]) == (200, status, 2)
    assert found["oldest_seconds"] == pytest.approx(seconds, abs=3)
    assert found.get("reason") == (None if status == "ok" else "calls_queued")


# --- How often, and how it is told ----------------------------------------------------------------------------------


@pytest.mark.django_db
def test_everything_is_looked_at_once_a_second(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    now = 100.0
    watch = Watch(clock=lambda: now)
    for _ in range(3):
        ProviderFactory()
    with django_assert_num_queries(
        5
    ):  # SELECT 1, is there a table of migrations, which are applied, sealed keys, queued calls
        first = watch.readiness()
        now = 100.9
        assert watch.readiness() is first
    now = 101.0
    with django_assert_num_queries(5):
        assert watch.readiness() is not first


@pytest.mark.django_db
def test_a_reason_is_logged_when_it_comes_and_when_it_goes(
    gateway: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    watch = Watch(clock=lambda: now)
    told: list[Any] = []
    with caplog.at_level(logging.INFO, logger=readiness.__name__):
        for age in (0.1, 60.0, 61.0, None, None, 0.1, 0.1):
            gateway.seconds_since_read = age
            watch.readiness()
            now += 2
        told = [(record.levelname, record.getMessage().partition(":")[0]) for record in caplog.records]
    assert told == [("WARNING", "snapshot"), ("ERROR", "snapshot"), ("INFO", "snapshot")]


def test_every_check_and_reason_is_documented() -> None:
    page = (installed.BASE_DIR / "docs" / "operations.md").read_text(encoding="utf-8")
    for name in CHECKS:
        assert f"| `{name}` |" in page
    for reason in Reason:
        assert f"`{reason}`" in page
    assert all(f"`{condition}`" in page for condition in Condition)


# --- How probes come ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.django_db
def test_a_probe_is_answered_over_plain_http_and_under_any_name(client: Client, settings: Settings, path: str) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.ALLOWED_HOSTS = ["signalbox.example"]
    assert client.get(path, headers={"host": "10.1.2.3:8000"}).status_code == 200
    assert client.get("/admin/login/", headers={"host": "10.1.2.3:8000"}).status_code == 400
    assert client.get("/admin/login/", headers={"host": "signalbox.example"}).status_code == 301


async def test_liveness_is_answered_in_the_asynchronous_chain(async_client: AsyncClient) -> None:
    response = await async_client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "alive"})


@pytest.mark.django_db(transaction=True)
async def test_readiness_is_answered_in_the_asynchronous_chain(async_client: AsyncClient) -> None:
    response = await async_client.get("/readyz")
    # The page's thread has a connection of its own, which the test client, unlike a server, leaves open.
    await sync_to_async(connections.close_all)()
    assert (response.status_code, response.json()["status"]) == (200, "ready")
