"""The closed sets that everything else speaks in, each member with the words a person reads.

What lives here: enumerations without behaviour of their own. What does not: rules (``eligibility``), weights
(``policy``) and the table of failures (``failures``).
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Operation(StrEnum):
    """What kind of answer a call asks for. One request has exactly one; history is kept per operation."""

    CHAT = "chat"
    COMPLETE = "complete"
    VISION = "vision"
    TOOLS = "tools"
    EMBED = "embed"
    STREAM = "stream"
    STREAM_TOOLS = "stream_tools"


class Capability(StrEnum):
    """What a model may declare that it can do. Declaring nothing means undeclared, which is not "cannot"."""

    CHAT = "chat"
    COMPLETION = "completion"
    EMBEDDINGS = "embeddings"
    VISION = "vision"
    TOOLS = "tools"
    STREAMING = "streaming"
    STRUCTURED_OUTPUT = "structured_output"
    REASONING = "reasoning"
    PROMPT_CACHING = "prompt_caching"


class ServiceTier(StrEnum):
    """The class of service a provider sells its tokens in, each at a price of its own."""

    STANDARD = "standard"
    PRIORITY = "priority"
    FAST = "fast"
    FLEX = "flex"
    BATCH = "batch"

    @classmethod
    def named(cls, word: str) -> "ServiceTier":
        """What a vendor's word means: in an answer the class that was served. Unsaid, and whatever no vendor sells
        apart, is standard."""
        return _TIER_WORDS.get(word.strip().lower(), cls.STANDARD)


_TIER_WORDS = {
    "priority": ServiceTier.PRIORITY,
    "performance": ServiceTier.PRIORITY,  # Groq's word
    "fast": ServiceTier.FAST,
    "ultrafast": ServiceTier.FAST,
    "flex": ServiceTier.FLEX,
    "batch": ServiceTier.BATCH,
}


class Reach(StrEnum):
    """How far data travels to reach a provider. Only ``self_hosted`` counts as on-device."""

    VENDOR_API = "vendor_api"
    CLOUD_PARTNER = "cloud_partner"
    PRIVATE_ENDPOINT = "private_endpoint"
    SELF_HOSTED = "self_hosted"

    @property
    def is_on_device(self) -> bool:
        """Whether data sent there stays on machines the operator runs."""
        return self is Reach.SELF_HOSTED

    @classmethod
    def parse(cls, text: str) -> "Reach | None":
        """Read a reach in any spelling an operator uses (case, blanks, hyphens); ``None`` if it is none."""
        try:
            return cls(text.strip().lower().replace("-", "_"))
        except ValueError:
            return None


class DataBoundary(StrEnum):
    """An operator's attestation of where a provider keeps data. Unknown gives no trust."""

    UNKNOWN = "unknown"
    INTERNAL = "internal"
    EXTERNAL = "external"


class Selection(StrEnum):
    """How a configuration, or a caller who names a model directly, arrives at candidates."""

    FIXED = "fixed"
    LISTED = "listed"
    CRITERIA = "criteria"
    OVERRIDE = "override"


class ListedOrder(StrEnum):
    """In which order a listed configuration reaches for its models. All sorts are stable."""

    AS_LISTED = "asListed"
    CHEAPEST = "cheapest"
    HEALTHIEST = "healthiest"


class Enforcement(StrEnum):
    """What happens to a model that declares capabilities without one that the running call needs."""

    ENFORCE = "enforce"
    OBSERVE = "observe"

    @classmethod
    def read(cls, value: object) -> "Enforcement":
        """Read a setting. Only the word ``observe`` (trimmed, any case) observes; all else enforces."""
        if isinstance(value, str) and value.strip().lower() == cls.OBSERVE.value:
            return cls.OBSERVE
        return cls.ENFORCE


class SignalName(StrEnum):
    """The signals a score is made of. ``cost`` is the list price, ``callCost`` the measured cost of a call."""

    QUALITY = "quality"
    HEALTH = "health"
    COST = "cost"
    LATENCY = "latency"
    CALL_COST = "callCost"


class CostBasis(StrEnum):
    """The one unit in which a decision compares cost."""

    LIST_PRICE = "listPrice"
    CALL_COST = "callCost"


class DecisionState(StrEnum):
    """The outcomes a page has to tell apart."""

    FIXED = "fixed"
    LISTED = "listed"
    DECIDED = "decided"
    EMPTY_CATALOGUE = "emptyCatalogue"
    ALL_REFUSED = "allRefused"


