"""Who plays in the demo: providers, models, configurations and applications, as values.

Everything is invented. The names of every two namespaces differ (a provider's identifier, its adapter type, its path
at the simulator, a model's identifier, the id sent upstream), so that a page that shows the wrong one shows it.

The play is about ``support-chat``: two models are eligible, and the slower one measures slightly better, so that the
installation chooses it until it looks at what calls took. What the models do when called is in ``profiles``; rows are
made in ``seed``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from budgets.scopes import EACH, BudgetSpec, Scope, Tier, Unpriced
from budgets.windows import WindowKind
from routing.core.catalogue import ModelSpec, ProviderSpec
from routing.core.configuration import ConfigurationSpec, Criteria
from routing.core.money import parse_nanos
from routing.core.policy import PolicyMode
from routing.core.pricing import Price, Rates
from routing.core.vocabulary import Capability, DataBoundary, ListedOrder, Reach, Selection

SOURCE = "demo"
"""What every row of the demo is marked with, in its ``source``."""

CURRENCY = "USD"

FIRST_PRICES = datetime(2025, 1, 1, tzinfo=UTC)
"""When the prices came into force that have always been."""

PRICE_CUT_DAYS = 12
"""How many days before the first start of the demo the price of one model was cut."""

EVALUATED_DAYS = 33
"""How many days before the first start of the demo quality was measured."""


@dataclass(frozen=True, slots=True)
class DemoProvider:
    """A provider, and the path under which the simulator plays it."""

    spec: ProviderSpec
    path: str


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model, its rates (no rates: unpriced; a second pair came into force later), and its score by golden set."""

    spec: ModelSpec
    rates: Rates | None = None
    cut_to: Rates | None = None
    scores: Mapping[str, float] = field(default_factory=dict)

    def prices(self, *, started: datetime) -> tuple[Price, ...]:
        """The dated prices, if the demo was first started at ``started``."""
        if self.rates is None:
            return ()
        always = Price(FIRST_PRICES, CURRENCY, self.rates)
        if self.cut_to is None:
            return (always,)
        return always, Price(price_cut(started=started), CURRENCY, self.cut_to)


@dataclass(frozen=True, slots=True)
class DemoConfiguration:
    """A configuration and the words that explain it."""

    spec: ConfigurationSpec
    name: str
    description: str


@dataclass(frozen=True, slots=True)
class DemoApplication:
    """An application and what its key allows (``None``: every configuration)."""

    identifier: str
    name: str
    description: str
    configurations: tuple[str, ...] | None = None
    may_name_models: bool = False


@dataclass(frozen=True, slots=True)
class DemoBudget:
    """A budget, its name, and the share of its limit in per cent that the seeded past has spent.

    With a share the limit follows from what was spent, since that depends on the day on which the demo is started.
    """

    spec: BudgetSpec
    name: str
    spent_percent: int | None = None


def price_cut(*, started: datetime) -> datetime:
    """The midnight (UTC) at which the one price was cut."""
    return (started - timedelta(days=PRICE_CUT_DAYS)).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _rates(dollars_in: str, dollars_out: str, *, cached: str | None = None) -> Rates:
    return Rates(
        input=parse_nanos(dollars_in),
        output=parse_nanos(dollars_out),
        cached_input=None if cached is None else parse_nanos(cached),
    )


_ATLAS = ProviderSpec(
    identifier="atlas-cloud",
    adapter_type="openai",
    name="Atlas Cloud",
    reach=Reach.VENDOR_API,
    data_boundary=DataBoundary.EXTERNAL,
    region="us-east",
)
_BOREALIS = ProviderSpec(
    identifier="borealis-eu",
    adapter_type="together",
    name="Borealis Europe",
    reach=Reach.CLOUD_PARTNER,
    data_boundary=DataBoundary.EXTERNAL,
    region="eu-central",
)
_CITADEL = ProviderSpec(
    identifier="citadel-cellar",
    adapter_type="vllm",
    name="Citadel (our own machines)",
    reach=Reach.SELF_HOSTED,
    data_boundary=DataBoundary.INTERNAL,
    region="on-site",
)
_DYNAMO = ProviderSpec(
    identifier="dynamo-express",
    adapter_type="groq",
    name="Dynamo Express",
    reach=Reach.VENDOR_API,
    region="us-west",
)

PROVIDERS = (
    DemoProvider(_ATLAS, path="atlas"),
    DemoProvider(_BOREALIS, path="borealis"),
    DemoProvider(_CITADEL, path="citadel"),
    DemoProvider(_DYNAMO, path="dynamo"),
)

