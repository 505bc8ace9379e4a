"""The ASGI application hands each kind of connection to who answers it."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psycopg
import pytest
from starlette.types import Message

from governance.project import asgi
from governance.project.asgi import application
from governance.project.http.bodies import BoundedBodies
from tests.project.processes import installation_environment, run_python, running_web_process
from tests.servers.postgres import PostgresServer

STYLESHEET = "/static/admin/css/base.css"


@pytest.fixture
async def web() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_a_static_file_is_served_and_kept(web: httpx.AsyncClient) -> None:
    first = await web.get(STYLESHEET)
    assert first.status_code == 200
    assert first.headers["content-type"].startswith("text/css")
    assert first.headers["cache-control"] == "public, no-cache"
    assert first.headers["x-content-type-options"] == "nosniff"
    assert "x-request-id" not in first.headers  # Django never saw it
    again = await web.get(STYLESHEET, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/static/admin/css/none.css", 404),
        ("GET", "/static/admin/css", 404),
        ("GET", "/static/", 404),
        ("GET", "/static/%2e%2e/apps.py", 404),
        ("GET", "/static/..%2fapps.py", 404),
        ("GET", "/static//etc/passwd", 404),
        ("GET", "/static/admin%00.css", 404),
        ("POST", STYLESHEET, 405),
    ],
)
async def test_nothing_else_is_served(web: httpx.AsyncClient, method: str, path: str, status: int) -> None:
    assert (await web.request(method, path)).status_code == status


async def test_everything_else_is_djangos(web: httpx.AsyncClient) -> None:
    response = await web.get("/staticky")
    assert response.status_code == 404
    assert "x-request-id" in response.headers
    assert (await web.get("/healthz")).json() == {"status": "alive"}


@pytest.mark.parametrize("prefix", ["", "/llm", "/a/v1"])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/nothing", (404, "application/json")),  # the gateway's own envelope
        (STYLESHEET, (200, "text/css; charset=utf-8")),
        ("/healthz", (200, "application/json")),
        ("/nothing", (404, "text/html; charset=utf-8")),
    ],
)
async def test_a_prefix_of_a_proxy_changes_nothing(prefix: str, path: str, expected: tuple[int, str]) -> None:
    """The server puts it in front of every path: a proxy that strips it is told by `--root-path`."""
    transport = httpx.ASGITransport(app=application, root_path=prefix)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get(prefix + path)
    assert (answer.status_code, answer.headers["content-type"]) == expected


async def test_the_gateway_is_open_for_as_long_as_the_lifespan(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    incoming: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> Message:
        return incoming.pop(0)

    async def send(message: Message) -> None:
        happened.append(message["type"])

    async def open_service() -> None:
        happened.append("open")

    async def close_service() -> None:
        happened.append("close")

    monkeypatch.setattr(asgi, "open_service", open_service)
    monkeypatch.setattr(asgi, "close_service", close_service)
    monkeypatch.setattr(asgi, "_keep_what_is_there", lambda: happened.append("keep"))
    await application({"type": "lifespan"}, receive, send)
    assert happened == ["open", "keep", "lifespan.startup.complete", "close", "lifespan.shutdown.complete"]


def test_what_a_process_was_started_with_is_not_looked_through_for_garbage() -> None:
    usual = gc.get_threshold()
    try:
        asgi._keep_what_is_there()
        assert gc.get_freeze_count() > 50_000
        assert gc.get_threshold()[0] > 10 * usual[0]
        assert gc.isenabled()  # what calls leave behind still goes
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)


async def test_a_websocket_is_refused() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await application({"type": "websocket", "path": "/static/x"}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


def count_connections(*, url: str) -> int:
    """Open connections to the database, the one that asks included."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


async def test_pages_leave_no_connection_open(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """Under a real server, forty pages at a time. The gateway's own connections come and go, but they are few."""
    with postgres_server.database() as url:
        environ = {
            **installation_environment(data_folder=tmp_path),
            "DATABASE_URL": url,
            "SIGNALBOX_INSECURE_HTTP": "1",
        }
        migrated = run_python("manage.py", "migrate", "--verbosity=0", environ=environ)
        assert migrated.returncode == 0, migrated.stderr
        with running_web_process(environ=environ, log=tmp_path / "log") as base:
            before = count_connections(url=url)
            async with httpx.AsyncClient(base_url=base, timeout=30) as client:
                session = {"Cookie": "sessionid=nobodys"}  # which is looked for
                answers = await asyncio.gather(*(client.get("/admin/", headers=session) for _ in range(40)))
            assert {answer.status_code for answer in answers} == {302}
            assert count_connections(url=url) < before + 5


# --- Bodies ---------------------------------------------------------------------------------------------------------


async def pieces(number: int, *, size: int = 64 * 1024, pause: float = 0.0) -> AsyncIterator[bytes]:
    for _ in range(number):
        await asyncio.sleep(pause)
        yield b"x" * size


@pytest.mark.parametrize("path", ["/admin/login/", "/api/v1/session", "/nothing"])
async def test_a_body_is_bounded_before_anybody_keeps_it(
    web: httpx.AsyncClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("governance.project.http.bodies.most_bytes_of_a_call", lambda: 128 * 1024)
    declared = await web.post(path, content=b"x" * (128 * 1024 + 1))
    undeclared = await web.post(path, content=pieces(3), headers={"x-request-id": "mine"})
    for answer in (declared, undeclared):
        assert (answer.status_code, answer.json()["type"]) == (413, "body_too_large")
        assert answer.headers["content-type"] == "application/problem+json"
    assert undeclared.json()["request_id"] == undeclared.headers["x-request-id"] == "mine"


@pytest.mark.parametrize("path", ["/admin/login/", "/api/v1/session"])
async def test_a_body_that_takes_too_long_is_not_waited_for(web: httpx.AsyncClient, path: str) -> None:
    transport = httpx.ASGITransport(app=BoundedBodies(application, seconds=0.05))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post(path, content=pieces(3, size=1, pause=0.04))
    assert (answer.status_code, answer.json()["type"]) == (408, "body_timeout")


async def test_a_body_in_pieces_is_read_although_it_has_no_length(web: httpx.AsyncClient) -> None:
    async def document() -> AsyncIterator[bytes]:
        yield b'{"username": "olivia",'
        yield b' "no_such_field": 1}'

    answer = await web.post("/api/v1/session", content=document(), headers={"content-type": "application/json"})
    assert "content-length" not in answer.request.headers
    assert answer.status_code == 400
    assert {each["field"] for each in answer.json()["errors"]} == {"password", "no_such_field"}
