"""Links that choose what a panel shows, and what an installation that has nothing to show needs next.

A choice is an address, so that it can be shared and works without JavaScript.
"""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser, User
from django.urls import reverse

from governance.decisions import Standing
from governance.settings_store.registry import TELEMETRY, spell_typed
from governance.tab.addresses import name_of
from telemetry.readouts.periods import Period

POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to choose."""

    label: str
    url: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do, so that there is something to see. ``url`` is empty where whoever looks may not do it."""

    what: str
    url: str
    button: str


def address(slug: str, **asked: str) -> str:
    """The address of a panel, with what is asked; what is empty is left out."""
    parameters = urlencode({name: value for name, value in asked.items() if value})
    url = reverse(f"admin:{name_of(slug)}")
    return f"{url}?{parameters}" if parameters else url


def period_choices(slug: str, current: Period) -> tuple[Choice, ...]:
    """The periods of a panel."""
    return tuple(Choice(each.label, address(slug, period=each.value), each is current) for each in Period)


def next_step(standing: Standing, user: User | AnonymousUser) -> NextStep:
    """What is missing before calls are decided and seen: the first of all that is."""
    if not standing.snapshot.catalogue.models:
        return _step(user, "No model is in service yet. Connect a provider, then add a model.", "routing.provider")
    if not any(each.is_active for each in standing.snapshot.configurations.values()):
        what = "No configuration is in service yet. It is the name that applications ask for."
        return _step(user, what, "routing.configuration")
    if not standing.settings.routing.telemetry:
        what = "Calls are not recorded, since telemetry.enabled is off. What was recorded before is still shown."
        url = address(POLICY, setting=TELEMETRY.key, value=spell_typed(True))
        return NextStep(what, url, "Look at the switch")
    what = "Make a call: the overview shows how. Decided are calls of configurations that rank or list their models."
    return NextStep(what, reverse("admin:index"), "To the overview")


def _step(user: User | AnonymousUser, what: str, record: str) -> NextStep:
    app, _, model = record.partition(".")
    may = user.has_perm(f"{app}.add_{model}")
    button = {"provider": "Add a provider", "configuration": "Make a configuration"}[model]
    return NextStep(what, reverse(f"admin:{app}_{model}_add") if may else "", button)