class RejectionReason(StrEnum):
    """Why a candidate was refused: the first hard constraint that did, in the order of the members."""

    NOT_PERMITTED = "notPermitted"
    BUDGET_TARGET_ONLY = "budgetTargetOnly"
    BOUNDARY_NOT_ALLOWED = "boundaryNotAllowed"
    REACH_NOT_ALLOWED = "reachNotAllowed"
    REGION_NOT_ALLOWED = "regionNotAllowed"
    CAPABILITY_MISSING = "capabilityMissing"
    ADAPTER_NOT_ALLOWED = "adapterNotAllowed"
    CONTEXT_TOO_SMALL = "contextTooSmall"
    COST_ABOVE_LIMIT = "costAboveLimit"
    REQUEST_TOO_LARGE = "requestTooLarge"
    ABOVE_REQUEST_CEILING = "aboveRequestCeiling"
    OPERATION_CAPABILITY_MISSING = "operationCapabilityMissing"


class RestCause(StrEnum):
    """What makes a route rest."""

    FAILURES = "failures"
    PREFLIGHT = "preflight"
    PAUSED = "paused"


class SkipReason(StrEnum):
    """Why a planned route was passed over without being asked. A skip is no failure of the route."""

    CONFIGURATION_MISSING = "configurationMissing"
    CONFIGURATION_INACTIVE = "configurationInactive"
    CONFIGURATION_FORBIDDEN = "configurationForbidden"
    NOTHING_ELIGIBLE = "nothingEligible"
    ALREADY_PLANNED = "alreadyPlanned"
    UNKNOWN_TO_PROVIDER = "unknownToProvider"
    RESTING = "resting"
    SATURATED = "saturated"
    NOT_AFFORDABLE = "notAffordable"
    LEDGER_UNREACHABLE = "ledgerUnreachable"
    BUDGET_TARGET_ONLY = "budgetTargetOnly"
    CONTEXT_NO_LONGER = "contextNoLonger"
    UNUSABLE = "unusable"
    NOT_CARRIED = "notCarried"


OPERATION_CAPABILITY: Mapping[Operation, Capability | None] = MappingProxyType(
    {
        Operation.CHAT: Capability.CHAT,
        Operation.COMPLETE: None,
        Operation.VISION: Capability.VISION,
        Operation.TOOLS: Capability.TOOLS,
        Operation.EMBED: None,
        Operation.STREAM: None,
        Operation.STREAM_TOOLS: Capability.TOOLS,
    }
)
"""The capability an operation demands by itself; ``None`` where it only selects its history."""


class Labels:
    """The words of each member: ``LABELS[member]``.

    Not a plain mapping, because members of two enumerations that are spelled alike (``chat`` is an operation and a
    capability) are equal as texts: each would answer with the other's words.
    """

    def __init__(self, *enumerations: Mapping[StrEnum, str]) -> None:
        self._words = {type(next(iter(words))): dict(words) for words in enumerations}

    def __getitem__(self, member: StrEnum) -> str:
        return self._words[type(member)][member]

    def __contains__(self, member: StrEnum) -> bool:
        return member in self._words.get(type(member), {})


