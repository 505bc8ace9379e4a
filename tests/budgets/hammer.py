"""A process that reserves and settles as fast as it can until it is killed: `test_hammer` starts several.

It reads what it needs from standard input as JSON: the database, a seed. What it knows to be booked it writes to
standard output, a line each, after the transaction: what is not written may or may not have happened.
"""

import json
import random
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import django
from django.conf import settings

ONE = 1_000_000_000
ROLLOVER = datetime(2026, 11, 30, 23, tzinfo=UTC)
"""The end of a day and of a month in Berlin."""

LIMITS = [0, 3 * ONE, 20 * ONE, 400 * ONE, None]
"""A limit that is edited all the time; ``None`` is soft."""


def main(*, database: dict[str, Any], seed: int) -> None:
    settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["budgets"], USE_TZ=True)
    django.setup()
    work(random.Random(seed))


def work(draw: random.Random) -> None:
    # After the settings are there.
    from budgets.ledger import Claim, OverBudget, release, reserve, settle  # noqa: PLC0415
    from budgets.scopes import EACH, BudgetSpec, Scope, Subject  # noqa: PLC0415
    from budgets.windows import WindowKind  # noqa: PLC0415
    from routing.core.money import Money  # noqa: PLC0415

    budgets = [
        BudgetSpec("installation", Scope(), "USD", 0, window=WindowKind.DAY, zone="Europe/Berlin"),
        BudgetSpec("team", Scope(application="helpdesk"), "USD", 0, window=WindowKind.MONTH, zone="Europe/Berlin"),
        BudgetSpec("people", Scope(user=EACH), "USD", 0, window=WindowKind.TOTAL),
    ]
    done = []
    while True:
        now = ROLLOVER + timedelta(seconds=draw.choice([-5, -1, 0, 1, 5, 90_000]))  # the clock jumps
        subject = Subject("helpdesk", "key-1", draw.choice(["agent-17", "agent-18"]), "support-chat", "prod-east")
        chosen = draw.sample(budgets, draw.randint(1, 3))
        amount = draw.randrange(ONE // 5)
        claims = [
            Claim(each.identifier, each.account_of(subject, moment=now), amount, draw.choice(LIMITS)) for each in chosen
        ]
        attempt = uuid4()
        try:
            for _ in range(draw.choice([1, 1, 2])):
                reserve(attempt=attempt, call=uuid4(), claims=claims, now=now, expires_at=now + timedelta(minutes=10))
        except OverBudget:
            continue
        say("reserved", attempt, amount)
        cost = draw.randrange(ONE // 4)  # above the bound now and then
        match draw.choice(["settle", "settle", "settle", "release", "unknown", "leave"]):
            case "settle":
                settle(attempt=attempt, cost=Money(cost, "USD"), now=now)
                say("settled", attempt, cost)
                done.append(attempt)
            case "release":
                release(attempt=attempt, now=now)
                say("released", attempt, 0)
                done.append(attempt)
            case "unknown":
                settle(attempt=attempt, cost=None, now=now)
        if done and draw.random() < 0.3 and settle(attempt=draw.choice(done), cost=Money(1, "USD"), now=now):
            say("twice", attempt, 1)


def say(what: str, attempt: object, amount: int) -> None:
    sys.stdout.write(f"{what} {attempt} {amount}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(**json.loads(sys.stdin.readline()))
