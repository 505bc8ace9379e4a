"""Every setting there is, declared once: its key, what it accepts, its default, and what a bad value means.

What an operator changes while Signalbox runs is a setting; what must be known before the database can be read is
an environment variable. A missing, unreadable or malformed value lands on the safe side, which each declaration
names in ``read``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from routing.core.policy import MODE_LABELS, PolicyMode
from routing.core.vocabulary import LABELS, Enforcement

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Setting(Generic[Value]):
    """One setting.

    Attributes:
        key: its dotted name.
        default: the value in force without a stored one.
        read: turns any stored JSON value into a value in force; never fails.
        accepts: why a value may not be stored, as a sentence; ``None`` if it may.
        choices: the values to offer, with their labels; empty where any value of the kind goes.
        help: what the value does.
    """

    key: str
    default: Value
    read: Callable[[Any], Value]
    accepts: Callable[[Any], str | None]
    help: str
    choices: tuple[tuple[Any, str], ...] = ()


def _choice(words: Mapping[Any, str]) -> Callable[[Any], str | None]:
    allowed = [str(word) for word in words]
    return lambda value: None if value in allowed else f"choose one of {', '.join(allowed)}"


def _is_flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "choose true or false"


def _whole(minimum: int, maximum: int) -> Callable[[Any], str | None]:
    def accepts(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum
        return None if fits else f"a whole number from {minimum} to {maximum} is needed"

    return accepts


def _bounded(default: int, minimum: int, maximum: int) -> Callable[[Any], int]:
    accepts = _whole(minimum, maximum)
    return lambda value: value if accepts(value) is None else default


def _currency(value: Any) -> str | None:
    fits = isinstance(value, str) and len(value) == 3 and value.isascii() and value.isalpha() and value.isupper()
    return None if fits else "three capital letters, such as USD, are needed"


POLICY_MODE = Setting(
    key="routing.policyMode",
    default=PolicyMode.PROVIDER_PRIORITY,
    read=PolicyMode.read,
    accepts=_choice(MODE_LABELS),
    choices=tuple((mode.value, label) for mode, label in MODE_LABELS.items()),
    help="What ranks eligible candidates of equal provider priority, where a configuration sets no mode of its own. "
    "Whatever is no mode means providerPriority.",
)
CALL_HISTORY = Setting(
    key="routing.callHistory",
    default=False,
    read=lambda value: value is True,
    accepts=_is_flag,
    choices=((True, "On"), (False, "Off")),
    help="Whether measured modes also look at what calls of the last seven days took and cost. Unreadable means off.",
)
OPERATION_CAPABILITY_ENFORCEMENT = Setting(
    key="routing.operationCapabilityEnforcement",
    default=Enforcement.ENFORCE,
    read=Enforcement.read,
    accepts=_choice({each.value: LABELS[each] for each in Enforcement}),
    choices=tuple((each.value, LABELS[each]) for each in Enforcement),
    help="Whether a model that declares capabilities, but not one that the call needs, is refused. "
    "Unreadable means that it is.",
)
CURRENCY = Setting(
    key="routing.currency",
    default="USD",
    read=lambda value: value if _currency(value) is None else "USD",
    accepts=_currency,
    help="The currency in which prices and costs are compared. A figure in another currency is no figure.",
)
TELEMETRY = Setting(
    key="telemetry.enabled",
    default=True,
    read=lambda value: value is not False,
    accepts=_is_flag,
    choices=((True, "On"), (False, "Off")),
    help="Whether calls are recorded. Without it there is no history and no health; usage is counted all the same. "
    "Only an explicit false switches it off.",
)
MAX_BODY_BYTES = Setting(
    key="gateway.maxBodyBytes",
    default=32 * 1024 * 1024,
    read=_bounded(32 * 1024 * 1024, 1024, 1024 * 1024 * 1024),
    accepts=_whole(1024, 1024 * 1024 * 1024),
    help="The largest request body in bytes. A larger one gets 413.",
)
ASSUMED_MAX_OUTPUT = Setting(
    key="budgets.assumedMaxOutput",
    default=4096,
    read=_bounded(4096, 1, 10_000_000),
    accepts=_whole(1, 10_000_000),
    help="Output tokens assumed for the upper bound of a call's cost when neither the caller nor the model has a "
    "limit.",
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
            MAX_BODY_BYTES,
            ASSUMED_MAX_OUTPUT,
        )
    }
)
"""The settings by key."""
