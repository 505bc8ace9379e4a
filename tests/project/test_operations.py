"""`docs/operations.md`: what it tells people to type is typed here."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from pytest_django import Settings

from governance.project.http.readiness import Condition, check_encryption_keys
from routing.credentials import store_key
from routing.models import Provider
from routing.vault import Vault
from tests.factories import ProviderFactory
from tests.project.pages import installed_at, read_assignments, read_page
from tests.project.processes import ROOT, run_command, run_python, running_command
from tests.servers.ports import find_free_port
from tests.servers.postgres import PostgresServer, client_programs
from tests.servers.valkey import ValkeyServer

PAGE = read_page("docs/operations.md")

# What the page has root do for an account that this machine does not have.
WITHOUT_THE_ACCOUNT = 'install() { mkdir -p "${@: -1}"; }; chgrp() { :; }\n'


@dataclass(frozen=True, slots=True)
class Installation:
    """What the page's own commands have made: files, a database with tables, and the environment of every process."""

    configuration: Path
    environ: Mapping[str, str]
    database_url: str

    def shell(self, commands: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Type something in the project's folder."""
        typed = installed_at(commands, configuration=self.configuration)
        typed = typed.replace(".venv/bin/python", shlex.quote(sys.executable))
        environ = {**self.environ, "PATH": f"{client_programs()}:{os.environ['PATH']}", **more}
        return run_command("bash", "-euo", "pipefail", "-c", typed, environ=environ)


@pytest.fixture(scope="module")
def redis_url(valkey_server: ValkeyServer) -> Iterator[str]:
    with valkey_server.database() as url:
        yield url


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, redis_url: str
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installation")
    configuration = folder / "etc"
    with psycopg.connect(postgres_server.url, autocommit=True) as administrator:
        # The server of the tests has a signalbox already.
        for statement in PAGE.block("PostgreSQL", "sql").replace("signalbox", "documented").split(";\n"):
            if statement.strip():
                administrator.execute(statement.encode())
    place = postgres_server.url.partition("@")[2].partition("/")[0]
    database_url = f"postgresql://documented:PASSWORD@{place}/documented"
    secrets = PAGE.block("Secrets", "sh")
    secrets = secrets.replace("postgresql://signalbox:PASSWORD@127.0.0.1:5432/signalbox", database_url)
    secrets = secrets.replace("redis://127.0.0.1:6379/0", redis_url)
    made = run_command(
        "bash", "-euc", WITHOUT_THE_ACCOUNT + installed_at(secrets, configuration=configuration), environ={}
    )
    assert made.returncode == 0, made.stderr
    assert {file.name: file.stat().st_mode & 0o777 for file in configuration.iterdir()} == dict.fromkeys(
        ("secret_key", "encryption_keys", "database_url", "redis_url"), 0o640
    )
    block = installed_at(PAGE.block("Environment", "ini"), configuration=configuration)
    block = block.replace("/var/lib/signalbox", str(folder / "data"))
    (configuration / "signalbox.env").write_text(block, encoding="utf-8")
    environ = read_assignments(block)
    migrated = run_python("manage.py", "migrate", "--verbosity=0", environ=environ)
    assert migrated.returncode == 0, migrated.stderr
    yield Installation(configuration, environ, database_url)
    with psycopg.connect(postgres_server.url, autocommit=True) as administrator:
        administrator.execute("DROP DATABASE documented WITH (FORCE)")
        administrator.execute("DROP ROLE documented")


def test_the_documented_settings_leave_nothing_to_say_against_a_deployment(installation: Installation) -> None:
    done = installation.shell(PAGE.block("Environment", "sh"), **dict.fromkeys(installation.environ, ""))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("System check identified no issues"), done.stdout


def test_every_documented_variable_is_one_that_is_read() -> None:
    known = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    for name in read_assignments(PAGE.block("Environment", "ini")):
        assert f"| `{name.removesuffix('_FILE')}` |" in known


def test_a_web_process_as_it_is_documented(installation: Installation, tmp_path: Path) -> None:
    """And behind the proxy that it expects: over plain HTTP it sends people to HTTPS, under its own name only."""
    typed = PAGE.block("Web processes", "sh", containing="uvicorn").replace("\\\n", " ")
    port = find_free_port()
    command = shlex.split(typed.replace("--port 8001", f"--port {port}"))
    assert command.pop(0) == ".venv/bin/python"
    environ = installation.environ
    with running_command(
        sys.executable, *command, environ=environ, log=tmp_path / "log", base=f"http://127.0.0.1:{port}"
    ) as web:
        ready = web.get("/readyz")
        assert (ready.status_code, ready.json()["checks"]["redis"]) == (200, {"status": "ok"})
        name = {"host": "signalbox.example"}
        assert web.get("/admin/login/", headers=name).headers["location"].startswith("https://signalbox.example/")
        page = web.get("/admin/login/", headers={**name, "x-forwarded-proto": "https"})
        assert page.status_code == 200
        assert page.headers["strict-transport-security"] == "max-age=31536000"
        assert "server" not in page.headers
        assert web.get("/admin/login/", headers={"x-forwarded-proto": "https"}).status_code == 400
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["level"] for line in lines} <= {"INFO", "WARNING"}


