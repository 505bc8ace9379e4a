"""The budgets that calls of a virtual key count in, and how they stand, as its holder is told."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from rest_framework import serializers

from budgets.readouts import Standing, standings
from budgets.windows import window_at
from governance.access.budgets import ToldBudget, load_budgets, told_to
from governance.access.directory import Caller
from governance.api.serializers import AmountField, StrictSerializer

MOST_ACCOUNTS = 20
"""Accounts told of a budget that counts each on its own: the fullest."""

_OTHERS = "Null where calls of other applications count too."


class OwnBudgetSerializer(StrictSerializer):
    """A budget that the key's calls count in, in one account."""

    budget = serializers.CharField(help_text="Its identifier, as refusals name it.")
    scope = serializers.DictField(
        child=serializers.CharField(),
        help_text="Whose spending it is, by column: all that are named have to fit. Empty for the whole installation.",
    )
    is_own = serializers.BooleanField(help_text="Whether nobody's calls count but those of the key's application.")
    is_hard = serializers.BooleanField(help_text="Hard: what does not fit is refused. Soft: it is counted.")
    currency = serializers.CharField()
    window = serializers.CharField(help_text="Such as “month 2026-11 Europe/Berlin”.")
    resets_at = serializers.DateTimeField(allow_null=True, help_text="When the window ends. Null for all time.")
    limit = AmountField(help_text="A temporary increase included.")
    increase = AmountField(allow_null=True, help_text="The part of the limit that ends by itself, while there is one.")
    increase_until = serializers.DateTimeField(allow_null=True, help_text="When the increase ends.")
    is_used_up = serializers.BooleanField(
        allow_null=True, help_text="Whether nothing is left. Null where others' accounts would have to be told."
    )
    spent = AmountField(allow_null=True, help_text=_OTHERS)
    reserved = AmountField(allow_null=True, help_text=f"Held for requests that are under way. {_OTHERS}")
    uncertain = AmountField(allow_null=True, help_text=f"Held for requests whose outcome nobody knows. {_OTHERS}")
    left = AmountField(allow_null=True, help_text=f"Less than nothing where the limit was overrun. {_OTHERS}")
    unmeasured = serializers.IntegerField(
        allow_null=True, help_text=f"Requests that are in no sum, since they have no price. {_OTHERS}"
    )


@dataclass(frozen=True, slots=True)
class OwnBudget:
    """What :class:`OwnBudgetSerializer` writes; amounts in nano-units."""

    budget: str
    scope: Mapping[str, str]
    is_own: bool
    is_hard: bool
    currency: str
    window: str
    resets_at: datetime | None
    limit: int
    increase: int | None
    increase_until: datetime | None
    is_used_up: bool | None
    spent: int | None
    reserved: int | None
    uncertain: int | None
    left: int | None
    unmeasured: int | None


def read_own_budgets(caller: Caller, *, known: Mapping[str, str], now: datetime) -> tuple[OwnBudget, ...]:
    """The budgets that a key is told of, in the order of their identifiers: three queries at the most."""
    told = told_to(caller, load_budgets().budgets, known=known)
    found = standings([each.budget for each in told if _is_read(each)], now=now, most=MOST_ACCOUNTS)
    return tuple(own for each in told for own in _of(each, found.get(each.budget.identifier, ()), now=now))


def _is_read(told: ToldBudget) -> bool:
    """Whether its accounts are looked at: not where they are many, and others'."""
    return told.is_own or not told.budget.scope.is_each


def _of(told: ToldBudget, found: Iterable[Standing], *, now: datetime) -> Iterable[OwnBudget]:
    """What is told of one budget, account by account."""
    budget = told.budget
    increase = budget.limit_at(now) - budget.limit
    window = window_at(budget.window, zone=budget.zone, moment=now)
    for standing in found if _is_read(told) else (None,):
        own = standing if told.is_own else None
        yield OwnBudget(
            budget=budget.identifier,
            scope=(budget.scope if standing is None else standing.scope).document,
            is_own=told.is_own,
            is_hard=budget.is_hard,
            currency=budget.currency,
            window=window.identity,
            resets_at=window.ends,
            limit=budget.limit_at(now),
            increase=increase or None,
            increase_until=budget.increase_until if increase else None,
            is_used_up=None if standing is None else standing.left <= 0,
            spent=None if own is None else own.spent,
            reserved=None if own is None else own.reserved,
            uncertain=None if own is None else own.uncertain,
            left=None if own is None else own.left,
            unmeasured=None if own is None else own.unmeasured,
        )
