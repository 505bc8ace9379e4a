"""The gateway in a real process: what it writes down and logs, callers that leave, large bodies, and its end."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import product
from typing import Any

import httpx
import orjson
import pytest
from django.apps import apps
from django.db import connection
from pytest_django import DjangoDbBlocker

from governance.changes.settings import store_setting
from governance.settings_store.registry import MAX_BODY_BYTES
from routing.models import LanguageModel
from telemetry.models import Call
from tests.authors import SOMEBODY
from tests.environment import TestDatabase, chosen_database
from tests.factories import ConfigurationFactory, LanguageModelFactory
from tests.servers.records import furnish
from tests.servers.simulator import SimulatorServer
from tests.servers.web import WebServer, running_web, wait_until

pytestmark = pytest.mark.database

LARGEST = 300_000


FAULTS = ("429", "500", "401", "garbage", "truncated", "error_frame", "context_length_exceeded", "reset")


class Client:
    """An application that talks to the server in plain HTTP."""

    def __init__(self, web: WebServer, secret: str) -> None:
        self.web = web
        self.secret = secret
        self._http = httpx.Client(timeout=20.0, trust_env=False)

    def ask(self, model: str = "support-chat", *, text: str = "Hello", **members: Any) -> httpx.Response:
        """Ask and wait for the whole answer."""
        return self.post(orjson.dumps({"model": model, "messages": [{"role": "user", "content": text}], **members}))

    def post(self, content: bytes | Iterator[bytes], **settings: Any) -> httpx.Response:
        """Send a body."""
        return self._http.post(self._url, content=content, headers=self._headers, **settings)

    def stream(self, **members: Any) -> Any:
        """Ask for a stream; a context manager."""
        body = {"model": "support-chat", "stream": True, "messages": [{"role": "user", "content": "Hello"}], **members}
        return self._http.stream("POST", self._url, content=orjson.dumps(body), headers=self._headers)

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    @property
    def _url(self) -> str:
        return f"{self.web.url}/v1/chat/completions"

    @property
    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secret}", "content-type": "application/json"}


def fault_route(kind: str, *, stream: bool) -> str:
    """The configuration of a route that fails once in these tests: afterwards it rests."""
    return f"fault-{kind.replace('_', '-')}-{stream}".lower()


def furnish_fault_routes() -> None:
    """A route for each kind of fault, whole and streamed."""
    fast = LanguageModel.objects.get(identifier="fast")
    for kind, stream in product(FAULTS, (False, True)):
        name = fault_route(kind, stream=stream)
        model = LanguageModelFactory(
            identifier=f"of-{name}", model_id=fast.model_id, provider=fast.provider, capabilities=[]
        )
        ConfigurationFactory(identifier=name, fixed=True, fixed_model=model)


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorServer]:
    with SimulatorServer(record_bodies=True) as server:
        yield server


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker, simulator: SimulatorServer
) -> Iterator[tuple[WebServer, str]]:
    """A server that logs everything, and a key's secret."""
    with ExitStack() as stack:
        database_url = None
        if chosen_database() is TestDatabase.POSTGRES:
            database_url = stack.enter_context(request.getfixturevalue("postgres_server").database())
        stack.enter_context(django_db_blocker.unblock())
        environ = {
            "SIGNALBOX_OUTBOUND_ALLOW": simulator.url.removeprefix("http://"),
            "SIGNALBOX_LOG_LEVEL": "DEBUG",
        }
        web = stack.enter_context(running_web(environ=environ, database_url=database_url, start=False))
        with web.records():
            secret = furnish(simulator)
            furnish_fault_routes()
            store_setting(MAX_BODY_BYTES.key, LARGEST, author=SOMEBODY)
        web.start()
        yield web, secret


@pytest.fixture
def client(server: tuple[WebServer, str], simulator: SimulatorServer) -> Iterator[Client]:
    """A client of the running server; the simulator is as it was at its start."""
    web, secret = server
    if simulator.has_failed:
        web.let_routes_serve()
    simulator.restore_behaviours()
    simulator.reset_stats()
    if web.process.poll() is not None:
        web.start()
    made = Client(web, secret)
    yield made
    made.close()


