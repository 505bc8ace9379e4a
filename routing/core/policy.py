"""The installation's routing policy: modes, their weights, and the switches a decision is handed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from routing.core.requirements import USUALLY_ASSUMED, Assumed
from routing.core.vocabulary import Enforcement


class PolicyMode(StrEnum):
    """What ranks eligible candidates of equal provider priority."""

    PROVIDER_PRIORITY = "providerPriority"
    BALANCED = "balanced"
    QUALITY = "quality"
    ECONOMY = "economy"

    @classmethod
    def read(cls, value: object) -> "PolicyMode":
        """Read a setting. Case matters; whatever is no mode means ``providerPriority``."""
        if isinstance(value, str):
            try:
                return cls(value.strip())
            except ValueError:
                pass
        return cls.PROVIDER_PRIORITY

    @property
    def is_measured(self) -> bool:
        """Whether the mode looks at signals at all."""
        return self is not PolicyMode.PROVIDER_PRIORITY


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each signal counts in a mode. The two cost signals share one weight."""

    quality: float
    health: float
    cost: float
    latency: float


WEIGHTS: Mapping[PolicyMode, Weights] = MappingProxyType(
    {
        PolicyMode.PROVIDER_PRIORITY: Weights(0.0, 0.0, 0.0, 0.0),
        PolicyMode.BALANCED: Weights(0.4, 0.4, 0.2, 0.1),
        PolicyMode.QUALITY: Weights(0.7, 0.3, 0.0, 0.05),
        PolicyMode.ECONOMY: Weights(0.1, 0.3, 0.6, 0.05),
    }
)

MODE_LABELS: Mapping[PolicyMode, str] = MappingProxyType(
    {
        PolicyMode.PROVIDER_PRIORITY: "Provider priority, then tie-breaks; nothing is measured",
        PolicyMode.BALANCED: "Quality and health alike; cost and latency count a little",
        PolicyMode.QUALITY: "Quality first",
        PolicyMode.ECONOMY: "Cost first",
    }
)


@dataclass(frozen=True, slots=True)
class RoutingPolicy:
    """The settings a decision is handed, one snapshot per call.

    Attributes:
        mode: the mode where a configuration sets none of its own.
        call_history: whether measured latency and cost may be read.
        enforcement: what happens to models that lack a capability the call needs.
        currency: the currency in which money is compared.
        telemetry: whether calls are recorded; without it no history is read.
        assumed: tokens assumed for an upper bound of what nobody knows.
    """

    mode: PolicyMode = PolicyMode.PROVIDER_PRIORITY
    call_history: bool = False
    enforcement: Enforcement = Enforcement.ENFORCE
    currency: str = "USD"
    telemetry: bool = True
    assumed: Assumed = USUALLY_ASSUMED
