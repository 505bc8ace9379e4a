"""The switch of one setting: what could be chosen, what a choice would change right now, and the change itself.

A choice is shown with its consequences before anything is stored, and the change is tied to what was stored when they
were shown: whoever was overtaken by somebody else is shown the consequences anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import timezone

from governance.access.authors import author_of
from governance.changes.door import RecordMovedOn
from governance.changes.settings import clear_setting, store_setting, stored_version
from governance.gateway.service import standing_now
from governance.questions import Question
from governance.settings_store.registry import CALL_HISTORY, POLICY_MODE, Kind, Setting, read_typed, spell_typed
from governance.settings_store.sources import PINNED_BY, SettingInForce
from governance.tab.addresses import address_of
from governance.tab.consequences import Consequence, Foresight, foresee
from governance.tab.words import WHOSE
from routing.core.vocabulary import LABELS
from telemetry.readouts.signals import SignalReadout, read_signals

WEEK = timedelta(days=7)
NOBODY = "nobody may serve"

ALREADY = "This value is in force already: no decision changes."
OVERTAKEN = "Somebody else changed this setting meanwhile. Below is what the change would do now; confirm it again."


@dataclass(frozen=True, slots=True)
class ConsequenceRow:
    """What would become of one configuration's calls for some operations.

    ``url`` asks *Why this model?*, as if call history were switched where that is what changes. ``calls`` are decided
    calls of the last seven days that asked for the same.
    """

    configuration: str
    url: str
    operations: str
    before: str
    after: str
    signals: str
    calls: int
    goes_elsewhere: bool


@dataclass(frozen=True, slots=True)
class Option:
    """A value that could be chosen: what it does, and how many configurations would send calls elsewhere."""

    spelled: str
    meaning: str
    outcome: str
    is_in_force: bool
    url: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """A value that was chosen, and not yet put in force.

    Attributes:
        typed: the value as the form sends it; ``is_default`` if the stored one is to be forgotten instead.
        version: what is stored, of which the consequences are shown.
        headline: the consequences in a sentence; ``weight`` says how many calls they would have concerned, and ``note``
            why there are none, where that can be said; ``whose`` says for whom they may be others.
    """

    spelled: str
    meaning: str
    typed: str
    is_default: bool
    version: str
    headline: str
    weight: str
    note: str
    whose: str
    rows: Sequence[ConsequenceRow]
    button: str


@dataclass(frozen=True, slots=True)
class Switch:
    """The switch of one setting.

    ``problem`` says why it cannot be changed, or not to the value asked for; ``note`` why no choice would change
    anything; ``takes_text`` if a value is typed and not chosen; ``may_throw`` if whoever looks may make the change and
    not only see what it would do.
    """

    key: str
    title: str
    help: str
    spelled: str
    meaning: str
    problem: str
    is_pinned: bool
    note: str
    may_throw: bool
    options: Sequence[Option]
    takes_text: bool
    accepts: str
    default_url: str
    proposal: Proposal | None


def open_switch(asked: Mapping[str, Any], each: SettingInForce, *, url: str, may_change: bool) -> Switch:
    """The switch as an address asks for it: with a value, what it would change. Nothing is changed."""
    setting = each.setting
    pinned = f"Pinned by the environment variable {PINNED_BY}: it is changed there, and by a restart."
    problem = pinned if each.is_pinned else ""
    is_default = bool(asked.get("default"))
    names_one = is_default or "value" in asked
    value = setting.default if is_default else read_typed(asked.get("value", ""))
    complaint = setting.accepts(value) if names_one else None
    offered, proposal = not problem, None
    if offered and names_one and complaint is None:
        proposal = _propose(each, value, is_default=is_default)
    is_open = offered and proposal is None
    options, note = _options(each, url=url) if is_open and setting.choices else ((), "")
    return Switch(
        key=setting.key,
        title=_title(each, proposal),
        help=setting.help,
        spelled=_spelled(setting, each.value),
        meaning=_meaning(setting, each.value),
        problem=problem or (f"{setting.key}: {complaint}." if complaint else ""),
        is_pinned=each.is_pinned,
        note=note,
        may_throw=may_change,
        options=options,
        takes_text=is_open and not setting.choices,
        accepts=_accepts(setting),
        default_url=_address(url, setting, default="1")
        if offered and proposal is None and each.stored is not None
        else "",
        proposal=proposal,
    )


def _title(each: SettingInForce, proposal: Proposal | None) -> str:
    key = each.setting.key
    if proposal is not None:
        return f"{proposal.button}: {key}"
    return f"{key} is pinned" if each.is_pinned else f"Change {key}"


def throw(request: HttpRequest) -> str:
    """Make the change that a confirmation asks for; gives what is wrong with it, nothing if it was made."""
    sent = request.POST
    key = sent.get("setting", "")
    author, reason, expected = author_of(request), sent.get("reason", ""), sent.get("version", "")
    try:
        if sent.get("default"):
            clear_setting(key, author=author, reason=reason, expected=expected)
        else:
            value = read_typed(sent.get("value", ""))
            store_setting(key, value, author=author, reason=reason, expected=expected)
    except RecordMovedOn:
        return OVERTAKEN
    except ValidationError as refused:
        return " ".join(refused.messages)
    return ""


def _propose(each: SettingInForce, value: Any, *, is_default: bool) -> Proposal:
    setting, now = each.setting, timezone.now()
    version = stored_version(setting.key)  # before the consequences, so that they are never older
    (foresight,) = foresee(standing_now(), [{setting.key: value}], now=now)
    calls = read_signals(since=now - WEEK, now=now)
    history = value if setting.key == CALL_HISTORY.key else None
    rows = [_consequence(consequence, calls, history=history) for consequence in foresight.changes]
    return Proposal(
        spelled=_spelled(setting, value),
        meaning=_meaning(setting, value),
        typed=spell_typed(value),
        is_default=is_default,
        version=version,
        headline=ALREADY if value == each.value else _headline(foresight),
        weight=_weight(rows, calls),
        note=_note(setting, value, foresight),
        whose=WHOSE if foresight.is_of_nobody and foresight.takes_part else "",
        rows=rows,
        button=_button(setting, value, is_default=is_default),
    )


def _options(each: SettingInForce, *, url: str) -> tuple[Sequence[Option], str]:
    """The values to choose from, and why none of them would change anything, where that can be said."""
    setting = each.setting
    foresights = foresee(standing_now(), [{setting.key: value} for value, _ in setting.choices], now=timezone.now())
    options, notes = [], set()
    for (value, meaning), foresight in zip(setting.choices, foresights, strict=True):
        is_in_force = value == each.value
        notes.add(_note(setting, value, foresight))
        options.append(
            Option(
                spelled=_spelled(setting, value),
                meaning=meaning,
                outcome="" if is_in_force else _outcome(foresight),
                is_in_force=is_in_force,
                url="" if is_in_force else _address(url, setting, value=spell_typed(value)),
            )
        )
    return options, notes.pop() if len(notes) == 1 else ""


def _consequence(each: Consequence, calls: SignalReadout, *, history: bool | None) -> ConsequenceRow:
    operations = {str(operation) for operation in each.operations}
    asked = [
        use.counts.decided
        for use in calls.uses
        if use.configuration == each.configuration and use.operation in operations
    ]
    return ConsequenceRow(
        configuration=each.configuration,
        url=address_of(Question(each.configuration, each.operations[0], history=history)),
        operations="; ".join(LABELS[operation] for operation in each.operations),
        before=each.before or NOBODY,
        after=each.after or NOBODY,
        signals=", ".join(LABELS[signal] for signal in each.signals) or "none: priority and ties decide",
        calls=sum(asked),
        goes_elsewhere=each.goes_elsewhere,
    )


def _outcome(foresight: Foresight) -> str:
    if not foresight.takes_part:
        return "takes no part in choosing a model"
    names = _names(foresight)
    named = f": {', '.join(names)}" if names else ""
    return f"{_of(len(names), foresight.configurations)} would send calls to another model{named}"


def _headline(foresight: Foresight) -> str:
    if not foresight.takes_part:
        return "It takes no part in choosing a model: no decision changes."
    if not foresight.configurations:
        return "No configuration is in service yet: no decision changes."
    names = _names(foresight)
    return f"Right now {_of(len(names), foresight.configurations)} would send calls to another model."


def _weight(rows: Sequence[ConsequenceRow], calls: SignalReadout) -> str:
    if not any(row.goes_elsewhere for row in rows):
        return ""
    affected = sum(row.calls for row in rows if row.goes_elsewhere)
    return f"{affected:,} of the {calls.total.decided:,} decided calls of the last seven days asked for one of these."


def _note(setting: Setting[Any], value: Any, foresight: Foresight) -> str:
    """Why nothing would change, where that can be said."""
    if setting.key == CALL_HISTORY.key and value is True and not foresight.measured:
        return (
            "No configuration in service is ranked by a measured mode, and others do not look at call history: set "
            "routing.policyMode, or the mode of a configuration, to balanced, quality or economy first."
        )
    if setting.key == POLICY_MODE.key and not foresight.going_by_mode:
        return "No configuration in service goes by it: each has a mode of its own, or ranks nothing."
    return ""


def _names(foresight: Foresight) -> list[str]:
    return sorted({each.configuration for each in foresight.elsewhere})


def _of(count: int, whole: int) -> str:
    return f"{count or 'none'} of {whole} configuration{'' if whole == 1 else 's'}"


def _button(setting: Setting[Any], value: Any, *, is_default: bool) -> str:
    if is_default:
        return "Back to the default"
    if setting.kind is Kind.FLAG:
        return "Switch on" if value else "Switch off"
    return f"Set to {_spelled(setting, value)}"


def _spelled(setting: Setting[Any], value: Any) -> str:
    return str(value) if setting.kind is Kind.CHOICE else setting.spell(value)


def _meaning(setting: Setting[Any], value: Any) -> str:
    return next((label for choice, label in setting.choices if choice == value), "")


def _accepts(setting: Setting[Any]) -> str:
    if setting.bounds is None:
        return f"It takes {setting.kind.value}."
    least, greatest = setting.bounds
    return f"It takes {setting.kind.value} of {setting.unit} from {least:,} to {greatest:,}."


def _address(url: str, setting: Setting[Any], **asked: str) -> str:
    return f"{url}?{urlencode({'setting': setting.key, **asked})}"
