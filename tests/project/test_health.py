"""Liveness depends on nothing; readiness says what is missing, and no more than that."""

import pytest
from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connection, connections
from django.db.migrations.recorder import MigrationRecorder
from django.test import AsyncClient, Client
from pytest_django import Settings


def test_liveness_needs_no_database(client: Client) -> None:
    # No django_db mark: a query would fail this test.
    response = client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "alive"})
    assert response["Cache-Control"] == "no-store"


@pytest.mark.django_db
def test_an_installation_with_all_migrations_is_ready(client: Client) -> None:
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ready"})
    assert response["Cache-Control"] == "no-store"


@pytest.mark.django_db
def test_a_pending_migration_is_named_as_the_reason(client: Client) -> None:
    MigrationRecorder(connection).record_unapplied("sessions", "0001_initial")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json() == {
        "status": "not ready",
        "reason": "migrations_pending",
        "detail": "Migrations to apply: 1. Run `manage.py migrate`.",
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
    assert response.json()["reason"] == "database_unreachable"
    assert "clerk" not in response.content.decode()
    assert "clerk refused" in caplog.text


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
    assert (response.status_code, response.json()) == (200, {"status": "ready"})
