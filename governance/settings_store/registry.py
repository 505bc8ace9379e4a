"""Every setting there is, declared once: its key, what it accepts, its default, and what a bad value means.

What an operator changes while Signalbox runs is a setting; what must be known before the database can be read is
an environment variable. A missing, unreadable or malformed value lands on the safe side, which each declaration
names in ``read``. Where a value in force comes from is the business of ``sources``.

Nothing here needs Django: the settings of the installation and the documentation read the registry too.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from routing.core.policy import MODE_LABELS, PolicyMode
from routing.core.vocabulary import LABELS, Enforcement

Value = TypeVar("Value")


class Kind(StrEnum):
    """What kind of value a setting has, in the words of the documentation."""

    FLAG = "true or false"
    CHOICE = "one word of a list"
    WHOLE_NUMBER = "a whole number"
    CURRENCY = "three capital letters"


@dataclass(frozen=True, slots=True)
class Setting(Generic[Value]):
    """One setting.

    Attributes:
        key: its dotted name.
        kind: what kind of value it has.
        default: the value in force without a stored one.
        read: turns any stored JSON value into a value in force; never fails.
        accepts: why a value may not be stored, as a sentence; ``None`` if it may.
        choices: the values to offer, each with what it changes; empty where any value of the kind goes.
        help: what the value does.
        bounds: of a whole number the least and the greatest.
        unit: of a whole number what it counts.
        readers: the modules that read the value in force. Tests watch who reads it while its effect is shown, and fail
            for a reader that is not named here as for one that is named and does not read; empty is "unknown".
    """

    key: str
    kind: Kind
    default: Value
    read: Callable[[Any], Value]
    accepts: Callable[[Any], str | None]
    help: str
    choices: tuple[tuple[Any, str], ...] = ()
    bounds: tuple[int, int] | None = None
    unit: str = ""
    readers: tuple[str, ...] = ()

    @property
    def unreadable(self) -> Value:
        """The value in force where what is stored cannot be read."""
        return self.read(None)

    def spell(self, value: Any) -> str:
        """A value as pages show it: on or off, a word with what it means, a number with what it counts."""
        if self.kind is Kind.FLAG:
            return "On" if value else "Off"
        label = next((label for choice, label in self.choices if choice == value), "")
        if label:
            return f"{value} ({label})"
        return f"{value:,} {self.unit}" if self.unit else str(value)


def read_typed(text: str) -> Any:
    """A value as somebody types it, on a command line or in an address: JSON where it is JSON, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def spell_typed(value: Any) -> str:
    """A value as it would be typed."""
    return value if isinstance(value, str) else json.dumps(value)


def _choice(words: Mapping[Any, str]) -> Callable[[Any], str | None]:
    allowed = [str(word) for word in words]
    return lambda value: None if value in allowed else f"choose one of {', '.join(allowed)}"


def _is_flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "choose true or false"


