"""Addresses of the tab: where it lives, and the address of every question."""

from django.urls import reverse
from django.utils.http import urlencode

from governance.questions import Question

ROOT = "governance-tab"
"""Where the tab lives, below the admin. The plain word is the address of a list of the admin's own."""

WHY = "why-this-model"
SCENARIO = "scenario.json"

ON, OFF = "on", "off"
"""How an address spells a switch."""


def name_of(slug: str) -> str:
    """The name of a panel's address within the admin's."""
    return f"governance_tab_{slug.replace('-', '_').replace('.', '_').replace('/', '_')}"


def address_of(question: Question) -> str:
    """The address that asks a question; what is in force is left out of it."""
    return f"{_below(WHY)}?{spell_question(question)}"


def scenario_address_of(question: Question) -> str:
    """The address that gives the answer as a scenario."""
    return f"{_below(f'{WHY}/{SCENARIO}')}?{spell_question(question)}"


def spell_question(question: Question) -> str:
    """A question as the parameters of an address."""
    asked: list[tuple[str, str]] = [("configuration", question.configuration)]
    if question.operation is not None:
        asked.append(("operation", question.operation.value))
    if question.mode is not None:
        asked.append(("mode", question.mode.value))
    if question.history is not None:
        asked.append(("history", ON if question.history else OFF))
    asked += [("needs", each) for each in sorted(question.needs)]
    if question.application:
        asked.append(("application", question.application))
    return urlencode(asked)


def _below(slug: str) -> str:
    return reverse(f"admin:{name_of(slug)}")
