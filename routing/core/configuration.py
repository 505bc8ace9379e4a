"""A configuration: the name an application asks for, and how it arrives at a model."""

from dataclasses import dataclass
from datetime import timedelta

from routing.core.policy import PolicyMode
from routing.core.vocabulary import ListedOrder, Selection


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a criteria selection asks of every candidate. Zero, empty and ``None`` mean "does not ask".

    ``max_cost_input`` is a ceiling on the input price in nano-units per million tokens of the routing currency.
    """

    capabilities: tuple[str, ...] = ()
    adapter_types: tuple[str, ...] = ()
    min_context_length: int = 0
    max_cost_input: int | None = None
    prefer_lowest_cost: bool = False


NO_CRITERIA = Criteria()


@dataclass(frozen=True, slots=True)
class ConfigurationSpec:
    """A configuration as a value.

    Attributes:
        selection: fixed, listed or criteria; ``override`` where a caller named a model directly.
        models: identifiers: the one fixed (or named) model, or the listed ones in order; none for criteria.
        order: the order of listed models.
        policy_mode: the configuration's own mode; ``None`` for the installation's.
        fallbacks: identifiers of the configurations to turn to, in order, one hop deep.
        plan_limit: how many of its own candidates a call may walk through.
        repairs_output: whether a model may answer once more if its answer does not fit the schema asked for.
        repeats_timeouts: whether a route that did not answer in time is asked again.
        cache_seconds: for how long an answer is given again to the same deterministic request; ``None`` for never.
    """

    identifier: str
    selection: Selection
    models: tuple[str, ...] = ()
    order: ListedOrder = ListedOrder.AS_LISTED
    criteria: Criteria = NO_CRITERIA
    policy_mode: PolicyMode | None = None
    fallbacks: tuple[str, ...] = ()
    plan_limit: int = 3
    repairs_output: bool = False
    repeats_timeouts: bool = False
    cache_seconds: int | None = None
    is_active: bool = True

    def keeps_answers_for(self, most: timedelta) -> timedelta | None:
        """For how long it gives an answer again, where nothing may be kept for longer than ``most``; ``None`` if it
        keeps none."""
        return None if self.cache_seconds is None else min(timedelta(seconds=self.cache_seconds), most)


def override(model: str) -> ConfigurationSpec:
    """The configuration of a caller that names a model directly: that model, no fallbacks, no mode."""
    return ConfigurationSpec(identifier="", selection=Selection.OVERRIDE, models=(model,), plan_limit=1)