def test_static_files_are_collected(installation: Installation) -> None:
    typed = PAGE.block("Static files", "sh").rstrip() + " --dry-run"
    done = installation.shell(typed)
    assert (done.returncode, "static files copied" in done.stdout) == (0, True), done.stderr


# --- Backup and restore ---------------------------------------------------------------------------------------------

MAKE_A_PROVIDER = """
from routing.credentials import store_key
from routing.models import Provider
from routing.vault import Vault
from django.conf import settings
provider = Provider(identifier="prod-east", adapter_type="openai")
store_key(provider, "sk-of-the-provider-0001", vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS))
provider.save()
"""


def test_a_backup_is_restored_as_it_is_documented(
    installation: Installation, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    assert installation.shell(f".venv/bin/python manage.py shell -c '{MAKE_A_PROVIDER}'").returncode == 0
    changed = installation.shell(".venv/bin/python manage.py set_setting routing.callHistory true")
    assert changed.returncode == 0, changed.stderr
    place = f"cd {shlex.quote(str(tmp_path))}\n"
    backup = PAGE.block("Backup and restore", "sh", containing="pg_dump")
    made = installation.shell(place + backup, DATABASE_URL=installation.database_url)
    assert made.returncode == 0, made.stderr
    with postgres_server.database(prefix="restored") as url:
        rehearsal = PAGE.block("Backup and restore", "sh", containing="pg_restore")
        rehearsal = rehearsal.replace("manage.py", str(ROOT / "manage.py"))
        environ = {name: value for name, value in installation.environ.items() if name != "DATABASE_URL_FILE"}
        done = Installation(installation.configuration, environ, url).shell(place + rehearsal, RESTORED=url)
        assert done.returncode == 0, done.stderr
        assert "The audit trail is whole: 1 entries." in done.stdout
        port = find_free_port()
        uvicorn = ("-m", "uvicorn", "governance.project.asgi:application", "--port", str(port))
        with running_command(
            sys.executable,
            *uvicorn,
            environ={**environ, "DATABASE_URL": url},
            log=tmp_path / "log",
            base=f"http://127.0.0.1:{port}",
        ) as web:
            keys = web.get("/readyz").json()["checks"]["encryption_keys"]
        assert keys == {"status": "ok", "sealed": 1, "unopened": 0}


def test_sqlite_is_copied_while_it_is_used(tmp_path: Path) -> None:
    typed = PAGE.block("Backup and restore", "sh", containing="VACUUM")
    script = shlex.split(typed)[2]
    environ = {
        "SIGNALBOX_DATA_DIR": str(tmp_path / "data"),
        "SIGNALBOX_SECRET_KEY": "s" * 45 + "0123456789",
        "SIGNALBOX_ENCRYPTION_KEYS": "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    }
    assert run_python("manage.py", "migrate", "--verbosity=0", environ=environ).returncode == 0
    copied = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False)
    assert copied.returncode == 0
    (tmp_path / "data/signalbox.sqlite3").unlink()
    (tmp_path / "backup.sqlite3").rename(tmp_path / "data/signalbox.sqlite3")
    assert run_python("manage.py", "migrate", "--check", environ=environ).returncode == 0


# --- Keys -----------------------------------------------------------------------------------------------------------

OLD, NEW = ("k1", bytes(32)), ("k2", bytes(range(32)))


@pytest.mark.django_db
def test_encryption_keys_are_rotated_in_the_documented_steps(settings: Settings) -> None:
    """With processes of this step and of the one before side by side, as while they are restarted one by one."""
    provider = ProviderFactory(identifier="prod-east")
    store_key(provider, "sk-of-the-provider-0001", vault=Vault((OLD,)))
    provider.save()
    steps = [(OLD,), (OLD, NEW), (NEW, OLD)]
    for before, after in pairwise(steps):
        for sealing in (before, after):
            other = ProviderFactory(
                identifier=f"sealed-by-{sealing[0][0]}-of-{len(sealing)}-{len(after)}-{after[0][0]}"
            )
            store_key(other, "sk-of-the-provider-0002", vault=Vault(sealing))
            other.save()
        for opening in (before, after):
            settings.SIGNALBOX_ENCRYPTION_KEYS = opening
            assert check_encryption_keys().condition is Condition.OK
    settings.SIGNALBOX_ENCRYPTION_KEYS = (NEW,)
    assert check_encryption_keys().condition is Condition.WARNING  # too early: and putting it back repairs it
    settings.SIGNALBOX_ENCRYPTION_KEYS = (NEW, OLD)
    call_command("rotate_provider_keys", verbosity=0)
    settings.SIGNALBOX_ENCRYPTION_KEYS = (NEW,)
    found = check_encryption_keys()
    assert (found.condition, found.figures["sealed"]) == (Condition.OK, Provider.objects.count())


def test_the_page_names_every_file_of_the_folder() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    for file in (ROOT / "docs/deploy").rglob("*"):
        if file.is_file() and "secrets" not in file.relative_to(ROOT / "docs/deploy").parts:
            assert file.name in text, file.name