SWIFT = "swift-chat"
DEEP = "deep-chat"
VECTORS = "help-vectors"
STEADY = "cellar-steady"

_CHAT, _TOOLS, _STREAMING = Capability.CHAT, Capability.TOOLS, Capability.STREAMING
_STRUCTURED, _REASONING, _VISION = Capability.STRUCTURED_OUTPUT, Capability.REASONING, Capability.VISION

MODELS = (
    DemoModel(
        ModelSpec(
            identifier=DEEP, model_id="atlas-4-deep", provider=_ATLAS, name="Atlas 4 Deep",
            capabilities=frozenset({_CHAT, _TOOLS, _STREAMING, _STRUCTURED, _REASONING}),
            context_length=200_000, max_output=16_384, sorting=10,
        ),
        rates=_rates("4", "16"),
        scores={"support-answers": 0.83, "code-tasks": 0.85},
    ),
    DemoModel(
        ModelSpec(
            identifier=SWIFT, model_id="atlas-4-swift", provider=_ATLAS, name="Atlas 4 Swift",
            capabilities=frozenset({_CHAT, _TOOLS, _STREAMING, _STRUCTURED}),
            context_length=128_000, max_output=16_384, sorting=20,
        ),
        rates=_rates("2.5", "10"),
        scores={"support-answers": 0.84, "code-tasks": 0.80},
    ),
    DemoModel(
        ModelSpec(
            identifier=VECTORS, model_id="atlas-4-embed", provider=_ATLAS, name="Atlas 4 Embed",
            capabilities=frozenset({Capability.EMBEDDINGS}), context_length=8_192, sorting=90,
        ),
        rates=_rates("0.09", "0"),
    ),
    DemoModel(
        ModelSpec(
            identifier="borealis-coder", model_id="brl-coder-2", provider=_BOREALIS, name="Borealis Coder 2",
            capabilities=frozenset({_CHAT, _TOOLS, _STREAMING}),
            context_length=256_000, max_output=8_192, sorting=30,
        ),
        rates=_rates("0.9", "2.7", cached="0.09"),
        scores={"code-tasks": 0.91},
    ),
    DemoModel(
        ModelSpec(
            identifier="borealis-scribe", model_id="brl-scribe-24b", provider=_BOREALIS, name="Borealis Scribe 24B",
            capabilities=frozenset({_CHAT, _TOOLS, _STREAMING}),
            context_length=32_768, max_output=4_096, sorting=40,
        ),
        rates=_rates("0.25", "0.75"),
        cut_to=_rates("0.2", "0.6"),
        scores={"support-answers": 0.68, "code-tasks": 0.64},
    ),
    DemoModel(
        ModelSpec(
            identifier="dynamo-spark", model_id="dyn/spark-mini", provider=_DYNAMO, name="Dynamo Spark Mini",
            capabilities=frozenset({_CHAT, _STREAMING}),
            context_length=131_072, max_output=8_192, sorting=50,
        ),
        rates=_rates("0.05", "0.08"),
        scores={"support-answers": 0.58},
    ),
    DemoModel(
        ModelSpec(
            identifier="dynamo-lens", model_id="dyn/lens-11b-v", provider=_DYNAMO, name="Dynamo Lens 11B",
            capabilities=frozenset({_CHAT, _STREAMING, _VISION}),
            context_length=65_536, max_output=4_096, sorting=60,
        ),
        rates=_rates("0.11", "0.34"),
        scores={"support-answers": 0.63},
    ),
    DemoModel(
        ModelSpec(
            identifier=STEADY, model_id="ctd-steady-8b", provider=_CITADEL, name="Steady 8B",
            capabilities=frozenset({_CHAT, _STREAMING}),
            context_length=16_384, max_output=4_096, is_default=True, sorting=70,
        ),
        rates=_rates("0", "0"),
        scores={"support-answers": 0.61},
    ),
    DemoModel(
        ModelSpec(
            identifier="cellar-small", model_id="ctd-small-3b", provider=_CITADEL, name="Small 3B, undeclared",
            sorting=80,
        ),
    ),
)  # fmt: skip

_SUPPORT = Criteria(capabilities=(_CHAT.value, _STRUCTURED.value), min_context_length=100_000)

SUPPORT_CHAT = "support-chat"
ANYTHING = "ask-anything"

