"""What budgets cost a call: the same calls with and without three that apply, and many calls on one hot account.

``python -m bench.budgets [--seconds 4] [--rounds 3]``, on PostgreSQL, with two web processes. Both states take turns in
one run, so that whatever else the machine does falls on both. See bench/README.md for what was seen.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from statistics import median

import psycopg

from bench import load
from bench.gateway import ROOT, body, cpu_seconds, environment_of, process, seed, wait_until_ready, web_server
from bench.processes import spread
from tests.servers.ports import find_free_port
from tests.servers.postgres import running_postgres

SEEN_AFTER = 1.2
"""Seconds until every process has heard of a change of budgets."""

_MAKE = """
from governance.models import AccessKey, Budget
scopes = ({}, {"application": "bench-app"}, {"key": str(AccessKey.objects.get().pk)})
for number, scope in enumerate(scopes):
    Budget(identifier=f"bench-{number}", limit=10**15, is_active=False, **scope).save()
"""
_SWITCH = """
from governance.models import Budget
for budget in Budget.objects.all():
    budget.is_active = budget.identifier in {wanted!r}
    budget.save()
"""
_LEDGER = """
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4
from budgets.ledger import Claim, reserve, settle
from budgets.scopes import AccountKey, Scope
from budgets.windows import ALL_TIME
from routing.core.money import Money
for number in (1, 3):
    claims = [Claim(f"b{at}", AccountKey(Scope(user=f"u{at}"), "USD", ALL_TIME), 1000, 10**18) for at in range(number)]
    taken = []
    for _ in range(600):
        begun, now, attempt = time.perf_counter(), datetime.now(UTC), uuid4()
        reserve(attempt=attempt, call=attempt, claims=claims, now=now, expires_at=now + timedelta(minutes=10))
        settle(attempt=attempt, cost=Money(10, "USD"), now=now)
        taken.append(time.perf_counter() - begun)
    taken = sorted(taken[100:])
    median, low = taken[250] * 1000, taken[50] * 1000
    print(f"reserve and settle in {number} accounts: median {median:.2f} ms, tenth {low:.2f} ms")
"""


def run_code(code: str, environment: Mapping[str, str]) -> str:
    """Run something in a shell of the installation."""
    command = [sys.executable, "manage.py", "shell", "-v0", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


class Clock:
    """The processor's time that calls take: of the web processes, and of the sessions of their database."""

    def __init__(self, *, webs: Sequence[int], database_url: str) -> None:
        self._webs = webs
        self._url = database_url

    def read(self) -> tuple[float, float]:
        """Seconds since the processes began. Sessions that have ended are not among them: calls keep theirs."""
        with psycopg.connect(self._url) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            sessions = [pid for (pid,) in rows]
        return sum(map(cpu_seconds, self._webs)), sum(map(cpu_seconds, sessions))


def compare(
    *, ports: list[int], key: str, environment: Mapping[str, str], clock: Clock, seconds: float, rounds: int
) -> None:
    """Calls without a budget, with three, and with one, in turns."""
    states = {"none": [], "three": ["bench-0", "bench-1", "bench-2"], "one": ["bench-0"]}
    alone: dict[str, list[float]] = {name: [] for name in states}
    rates: dict[str, list[float]] = {name: [] for name in states}
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in states}
    request = load.chat_request(port=ports[0], key=key, body=body(stream=False))
    for _ in range(rounds):
        for name, wanted in states.items():
            run_code(_SWITCH.format(wanted=wanted), environment)
            time.sleep(SEEN_AFTER)
            asyncio.run(spread(ports=ports, key=key, seconds=0.5, stream=False))
            one = asyncio.run(load.run(port=ports[0], request=request, concurrency=1, seconds=seconds / 2))
            before = clock.read()
            many = asyncio.run(spread(ports=ports, key=key, seconds=seconds, stream=False))
            time.sleep(SEEN_AFTER)  # what is booked and written behind the answers belongs to them
            calls, after = sum(len(each.calls) for each in many), clock.read()
            if one.errors or any(each.errors for each in many):
                raise SystemExit("calls failed: this is no measurement")
            alone[name].append(one.percentile(50))
            rates[name].append(sum(each.rate for each in many))
            costs[name].append(((after[0] - before[0]) * 1000 / calls, (after[1] - before[1]) * 1000 / calls))
    for name in states:
        added = [with_it - without for with_it, without in zip(alone[name], alone["none"], strict=True)]
        ratios = [with_it / without for with_it, without in zip(rates[name], rates["none"], strict=True)]
        print(
            f"{name:6} budgets: one at a time {median(alone[name]):5.2f} ms (added {median(added):5.2f}), "
            f"32 at a time {median(rates[name]):5.0f}/s (ratio {median(ratios):.2f}), processor "
            f"{median(web for web, _ in costs[name]):.2f} ms a call in the web processes, "
            f"{median(database for _, database in costs[name]):.2f} in the database"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        database_url = stack.enter_context(stack.enter_context(running_postgres()).database(prefix="bench"))
        upstream, ports = find_free_port(), [find_free_port(), find_free_port()]
        environment = environment_of(folder, upstream=upstream, database_url=database_url)
        key = seed(environment, upstream=upstream, models=5)
        run_code(_MAKE, environment)
        print(run_code(_LEDGER, environment), end="")
        serve = (sys.executable, "-m", "bench.upstream", str(upstream))
        stack.enter_context(process(*serve, environment=environment, core=None))
        application = "governance.project.asgi:application"
        webs = [stack.enter_context(web_server(application, port, environment, core=None)) for port in ports]
        for port in ports:
            wait_until_ready(port, key)
        clock = Clock(webs=[each.pid for each in webs], database_url=database_url)
        compare(
            ports=ports,
            key=key,
            environment=environment,
            clock=clock,
            seconds=arguments.seconds,
            rounds=arguments.rounds,
        )
        subprocess.run([sys.executable, "manage.py", "check_ledger"], cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    main()