LABELS = Labels(
    {
        Operation.CHAT: "Chat, whole answer",
        Operation.COMPLETE: "Legacy completion",
        Operation.VISION: "Chat about images",
        Operation.TOOLS: "Chat with tools",
        Operation.EMBED: "Embeddings",
        Operation.STREAM: "Chat, streamed answer",
        Operation.STREAM_TOOLS: "Chat with tools, streamed answer",
    },
    {
        Capability.CHAT: "Chat",
        Capability.COMPLETION: "Legacy completion",
        Capability.EMBEDDINGS: "Embeddings",
        Capability.VISION: "Reads images",
        Capability.TOOLS: "Calls tools",
        Capability.STREAMING: "Streams its answer",
        Capability.STRUCTURED_OUTPUT: "Structured output",
        Capability.REASONING: "Reasoning",
        Capability.PROMPT_CACHING: "Prompt caching",
    },
    {
        ServiceTier.STANDARD: "Standard",
        ServiceTier.PRIORITY: "Priority",
        ServiceTier.FAST: "Fast",
        ServiceTier.FLEX: "Flex",
        ServiceTier.BATCH: "Batch",
    },
    {
        Reach.VENDOR_API: "The vendor's public API",
        Reach.CLOUD_PARTNER: "A cloud partner of the vendor",
        Reach.PRIVATE_ENDPOINT: "A private endpoint",
        Reach.SELF_HOSTED: "Self-hosted (on-device)",
    },
    {
        DataBoundary.UNKNOWN: "Unknown",
        DataBoundary.INTERNAL: "Internal",
        DataBoundary.EXTERNAL: "External",
    },
    {
        Selection.FIXED: "One fixed model",
        Selection.LISTED: "Listed models, in an order",
        Selection.CRITERIA: "Criteria, ranked",
        Selection.OVERRIDE: "Named by the caller",
    },
    {
        ListedOrder.AS_LISTED: "As listed",
        ListedOrder.CHEAPEST: "Cheapest published price first",
        ListedOrder.HEALTHIEST: "Fewest failures in a row first",
    },
    {
        Enforcement.ENFORCE: "Refuse models that lack the capability",
        Enforcement.OBSERVE: "Only record what would be refused",
    },
    {
        SignalName.QUALITY: "Measured quality",
        SignalName.HEALTH: "Provider health",
        SignalName.COST: "List price",
        SignalName.LATENCY: "Measured latency",
        SignalName.CALL_COST: "Measured cost of a call",
    },
    {
        CostBasis.LIST_PRICE: "List price",
        CostBasis.CALL_COST: "Measured cost of a call",
    },
    {
        DecisionState.FIXED: "The configuration names its model; nothing was ranked",
        DecisionState.LISTED: "The configuration lists its models; nothing was scored",
        DecisionState.DECIDED: "Ranked by the policy in force",
        DecisionState.EMPTY_CATALOGUE: "No model is in service",
        DecisionState.ALL_REFUSED: "Every candidate was refused",
    },
    {
        RejectionReason.NOT_PERMITTED: "The key does not allow this model",
        RejectionReason.BUDGET_TARGET_ONLY: "A strict budget tier allows other models only",
        RejectionReason.BOUNDARY_NOT_ALLOWED: "The content must stay at an internal destination",
        RejectionReason.REACH_NOT_ALLOWED: "The data must stay on-device",
        RejectionReason.REGION_NOT_ALLOWED: "The provider's region is not allowed",
        RejectionReason.CAPABILITY_MISSING: "A capability that the criteria ask for is not declared",
        RejectionReason.ADAPTER_NOT_ALLOWED: "The criteria do not allow this adapter type",
        RejectionReason.CONTEXT_TOO_SMALL: "The context is smaller than the criteria ask for, or unknown",
        RejectionReason.COST_ABOVE_LIMIT: "The input price is above the criteria's limit",
        RejectionReason.REQUEST_TOO_LARGE: "The estimated prompt does not fit the context",
        RejectionReason.ABOVE_REQUEST_CEILING: "The call could cost more than the caller's ceiling",
        RejectionReason.OPERATION_CAPABILITY_MISSING: "Declares capabilities, but not one that this call needs",
    },
    {
        RestCause.FAILURES: "It failed",
        RestCause.PREFLIGHT: "Denied at preflight",
        RestCause.PAUSED: "Paused by an operator",
    },
    {
        SkipReason.CONFIGURATION_MISSING: "The fallback configuration does not exist",
        SkipReason.CONFIGURATION_INACTIVE: "The fallback configuration is switched off",
        SkipReason.CONFIGURATION_FORBIDDEN: "The key does not allow the fallback configuration",
        SkipReason.NOTHING_ELIGIBLE: "No candidate of the fallback configuration is eligible",
        SkipReason.ALREADY_PLANNED: "The route already stands earlier in the plan",
        SkipReason.UNKNOWN_TO_PROVIDER: "The provider does not know this model",
        SkipReason.RESTING: "The route is resting",
        SkipReason.SATURATED: "The provider's concurrency limit is reached",
        SkipReason.NOT_AFFORDABLE: "A budget cannot afford the call",
        SkipReason.LEDGER_UNREACHABLE: "The ledger of budgets cannot be reached",
        SkipReason.BUDGET_TARGET_ONLY: "Since the plan was made, a strict budget tier allows other models only",
        SkipReason.CONTEXT_NO_LONGER: "Its context is no longer than the one that was exceeded",
        SkipReason.UNUSABLE: "The provider's record cannot be used",
        SkipReason.NOT_CARRIED: "Its protocol has no place for something that the request asks for",
    },
)
"""Every member of every enumeration above, in words. A test fails when one is missing."""
