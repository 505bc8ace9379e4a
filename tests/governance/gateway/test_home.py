"""The loop that a process's calls live on: the server's, or one of its own; never a parent's."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from governance.gateway import home
from governance.gateway.home import CalledFromTheWrongPlace
from governance.gateway.service import Service, opened_service
from routing.core.failures import CallFailed, FailureKind
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Gateway


async def name_of_thread(service: Service) -> str:
    assert asyncio.get_running_loop() is service.loop
    return threading.current_thread().name


@pytest.fixture
def own(tables: None, tls: None) -> Iterator[None]:
    """A process without a server."""
    yield
    home.close()


def test_in_a_server_it_is_the_servers(gateway: Gateway) -> None:
    assert home.wait(name_of_thread, seconds=5) == "gateway-under-test"
    home.close()  # not ours to close
    assert home.wait(name_of_thread, seconds=5) == "gateway-under-test"


@pytest.mark.usefixtures("own")
def test_elsewhere_it_is_one_of_its_own_started_when_it_is_needed() -> None:
    assert opened_service() is None
    with ThreadPoolExecutor(4) as pool:
        names = set(pool.map(lambda _: home.wait(name_of_thread, seconds=20), range(8)))
    assert names == {"signalbox-calls"}
    assert len([each for each in threading.enumerate() if each.name == "signalbox-calls"]) == 1
    home.close()
    assert opened_service() is None
    assert not [each for each in threading.enumerate() if each.name == "signalbox-calls"]
    assert home.wait(name_of_thread, seconds=20) == "signalbox-calls"  # and it opens again


@pytest.mark.usefixtures("own")
def test_a_gateway_that_takes_long_to_open_is_a_call_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    answering = threading.Event()
    read = Service._read

    def hang(self: Service) -> None:
        answering.wait(5)
        read(self)

    monkeypatch.setattr(Service, "_read", hang)
    monkeypatch.setattr(home, "SECONDS_TO_OPEN", 0.1)
    with pytest.raises(CallFailed, match="still being opened") as failed:
        home.wait(name_of_thread)
    assert failed.value.failure.kind is FailureKind.TRANSIENT
    answering.set()
    assert home.wait(name_of_thread, seconds=5) == "signalbox-calls"


@pytest.mark.usefixtures("own")
def test_a_call_inside_a_transaction_is_refused() -> None:
    with transaction.atomic(), pytest.raises(CalledFromTheWrongPlace, match=r"transaction\.on_commit"):
        home.wait(name_of_thread, seconds=5)
    assert opened_service() is None


async def test_a_call_on_an_event_loop_is_refused() -> None:
    with pytest.raises(CalledFromTheWrongPlace, match=r"asyncio\.to_thread"):
        home.wait(name_of_thread, seconds=5)


def test_who_waits_no_longer_cancels(gateway: Gateway) -> None:
    ended = threading.Event()

    async def sleep(_: Service) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    started = time.monotonic()
    with pytest.raises(CallFailed, match=r"within 0\.1 seconds") as failed:
        home.wait(sleep, seconds=0.1)
    assert failed.value.failure.kind is FailureKind.TIMEOUT
    assert ended.wait(5)
    assert time.monotonic() - started < 5


def test_what_goes_wrong_comes_back(gateway: Gateway) -> None:
    async def fail(_: Service) -> None:
        raise TimeoutError("from within")

    for seconds in (5.0, None):
        with pytest.raises(TimeoutError, match="from within"):
            home.wait(fail, seconds=seconds)


FORKING = """
import os, sys, threading
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from governance.gateway import home

async def who(service):
    return f"{os.getpid()} {threading.current_thread().name}"

mine = home.wait(who, seconds=30)
child = os.fork()
theirs = home.wait(who, seconds=30)
assert theirs == f"{os.getpid()} signalbox-calls", theirs
home.close()
if child == 0:
    os._exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7
assert mine == theirs
print("both")
"""


def test_a_child_has_a_loop_of_its_own_after_a_fork(tmp_path: object) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environ |= {
        "SIGNALBOX_DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "governance.project.settings.installation",
    }
    done = subprocess.run(
        [sys.executable, "-c", FORKING], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "both\n"), done.stderr


ENDING = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from governance.changes.records import save_record
from governance.audit.actions import Author, Channel
from governance.models import Application
save_record(Application(identifier="nightly", may_run_tasks=True), author=Author("a test", Channel.COMMAND))
from governance.calls import run
from routing.core.failures import CallFailed
try:
    run(application="nightly", request={"model": "nonesuch", "messages": [{"role": "user", "content": "?"}]})
except CallFailed as failed:
    print(failed.failure.code, failed.call_id)
"""


def test_a_program_that_just_ends_has_written_the_records_of_its_calls(tmp_path: object) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environ |= {
        "SIGNALBOX_DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "governance.project.settings.installation",
    }
    told = subprocess.run(
        [sys.executable, "-c", ENDING], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0, told.stderr
    code, call = told.stdout.split()
    assert code == "model_not_found"
    assert "Traceback" not in told.stderr
    count = subprocess.run(
        [
            sys.executable,
            "-c",
            "import django; django.setup(); from telemetry.models import Call; print(Call.objects.get().pk)",
        ],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert count.stdout.strip() == call


SPENDING = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from tests import factories as made
provider = made.ProviderFactory(identifier="prod-east", adapter_type="openai", base_url="{url}", reach="self_hosted")
model = made.LanguageModelFactory(provider=provider, capabilities=[])
made.PriceFactory(model=model)
made.ConfigurationFactory(listed=True, models=[model])
made.ApplicationFactory(identifier="nightly", may_run_tasks=True)
made.BudgetFactory(identifier="all", application="", limit=10**12)
from governance.gateway import bookkeeper
bookkeeper.GATHER_SECONDS = 60.0
from governance.calls import run
run(application="nightly", request={{"model": "support-chat", "messages": [{{"role": "user", "content": "?"}}]}})
from budgets.models import Hold
print(Hold.objects.count())
"""

BOOKED = """
import django
django.setup()
from budgets.models import Entry, Hold
print(*Entry.objects.order_by("pk").values_list("kind", flat=True), Hold.objects.count())
"""


def test_a_program_that_just_ends_has_booked_what_its_calls_cost(tmp_path: object, world: World) -> None:
    provider = world.upstreams[0]
    environ = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environ |= {
        "SIGNALBOX_DATA_DIR": str(tmp_path),
        "SIGNALBOX_OUTBOUND_ALLOW": f"127.0.0.1:{provider.port}",
        "DJANGO_SETTINGS_MODULE": "governance.project.settings.installation",
    }
    told = [
        subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        for code in (SPENDING.format(url=provider.url), BOOKED)
    ]
    assert [each.returncode for each in told] == [0, 0], [each.stderr for each in told]
    assert [each.stdout for each in told] == ["1\n", "reserved settled 0\n"]
