"""What a change of a setting would do to decisions, before it is made.

Every configuration in service is asked for every operation, once by the settings in force and once by the supposed
ones, by the function that decides calls, and as nobody in particular: past a tier of a budget that names an
application, a key or a user their calls go elsewhere. What is compared is which model goes first, and then whether
those behind it come in another order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from governance.decisions import NOBODY, Standing, decide_once
from governance.settings_store.store import load_settings
from governance.standing_poll import under
from routing.core.configuration import ConfigurationSpec
from routing.core.decision import Decision
from routing.core.requirements import Requirements
from routing.core.vocabulary import Operation, Selection, SignalName


@dataclass(frozen=True, slots=True)
class Consequence:
    """What would become of one configuration's calls for some operations.

    Attributes:
        before, after: the route that goes first, ``provider/model``; ``None`` if nobody may serve.
        signals: the signals that would move the decision then.
    """

    configuration: str
    operations: tuple[Operation, ...]
    before: str | None
    after: str | None
    signals: tuple[SignalName, ...]

    @property
    def goes_elsewhere(self) -> bool:
        """Whether another model would go first; otherwise those behind it come in another order."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Foresight:
    """What a change would do.

    Attributes:
        takes_part: whether decisions would be handed something else at all.
        configurations: how many are in service.
        measured: how many of them a measured mode would rank.
        going_by_mode: how many of them are ranked by the installation's mode, since they have none of their own.
        changes: every change, by configuration.
        is_of_nobody: whether tiers of budgets send calls of some applications, keys or users elsewhere.
    """

    takes_part: bool
    configurations: int
    measured: int
    going_by_mode: int
    changes: tuple[Consequence, ...]
    is_of_nobody: bool = False

    @property
    def elsewhere(self) -> tuple[Consequence, ...]:
        """The changes after which another model goes first."""
        return tuple(each for each in self.changes if each.goes_elsewhere)

    @property
    def reordered(self) -> tuple[Consequence, ...]:
        """The changes after which the same model goes first, and others behind it come in another order."""
        return tuple(each for each in self.changes if not each.goes_elsewhere)


_Decisions = Mapping[tuple[str, Operation], Decision]


def foresee(standing: Standing, choices: Sequence[Mapping[str, Any]], *, now: datetime) -> list[Foresight]:
    """What each choice would change right now: settings as if they had other stored values, by key.

    Two queries a choice, and those of the figures where the settings say which there are. What is in force is decided
    once, if any choice has a part in it.
    """
    before: _Decisions | None = None
    found = []
    for supposed in choices:
        settings = load_settings(supposed=supposed)
        takes_part = standing.settings.routing != settings.routing
        changes: list[Consequence] = []
        if takes_part:
            before = _decide_all(standing, now) if before is None else before
            changes = _changes(before, _decide_all(under(standing, settings, now=now), now))
        asked = _in_service(standing)
        modes = [spec.policy_mode for spec in asked if spec.selection is Selection.CRITERIA]
        found.append(
            Foresight(
                takes_part=takes_part,
                configurations=len(asked),
                measured=sum((mode or settings.routing.mode).is_measured for mode in modes),
                going_by_mode=modes.count(None),
                changes=tuple(changes),
                is_of_nobody=standing.budgets.has_tiers_of_some,
            )
        )
    return found


def _in_service(standing: Standing) -> list[ConfigurationSpec]:
    active = [spec for spec in standing.snapshot.configurations.values() if spec.is_active]
    return sorted(active, key=lambda spec: spec.identifier)


def _decide_all(standing: Standing, now: datetime) -> _Decisions:
    return {
        (spec.identifier, each): decide_once(
            standing, spec, requirements=Requirements(operation=each), now=now, who=NOBODY
        )
        for spec in _in_service(standing)
        for each in Operation
    }


def _changes(before: _Decisions, after: _Decisions) -> list[Consequence]:
    """What differs, operations with the same outcome in one."""
    found: dict[tuple[str, str | None, str | None, tuple[SignalName, ...]], list[Operation]] = {}
    for (configuration, operation), now in before.items():
        then = after[configuration, operation]
        if _order(now) != _order(then):
            key = (configuration, _first(now), _first(then), then.signals_used)
            found.setdefault(key, []).append(operation)
    return [
        Consequence(configuration, tuple(operations), first_now, first_then, signals)
        for (configuration, first_now, first_then, signals), operations in found.items()
    ]


def _first(decision: Decision) -> str | None:
    return None if decision.selected is None else decision.selected.model.route


def _order(decision: Decision) -> list[str]:
    return [each.model.route for each in decision.eligible]
