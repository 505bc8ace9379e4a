"""What every test can ask for: the servers, and the choice of database.

`SIGNALBOX_TEST_DB=postgres` runs the suite on PostgreSQL, otherwise it runs on SQLite; `-m database` picks
the tests for which that makes a difference. Servers start when the first test asks for them.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from django.db import connections
from pytest_django import DjangoDbBlocker

from governance.project.settings.environment import envpostgresql
from tests.environment import TestDatabase, chosen_database
from tests.servers.postgres import PostgresServer, running_postgres
from tests.servers.valkey import ValkeyServer, running_valkey

DATABASE_FIXTURES = frozenset({"db", "transactional_db", "django_db_setup", "live_server"})


LONG = (
    "tests/browser/",
    "tests/project/test_processes_together.py",
    "tests/project/",
    "tests/governance/tab/test_same_numbers.py",
    "tests/governance/api/test_description_holds.py",
    "tests/governance/tasks/",
    "tests/demo/",
    "tests/another_project/",
    "tests/clients/",
)
"""What takes long or waits for processes, the longest first: begun last, it would end when all else has long ended."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark what needs a database, before `-m` looks at the marks; when all others have had their say, begin with what
    takes long."""
    named: Counter[str] = Counter()
    for item in items:
        fixtures = frozenset(getattr(item, "fixturenames", ()))
        if item.get_closest_marker("django_db") or fixtures & DATABASE_FIXTURES:
            item.add_marker(pytest.mark.database)
        # Processes tell one another what to run by these names, and schemathesis gives one to many tests.
        named[item.nodeid] += 1
        if named[item.nodeid] > 1:
            # pytest has no other way to say it
            item._nodeid = f"{item.nodeid}[{named[item.nodeid]}]"  # type: ignore[attr-defined]
    yield
    items.sort(key=lambda item: next((at for at, path in enumerate(LONG) if item.nodeid.startswith(path)), len(LONG)))


def pytest_report_header() -> str:
    return f"database: {chosen_database()}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the whole run, whatever database the suite itself runs on."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """A Valkey server for the whole run; what a test leaves in it the next one finds."""
    with running_valkey() as server:
        yield server


@pytest.fixture(scope="session")
def django_db_modify_db_settings(request: pytest.FixtureRequest) -> None:
    """pytest-django asks for this before it makes the test database: the moment to start a server."""
    if chosen_database() is not TestDatabase.POSTGRES:
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = envpostgresql("DATABASE_URL", environ={"DATABASE_URL": server.url})
    if url is None:
        raise AssertionError("the server has no URL")
    connections["default"].settings_dict.update(
        HOST=url.host,
        PORT="" if url.port is None else str(url.port),
        USER=url.user,
        PASSWORD=url.password,
        NAME=url.name,
    )


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """pytest-django's own, and before it drops the test database, an end to the connections that threads of the code
    under test still hold: PostgreSQL refuses to drop a database that somebody looks at."""
    yield
    connection = connections["default"]
    if connection.vendor == "postgresql":
        with django_db_blocker.unblock(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
