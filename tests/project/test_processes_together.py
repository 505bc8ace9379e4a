"""Two web processes and two workers on one PostgreSQL and one Valkey, under load; one of each is killed in the middle.

What must hold afterwards: every call was answered, or told why not, or was among the few that the killed process had in
hand; every row is there once; no submitted call was lost; and no provider was asked twice for one call.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import orjson
import pytest
from celery import Celery
from django.db.models import Q
from pytest_django import DjangoDbBlocker

from governance.models import Application, StoredContent, Submission
from routing.core.vocabulary import Reach
from telemetry.models import Call
from tests.factories import (
    ApplicationFactory,
    ConfigurationFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)
from tests.governance.gateway.harness import LoopThread
from tests.governance.gateway.upstream import DONE, ROLE, STOP, chunk_of, completion, usage_chunk
from tests.keys import issue_key
from tests.servers.fake_provider import FakeProvider, Pause, Script, Send, chunk, head, whole
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer
from tests.servers.web import WebServer, wait_until
from tests.servers.worker import Worker, running_worker

LEAST = 24  # calls of each way in, before and after the kill together
MOST_SECONDS = 40.0
KILLED_AFTER = LEAST // 3  # calls of each way in
CALLERS = 3  # of each kind
CONCURRENCY = 4  # of each worker
UNWRITTEN_SECONDS = 2.0  # before the kill: what may have been answered and not written yet, on a busy machine


def slow_whole() -> Script:
    return [Pause(0.15), *whole(completion())]


def slow_stream() -> Script:
    steps: list[Any] = [head(chunked=True)]
    for payload in (
        ROLE,
        *(chunk_of({"content": f"word {number} "}) for number in range(5)),
        STOP,
        usage_chunk(),
        DONE,
    ):
        steps += [Pause(0.04), Send(chunk(b"data: " + payload + b"\n\n").data)]
    return [*steps, Send(chunk(b"").data)]


@dataclass
class Direct:
    """A call below /v1/, as whoever made it saw it. Without a call's id there was no answer's head."""

    web: int
    ended: float
    status: int | None
    is_complete: bool
    call: str | None
    error: str = ""


@dataclass
class Seen:
    """What all callers have seen."""

    direct: list[Direct] = field(default_factory=list)
    submitted: dict[str, str] = field(default_factory=dict)  # the name it was handed in under, by its id
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_enough: threading.Event = field(default_factory=threading.Event)

    def has(self, least: int) -> bool:
        return min(len(self.direct), len(self.submitted)) >= least

    def add(self, call: Direct) -> None:
        with self.lock:
            self.direct.append(call)


@dataclass
class Together:
    """The installation."""

    webs: list[WebServer]
    workers: list[Worker]
    providers: dict[str, FakeProvider]
    client: Celery
    secret: str
    redis_url: str
    stack: ExitStack

    def records(self) -> Any:
        return self.webs[1].records()

    def asked_for(self) -> Counter[str]:
        """How many requests providers have received for each call."""
        names = [each.headers["x-client-request-id"] for fake in self.providers.values() for each in fake.requests]
        return Counter(name.rpartition("-")[0] for name in names)


@pytest.fixture
def together(
    postgres_server: PostgresServer,
    valkey_server: ValkeyServer,
    django_db_blocker: DjangoDbBlocker,
    tmp_path: Path,
) -> Iterator[Together]:
    with ExitStack() as stack:
        redis_url = stack.enter_context(valkey_server.database())
        loop = stack.enter_context(LoopThread())
        providers = {"support-chat": FakeProvider(slow_whole()), "live-chat": FakeProvider(slow_stream())}
        for fake in providers.values():
            loop.run(fake.__aenter__())
            stack.callback(stop, loop, fake)
        database_url = stack.enter_context(postgres_server.database(prefix="together"))
        stack.enter_context(django_db_blocker.unblock())
        environ = {
            "SIGNALBOX_OUTBOUND_ALLOW": ",".join(fake.host_port for fake in providers.values()),
            "REDIS_URL": redis_url,
        }
        webs = [WebServer(environ=environ, database_url=database_url, folder=folder_in(tmp_path, n)) for n in "ab"]
        webs[0].migrate()
        with webs[0].records():
            secret = furnish(providers)
        for web in webs:
            stack.callback(web.stop)
            web.start()
        workers = [
            stack.enter_context(running_worker(webs[1], concurrency=CONCURRENCY, beat=beat)) for beat in (False, True)
        ]
        client = Celery("a-shop", broker=redis_url, set_as_current=False)
        yield Together(webs, workers, providers, client, secret, redis_url, stack)


def stop(loop: LoopThread, fake: FakeProvider) -> None:
    loop.run(fake.__aexit__(None, None, None))


def folder_in(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


def furnish(providers: dict[str, FakeProvider]) -> str:
    """A configuration for each provider, and an application that may run tasks; gives its key."""
    for number, (configuration, fake) in enumerate(providers.items()):
        provider = ProviderFactory(
            identifier=("prod-east", "prod-west")[number],
            adapter_type="custom",
            base_url=fake.url,
            reach=Reach.SELF_HOSTED.value,
        )
        model = LanguageModelFactory(identifier=("fast", "wise")[number], provider=provider, capabilities=[])
        PriceFactory(model=model)
        ConfigurationFactory(identifier=configuration, listed=True, models=[model])
    application: Application = ApplicationFactory(may_run_tasks=True)
    _, secret = issue_key(application=application, name="Ticket robot")
    return secret


# --- The load -------------------------------------------------------------------------------------------------------


def call_directly(together: Together, seen: Seen, *, configuration: str) -> None:
    """Call, whole or streamed, one web process or the other. Who finds nobody there asks the other, as a proxy does."""
    body = {
        "model": configuration,
        "stream": configuration == "live-chat",
        "messages": [{"role": "user", "content": "Hello"}],
    }
    while not seen.is_enough.is_set():
        first = random.randrange(2)
        for index in (first, 1 - first):
            outcome = ask(together, index, orjson.dumps(body))
            if outcome is not None:
                seen.add(outcome)
                break
            time.sleep(0.05)


def ask(together: Together, index: int, body: bytes) -> Direct | None:
    """One call; nothing where no connection could be made."""
    headers = {"authorization": f"Bearer {together.secret}", "content-type": "application/json"}
    status, call, received, error = None, None, b"", ""
    with httpx.Client(timeout=30, trust_env=False, verify=False) as client:  # noqa: S501  # there is no TLS here
        url = f"{together.webs[index].url}/v1/chat/completions"
        try:
            with client.stream("POST", url, content=body, headers=headers) as answer:
                status, call = answer.status_code, answer.headers.get("x-signalbox-call")
                for piece in answer.iter_bytes():
                    received += piece
            is_complete = received.endswith(b"data: [DONE]\n\n") or b'"finish_reason":"stop"' in received
        except httpx.ConnectError:
            return None
        except httpx.TransportError as broken:
            is_complete, error = False, type(broken).__name__
    return Direct(index, time.monotonic(), status, is_complete, call, error)


def hand_in(together: Together, seen: Seen) -> None:
    """Hand calls in, to either web process. Who hears nothing asks the other one again, under the same name."""
    while not seen.is_enough.is_set():
        name, index = f"order-{uuid4()}", random.randrange(2)
        while (submission := hand_in_once(together, index, name)) is None:
            index = 1 - index
            time.sleep(0.1)
        with seen.lock:
            seen.submitted[submission] = name
        time.sleep(0.15)


def hand_in_once(together: Together, index: int, name: str) -> str | None:
    """The id of a call that was taken; nothing where no answer came, whether or not it was taken."""
    headers = {"authorization": f"Bearer {together.secret}", "idempotency-key": name, "x-request-id": name}
    request = {"model": "support-chat", "messages": [{"role": "user", "content": "Hello"}]}
    try:
        answer = httpx.post(
            f"{together.webs[index].url}/api/v1/calls",
            json={"request": request},
            headers=headers,
            timeout=30,
            trust_env=False,
            verify=False,  # noqa: S501  # there is no TLS here
        )
    except httpx.TransportError:
        return None
    assert answer.status_code in (200, 202), answer.text  # 200: it was taken the first time, and is over by now
    submission: str = answer.json()["id"]
    return submission


def run_load(together: Together, seen: Seen, *, in_the_middle: Callable[[], None]) -> None:
    """Callers of every kind, until there were enough calls before and after something happens in the middle."""
    threads = [
        *(
            threading.Thread(target=call_directly, args=(together, seen), kwargs={"configuration": configuration})
            for configuration in ("support-chat", "live-chat")
            for _ in range(CALLERS)
        ),
        *(threading.Thread(target=hand_in, args=(together, seen)) for _ in range(CALLERS)),
    ]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: seen.has(KILLED_AFTER), seconds=MOST_SECONDS)
        in_the_middle()
        wait_until(lambda: seen.has(LEAST), seconds=MOST_SECONDS)
    finally:
        seen.is_enough.set()
        for thread in threads:
            thread.join(60)


# --- What must hold ---------------------------------------------------------------------------------------------------


def test_one_of_each_is_killed_under_load(together: Together) -> None:
    seen = Seen()
    killed: dict[str, Any] = {}

    def kill_and_replace() -> None:
        killed["at"] = time.monotonic()
        killed["worker"] = together.workers[0].process.pid
        together.webs[0].process.kill()
        together.workers[0].kill()
        together.webs[0].process.wait()
        together.webs[0].start()
        together.workers.append(together.stack.enter_context(running_worker(together.webs[1], concurrency=CONCURRENCY)))

    run_load(together, seen, in_the_middle=kill_and_replace)
    every_submission_comes_to_its_end(together, seen, killed)
    every_call_was_answered_or_in_the_hands_of_the_killed(seen, killed)
    every_row_is_there_once(together, seen, killed)
    nobody_was_asked_twice(together, seen)
    workers_name_the_request_that_handed_a_call_in(together, seen)
    checks = httpx.get(f"{together.webs[0].url}/readyz", timeout=10).json()["checks"]
    assert (checks["workers"]["status"], checks["submissions"]) == ("ok", {"status": "ok", "waiting": 0})


def every_submission_comes_to_its_end(together: Together, seen: Seen, killed: dict[str, Any]) -> None:
    deadline = time.monotonic() + 40
    with together.records():
        still_open = Submission.objects.filter(ended_at=None)
        while still_open.exists():
            assert time.monotonic() < deadline, list(still_open.values("state", "worker", "deliveries"))
            # As if a minute had passed since anybody heard of the killed worker, or of the messages that it had taken:
            # then the sweeper looks after them.
            forgotten = Q(worker__endswith=f":{killed['worker']}") | Q(state="queued")
            still_open.filter(forgotten).update(due_at=datetime.now(UTC) - timedelta(seconds=1))
            together.client.send_task("signalbox.sweep", queue="signalbox")
            time.sleep(1)
        ended = Submission.objects.all()
        assert {str(pk) for pk in ended.values_list("pk", flat=True)} == set(seen.submitted)
        states = Counter(ended.values_list("state", flat=True))
        assert set(states) <= {"done", "uncertain"}
        assert states["uncertain"] <= CONCURRENCY  # what the killed worker had sent
        assert not StoredContent.objects.filter(kind="request").exists()
        assert StoredContent.objects.count() == states["done"]


def every_call_was_answered_or_in_the_hands_of_the_killed(seen: Seen, killed: dict[str, Any]) -> None:
    broken = [each for each in seen.direct if not (each.status == 200 and each.is_complete)]
    # Nothing was refused: the processes that were there took everything.
    assert {each.status for each in broken} <= {200, None}
    assert {each.web for each in broken} <= {0}
    assert len(broken) <= 2 * CALLERS
    assert all(abs(each.ended - killed["at"]) < 5 for each in broken), broken
    calls = [each.call for each in seen.direct if each.call is not None]
    assert len(set(calls)) == len(calls)


def every_row_is_there_once(together: Together, seen: Seen, killed: dict[str, Any]) -> None:
    """But for those of the killed, which were answered and not written yet."""
    direct = {str(each.call): each for each in seen.direct if each.call is not None}
    with together.records():
        submitted = {str(row.pk): row for row in Submission.objects.all()}
        lived = {call for call, each in direct.items() if each.is_complete and each.web == 1}
        lived |= {call for call, row in submitted.items() if not row.worker.endswith(f":{killed['worker']}")}
        wait_until(lambda: lived <= rows(), seconds=10)
        found = rows()
    assert found <= set(direct) | set(submitted)
    for call, each in direct.items():
        if each.is_complete and call not in found:
            assert each.web == 0
            assert killed["at"] - UNWRITTEN_SECONDS < each.ended < killed["at"] + 0.5


def rows() -> set[str]:
    """The calls that are recorded; the primary key is the call's id."""
    return {str(pk) for pk in Call.objects.values_list("pk", flat=True)}


def nobody_was_asked_twice(together: Together, seen: Seen) -> None:
    asked = together.asked_for()
    assert max(asked.values()) == 1
    with together.records():
        done = Submission.objects.filter(state="done").values_list("pk", flat=True)
        assert {asked[str(pk)] for pk in done} == {1}
    assert {asked[str(each.call)] for each in seen.direct if each.is_complete} == {1}


def workers_name_the_request_that_handed_a_call_in(together: Together, seen: Seen) -> None:
    """In the line that tells of its end, beside the route; the provider was told the call's id. A call that the sweeper
    sent again has the id of nobody's request."""
    lines = [line for worker in together.workers for line in worker.log.splitlines() if "has ended: done" in line]
    marks = [dict(pair.split("=", 1) for pair in line.split(" ") if "=" in pair) for line in lines]
    named = {each["call"]: each for each in marks if each["correlation"].startswith("order-")}
    assert named
    for call, each in named.items():
        found = (each["correlation"], each["task"], each["application"], each["provider"], each["model"])
        assert found == (seen.submitted[call], "signalbox.execute", "helpdesk", "prod-east", "fast")
