"""What the Governance tab's readouts cost over many calls.

``python -m bench.readouts [--database postgres|sqlite] [--calls 300000] [--decided 0.8] [--explain]``. The calls are
spread evenly over seven days, twelve configurations, seven operations and twenty models of four providers.
"""

import argparse
import base64
import os
import random
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import django
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from routing.core.vocabulary import Operation
from tests.servers.postgres import running_postgres

if TYPE_CHECKING:
    from telemetry.models import Call

WEEK = timedelta(days=7)
REPEATS = 7
BATCH = 5000


def furnish(folder: str, database_url: str) -> None:
    """The environment of an installation of its own, and Django in it."""
    os.environ["SIGNALBOX_SECRET_KEY"] = secrets.token_urlsafe(64)
    os.environ["SIGNALBOX_ENCRYPTION_KEYS"] = f"bench:{base64.b64encode(secrets.token_bytes(32)).decode()}"
    os.environ["SIGNALBOX_DATA_DIR"] = folder
    os.environ["SIGNALBOX_INSECURE_HTTP"] = "1"
    os.environ["DJANGO_SETTINGS_MODULE"] = "governance.project.settings.installation"
    if database_url:
        os.environ["DATABASE_URL"] = database_url
    django.setup()
    call_command("migrate", verbosity=0)


def calls(number: int, *, decided: float, now: datetime) -> Iterator["Call"]:
    """Calls of the last seven days, the oldest first."""
    from telemetry.models import Call  # noqa: PLC0415  # there are no models before Django is set up
    from telemetry.records import new_call_id  # noqa: PLC0415

    draw, operations = random.Random(number), list(Operation)
    for index in range(number):
        model, failed = draw.randrange(20), draw.random() < 0.03
        route = {"provider": f"provider-{model % 4}", "adapter_type": ("openai", "vllm")[model % 2]}
        route |= {"model": f"model-{model}", "model_id": f"vendor-model-{model}"}
        moved = draw.random() < decided
        yield Call(
            id=new_call_id(),
            started_at=now - WEEK * (1 - index / number),
            requested=f"configuration-{draw.randrange(12)}",
            operation=operations[min(draw.randrange(12), 6)],
            application="bench",
            key="5f0c7c0e-9b7e-4a44-a1bd-0f6f3a7b9d21",
            source="bench",
            served_configuration="configuration",
            **{f"first_{name}": value for name, value in route.items()},
            **({} if failed else {f"served_{name}": value for name, value in route.items()}),
            first_failure_kind="transient" if failed else "",
            success=not failed,
            failure_kind="transient" if failed else "",
            latency_ms=round(draw.lognormvariate(7, 1), 3),
            policy_mode="balanced" if moved else "",
            candidates=20 if moved else None,
            routing_signal_quality=moved,
            routing_signal_health=moved and draw.random() < 0.9,
            routing_signal_latency=moved and draw.random() < 0.4,
            usage_coverage="absent" if failed else "exact",
            actual_cost_nanos=None if failed else draw.randrange(10**7),
            cost_currency="" if failed else "USD",
        )


def fill(number: int, *, decided: float, now: datetime) -> None:
    """Write the calls; on PostgreSQL as a table at rest, which a server's own housekeeping makes it."""
    from telemetry.models import Call  # noqa: PLC0415

    rows = calls(number, decided=decided, now=now)
    while batch := list(islice(rows, BATCH)):
        Call.objects.bulk_create(batch)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


def readouts(now: datetime) -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    from telemetry.readouts.decisions import read_routed_calls  # noqa: PLC0415
    from telemetry.readouts.operations import read_operations  # noqa: PLC0415
    from telemetry.readouts.signals import read_signals  # noqa: PLC0415

    since = now - WEEK
    return {
        "signals used, 7 days": lambda: read_signals(since=since, now=now),
        "signals used, 24 hours": lambda: read_signals(since=now - timedelta(days=1), now=now),
        "operations, 7 days": lambda: read_operations(since=since, now=now),
        "routed calls": lambda: read_routed_calls(since=since, now=now),
        "routed calls of one configuration and operation": lambda: read_routed_calls(
            since=since, now=now, configuration="configuration-3", operation="embed"
        ),
        "routed calls of an unheard-of operation": lambda: read_routed_calls(since=since, now=now, operation="dance"),
    }


def measure(name: str, read: Callable[[], Any]) -> None:
    """Print one line: the median and the best of some repeats."""
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        read()
        taken.append((time.perf_counter() - began) * 1000)
    print(f"{name:50} {statistics.median(taken):8.1f} ms   best {min(taken):8.1f} ms")


def explain(read: Callable[[], Any]) -> None:
    """Print how PostgreSQL goes about each query."""
    with CaptureQueriesContext(connection) as queries:
        read()
    with connection.cursor() as cursor:
        for query in queries.captured_queries:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {query['sql']}")
            print(*("    " + line for (line,) in cursor.fetchall()), sep="\n", end="\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--calls", type=int, default=300_000)
    parser.add_argument("--decided", type=float, default=0.8, help="the share of calls that were decided")
    parser.add_argument("--explain", action="store_true", help="show the plans (PostgreSQL)")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        database_url = ""
        if arguments.database == "postgres":
            server = stack.enter_context(running_postgres())
            database_url = stack.enter_context(server.database(prefix="bench"))
        furnish(folder, database_url)
        now = datetime.now(UTC)
        fill(arguments.calls, decided=arguments.decided, now=now)
        print(f"{arguments.calls:,} calls, {arguments.decided:.0%} decided, {arguments.database}")
        for name, read in readouts(now).items():
            measure(name, read)
            if arguments.explain:
                explain(read)
        connection.close()


if __name__ == "__main__":
    main()