def recorded(client: Client, call: str) -> Call:
    """The row of a call, as soon as it is there."""
    with client.web.records():
        wait_until(lambda: Call.objects.filter(pk=call).exists())
        return Call.objects.get(pk=call)


# --- What is written down -------------------------------------------------------------------------------------------

PROMPT = "zanzibarquokka"
TOOL = "frobnicateledger"
ARGUMENT = "wombatparameter"
SYSTEM = "xylophonedirective"
UNREADABLE = "brontosauruspayload"
TITLE = "marzipanschema"


def test_neither_rows_nor_logs_hold_what_was_said(client: Client, simulator: SimulatorServer) -> None:
    """Prompts, answers, tools and keys: in no column of any table and in no line of the log, however a call ends."""
    tool = {"name": TOOL, "description": TOOL, "parameters": {"properties": {ARGUMENT: {"type": "string"}}}}
    members: dict[str, Any] = {
        "text": PROMPT,
        "tools": [{"type": "function", "function": tool}],
        "metadata": {"title": TITLE},
        "user": "agent-17",
    }
    statuses = [
        client.ask(**members).status_code,
        client.ask(**members, tool_choice="required").status_code,
        client.ask(**{**members, "text": f"{SYSTEM} {PROMPT}"}, stream=True).status_code,
        client.ask(**members, stream=True, tool_choice="required").status_code,
        client.ask("nonesuch", **members).status_code,
        client.ask(**members, max_tokens=PROMPT).status_code,
        client.post(b'{"model":"support-chat","messages":[{"' + UNREADABLE.encode() + b'"').status_code,
        client.post(b'{"%s":1,"%s":2}' % (UNREADABLE.encode(), UNREADABLE.encode())).status_code,
        # What the provider itself repeats in its error is the caller's to read, and nobody else's.
        client.ask(**members, tool_choice={"type": "function", "function": {"name": ARGUMENT}}).status_code,
        client.ask(**members, response_format={"type": "json_schema", "json_schema": TITLE}).status_code,
    ]
    assert statuses == [200, 200, 200, 200, 404, 400, 400, 400, 400, 400]
    for kind in FAULTS:
        simulator.fail(kind)
        for stream in (False, True):
            client.ask(fault_route(kind, stream=stream), **members, stream=stream)
    simulator.set_behaviour(latency={"mean_ms": 5000})
    with suppress(httpx.TimeoutException):
        client.post(
            orjson.dumps({"model": "support-chat", "messages": [{"role": "user", "content": PROMPT}]}), timeout=0.2
        )
    asked = simulator.requests()
    assert any(TOOL.encode() in (each.body or b"") for each in asked)  # it was all sent
    with client.web.records():
        wait_until(lambda: Call.objects.filter(user="agent-17").count() == 4 + 1 + 2 + 16)
        wait_until(lambda: Call.objects.filter(failure_kind="cancelled").exists())
        rows = "\n".join(_rows())
    assert "agent-17" in rows
    log = client.web.log
    assert "connection_broken" in log
    assert "POST /v1/chat/completions" in log
    words = (PROMPT, TOOL, ARGUMENT, SYSTEM, UNREADABLE, TITLE, "Simulated answer", client.secret, client.secret[9:])
    for word in words:
        assert word.lower() not in rows.lower(), word
        assert word.lower() not in log.lower(), word


def _rows() -> Iterator[str]:
    """Every row of every table, as text."""
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            cursor.execute(f'SELECT * FROM "{model._meta.db_table}"')  # noqa: S608  # names of our own
            for row in cursor.fetchall():
                yield " ".join(str(bytes(each) if isinstance(each, memoryview) else each) for each in row)


# --- Callers that leave, bodies that are too large ------------------------------------------------------------------


