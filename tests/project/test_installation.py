"""The settings of an installation, as a process with a given environment sees them."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from django.db import connection

from tests.project.processes import installation_environment, run_python

NAMES = (
    "DEBUG",
    "ALLOWED_HOSTS",
    "SESSION_COOKIE_SECURE",
    "CSRF_COOKIE_SECURE",
    "SECURE_SSL_REDIRECT",
    "SECURE_HSTS_SECONDS",
    "DATABASES",
    "REDIS_URL",
    "SIGNALBOX_OUTBOUND_ALLOW",
)
SHOW = (
    "import json; from governance.project.settings import installation as s; "
    f"print(json.dumps({{n: getattr(s, n) for n in {NAMES!r}}}, default=str))"
)


def read_settings(**environ: str) -> dict[str, object]:
    result = run_python("-c", SHOW, environ=environ)
    assert result.returncode == 0, result.stderr
    settings: dict[str, object] = json.loads(result.stdout)
    return settings


def manage(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return run_python("manage.py", *arguments, environ=environ)


def test_the_defaults_are_careful(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "on demand"
    settings = read_settings(**installation_environment(data_folder=folder))
    assert settings["DEBUG"] is False
    assert settings["SECURE_SSL_REDIRECT"] is True
    assert settings["SESSION_COOKIE_SECURE"] is True
    assert settings["CSRF_COOKIE_SECURE"] is True
    assert settings["SECURE_HSTS_SECONDS"] == 86400
    assert settings["SIGNALBOX_OUTBOUND_ALLOW"] == []
    assert isinstance(settings["DATABASES"], dict)
    assert settings["DATABASES"]["default"]["NAME"] == str(folder / "signalbox.sqlite3")
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("variable", ["SIGNALBOX_INSECURE_HTTP", "SIGNALBOX_DEBUG"])
def test_plain_http_turns_off_what_needs_https(tmp_path: Path, variable: str) -> None:
    settings = read_settings(**installation_environment(data_folder=tmp_path), **{variable: "1"})
    assert settings["DEBUG"] is (variable == "SIGNALBOX_DEBUG")
    assert settings["SECURE_SSL_REDIRECT"] is False
    assert settings["SESSION_COOKIE_SECURE"] is False
    assert settings["CSRF_COOKIE_SECURE"] is False
    assert settings["SECURE_HSTS_SECONDS"] == 0


def test_urls_choose_the_database_and_what_processes_share(tmp_path: Path) -> None:
    settings = read_settings(
        **installation_environment(data_folder=tmp_path / "unused"),
        DATABASE_URL="postgresql://clerk:p%40ss@db:5433/box?sslmode=require",
        REDIS_URL="redis://cache:6379/3",
    )
    assert isinstance(settings["DATABASES"], dict)
    database = settings["DATABASES"]["default"]
    assert database["ENGINE"] == "django.db.backends.postgresql"
    assert (database["HOST"], database["PORT"], database["NAME"]) == ("db", "5433", "box")
    assert (database["USER"], database["PASSWORD"]) == ("clerk", "p@ss")
    options = database["OPTIONS"]
    assert (options.pop("sslmode"), options.pop("options").count("-c ")) == ("require", 5)
    assert options == {
        "connect_timeout": "5",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "2",
        "tcp_user_timeout": "20000",
    }
    assert settings["REDIS_URL"] == "redis://cache:6379/3"
    assert not (tmp_path / "unused").exists()


def test_parameters_of_the_url_have_the_last_word(tmp_path: Path) -> None:
    settings = read_settings(
        **installation_environment(data_folder=tmp_path),
        DATABASE_URL="postgresql://clerk@db/box?tcp_user_timeout=7000&options=",
    )
    assert isinstance(settings["DATABASES"], dict)
    options = settings["DATABASES"]["default"]["OPTIONS"]
    assert (options["tcp_user_timeout"], options["options"], options["keepalives_idle"]) == ("7000", "", "10")


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no connections that are cut")
def test_both_ends_of_a_connection_notice_that_the_other_is_gone() -> None:
    """Two hours, and a quarter of an hour for a statement under way, are what operating systems wait by default."""
    with connection.cursor() as cursor, socket.socket(fileno=os.dup(connection.connection.pgconn.socket)) as ours:
        for name, here, there in (
            ("tcp_keepalives_idle", socket.TCP_KEEPIDLE, 10),
            ("tcp_keepalives_interval", socket.TCP_KEEPINTVL, 5),
            ("tcp_keepalives_count", socket.TCP_KEEPCNT, 2),
            ("tcp_user_timeout", socket.TCP_USER_TIMEOUT, 20_000),
        ):
            assert ours.getsockopt(socket.IPPROTO_TCP, here) == there
            cursor.execute("SELECT setting::int FROM pg_settings WHERE name = %s", [name])
            assert cursor.fetchone() == (there,), name
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("1min",)


def test_django_finds_nothing_to_say_against_a_deployment(tmp_path: Path) -> None:
    result = manage("check", "--deploy", "--fail-level", "WARNING", **installation_environment(data_folder=tmp_path))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("missing", ["SIGNALBOX_SECRET_KEY", "SIGNALBOX_ENCRYPTION_KEYS"])
def test_a_missing_secret_ends_a_command_with_one_sentence(tmp_path: Path, missing: str) -> None:
    environ = installation_environment(data_folder=tmp_path)
    del environ[missing]
    result = manage("check", **environ)
    assert result.returncode == 1
    assert result.stderr.startswith(f"signalbox: {missing} is not set")
    assert "python3 -c" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_brings_no_secret_with_it(tmp_path: Path) -> None:
    result = manage("check", SIGNALBOX_DEBUG="1", SIGNALBOX_DATA_DIR=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.startswith("signalbox: SIGNALBOX_SECRET_KEY is not set")


def test_explain_is_looked_for_without_any_environment() -> None:
    result = manage("explain", "--help")
    assert "is not set" not in result.stderr
    assert "Traceback" not in result.stderr


def test_the_paper_settings_have_no_database() -> None:
    script = (
        "import django; django.setup(); from django.db import connection; "
        "from django.core.exceptions import ImproperlyConfigured\n"
        "try: connection.cursor()\nexcept ImproperlyConfigured: print('no database')\n"
    )
    result = run_python("-c", script, environ={"DJANGO_SETTINGS_MODULE": "governance.project.settings.paper"})
    assert result.stdout.strip() == "no database", result.stderr
