"""`manage.py demo` as somebody at a terminal meets it: real processes, real HTTP, and no process left behind."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from governance.demo.running import is_free
from tests.project.processes import ROOT
from tests.servers.ports import find_free_port

SECONDS_TO_START = 120.0
SECONDS_TO_STOP = 20.0
SPEED = "60"


@dataclass
class Terminal:
    """A demo that was started on a folder, and what it has printed so far."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def printed(self) -> str:
        return self.folder.with_suffix(".out").read_text(encoding="utf-8")

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        return (self.folder / "virtual-key").read_text(encoding="utf-8").strip()

    def start(self) -> None:
        with self.folder.with_suffix(".out").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "demo", *self.options],
                cwd=ROOT,
                env=environment(self.folder, PORT=str(self.port), DEMO_SPEED=SPEED, RESET=""),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_until_it_runs(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while "Ctrl-C stops everything" not in self.printed:
            assert self.process.poll() is None, self.printed
            assert time.monotonic() < deadline, self.printed
            time.sleep(0.1)

    def children(self) -> dict[str, int]:
        """The processes it has started, by what they are."""
        found = {}
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(status.read_text().rsplit(")", 1)[1].split()[1])
                command = (status.parent / "cmdline").read_text()
            except OSError:
                continue
            if parent == self.process.pid:
                name = next(name for name in ("simulator", "uvicorn", "celery", "traffic") if name in command)
                found[name] = int(status.parent.name)
        return found

    def ask(self, **fields: object) -> httpx.Response:
        body = {"model": "support-chat", "messages": [{"role": "user", "content": "Where is my parcel?"}], **fields}
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.post(f"{self.base}/v1/chat/completions", json=body, headers=headers, timeout=20, trust_env=False)

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(SECONDS_TO_STOP)


def environment(folder: Path, **variables: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "SIGNALBOX_DATA_DIR": str(folder),
        **variables,
    }


def run_demo(folder: Path, *options: str, command: str = "demo", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", command, *options],
        cwd=ROOT,
        env=environment(folder, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_START,
        check=False,
    )


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and is waited for by nobody yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def assert_nothing_is_left(demo: Terminal, children: dict[str, int]) -> None:
    deadline = time.monotonic() + SECONDS_TO_STOP
    while any(is_alive(pid) for pid in children.values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {name for name, pid in children.items() if is_alive(pid)} == set()
    assert is_free(demo.port)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """The first start of a demo, which runs for as long as the module's tests do."""
    demo = Terminal(folder=tmp_path_factory.mktemp("demo") / "data", port=find_free_port())
    demo.start()
    try:
        demo.wait_until_it_runs()
        yield demo
    finally:
        demo.process.terminate()
        demo.process.wait(SECONDS_TO_STOP)


@pytest.fixture(scope="module")
def seeded_folder(first: Terminal, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a demo as it was left, copied while the demo runs on."""
    folder = tmp_path_factory.mktemp("left") / "data"
    shutil.copytree(first.folder, folder, ignore=shutil.ignore_patterns("*.sqlite3*", "logs"))
    with (
        closing(sqlite3.connect(first.folder / "signalbox.sqlite3")) as source,
        closing(sqlite3.connect(folder / "signalbox.sqlite3")) as copy,
    ):
        source.backup(copy)
    # The note that the database is the demo's own names the database by its place.
    mark = folder / "demo-database"
    mark.write_text(mark.read_text(encoding="utf-8").replace(str(first.folder), str(folder)), encoding="utf-8")
    return folder


@pytest.fixture
def own_folder(seeded_folder: Path, tmp_path: Path) -> Path:
    """The folder of a demo that does not run, for one test alone."""
    folder = tmp_path / "data"
    shutil.copytree(seeded_folder, folder)
    mark = folder / "demo-database"
    mark.write_text(mark.read_text(encoding="utf-8").replace(str(seeded_folder), str(folder)), encoding="utf-8")
    return folder


@pytest.fixture
def again(own_folder: Path) -> Iterator[Terminal]:
    """A demo to be started on data that is there already."""
    demo = Terminal(folder=own_folder, port=find_free_port())
    yield demo
    demo.process.terminate()
    demo.process.wait(SECONDS_TO_STOP)


# --- While it runs --------------------------------------------------------------------------------------------------


def test_it_prints_all_that_one_needs(first: Terminal) -> None:
    printed = first.printed
    for expected in (f"{first.base}/admin/", f"{first.base}/v1", "virtual-key", "logs/", "demo --history on"):
        assert expected in printed
    for role in ("operator", "auditor"):
        password = re.search(rf"Log in as +{role} +(\S+)", printed)
        assert password is not None
        assert (first.folder / f"{role}-password").read_text(encoding="utf-8").strip() == password[1]
    for name in ("virtual-key", "operator-password", "auditor-password", "traffic-keys.json", "keys.json"):
        assert (first.folder / name).stat().st_mode & 0o777 == 0o600
    assert set(first.children()) == {"simulator", "uvicorn", "celery", "traffic"}


def test_the_printed_commands_work(first: Terminal) -> None:
    commands = re.findall(r"^     (curl .*|for .*|.* explain .*)$", first.printed, flags=re.MULTILINE)
    whole, streamed, explained, handed_in, waited_for, batch, vectors, refused, stepped = (
        subprocess.run(
            ["bash", "-c", command.replace("curl ", "curl -sS --noproxy '*' ", 1)],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for command in commands
    )
    assert "x-signalbox-route: atlas-cloud/deep-chat" in whole
    assert "Simulated answer to: Where is my parcel?" in whole
    assert streamed.count("data: ") > 10
    assert streamed.rstrip().endswith("data: [DONE]")
    assert "As expected." in explained
    assert " 202 " in handed_in.splitlines()[0]
    assert "\nlocation: /api/v1/calls/" in handed_in.lower()
    answered = json.loads(waited_for)
    assert answered["state"] == "done"
    assert "Simulated answer to: Where is my parcel?" in json.dumps(answered["answer"])
    assert json.loads(batch)["size"] == 2
    assert "x-signalbox-route: atlas-cloud/help-vectors" in vectors
    assert "x-signalbox-cost: " in vectors
    assert vectors.count('"embedding":[') == 2
    assert " 402 " in refused.splitlines()[0]
    told = json.loads(refused.splitlines()[-1])["error"]["details"]
    assert (told["budget"], told["limit"], told["currency"]) == ("your-day", "1", "USD")
    routes = re.findall(r"^x-signalbox-route: (\S+)", stepped, flags=re.MULTILINE)
    assert routes == ["atlas-cloud/deep-chat", "atlas-cloud/swift-chat", "citadel-cellar/cellar-steady"]


@pytest.mark.parametrize("role", ["operator", "auditor"])
def test_they_get_in(first: Terminal, role: str) -> None:
    with httpx.Client(base_url=first.base, trust_env=False, follow_redirects=True, timeout=20) as browser:
        browser.get("/admin/login/")
        answer = browser.post(
            "/admin/login/?next=/admin/",
            data={
                "username": role,
                "password": (first.folder / f"{role}-password").read_text(encoding="utf-8").strip(),
                "csrfmiddlewaretoken": browser.cookies["csrftoken"],
            },
            headers={"referer": f"{first.base}/admin/login/"},
        )
    assert answer.status_code == 200
    assert answer.url.path == "/admin/"


def test_switching_the_history_on_changes_who_answers(first: Terminal) -> None:
    assert first.ask().headers["x-signalbox-route"] == "atlas-cloud/deep-chat"
    switched = run_demo(first.folder, "--history", "on")
    assert switched.returncode == 0, switched.stderr
    assert "routing.callHistory is on" in switched.stdout
    try:
        deadline = time.monotonic() + 10
        while first.ask().headers["x-signalbox-route"] != "atlas-cloud/swift-chat":
            assert time.monotonic() < deadline, "the faster model never won"
            time.sleep(0.2)
    finally:
        assert run_demo(first.folder, "--history", "off").returncode == 0


def test_calls_keep_coming(first: Terminal) -> None:
    log = first.folder / "logs" / "traffic.log"
    deadline = time.monotonic() + 60
    while len(re.findall(r": 200 in ", log.read_text(encoding="utf-8"))) < 2:
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.5)
    with closing(sqlite3.connect(first.folder / "signalbox.sqlite3")) as database:
        sources = database.execute("SELECT DISTINCT source FROM telemetry_call").fetchall()
    assert sources == [("demo",)], "the visitor's calls are marked too, by their key"


def test_a_second_demo_on_the_same_folder_says_what_to_do(first: Terminal) -> None:
    second = run_demo(first.folder, PORT=str(find_free_port()))
    assert second.returncode == 1
    assert re.search(rf"already \(process {first.process.pid}\).*SIGNALBOX_DATA_DIR", second.stderr)


# --- Starting ---------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_said_before_anything_is_done(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run_demo(tmp_path / "data", PORT=str(port), RESET="1")
    assert result.returncode == 1
    assert f"Port {port} is taken. Choose another one: make demo PORT={port + 1}" in result.stderr
    assert not list((tmp_path / "data").glob("signalbox.sqlite3"))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PORT": "high"}, "argument --port: 'high' is no number of a port; choose one from 1 to 65535"),
        ({"PORT": "99999"}, "argument --port: 99999 is no port; choose one from 1 to 65535"),
        ({"PORT": "0"}, "argument --port: 0 is no port to listen at; choose one from 1 to 65535"),
        ({"DEMO_SPEED": "0"}, "argument --speed: '0' is no speed; choose a number above 0, such as 10"),
        ({"DEMO_SPEED": "nan"}, "argument --speed: 'nan' is no speed; choose a number above 0, such as 10"),
        ({"SIGNALBOX_DATA_DIR": "demo-data"}, "SIGNALBOX_DATA_DIR is 'demo-data', which is a relative path."),
    ],
    ids=["no number", "no port", "any port", "no speed", "no speed either", "no folder"],
)
def test_a_variable_that_cannot_be_used_is_named(tmp_path: Path, variables: dict[str, str], expected: str) -> None:
    result = run_demo(tmp_path / "data", **variables)
    assert result.returncode != 0
    assert expected in result.stderr.strip().splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "data" / "signalbox.sqlite3").exists()
    assert not (ROOT / "demo-data").exists()  # nothing was written before it was refused


def test_the_demo_is_removed_by_its_command_alone(first: Terminal, own_folder: Path) -> None:
    """Nobody has to know the keys that the demo has made for itself; a demo that runs is not pulled away."""
    refused = run_demo(first.folder, "--yes", command="remove_demo")
    assert refused.returncode == 1
    assert "already (process" in refused.stderr
    removed = run_demo(own_folder, "--yes", command="remove_demo")
    assert removed.returncode == 0, removed.stderr
    assert re.match(r"Removed: .*\b4 providers\b", removed.stdout)
    assert not (own_folder / "virtual-key").exists()
    assert "There was nothing of the demo." in run_demo(own_folder, "--yes", command="remove_demo").stdout


def test_a_second_start_keeps_everything(again: Terminal, seeded_folder: Path) -> None:
    again.start()
    again.wait_until_it_runs()
    for name in ("virtual-key", "operator-password", "keys.json"):
        assert (again.folder / name).read_text() == (seeded_folder / name).read_text()
    added = re.search(r"(\d+) calls added", again.printed)
    assert added is not None
    assert int(added[1]) < 100
    assert again.ask().status_code == 200


def test_a_reset_starts_afresh(again: Terminal, seeded_folder: Path) -> None:
    assert run_demo(again.folder, "--history", "on").returncode == 0
    again.options = ("--reset",)
    again.start()
    again.wait_until_it_runs()
    assert (again.folder / "virtual-key").read_text() != (seeded_folder / "virtual-key").read_text()
    added = re.search(r"(\d+) calls added", again.printed)
    assert added is not None
    assert int(added[1]) > 6000
    assert again.ask().headers["x-signalbox-route"] == "atlas-cloud/deep-chat", "the switch is off again"


# --- Stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_stops_everything(again: Terminal, number: signal.Signals) -> None:
    again.start()
    again.wait_until_it_runs()
    children = again.children()
    assert set(children) == {"simulator", "uvicorn", "celery", "traffic"}
    assert again.stop(number) == 0, again.printed
    assert_nothing_is_left(again, children)
    assert f"Stopped ({number.name}). The demo is kept in" in again.printed
    assert "Traceback" not in again.printed


def test_a_signal_before_anything_runs_stops_it_as_well(again: Terminal) -> None:
    again.start()
    deadline = time.monotonic() + SECONDS_TO_START
    while "Preparing" not in again.printed:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert again.stop(signal.SIGTERM) == 0
    assert "Traceback" not in again.printed
    assert is_free(again.port)


@pytest.mark.parametrize(("command", "name"), [("uvicorn", "web"), ("traffic", "traffic")])
def test_a_process_that_falls_takes_the_others_along(again: Terminal, command: str, name: str) -> None:
    again.start()
    again.wait_until_it_runs()
    children = again.children()
    os.kill(children[command], signal.SIGKILL)
    assert again.process.wait(SECONDS_TO_STOP) == 1
    assert f"The {name} process ended by itself (exit code -9)" in again.printed
    assert f"{name}.log" in again.printed
    assert_nothing_is_left(again, children)


def test_even_a_parent_that_is_killed_leaves_nobody_behind(again: Terminal) -> None:
    again.start()
    again.wait_until_it_runs()
    children = again.children()
    again.stop(signal.SIGKILL)
    assert_nothing_is_left(again, children)
