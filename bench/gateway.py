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
def process(*command: str, environment: dict[str, str], core: int) -> Iterator[subprocess.Popen[bytes]]:
    """A child on one core, ended with the block."""
    cores = sorted(os.sched_getaffinity(0))
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
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


async def measure(*, ports: dict[str, int], key: str, gateway: int, seconds: float, stream: bool) -> None:
    """One table: direct and through the gateway, at one call at a time and at 32."""
    what = "streams" if stream else "whole calls"
    for concurrency in (1, 32):
        samples = {}
        cpu = 0.0
        for name, port in ports.items():
            request = load.chat_request(port=port, key=key, body=body(stream=stream))
            await load.run(port=port, request=request, concurrency=concurrency, seconds=0.5)
            before = cpu_seconds(gateway)
            samples[name] = await load.run(port=port, request=request, concurrency=concurrency, seconds=seconds)
            if name == "gateway":
                cpu = (cpu_seconds(gateway) - before) * 1000 / len(samples[name].calls)
        direct, through = samples["direct"], samples["gateway"]
        added = through.percentile(50) - direct.percentile(50)
        print(
            f"{what:12} {concurrency:3} at a time: direct {direct.rate:8.0f}/s, through {through.rate:7.0f}/s, "
            f"ratio {through.rate / direct.rate:.3f}; p50 +{added:.2f} ms, p99 {through.percentile(99):.1f} ms, "
            f"first byte +{through.first_byte() - direct.first_byte():.2f} ms, "
            f"CPU {cpu:.2f} ms/call, memory {memory_megabytes(gateway):.0f} MB, errors {through.errors}"
        )


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
        stack.enter_context(
            process(sys.executable, "-m", "bench.upstream", str(upstream), environment=environment, core=1)
        )
        web = stack.enter_context(
            process(
                sys.executable,
                "-m",
                "uvicorn",
                "governance.project.asgi:application",
                "--port",
                str(port),
                "--log-level",
                "warning",
                "--no-access-log",
                environment=environment,
                core=0,
            )
        )
        wait_until_ready(port, key)
        print(f"database {arguments.database}, {arguments.models} models, one gateway process")
        ports = {"direct": upstream, "gateway": port}
        for stream in (False, True):
            asyncio.run(measure(ports=ports, key=key, gateway=web.pid, seconds=arguments.seconds, stream=stream))


if __name__ == "__main__":
    main()
