"""What a change of a setting would do to decisions, before it is made.

Every configuration in service is asked for every operation, once by the settings in force and once by the supposed
ones, by the function that rules for calls. What is compared is which model goes first, and then whether those behind it
come in another order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from governance.decisions import Standing, rule, under
from governance.settings_store.store import load_settings
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
        takes_part: whether any decision is handed the setting at all.
        configurations: how many are in service.
        measured: how many of them a measured mode would rank.
        going_by_mode: how many of them are ranked by the installation's mode, since they have none of their own.
        changes: every change, by configuration.
    """

    takes_part: bool
    configurations: int
    measured: int
    going_by_mode: int
    changes: tuple[Consequence, ...]

    @property
    def elsewhere(self) -> tuple[Consequence, ...]:
        """The changes after which another model goes first."""
        return tuple(each for each in self.changes if each.goes_elsewhere)

    @property
    def reordered(self) -> tuple[Consequence, ...]:
        """The changes after which the same model goes first, and others behind it come in another order."""
        return tuple(each for each in self.changes if not each.goes_elsewhere)


def foresee(standing: Standing, supposed: Mapping[str, Any], *, now: datetime) -> Foresight:
    """What would change right now if settings had other stored values, by key: two queries, and those of the figures
    where the settings say which there are."""
    settings = load_settings(supposed=supposed)
    other = under(standing, settings, now=now)
    takes_part = standing.settings.routing != settings.routing
    asked = [spec for spec in standing.snapshot.configurations.values() if spec.is_active]
    changes: list[Consequence] = []
    modes = [spec.policy_mode for spec in asked if spec.selection is Selection.CRITERIA]
    for spec in sorted(asked, key=lambda each: each.identifier):
        found: dict[tuple[str | None, str | None, tuple[SignalName, ...]], list[Operation]] = {}
        for operation in Operation if takes_part else ():
            requirements = Requirements(operation=operation)
            before, after = (
                rule(each, spec, requirements=requirements, now=now).decision for each in (standing, other)
            )
            if _order(before) != _order(after):
                found.setdefault((_first(before), _first(after), after.signals_used), []).append(operation)
        changes += [
            Consequence(spec.identifier, tuple(operations), before_route, after_route, signals)
            for (before_route, after_route, signals), operations in found.items()
        ]
    return Foresight(
        takes_part=takes_part,
        configurations=len(asked),
        measured=sum((mode or settings.routing.mode).is_measured for mode in modes),
        going_by_mode=modes.count(None),
        changes=tuple(changes),
    )


def _first(decision: Decision) -> str | None:
    return None if decision.selected is None else decision.selected.model.route


def _order(decision: Decision) -> list[str]:
    return [each.model.route for each in decision.eligible]
