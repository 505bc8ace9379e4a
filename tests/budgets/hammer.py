"""A process that reserves and settles as fast as it can until it is killed: `test_hammer` starts several.

It reads what it needs from standard input as JSON: the database, a seed. What it knows to be booked it writes to
standard output, a line each, after the transaction: what is not written may or may not have happened.
"""

import asyncio
import json
import random
import sys
from collections.abc import Sequence
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
    from budgets.admission import Admission  # noqa: PLC0415
    from budgets.ledger import Claim, Outcome, OverBudget, Reservation, close_all, reserve_all, settle  # noqa: PLC0415
    from budgets.scopes import EACH, BudgetSpec, Scope, Subject  # noqa: PLC0415
    from budgets.windows import WindowKind  # noqa: PLC0415
    from routing.core.money import Money  # noqa: PLC0415

    budgets = [
        BudgetSpec("installation", Scope(), "USD", 0, window=WindowKind.DAY, zone="Europe/Berlin"),
        BudgetSpec("team", Scope(application="helpdesk"), "USD", 0, window=WindowKind.MONTH, zone="Europe/Berlin"),
        BudgetSpec("people", Scope(user=EACH), "USD", 0, window=WindowKind.TOTAL),
    ]
    done = []

    def some() -> Reservation:
        now = ROLLOVER + timedelta(seconds=draw.choice([-5, -1, 0, 1, 5, 90_000]))  # the clock jumps
        subject = Subject("helpdesk", "key-1", draw.choice(["agent-17", "agent-18"]), "support-chat", "prod-east")
        chosen = draw.sample(budgets, draw.randint(1, 3))
        amount = draw.randrange(ONE // 5)
        claims = [
            Claim(each.identifier, each.account_of(subject, moment=now), amount, draw.choice(LIMITS)) for each in chosen
        ]
        return Reservation(uuid4(), uuid4(), claims, now, now + timedelta(minutes=10))

    loop, admission = asyncio.new_event_loop(), Admission()

    def reserved(wanted: Sequence[Reservation]) -> list[OverBudget | None]:
        """By the one way or by the other, as a web process does and as a program does."""
        is_asked = admission.is_possible and draw.random() < 0.7
        if is_asked and loop.run_until_complete(admission.hold_all(wanted)):
            return [None] * len(wanted)
        return reserve_all(wanted)

    while True:
        wanted = [some() for _ in range(draw.choice([1, 1, 2, 4]))]
        told = reserved(wanted)
        if told == [None] and draw.random() < 0.5:
            reserved(wanted)
        held = [each for each, refused in zip(wanted, told, strict=True) if refused is None]
        for each in held:
            say("reserved", each.attempt, each.claims[0].amount or 0)
        ended: list[tuple[str, Outcome]] = []
        for each in held:
            cost = Money(draw.randrange(ONE // 4), "USD")  # above the bound now and then
            match draw.choice(["settle", "settle", "settle", "release", "unknown", "leave"]):
                case "settle":
                    ended.append(("settled", Outcome(each.attempt, each.now, cost)))
                case "release":
                    ended.append(("released", Outcome(each.attempt, each.now, was_sent=False)))
                case "unknown":
                    ended.append(("unknown", Outcome(each.attempt, each.now)))
        if ended:
            close_all([outcome for _, outcome in ended])
        for what, outcome in ended:
            if what != "unknown":
                say(what, outcome.attempt, outcome.cost.nanos if outcome.cost else 0)
                done.append(outcome.attempt)
        if done and draw.random() < 0.3 and settle(attempt=draw.choice(done), cost=Money(1, "USD"), now=ROLLOVER):
            say("twice", done[-1], 1)


def say(what: str, attempt: object, amount: int) -> None:
    sys.stdout.write(f"{what} {attempt} {amount}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(**json.loads(sys.stdin.readline()))
