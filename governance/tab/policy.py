"""*Effective policy*: every setting, the value in force, where it comes from, what it does, and the code that reads it.

The panel's address also answers for one setting: what could be chosen, what a choice would change right now, and, by
POST, the change itself. What a change would do is ``governance.tab.switches``; the change goes through
``governance.changes.settings``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from governance.settings_store.registry import CALL_HISTORY, POLICY_MODE, Kind, Setting, spell_typed
from governance.settings_store.sources import PINNED_BY, SettingInForce, Source, settings_in_force
from governance.tab.panels import Content, Panel
from governance.tab.switches import Switch, open_switch, throw

MAY_CHANGE = "governance.change_settingvalue"
UNKNOWN = "unknown"

_FIRST = (CALL_HISTORY.key, POLICY_MODE.key)  # what decides most goes first, the rest as declared


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting.

    Attributes:
        value: in force, as people read it; ``meaning`` is what it does, where it is one of a few.
        source: where it comes from; ``is_waiting`` if something else is stored, which a pin keeps from being in force.
        unreadable: what is stored that cannot be read; empty where nothing is.
        readers: the code that reads it, each name in the parts between which a line may break, or :data:`UNKNOWN`.
        change: what the link to its switch says; empty where the environment has the last word.
    """

    key: str
    help: str
    value: str
    meaning: str
    default: str
    source: Source
    is_waiting: bool
    unreadable: str
    stored_at: datetime | None
    readers: tuple[tuple[str, ...], ...]
    change: str
    url: str
    history_url: str


@dataclass(frozen=True, slots=True)
class PolicyPanel:
    """The panel: every setting, or the switch of one of them. ``problem`` says what could not be done."""

    rows: Sequence[SettingRow]
    switch: Switch | None
    problem: str
    pinned_by: str
    may_change: bool
    url: str


def answer(request: HttpRequest) -> Content | HttpResponse:
    """The list; with ``setting`` in the address, its switch; by POST, the change."""
    asked, problem = request.GET, ""
    may_change = request.user.has_perm(MAY_CHANGE)
    if request.method == "POST":
        if not may_change:
            raise PermissionDenied
        asked = request.POST
        problem = throw(request)
        if not problem:
            messages.success(request, f"{asked['setting']}: changed. Every process acts on it within a second.")
            return HttpResponseRedirect(PANEL.url)
    in_force = {each.setting.key: each for each in settings_in_force()}
    switch, key = None, asked.get("setting", "")
    if key in in_force:
        switch = open_switch(asked, in_force[key], url=PANEL.url, may_change=may_change)
    elif key:
        problem = problem or f"There is no setting {key}."
    rows = [_row(each, may_change=may_change) for each in sorted(in_force.values(), key=_place)]
    panel = PolicyPanel(
        rows=rows, switch=switch, problem=problem, pinned_by=PINNED_BY, may_change=may_change, url=PANEL.url
    )
    return Content(panel, problem or (f"{len(rows)} settings." if switch is None else switch.title))


def _place(each: SettingInForce) -> int:
    key = each.setting.key
    return _FIRST.index(key) if key in _FIRST else len(_FIRST)


def _row(each: SettingInForce, *, may_change: bool) -> SettingRow:
    setting, stored = each.setting, each.stored
    return SettingRow(
        key=setting.key,
        help=setting.help,
        value=str(each.value) if setting.kind is Kind.CHOICE else setting.spell(each.value),
        meaning=next((label for value, label in setting.choices if value == each.value), ""),
        default=str(setting.default) if setting.kind is Kind.CHOICE else setting.spell(setting.default),
        source=each.source,
        is_waiting=each.is_pinned and stored is not None,
        unreadable="" if stored is None or setting.accepts(stored.value) is None else spell_typed(stored.value),
        stored_at=each.stored_at,
        readers=tuple(_parts(reader) for reader in setting.readers or (UNKNOWN,)),
        change="" if each.is_pinned else _change(setting, each.value) if may_change else "What if…",
        url=f"{PANEL.url}?{urlencode(_way(each))}",
        history_url=reverse("admin:governance_settingvalue_history", args=[setting.key]),
    )


def _parts(reader: str) -> tuple[str, ...]:
    *packages, module = reader.split(".")
    return (*(f"{package}." for package in packages), module)


def _way(each: SettingInForce) -> dict[str, Any]:
    """A flag has one other value, so its link leads straight to the confirmation."""
    setting = each.setting
    asked = {"setting": setting.key}
    return {**asked, "value": spell_typed(not each.value)} if setting.kind is Kind.FLAG else asked


def _change(setting: Setting[Any], value: Any) -> str:
    if setting.kind is Kind.FLAG:
        return "Switch off…" if value else "Switch on…"
    return "Change…"


PANEL = Panel(
    slug="policy",
    title="Effective policy",
    template="governance/_policy.html",
    # What a change would do to decisions is told to whoever may look at them.
    permissions=(
        "governance.view_settingvalue",
        "routing.view_configuration",
        "routing.view_languagemodel",
        "telemetry.view_call",
    ),
    answer=answer,
    methods=("GET", "HEAD", "POST"),
)
