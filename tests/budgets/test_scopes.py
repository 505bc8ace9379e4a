"""Whose calls a budget counts, and in which account."""

from dataclasses import replace
from datetime import timedelta

import pytest

from budgets.scopes import EACH, BudgetBook, BudgetSpec, Scope, Subject, scope_of
from budgets.windows import WindowKind
from tests.budgets.claims import NOW, key_of

SUBJECT = Subject(
    application="helpdesk", key="5f0c7c0e", user="agent-17", configuration="support-chat", provider="prod-east"
)


def spec(identifier: str, scope: Scope, **kwargs: object) -> BudgetSpec:
    return replace(BudgetSpec(identifier=identifier, scope=scope, currency="USD", limit=1), **kwargs)  # type: ignore[arg-type]  # of one field each


@pytest.mark.parametrize(
    ("scope", "holds"),
    [
        (Scope(), True),
        (Scope(application="helpdesk"), True),
        (Scope(application="web-shop"), False),
        (Scope(key="5f0c7c0e", provider="prod-east"), True),
        (Scope(key="5f0c7c0e", provider="prod-west"), False),
        (Scope(application="helpdesk", user=EACH), True),
        (Scope(user=""), False),
        (Scope(configuration="support-chat", user="agent-17"), True),
    ],
)
def test_a_scope_holds_what_has_every_value_it_names(scope: Scope, holds: bool) -> None:
    assert scope.holds(SUBJECT) is holds


def test_each_counts_every_value_on_its_own_and_the_missing_one_too() -> None:
    scope = Scope(application="helpdesk", user=EACH)
    assert scope.of(SUBJECT) == Scope(application="helpdesk", user="agent-17")
    nobody = replace(SUBJECT, user="")
    assert scope.holds(nobody)
    assert scope.of(nobody) == Scope(application="helpdesk", user="")


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (Scope(), "the whole installation"),
        (Scope(application="helpdesk", user=EACH), "application helpdesk, user each"),
        (Scope(user=""), "user (none)"),
    ],
)
def test_a_scope_in_words(scope: Scope, words: str) -> None:
    assert str(scope) == words


def test_a_scope_survives_its_row() -> None:
    for scope in (Scope(), Scope(application="helpdesk", user=""), Scope(provider=EACH)):
        assert scope_of(scope.document) == scope


def test_a_book_finds_what_applies_in_the_order_of_identifiers() -> None:
    book = BudgetBook.of(
        [
            spec("west", Scope(application="helpdesk", provider="prod-west")),
            spec("team", Scope(application="helpdesk")),
            spec("shop", Scope(application="web-shop")),
            spec("all", Scope()),
            spec("people", Scope(application=EACH, user=EACH)),
        ]
    )
    assert [each.identifier for each in book.applying_to(SUBJECT)] == ["all", "people", "team"]
    assert BudgetBook().applying_to(SUBJECT) == ()


def test_an_account_belongs_to_a_scope_a_currency_and_a_window_and_to_no_budget() -> None:
    team = spec("team", Scope(application="helpdesk"), zone="Europe/Berlin")
    again = spec("team-again", Scope(application="helpdesk"), zone="Europe/Berlin", limit=99, is_hard=False)
    account = team.account_of(SUBJECT, moment=NOW)
    assert account.identity == again.account_of(SUBJECT, moment=NOW).identity == key_of().identity
    others = [
        replace(team, currency="EUR").account_of(SUBJECT, moment=NOW),
        replace(team, window=WindowKind.WEEK).account_of(SUBJECT, moment=NOW),
        replace(team, zone="UTC").account_of(SUBJECT, moment=NOW),
        replace(team, scope=Scope(configuration="helpdesk")).account_of(replace(SUBJECT), moment=NOW),
        team.account_of(SUBJECT, moment=NOW + timedelta(days=31)),
    ]
    assert len({account.identity, *(each.identity for each in others)}) == 6


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (Scope(), Scope()),
        (Scope(application=EACH, user=EACH), Scope(application="helpdesk", user=EACH)),
        (Scope(application="helpdesk", key=EACH), Scope(application="helpdesk", key="k-1")),
        (Scope(application="web-shop"), None),
        (Scope(application="web-shop", key=EACH), None),
        (Scope(key="k-1", provider="prod-east"), Scope(key="k-1", provider="prod-east")),
        (Scope(key=""), None),
    ],
)
def test_what_a_scope_means_for_those_of_whom_some_values_are_known(scope: Scope, expected: Scope | None) -> None:
    assert scope.within({"application": "helpdesk", "key": "k-1"}) == expected