def _whole_number(
    *, key: str, default: int, minimum: int, maximum: int, unit: str, help: str, readers: tuple[str, ...] = ()
) -> Setting[int]:
    """A whole number within bounds. Whatever is none means the default."""

    def accepts(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum
        return None if fits else f"a whole number from {minimum} to {maximum} is needed"

    return Setting(
        key=key,
        kind=Kind.WHOLE_NUMBER,
        default=default,
        read=lambda value: value if accepts(value) is None else default,
        accepts=accepts,
        help=help,
        bounds=(minimum, maximum),
        unit=unit,
        readers=readers,
    )


def _currency(value: Any) -> str | None:
    fits = isinstance(value, str) and len(value) == 3 and value.isascii() and value.isalpha() and value.isupper()
    return None if fits else "three capital letters, such as USD, are needed"


POLICY_MODE = Setting(
    key="routing.policyMode",
    kind=Kind.CHOICE,
    default=PolicyMode.PROVIDER_PRIORITY,
    read=PolicyMode.read,
    accepts=_choice(MODE_LABELS),
    choices=tuple((mode.value, label) for mode, label in MODE_LABELS.items()),
    help="What ranks eligible candidates of equal provider priority, where a configuration sets no mode of its own. "
    "Whatever is no mode means providerPriority.",
    readers=("routing.core.decision",),
)
CALL_HISTORY = Setting(
    key="routing.callHistory",
    kind=Kind.FLAG,
    default=False,
    read=lambda value: value is True,
    accepts=_is_flag,
    choices=(
        (True, "Measured modes also compare what calls took and cost, per operation"),
        (False, "Measured modes go by quality, health and list prices alone"),
    ),
    help="Whether measured modes also look at what calls of the last seven days took and cost. Unreadable means off.",
    readers=("routing.core.decision",),
)
OPERATION_CAPABILITY_ENFORCEMENT = Setting(
    key="routing.operationCapabilityEnforcement",
    kind=Kind.CHOICE,
    default=Enforcement.ENFORCE,
    read=Enforcement.read,
    accepts=_choice({each.value: LABELS[each] for each in Enforcement}),
    choices=tuple((each.value, LABELS[each]) for each in Enforcement),
    help="Whether a model that declares capabilities, but not one that the call needs, is refused. "
    "Unreadable means that it is.",
    readers=("governance.gateway.middleware.provider_call", "routing.core.decision", "routing.core.eligibility"),
)
CURRENCY = Setting(
    key="routing.currency",
    kind=Kind.CURRENCY,
    default="USD",
    read=lambda value: value if _currency(value) is None else "USD",
    accepts=_currency,
    help="The currency in which prices and costs are compared. A figure in another currency is no figure.",
    readers=(
        "governance.gateway.views",
        "governance.standing_poll",
        "routing.core.decision",
        "routing.core.eligibility",
    ),
)
TELEMETRY = Setting(
    key="telemetry.enabled",
    kind=Kind.FLAG,
    default=True,
    read=lambda value: value is not False,
    accepts=_is_flag,
    choices=(
        (True, "Every call leaves a row, of which history and health are made"),
        (False, "Calls leave no row, and decisions know neither history nor health"),
    ),
    help="Whether calls are recorded. Without it there is no history and no health; usage is counted all the same. "
    "Only an explicit false switches it off.",
    readers=("governance.gateway.middleware.telemetry", "governance.standing_poll", "routing.core.decision"),
)
REORDER_FALLBACK = Setting(
    key="health.reorderFallback",
    kind=Kind.FLAG,
    default=False,
    read=lambda value: value is True,
    accepts=_is_flag,
    choices=(
        (True, "Fallback configurations are asked healthiest first"),
        (False, "Fallback configurations are asked in the order that the operator gave them"),
    ),
    help="Whether the fallback configurations of a call are asked by the health of the route that each would ask "
    "first, and no longer in their given order. Health that is not known counts as 0.5. Unreadable means off.",
    readers=("governance.decisions",),
)
MAX_BODY_BYTES = _whole_number(
    key="gateway.maxBodyBytes",
    default=32 * 1024 * 1024,
    minimum=1024,
    maximum=1024 * 1024 * 1024,
    unit="bytes",
    help="The largest request body in bytes. A larger one gets 413.",
    readers=("governance.gateway.views",),
)
ASSUMED_MAX_OUTPUT = _whole_number(
    key="budgets.assumedMaxOutput",
    default=4096,
    minimum=1,
    maximum=10_000_000,
    unit="tokens",
    help="Output tokens assumed for the upper bound of a call's cost when neither the caller nor the model has a "
    "limit.",
    readers=("routing.core.catalogue",),
)
ASSUMED_IMAGE_TOKENS = _whole_number(
    key="budgets.assumedImageTokens",
    default=5000,
    minimum=1,
    maximum=1_000_000,
    unit="tokens",
    help="Tokens assumed for one image of a prompt, for the upper bound of a call's cost. Vendors count them by rules "
    "of their own, from 85 to 5,000 tokens; a few small models count up to 50,000 and cost as much less for each.",
    readers=("routing.core.catalogue",),
)
ASSUMED_FILE_TOKENS = _whole_number(
    key="budgets.assumedFileTokens",
    default=100_000,
    minimum=1,
    maximum=10_000_000,
    unit="tokens",
    help="Tokens assumed for one document or recording of a prompt, for the upper bound of a call's cost. A page of a "
    "document is 1,500 to 3,000 tokens, a minute of sound about 2,000. No more is assumed than fits the model's "
    "context.",
    readers=("routing.core.catalogue",),
)
ENTRY_DAYS = _whole_number(
    key="budgets.entryDays",
    default=400,
    minimum=7,
    maximum=36_500,
    unit="days",
    help="How long entries of the ledger are kept once their window has ended, and those of all time once they were "
    "booked. After that their sums are carried over: balances stay, and are proven as before.",
    readers=("governance.pruning",),
)
ACCOUNT_DAYS = _whole_number(
    key="budgets.accountDays",
    default=1100,
    minimum=31,
    maximum=36_500,
    unit="days",
    help="How long accounts of the ledger are kept once their window has ended, with the alerts that arose in them. "
    "One that has entries is kept until these are carried over, one of all time for good. Usage has what was spent.",
    readers=("governance.pruning",),
)
DELIVERY_DAYS = _whole_number(
    key="budgets.deliveryDays",
    default=90,
    minimum=7,
    maximum=36_500,
    unit="days",
    help="How long it is kept what webhooks were told of alerts, and how that went: no longer than the alerts are.",
    readers=("governance.pruning",),
)
DEADLINE_SECONDS = _whole_number(
    key="gateway.deadlineSeconds",
    default=900,
    minimum=1,
    maximum=24 * 3600,
    unit="seconds",
    help="How long a whole call may take, its waits, repetitions and other routes included. A call whose time is up, "
    "or would be before the next attempt, ends as a time-out whatever routes are left. What one attempt may take is "
    "the smaller of its provider's time-out and what is left.",
    readers=("governance.gateway.deadline",),
)
RETRY_ATTEMPTS = _whole_number(
    key="retry.attempts",
    default=2,
    minimum=1,
    maximum=10,
    unit="attempts",
    help="How often a call asks one route, the first time included, before it goes on to the next. Only failures that "
    "may pass are repeated: rate limits and passing faults; time-outs where the configuration says so.",
    readers=("routing.core.retry",),
)
RETRY_FIRST_WAIT = _whole_number(
    key="retry.firstWaitMilliseconds",
    default=250,
    minimum=1,
    maximum=60_000,
    unit="milliseconds",
    help="The wait before the second attempt where the provider gives no advice. It doubles with each attempt, and up "
    "to half of it is left out by chance. What a provider advises is waited exactly.",
    readers=("routing.core.retry",),
)
RETRY_LONGEST_WAIT = _whole_number(
    key="retry.longestWaitMilliseconds",
    default=30_000,
    minimum=1,
    maximum=600_000,
    unit="milliseconds",
    help="The most that the doubling waits between attempts come to. What a provider advises is not bounded by it.",
    readers=("governance.gateway.middleware.retry", "routing.core.retry"),
)
MAX_DELIVERIES = _whole_number(
    key="calls.maxDeliveries",
    default=2,
    minimum=1,
    maximum=10,
    unit="deliveries",
    help="How often a submitted call is handed to a worker when workers are lost before they have sent anything. A "
    "call whose request was sent to a provider is never sent again, whatever this says.",
    readers=("governance.submissions.sweeping",),
)
CONTENT_HOURS = _whole_number(
    key="calls.contentHours",
    default=24,
    minimum=1,
    maximum=24 * 90,
    unit="hours",
    help="How long the content of a submitted call is kept, sealed: its answer from the call's end, its request until "
    "then, but no longer than this from its submission. A call that no worker has taken up by then has expired.",
    readers=("governance.submissions.claims", "governance.submissions.intake"),
)
SUBMISSION_DAYS = _whole_number(
    key="calls.submissionDays",
    default=30,
    minimum=1,
    maximum=3650,
    unit="days",
    help="How long the rows of submitted calls and batches are kept once they have ended. The rows of the calls "
    "themselves are not concerned.",
    readers=("governance.submissions.sweeping",),
)
MAX_BATCH_CALLS = _whole_number(
    key="calls.maxBatchCalls",
    default=1000,
    minimum=1,
    maximum=100_000,
    unit="calls",
    help="How many calls one batch may hold.",
    readers=("governance.submissions.intake",),
)

REGISTRY: Mapping[str, Setting[Any]] = MappingProxyType(
    {
        setting.key: setting
        for setting in (
            POLICY_MODE,
            CALL_HISTORY,
            OPERATION_CAPABILITY_ENFORCEMENT,
            CURRENCY,
            TELEMETRY,
            REORDER_FALLBACK,
            MAX_BODY_BYTES,
            DEADLINE_SECONDS,
            RETRY_ATTEMPTS,
            RETRY_FIRST_WAIT,
            RETRY_LONGEST_WAIT,
            ASSUMED_MAX_OUTPUT,
            ASSUMED_IMAGE_TOKENS,
            ASSUMED_FILE_TOKENS,
            ENTRY_DAYS,
            ACCOUNT_DAYS,
            DELIVERY_DAYS,
            MAX_DELIVERIES,
            CONTENT_HOURS,
            SUBMISSION_DAYS,
            MAX_BATCH_CALLS,
        )
    }
)
"""The settings by key."""