CONFIGURATIONS = (
    DemoConfiguration(
        ConfigurationSpec(
            identifier=SUPPORT_CHAT, selection=Selection.CRITERIA, criteria=_SUPPORT, policy_mode=PolicyMode.BALANCED
        ),
        name="Support chat",
        description="Two models may serve it. The slower one measures slightly better and wins, until "
        "routing.callHistory lets the decision see what calls took.",
    ),
    DemoConfiguration(
        ConfigurationSpec(
            identifier="support-drafts", selection=Selection.CRITERIA, criteria=_SUPPORT, policy_mode=PolicyMode.ECONOMY
        ),
        name="Drafts of support answers",
        description="The same two models, cost first. With routing.callHistory on, cost is what calls cost.",
    ),
    DemoConfiguration(
        ConfigurationSpec(
            identifier="code-review",
            selection=Selection.CRITERIA,
            criteria=Criteria(capabilities=(_TOOLS.value,)),
            policy_mode=PolicyMode.QUALITY,
        ),
        name="Code review",
        description="Quality first, among the models that call tools.",
    ),
    DemoConfiguration(
        ConfigurationSpec(
            identifier="private-notes",
            selection=Selection.CRITERIA,
            criteria=Criteria(adapter_types=("vllm",)),
            policy_mode=PolicyMode.PROVIDER_PRIORITY,
        ),
        name="Private notes",
        description="Our own machines only; one of the two models is the default.",
    ),
    DemoConfiguration(
        ConfigurationSpec(
            identifier="batch-summaries",
            selection=Selection.LISTED,
            models=(SWIFT, "borealis-scribe", "dynamo-spark"),
            order=ListedOrder.CHEAPEST,
            fallbacks=("support-drafts", "private-notes"),
        ),
        name="Summaries at night",
        description="The cheapest of three; then whatever serves drafts, then our own machines.",
    ),
    DemoConfiguration(
        ConfigurationSpec(identifier="image-captions", selection=Selection.FIXED, models=("dynamo-lens",)),
        name="Captions of images",
        description="One model, nothing is chosen.",
    ),
    DemoConfiguration(
        ConfigurationSpec(identifier="help-search", selection=Selection.FIXED, models=(VECTORS,)),
        name="Search in help pages",
        description="Embeddings. Vectors of two models cannot be compared, so it is one model.",
    ),
    DemoConfiguration(
        ConfigurationSpec(identifier=ANYTHING, selection=Selection.FIXED, models=(DEEP,)),
        name="Ask anything",
        description="A dear model, until its budget of the day leads calls to a cheaper one, and then to a free one.",
    ),
)

VISITOR = "visitor"
"""The application whose key is printed."""

APPLICATIONS = (
    DemoApplication(
        "help-desk", "Help desk", "Answers customers.", configurations=(SUPPORT_CHAT, "support-drafts")
    ),
    DemoApplication("dev-tools", "Developer tools", "Reviews changes.", configurations=("code-review",)),
    DemoApplication(
        "back-office", "Back office", "Summaries and notes.",
        configurations=("batch-summaries", "private-notes", "support-drafts"),
    ),
    DemoApplication("media-shelf", "Media shelf", "Describes pictures.", configurations=("image-captions",)),
    DemoApplication(
        VISITOR, "You", "The key that the demo prints: every configuration, and models by name.", may_name_models=True
    ),
)  # fmt: skip

BUDGETS = (
    DemoBudget(
        BudgetSpec(
            identifier="your-day",
            scope=Scope(application=VISITOR),
            currency=CURRENCY,
            limit=parse_nanos("1"),
            window=WindowKind.DAY,
            unpriced=Unpriced.ALLOW,
        ),
        name="What you may spend in a day",
    ),
    DemoBudget(
        BudgetSpec(
            identifier="review-pilot",
            scope=Scope(application="dev-tools"),
            currency=CURRENCY,
            limit=parse_nanos("5"),
            is_hard=False,
            window=WindowKind.TOTAL,
            alerts=(80, 100),
        ),
        name="The pilot of code reviews",
        spent_percent=96,
    ),
    DemoBudget(
        BudgetSpec(
            identifier="each-application",
            scope=Scope(application=EACH),
            currency=CURRENCY,
            limit=parse_nanos("5"),
            is_hard=False,
            window=WindowKind.DAY,
            alerts=(50, 100),
        ),
        name="A day of each application",
    ),
    DemoBudget(
        BudgetSpec(
            identifier="anything-day",
            scope=Scope(configuration=ANYTHING),
            currency=CURRENCY,
            limit=parse_nanos("0.02"),  # one call of the dear model and a part of the next
            is_hard=False,
            window=WindowKind.DAY,
            tiers=(Tier(50, (SWIFT,)), Tier(100, (STEADY,))),
            enforces_targets=True,
        ),
        name="What Ask anything may cost in a day",
    ),
)
"""A hard one with room, a soft one that is nearly spent, one that counts each application on its own, and one with a
ladder that three calls of a visitor go down."""
