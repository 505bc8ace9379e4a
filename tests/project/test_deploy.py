"""The files of `docs/deploy/`: read as their readers would, and what they start is started.

There is no container engine here and no systemd that runs units, so the image's files are laid out in a folder and its
commands are run from there; `systemd-analyze` judges the units where it is installed.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.project.processes import ROOT, run_command, running_command
from tests.servers.ports import find_free_port
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer
from tests.servers.web import wait_until

DEPLOY = ROOT / "docs/deploy"
OURS = "signalbox"
DOCUMENTED = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions with their arguments, one line each."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def arguments(word: str) -> list[str]:
    """The arguments of every instruction of a kind in the image's last stage."""
    found = instructions()
    last = max(at for at, (each, _) in enumerate(found) if each == "FROM")
    return [rest for each, rest in found[last:] if each == word]


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return document


def our_services() -> dict[str, dict[str, Any]]:
    """The services that run the image."""
    return {name: each for name, each in compose()["services"].items() if each["image"] == OURS}


def check_variables(names: Mapping[str, Any]) -> None:
    """Every variable is one that an installation reads."""
    for name in names:
        assert f"| `{name.removesuffix('_FILE')}` |" in DOCUMENTED, name


# --- The image ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the image copies from the project's, and nothing else."""
    folder = tmp_path_factory.mktemp("image")
    for copied in arguments("COPY"):
        if copied.startswith("--from="):
            continue
        *sources, target = copied.split()
        for source in sources:
            where = folder / target / source if target.endswith("/") else folder / target
            assert (ROOT / source).exists(), source
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, where, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                where.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, where)
    return folder


def test_the_image_is_nobodys_and_holds_no_secret() -> None:
    (user,) = arguments("USER")
    assert re.fullmatch(r"[1-9][0-9]+:[1-9][0-9]+", user)  # by number, which an orchestrator can check
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert len(bases) == 2
    assert all(re.search(r":3\.11-", base) for base in bases)
    packages = next(rest for word, rest in instructions() if word == "RUN" and "requirements.lock" in rest)
    assert "--require-hashes" in packages
    assert "--only-binary :all:" in packages
    set_here = dict(pair.split("=", 1) for rest in arguments("ENV") for pair in shlex.split(rest))
    assert set(set_here) == {"PATH", "PYTHONUNBUFFERED", "SIGNALBOX_DATA_DIR", "SIGNALBOX_LOG_FORMAT"}
    assert not [word for word, _ in instructions() if word in ("ARG", "ADD", "VOLUME")]


def test_nothing_but_what_is_copied_is_sent_to_the_builder() -> None:
    lines = (DEPLOY / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    named = {rest for rule, rest in ((rule[0], rule[1:]) for rule in rules) if rule == "!"}
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from=")
        for source in rest.split()[:-1]
    }
    assert named == copied


# --- Compose --------------------------------------------------------------------------------------------------------


def test_services_name_what_exists() -> None:
    document = compose()
    services, networks, secrets = document["services"], document["networks"], document["secrets"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services), name
        assert set(service.get("networks", [])) <= set(networks), name
        assert set(service.get("secrets", [])) <= set(secrets), name
        for value in service.get("environment", {}).values():
            if str(value).startswith("/run/secrets/"):
                assert Path(value).name in service["secrets"], name
    assert set(our_services()) == {"web-1", "web-2", "worker", "beat", "migrate"}
    assert services["proxy"]["environment"]["UPSTREAMS"] == "web-1:8000 web-2:8000"
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert document["networks"]["inside"]["internal"] is True


def test_every_variable_of_a_service_is_read() -> None:
    for name, service in our_services().items():
        check_variables(service["environment"])
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name


def test_everything_waits_for_the_migration() -> None:
    waits = {name: each["depends_on"].get("migrate") for name, each in our_services().items() if name != "migrate"}
    assert set(map(json.dumps, waits.values())) == {json.dumps({"condition": "service_completed_successfully"})}


