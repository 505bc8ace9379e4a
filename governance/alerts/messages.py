"""What an alert says. No prompt, no answer and no key could be in it: figures, and names of records.

A receiver goes by ``type`` and ``version``. Members are added without another version; what changes its meaning, or
goes, gets one. Amounts are decimal strings in the currency beside them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from budgets.crossings import percent_of
from budgets.models import Crossing
from budgets.readouts import reached_at
from budgets.scopes import scope_of
from budgets.windows import Window, WindowKind
from governance.models import Budget
from routing.core.money import format_nanos

VERSION = 1

CROSSED = "budget.threshold_crossed"
REFUSING = "budget.refusing_calls"
TEST = "test"


def type_of(crossing: Crossing) -> str:
    """The ``type`` of what is said of it."""
    return REFUSING if crossing.threshold is None else CROSSED


def crossed_message(crossing: Crossing, budget: Budget | None) -> str:
    """What is said of a crossing, or of the first call that was refused; its account was read with it. Of a budget that
    is not there any more only what the crossing knows."""
    account = crossing.account
    used = crossing.spent + crossing.uncertain
    window = Window(
        kind=WindowKind(account.window.partition(" ")[0]),
        identity=account.window,
        starts=account.starts_at,
        ends=account.ends_at,
    )
    reached = reached_at(used=used, limit=crossing.limit, since=account.opened_at, window=window, now=crossing.at)
    scope = scope_of(account.scope)
    return _written(
        type_of(crossing),
        at=crossing.at,
        data={
            "budget": crossing.budget,
            "name": None if budget is None else budget.name,
            "is_hard": None if budget is None else budget.is_hard,
            "scope": scope.document,
            "whose": str(scope),
            "window": {
                "name": window.identity,
                "starts_at": _moment(window.starts),
                "ends_at": _moment(window.ends),
            },
            **_what(crossing),
            "used_percent": percent_of(crossing.spent, crossing.uncertain, limit=crossing.limit),
            "currency": account.currency,
            "limit": format_nanos(crossing.limit),
            "spent": format_nanos(crossing.spent),
            "uncertain": format_nanos(crossing.uncertain),
            "left": format_nanos(crossing.limit - used),
            "forecast": {"limit_reached_at": _moment(reached)},
        },
    )


def _what(crossing: Crossing) -> Mapping[str, Any]:
    if crossing.threshold is None:
        return {"needed": None if crossing.needed is None else format_nanos(crossing.needed)}
    return {"threshold_percent": crossing.threshold}


def trial_message(webhook: str, *, now: datetime) -> str:
    """What is said to try a webhook."""
    return _written(TEST, at=now, data={"webhook": webhook, "text": "Alerts of Signalbox arrive here."})


def _written(kind: str, *, at: datetime, data: Mapping[str, Any]) -> str:
    return orjson.dumps({"type": kind, "version": VERSION, "timestamp": _moment(at), "data": data}).decode()


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
