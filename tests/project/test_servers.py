"""The servers that tests start are real, and gone afterwards."""

import psycopg
import pytest
import redis
from django.db import connection

from tests.environment import TestDatabase, chosen_database
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer, running_valkey


@pytest.mark.django_db
def test_the_suite_runs_on_the_database_it_was_asked_to_run_on() -> None:
    vendor = {TestDatabase.POSTGRES: "postgresql", TestDatabase.SQLITE: "sqlite"}[chosen_database()]
    assert connection.vendor == vendor
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM django_migrations")
        assert cursor.fetchone()[0] > 0


@pytest.mark.django_db
def test_sqlite_is_set_up_for_several_writers() -> None:
    if connection.vendor != "sqlite":
        assert connection.settings_dict["CONN_HEALTH_CHECKS"] is True
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("wal",)
    assert connection.settings_dict["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


def test_a_postgres_database_of_ones_own_is_empty_and_dropped(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as url, psycopg.connect(url) as connected:
        tables = connected.execute("SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert tables == (0,)
        version = connected.execute("SHOW server_version_num").fetchone()
        assert version is not None
        assert int(version[0]) >= 140000
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_valkey_answers(valkey_server: ValkeyServer) -> None:
    with redis.Redis.from_url(valkey_server.url) as client:
        assert client.set("scaffolding", "stands") is True
        assert client.getdel("scaffolding") == b"stands"


def test_valkey_is_gone_when_the_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_REDIS_URL", raising=False)
    with running_valkey() as server, redis.Redis.from_url(server.url) as client:
        assert client.ping() is True
    with redis.Redis.from_url(server.url, retry=None) as client, pytest.raises(redis.ConnectionError):
        client.ping()