def test_the_secrets_are_made_once_and_kept_from_others(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    make = ("sh", str(DEPLOY / "secrets.sh"), str(folder))
    assert run_command(*make, environ={}).returncode == 0
    assert folder.stat().st_mode & 0o777 == 0o700
    first = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    assert set(first) == set(compose()["secrets"])
    assert run_command(*make, environ={}).returncode == 0
    assert {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()} == first
    assert first["database_password"].strip() in first["database_url"]


def environment_of(service: Mapping[str, Any], *, secrets: Path, database_url: str, redis_url: str) -> dict[str, str]:
    """A service's environment on this machine: its secrets as files, the servers where they are here."""
    made = run_command("sh", str(DEPLOY / "secrets.sh"), str(secrets), environ={})
    assert made.returncode == 0, made.stderr
    (secrets / "database_url").write_text(database_url, encoding="utf-8")
    environ = {name: str(value).replace("/run/secrets", str(secrets)) for name, value in service["environment"].items()}
    assert environ["REDIS_URL"].startswith("redis://redis:")
    return {
        **environ,
        "REDIS_URL": redis_url,
        "SIGNALBOX_ALLOWED_HOSTS": "localhost",
        "SIGNALBOX_DATA_DIR": str(secrets.parent / "data"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def test_the_commands_start_from_the_files_of_the_image(
    image: Path, tmp_path: Path, postgres_server: PostgresServer, valkey_server: ValkeyServer
) -> None:
    """The migration, a web process with the question that the engine asks about its health, a worker and beat."""
    services = our_services()
    (command,) = map(json.loads, arguments("CMD"))
    (health,) = (json.loads(rest.partition("CMD ")[2]) for rest in arguments("HEALTHCHECK"))
    port = find_free_port()
    with postgres_server.database() as url, valkey_server.database() as redis_url:
        environ = environment_of(services["web-1"], secrets=tmp_path / "secrets", database_url=url, redis_url=redis_url)
        migrate = subprocess.run(
            services["migrate"]["command"], cwd=image, env=environ, capture_output=True, text=True, check=False
        )
        assert migrate.returncode == 0, migrate.stderr
        here = [each.replace("0.0.0.0", "127.0.0.1").replace("8000", str(port)) for each in command]  # noqa: S104
        base = f"http://127.0.0.1:{port}"
        with running_command(*here, environ=environ, log=tmp_path / "log", base=base, folder=image) as web:
            answer = web.get("/readyz").json()
            assert answer["status"] == "ready", answer
            assert web.get("/static/signalbox/admin.css").status_code == 200
            page = web.get("/admin/login/", headers={"host": "localhost", "x-forwarded-proto": "https"})
            assert page.status_code == 200
            asked = [each.replace("8000", str(port)) for each in health]
            assert subprocess.run(asked, env=environ, check=False).returncode == 0
            with running_services(("worker", "beat"), folder=image, environ=environ, logs=tmp_path):
                wait_until(lambda: signs_of(web) == {"workers": "ok", "schedule": "ok"}, seconds=90)
        assert subprocess.run(asked, env=environ, stderr=subprocess.DEVNULL, check=False).returncode != 0


@contextmanager
def running_services(names: tuple[str, ...], *, folder: Path, environ: Mapping[str, str], logs: Path) -> Iterator[None]:
    """Services by their commands, until the block ends; they end in order when they are asked to."""
    processes = []
    for name in names:
        with (logs / f"{name}.log").open("wb") as output:
            command = our_services()[name]["command"]
            processes.append(subprocess.Popen(command, cwd=folder, env=environ, stdout=output, stderr=output))
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        ended = [process.wait(30) for process in processes]
    assert ended == [0] * len(names)


def signs_of(web: httpx.Client) -> dict[str, str]:
    """What a web process has heard of the others."""
    checks = web.get("/readyz").json()["checks"]
    return {name: checks[name]["status"] for name in ("workers", "schedule")}


# --- systemd --------------------------------------------------------------------------------------------------------


def unit(name: str) -> dict[str, list[str]]:
    """The settings of a unit, each with its values in order."""
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(" ".join(value.split()))
    return found


def services() -> list[str]:
    return sorted(file.name for file in (DEPLOY / "systemd").glob("*.service"))


@pytest.mark.parametrize("name", services())
def test_a_unit_has_no_more_rights_than_it_needs(name: str) -> None:
    found = unit(name)
    assert (found["User"], found["CapabilityBoundingSet"], found["NoNewPrivileges"]) == (["signalbox"], [""], ["yes"])
    assert (found["ProtectSystem"], found["ProtectHome"]) == (["strict"], ["yes"])
    assert found["EnvironmentFile"] == ["/etc/signalbox/signalbox.env"]
    assert found["WorkingDirectory"] == ["/opt/signalbox"]
    assert found["WantedBy"] == found["PartOf"] == ["signalbox.target"]
    assert found["ExecStart"][0].startswith("/opt/signalbox/.venv/bin/python -m ")


@pytest.mark.parametrize("name", services())
def test_systemd_accepts_a_unit(name: str, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed here; the units were read by the tests above")
    for file in (DEPLOY / "systemd").iterdir():
        text = file.read_text(encoding="utf-8")
        text = text.replace("/opt/signalbox/.venv/bin/python", sys.executable)
        (tmp_path / file.name).write_text(text, encoding="utf-8")
    instance = tmp_path / name.replace("@.", "@8001.")
    verified = run_command(analyze, "verify", "--man=no", str(instance), environ={})
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = run_command(analyze, "security", "--offline=yes", "--threshold=20", str(tmp_path / name), environ={})
    assert judged.returncode == 0, judged.stdout[-200:]


def test_every_way_to_start_a_worker_and_beat_is_the_same() -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    for name, service in (("signalbox-worker@.service", "worker"), ("signalbox-beat.service", "beat")):
        (started,) = unit(name)["ExecStart"]
        options = started.partition(" -m ")[2].replace(" --hostname worker-%i@%%h", "")
        assert shlex.split(options) == our_services()[service]["command"]
        assert f".venv/bin/python -m {options}\n" in page


def test_every_way_to_start_a_web_process_is_the_same() -> None:
    """The image's and the unit's options differ in the address only; the page's are tried by its own test."""
    (command,) = map(json.loads, arguments("CMD"))
    (started,) = unit("signalbox-web@.service")["ExecStart"]
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8").replace("\\\n", " ")
    (typed,) = re.findall(r"-m (uvicorn governance.*)", page)

    def options(words: list[str]) -> dict[str, str]:
        found = dict(zip(words[2:], [*words[3:], ""], strict=True))
        ours = {name: value for name, value in found.items() if name.startswith("--")}
        for differing in ("--host", "--port", "--forwarded-allow-ips", "--no-server-header"):
            ours.pop(differing, None)
        return ours

    expected = {"--lifespan": "on", "--timeout-keep-alive": "75", "--timeout-graceful-shutdown": "60"}
    assert options(command) == options(shlex.split(started)[2:]) == options(shlex.split(typed)) == expected
