"""Prints `docs/failures.md`: what each way to fail leads to.

    python -m governance.gateway.failures > docs/failures.md

Made of the table that retry, fall-through, circuits and answers themselves read; `docs/check.py` compares the page.
"""

import sys
from collections.abc import Mapping

from governance.gateway.errors import STATUS
from governance.settings_store.registry import DEADLINE_SECONDS, RETRY_ATTEMPTS, RETRY_FIRST_WAIT, RETRY_LONGEST_WAIT
from routing.core.failures import FAILURES, CircuitEffect, FailureKind, NextRoute, Retry

REPEATED: Mapping[Retry, str] = {
    Retry.NEVER: "no",
    Retry.AFTER_STATED_WAIT: "after exactly the wait that the provider states, else backing off",
    Retry.BACKING_OFF: "backing off, or after the wait that the provider states",
    Retry.IF_CONFIGURED: "only where the configuration says so",
}
LED_ON: Mapping[NextRoute, str] = {
    NextRoute.NO: "no",
    NextRoute.YES: "yes",
    NextRoute.LARGER_CONTEXT: "to one with a longer context",
    NextRoute.AFFORDABLE: "to one that is affordable",
}
RESTED: Mapping[CircuitEffect, str] = {
    CircuitEffect.NONE: "no",
    CircuitEffect.BACKS_OFF: "longer each time",
    CircuitEffect.STATED_WAIT: "for the wait that the provider states, else longer each time",
    CircuitEffect.SETTLED: "for the settled time",
}

INTRODUCTION = f"""\
# When a provider fails

<!-- Made by `python -m governance.gateway.failures`; `make format` makes it anew. -->

Whatever goes wrong with a call is one of the kinds below. A vendor's answer becomes one by its HTTP status and its own
code; what it says in words decides only whether a prompt is invalid or too long, because words may quote the prompt.
One table says what each kind leads to, and everything that acts on failures reads it.

1. **The same route is asked again** where the kind may pass: at most `{RETRY_ATTEMPTS.key}` times for one call, the
   first time included; an answer that is repaired takes one request more, and no further repetitions. What a provider
   states (`Retry-After` in seconds or as a date, `retry-after-ms`, Gemini's `RetryInfo`) is waited exactly;
   what is negative, past, not a number, infinite, empty or longer than a day is no advice. Without advice the wait
   begins with `{RETRY_FIRST_WAIT.key}`, doubles up to `{RETRY_LONGEST_WAIT.key}`, and up to half of it
   is left out by chance.
2. **The next route is asked**: the other candidates, then the configuration's fallback configurations, each by its own
   rules and by what the key allows, and never a fallback's fallbacks; healthiest first where `health.reorderFallback`
   says so. A refusal by the model ends the call: it is not
   shopped around.
3. **A stream** is repeated and replaced like a whole answer until its first generated token. What breaks afterwards is
   told in an error event of the caller's protocol, and the stream has no regular end.

Right before it is asked, a route is passed over if its provider carries as many requests as it may at once (*Calls at a
time* of the provider, counted by each process). That is no failure of the route.

**The time of a call** is `{DEADLINE_SECONDS.key}`, waits and other routes included. A call whose time is up,
or would be before the next attempt, ends as `timeout` with the code `deadline`, whatever routes are left; the message
says how long it took and what was tried. One attempt may take what its provider's time-outs allow (to connect, to the
first event, between events, in all), and no more than what the call has left.

Every attempt and everything passed over is in the call's row, in `x-signalbox-fell-through`, and in the error if nobody
answers; `x-signalbox-attempts` counts the requests that were sent. Errors carry `x-should-retry: false`, which the
clients of OpenAI and Anthropic obey, so that their repetitions do not multiply ours.

| kind | what it means | asked again | another route | the route rests | the caller gets |
|---|---|---|---|---|---|
"""


def failures_page() -> str:
    """The whole page in Markdown, with a line end."""
    return INTRODUCTION + "".join(_row(kind) for kind in FailureKind)


def _row(kind: FailureKind) -> str:
    rule = FAILURES[kind]
    status = "nothing" if kind is FailureKind.CANCELLED else str(STATUS[kind])
    cells = (
        f"`{kind.value}`", rule.label, REPEATED[rule.retry], LED_ON[rule.next_route], RESTED[rule.circuit], status
    )  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.stdout.write(failures_page())
