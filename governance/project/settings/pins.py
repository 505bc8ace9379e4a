"""Settings pinned by the environment, checked against the registry before anything starts."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from governance.project.settings.environment import EnvironmentProblem
from governance.settings_store.registry import REGISTRY


def check_pins(*, name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pinned values by key, as they are.

    Raises:
        EnvironmentProblem: one of them is no setting, or not a value that it accepts. Names the variable.
    """
    for key, value in values.items():
        setting = REGISTRY.get(key)
        if setting is None:
            raise EnvironmentProblem(
                name=name, problem=f"pins {key!r}, which is no setting", remedy=f"Settings are {', '.join(REGISTRY)}."
            )
        complaint = setting.accepts(value)
        if complaint is not None:
            raise EnvironmentProblem(
                name=name,
                problem=f"pins {key} to {value!r}, which it does not accept",
                remedy=f"{complaint[:1].upper()}{complaint[1:]}.",
            )
    return MappingProxyType(dict(values))