def test_a_caller_that_does_not_wait(client: Client, simulator: SimulatorServer) -> None:
    simulator.set_behaviour(latency={"mean_ms": 20_000})
    started = time.monotonic()
    with pytest.raises(httpx.ReadTimeout):
        client.post(
            orjson.dumps({"model": "support-chat", "user": "hasty", "messages": [{"role": "user", "content": "?"}]}),
            timeout=0.3,
        )
    stats = simulator.wait_for_stats(lambda counts: counts["cancelled"] == 1, seconds=1.0)
    assert stats["received"] == 1  # nobody else is asked for somebody who has left
    with client.web.records():
        wait_until(lambda: Call.objects.filter(user="hasty").exists())
        call = Call.objects.get(user="hasty")
    assert (call.success, call.failure_kind, call.served_provider) == (False, "cancelled", "")
    assert 250 < call.latency_ms < 1000 * (time.monotonic() - started)


def test_a_caller_that_leaves_a_stream(client: Client, simulator: SimulatorServer) -> None:
    simulator.set_behaviour(latency={"mean_ms": 3_000, "first_chunk_ms": 1})
    with client.stream() as answer:
        assert answer.status_code == 200
        next(answer.iter_bytes())
    simulator.wait_for_stats(lambda counts: counts["cancelled"] == 1, seconds=1.0)
    call = recorded(client, answer.headers["x-signalbox-call"])
    assert (call.success, call.failure_kind, call.served_provider) == (False, "cancelled", "prod-east")
    assert call.first_token_ms is not None


def test_a_large_body_is_told_so(client: Client, simulator: SimulatorServer) -> None:
    """Whoever sends it gets to read why, although nobody reads it all."""
    body = orjson.dumps({"model": "support-chat", "messages": [{"role": "user", "content": "x" * 4 * LARGEST}]})
    for content in (body, iter([body[:1000], body[1000:]])):
        answer = client.post(content)
        assert answer.status_code == 413
        assert f"larger than {LARGEST} bytes" in answer.json()["error"]["message"]
    assert client.ask(text="x" * (LARGEST - 500)).status_code == 200  # far beyond what Django would take
    assert simulator.stats()["received"] == 1


def test_a_path_that_leads_nowhere_and_a_page(client: Client) -> None:
    http = httpx.Client(base_url=client.web.url, trust_env=False)
    with http:
        assert http.get("/v1/nonesuch").json()["error"]["code"] == "not_found"
        assert http.head("/v1/models", headers={"authorization": f"Bearer {client.secret}"}).status_code == 200
        assert http.get("/healthz").json() == {"status": "alive"}


# --- The end --------------------------------------------------------------------------------------------------------


def test_sigterm_lets_calls_end_and_writes_their_rows(client: Client, simulator: SimulatorServer) -> None:
    simulator.set_behaviour(latency={"mean_ms": 1500, "first_chunk_ms": 50})
    whole: list[httpx.Response] = []
    waiting = threading.Thread(target=lambda: whole.append(client.ask()))
    with client.stream() as answer:
        pieces = answer.iter_bytes()
        received = next(pieces)
        waiting.start()
        wait = simulator.wait_for_stats(lambda counts: counts["received"] == 2)
        assert wait["in_flight"] == 2
        client.web.terminate()
        received += b"".join(pieces)
    waiting.join(20)
    assert received.endswith(b"data: [DONE]\n\n")
    assert [each.status_code for each in whole] == [200]
    client.close()
    assert client.web.process.wait(10) in (0, -15)  # uvicorn ends by the signal it has heeded
    with client.web.records():  # by now: nothing is written later
        rows = Call.objects.in_bulk([answer.headers["x-signalbox-call"], whole[0].headers["x-signalbox-call"]])
    assert {(row.success, row.streamed) for row in rows.values()} == {(True, True), (True, False)}
    assert "were lost" not in client.web.log


def test_sigterm_with_nothing_to_do_is_quick(client: Client) -> None:
    answer = client.ask()
    assert answer.status_code == 200  # and the connection is kept, as clients do
    started = time.monotonic()
    client.web.terminate()
    client.web.process.wait(10)
    assert time.monotonic() - started < 3
    with client.web.records():
        assert Call.objects.filter(pk=answer.headers["x-signalbox-call"]).exists()
