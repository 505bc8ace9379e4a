"""What a call through Signalbox costs beside the same call sent directly, in one run on one machine.

``python -m bench.gateway [--database postgres|sqlite] [--seconds 5]``. The gateway has one core for itself where there
are two; load and upstream share the other. See bench/README.md for what was seen.
"""

import argparse
import asyncio
import base64
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import load
from tests.servers.ports import find_free_port
from tests.servers.postgres import running_postgres

ROOT = Path(__file__).resolve().parents[1]

_SEED = """
from django.utils import timezone
from governance.audit.actions import Author, Channel
from governance.changes.keys import issue_key
from governance.models import AccessKey, Application
from routing.models import Configuration, LanguageModel, Price, Provider
provider = Provider(identifier="bench-host", adapter_type="openai", base_url="{upstream}", reach="self_hosted")
provider.save()
for number in range({models}):
    model = LanguageModel(identifier=f"bench-{{number}}", model_id="bench-model", provider=provider)
    model.capabilities = ["chat"]
    model.save()
    Price(model=model, valid_from=timezone.now(), input_rate=10**9, output_rate=10**9).save()
Configuration(identifier="bench", selection="criteria", policy_mode="balanced").save()
application = Application(identifier="bench-app")
application.save()
key = AccessKey(application=application, name="bench")
print("KEY", issue_key(key, author=Author("bench", Channel.COMMAND)))
"""


@contextmanager
def process(*command: str, environment: dict[str, str], core: int | None) -> Iterator[subprocess.Popen[bytes]]:
    """A child on one core, or wherever the system puts it; ended with the block."""
    cores = sorted(os.sched_getaffinity(0))
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    if core is not None:
        os.sched_setaffinity(child.pid, {cores[core % len(cores)]})
    try:
        yield child
    finally:
        child.terminate()
        child.wait()


def environment_of(folder: str, *, upstream: int, database_url: str) -> dict[str, str]:
    """An installation of its own."""
    environment = {
        **os.environ,
        "SIGNALBOX_SECRET_KEY": secrets.token_urlsafe(64),
        "SIGNALBOX_ENCRYPTION_KEYS": f"bench:{base64.b64encode(secrets.token_bytes(32)).decode()}",
        "SIGNALBOX_DATA_DIR": folder,
        "SIGNALBOX_INSECURE_HTTP": "1",
        "SIGNALBOX_LOG_LEVEL": "WARNING",
        "SIGNALBOX_OUTBOUND_ALLOW": f"127.0.0.1:{upstream}",
    }
    if database_url:
        environment["DATABASE_URL"] = database_url
    return environment


def seed(environment: dict[str, str], *, upstream: int, models: int) -> str:
    """Migrate and register the upstream; gives a virtual key."""
    manage = [sys.executable, "manage.py"]
    subprocess.run([*manage, "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
    code = _SEED.format(upstream=f"http://127.0.0.1:{upstream}/v1", models=models)
    said = subprocess.run(
        [*manage, "shell", "-v0", "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    ).stdout
    return said.split("KEY ")[1].strip()


def wait_until_ready(port: int, key: str) -> None:
    """Until the gateway lists its models."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models", headers={"authorization": f"Bearer {key}"})
    for _ in range(200):
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310  # a fixed http address
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    raise SystemExit("the gateway did not start")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_megabytes(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def body(*, stream: bool) -> bytes:
    """The request, as an SDK spells it."""
    content = {"model": "bench", "messages": [{"role": "user", "content": "How much is the fish?"}]}
    return json.dumps({**content, "stream": True} if stream else content, separators=(",", ":")).encode()


async def measure(*, ports: dict[str, int], pids: dict[str, int], key: str, seconds: float, stream: bool) -> None:
    """One line for each way and each concurrency: direct, through the least a gateway can be, through Signalbox."""
    for concurrency in (1, 32):
        samples: dict[str, load.Sample] = {}
        for name, port in ports.items():
            request = load.chat_request(port=port, key=key, body=body(stream=stream))
            await load.run(port=port, request=request, concurrency=concurrency, seconds=0.5)
            before = cpu_seconds(pids[name])
            samples[name] = await load.run(port=port, request=request, concurrency=concurrency, seconds=seconds)
            report(
                name=f"{'streams' if stream else 'whole'} at {concurrency:2}, {name}",
                sample=samples[name],
                direct=samples["direct"],
                cpu=(cpu_seconds(pids[name]) - before) * 1000 / len(samples[name].calls),
                memory=memory_megabytes(pids[name]),
            )


def report(*, name: str, sample: load.Sample, direct: load.Sample, cpu: float, memory: float) -> None:
    """Print one line."""
    print(
        f"{name:24} {sample.rate:7.0f}/s  ratio {sample.rate / direct.rate:.3f}  "
        f"p50 +{sample.percentile(50) - direct.percentile(50):7.2f} ms  p99 {sample.percentile(99):7.2f} ms  "
        f"first byte +{sample.first_byte() - direct.first_byte():7.2f} ms  CPU {cpu:.2f} ms/call  "
        f"{memory:.0f} MB  {sample.errors} errors"
    )


@contextmanager
def web_server(
    application: str, port: int, environment: dict[str, str], *, core: int | None = 0
) -> Iterator[subprocess.Popen[bytes]]:
    """An application under uvicorn, one process on the first core unless another, or none, is said."""
    uvicorn = (sys.executable, "-m", "uvicorn", application, "--port", str(port))
    quiet = ("--log-level", "warning", "--no-access-log")
    with process(*uvicorn, *quiet, environment=environment, core=core) as child:
        yield child


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--models", type=int, default=20)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        database_url = ""
        if arguments.database == "postgres":
            server = stack.enter_context(running_postgres())
            database_url = stack.enter_context(server.database(prefix="bench"))
        upstream, port = find_free_port(), find_free_port()
        environment = environment_of(folder, upstream=upstream, database_url=database_url)
        key = seed(environment, upstream=upstream, models=arguments.models)
        serve = (sys.executable, "-m", "bench.upstream", str(upstream))
        direct = stack.enter_context(process(*serve, environment=environment, core=1))
        bare = find_free_port()
        handing_on = {**environment, "UPSTREAM": f"http://127.0.0.1:{upstream}"}
        least = stack.enter_context(web_server("bench.bare:application", bare, handing_on))
        web = stack.enter_context(web_server("governance.project.asgi:application", port, environment))
        wait_until_ready(port, key)
        print(f"database {arguments.database}, {arguments.models} models, one process each")
        ports = {"direct": upstream, "bare": bare, "signalbox": port}
        pids = {"direct": direct.pid, "bare": least.pid, "signalbox": web.pid}
        for stream in (False, True):
            asyncio.run(measure(ports=ports, pids=pids, key=key, seconds=arguments.seconds, stream=stream))


if __name__ == "__main__":
    main()
