"""Whose calls a budget counts, and which budgets apply to a call.

A budget is a value here: the records that operators edit, and the picture of them that a process keeps, are the
business of whoever hands the values in.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from budgets.windows import Window, WindowKind, window_at

EACH = "*"
"""In a scope: each value counts in an account of its own, the empty one (no user named, no key) too."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What one attempt is counted by: who asks, and what is asked. Empty is "none", which is a value as others are."""

    application: str
    key: str
    user: str
    configuration: str
    provider: str


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose calls are meant: those that have every value that is not ``None``. Without any it is the installation."""

    application: str | None = None
    key: str | None = None
    user: str | None = None
    configuration: str | None = None
    provider: str | None = None

    def holds(self, subject: Subject) -> bool:
        """Whether a subject is in it."""
        return all(
            wanted in (None, EACH) or wanted == getattr(subject, name) for name, wanted in self.parts(everything=True)
        )

    def of(self, subject: Subject) -> "Scope":
        """The scope of the account that the subject counts in: each ``*`` as the subject's own value."""
        return Scope(**{name: getattr(subject, name) if wanted == EACH else wanted for name, wanted in self.parts()})

    def covers(self, account: "Scope") -> bool:
        """Whether an account's scope is this one, or one of the many that its ``*`` stand for."""
        pairs = zip(self.parts(everything=True), account.parts(everything=True), strict=True)
        return all(value is not None if meant == EACH else value == meant for (_, meant), (_, value) in pairs)

    def within(self, known: Mapping[str, str]) -> "Scope | None":
        """What it means for those of whom some values are known, each ``*`` as the known one; ``None`` if it names
        another value than a known one."""
        named = dict(self.parts())
        for name, value in known.items():
            if named.get(name, EACH) not in (EACH, value):
                return None
            if name in named:
                named[name] = value
        return Scope(**named)

    def parts(self, *, everything: bool = False) -> list[tuple[str, str | None]]:
        """What it names, in a stable order; with ``everything`` also what it leaves open."""
        named = [(name, getattr(self, name)) for name in DIMENSIONS]
        return [(name, value) for name, value in named if everything or value is not None]

    @property
    def is_each(self) -> bool:
        """Whether it stands for many accounts."""
        return any(value == EACH for _, value in self.parts())

    @property
    def document(self) -> dict[str, str]:
        """What it names, as a row keeps it."""
        return {name: value for name, value in self.parts() if value is not None}

    def __str__(self) -> str:
        told = [f"{name} {_told(value)}" for name, value in self.parts()]
        return ", ".join(told) or "the whole installation"


DIMENSIONS = tuple(each.name for each in fields(Scope))
"""What a scope can name."""


def _told(value: str | None) -> str:
    return "each" if value == EACH else value or "(none)"


def scope_of(document: Mapping[str, str]) -> Scope:
    """A scope as a row keeps it, other names than :data:`DIMENSIONS` being an error."""
    return Scope(**document)


class Unpriced(StrEnum):
    """What a budget does about a route without a price, whose cost nobody can bound."""

    REFUSE = "refuse"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class Tier:
    """A step of a budget's ladder: from ``threshold`` per cent of the limit on, the models ``targets`` are to serve."""

    threshold: int
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """One budget.

    Attributes:
        identifier: what it is called.
        scope: whose calls it counts.
        currency: the only currency it counts.
        limit: in nano-units; 0 allows nothing that costs.
        is_hard: whether an attempt that does not fit is refused. A soft budget is booked all the same.
        window: by which period it counts.
        zone: the time zone of that.
        unpriced: what to do about routes without a price. ``allow`` makes the figure a floor.
        increase: added to the limit until ``increase_until``.
        alerts: the per cents of the limit that somebody wants to hear of, ascending.
        tiers: the ladder, ascending by threshold.
        enforces_targets: whether a tier in force allows nothing but its targets; else it wishes for them.
    """

    identifier: str
    scope: Scope
    currency: str
    limit: int
    is_hard: bool = True
    window: WindowKind = WindowKind.MONTH
    zone: str = "UTC"
    unpriced: Unpriced = Unpriced.REFUSE
    increase: int = 0
    increase_until: datetime | None = None
    alerts: tuple[int, ...] = ()
    tiers: tuple[Tier, ...] = ()
    enforces_targets: bool = False

    @property
    def thresholds(self) -> tuple[int, ...]:
        """The per cents of the limit at which something happens, ascending; mostly there are none."""
        if not self.tiers:
            return self.alerts
        return tuple(sorted({*self.alerts, *(tier.threshold for tier in self.tiers)}))

    def limit_at(self, moment: datetime) -> int:
        """The limit of a moment, a temporary increase included."""
        lasts = self.increase_until is not None and moment < self.increase_until
        return self.limit + self.increase if lasts else self.limit

    def account_of(self, subject: Subject, *, moment: datetime) -> "AccountKey":
        """The account in which a subject's spending of a moment counts."""
        return AccountKey(
            scope=self.scope.of(subject),
            currency=self.currency,
            window=window_at(self.window, zone=self.zone, moment=moment),
        )


@dataclass(frozen=True, slots=True)
class AccountKey:
    """What an account is told by: whose spending, in which currency, in which window.

    Not by the budget: an edited limit, a restart, or a budget that is retired and made anew finds the balance that is
    there, and two budgets over the same spending share one.
    """

    scope: Scope
    currency: str
    window: Window

    @property
    def identity(self) -> str:
        """A digest of all three."""
        return _identity(self)


@lru_cache(maxsize=4096)
def _identity(key: AccountKey) -> str:
    named = json.dumps([key.scope.parts(), key.currency, key.window.identity], ensure_ascii=False)
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class BudgetBook:
    """All budgets in force, laid out so that finding those of a call costs next to nothing where there are none."""

    budgets: tuple[BudgetSpec, ...] = ()
    _by_application: Mapping[str, tuple[BudgetSpec, ...]] = field(default_factory=dict)
    _of_all: tuple[BudgetSpec, ...] = ()
    has_tiers: bool = False
    has_thresholds: bool = False

    @classmethod
    def of(cls, budgets: Iterable[BudgetSpec]) -> "BudgetBook":
        """Lay budgets out, in the order of their identifiers."""
        ordered = tuple(sorted(budgets, key=lambda each: each.identifier))
        of_all = tuple(each for each in ordered if each.scope.application in (None, EACH))
        named: dict[str, list[BudgetSpec]] = {}
        for each in ordered:
            if each not in of_all and each.scope.application is not None:
                named.setdefault(each.scope.application, []).append(each)
        return cls(
            ordered,
            {name: tuple(specs) for name, specs in named.items()},
            of_all,
            has_tiers=any(each.tiers for each in ordered),
            has_thresholds=any(each.thresholds for each in ordered),
        )

    @property
    def has_tiers_of_some(self) -> bool:
        """Whether tiers are in force for some callers and not for others, whatever they ask for."""
        scopes = [each.scope for each in self.budgets if each.tiers]
        return any((each.application, each.key, each.user) != (None, None, None) for each in scopes)

    def applying_to(self, subject: Subject) -> tuple[BudgetSpec, ...]:
        """The budgets that count a subject's calls. All of them bind."""
        candidates = (*self._of_all, *self._by_application.get(subject.application, ()))
        return tuple(each for each in candidates if each.scope.holds(subject))


NO_BUDGETS = BudgetBook()
