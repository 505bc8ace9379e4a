"""Models, figures and decisions to test with. Every namespace has names of its own, so that a mix-up shows."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from routing.core.catalogue import Catalogue, ModelSpec, ProviderSpec
from routing.core.configuration import ConfigurationSpec, Criteria
from routing.core.decision import Candidate, Decision, decide
from routing.core.money import Money, parse_nanos
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.pricing import Price, Rates
from routing.core.requirements import UNLIMITED, Limits, Requirements
from routing.core.signals import Figures, HealthFigure, HistoryFigure
from routing.core.vocabulary import DataBoundary, ListedOrder, Operation, Reach, Selection

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LAST_YEAR = datetime(2025, 1, 1, tzinfo=UTC)
CHAT = Requirements(operation=Operation.CHAT)

PROD_EAST = ProviderSpec(
    identifier="prod-east",
    adapter_type="openai",
    name="Production, east",
    reach=Reach.VENDOR_API,
    data_boundary=DataBoundary.EXTERNAL,
    region="eu-1",
)


def price(input: str, output: str, *, currency: str = "USD", valid_from: datetime = LAST_YEAR) -> Price:
    """A price in units of currency per million tokens."""
    return Price(valid_from, currency, Rates(input=parse_nanos(input), output=parse_nanos(output)))


def model(
    identifier: str,
    *,
    provider: ProviderSpec = PROD_EAST,
    prices: Iterable[Price] = (),
    capabilities: Iterable[str] = ("chat",),
    context_length: int | None = 128_000,
    max_output: int | None = None,
    is_default: bool = False,
    sorting: int = 0,
    name: str = "",
) -> ModelSpec:
    """A model whose id at the provider is ``gpt-x-<identifier>``."""
    return ModelSpec(
        identifier=identifier,
        model_id=f"gpt-x-{identifier}",
        provider=provider,
        name=name or f"The {identifier} one",
        capabilities=frozenset(capabilities),
        context_length=context_length,
        max_output=max_output,
        is_default=is_default,
        sorting=sorting,
        prices=tuple(prices),
    )


def at(adapter_type: str, *, priority: int = 50, **changes: object) -> ProviderSpec:
    """Another provider: ``prod-<adapter type>``."""
    spec = replace(PROD_EAST, identifier=f"prod-{adapter_type}", adapter_type=adapter_type, priority=priority)
    return replace(spec, **changes)  # type: ignore[arg-type]


def history(
    *, calls: int = 10, latency: float | None = None, priced: int | None = None, cost: str | None = None,
    currency: str = "USD",
) -> HistoryFigure:  # fmt: skip
    """Call history; ``cost`` is what a call cost on average."""
    mean_cost = None if cost is None else Money(parse_nanos(cost), currency)
    priced_calls = (calls if cost is not None else 0) if priced is None else priced
    return HistoryFigure(calls=calls, mean_latency_ms=latency, priced_calls=priced_calls, mean_cost=mean_cost)


def latencies(**figures: float) -> dict[str, HistoryFigure]:
    """History that knows latencies only."""
    return {name: history(latency=figure) for name, figure in figures.items()}


def costs(**figures: str) -> dict[str, HistoryFigure]:
    """History that knows costs only."""
    return {name: history(cost=figure) for name, figure in figures.items()}


def figures(
    *,
    quality: Mapping[str, float] | None = None,
    health: Mapping[str, HealthFigure] | None = None,
    chat: Mapping[str, HistoryFigure] | None = None,
    failures: Mapping[str, int] | None = None,
) -> Figures:
    """Figures by model identifier; ``chat`` is the history of that operation, read even when empty."""
    return Figures(
        quality=quality or {},
        health=health or {},
        history={Operation.CHAT: chat or {}},
        failures_in_a_row=failures or {},
    )


def criteria(criteria: Criteria | None = None, *, mode: PolicyMode | None = None) -> ConfigurationSpec:
    """A configuration that ranks by criteria."""
    return ConfigurationSpec(
        identifier="assistant", selection=Selection.CRITERIA, criteria=criteria or Criteria(), policy_mode=mode
    )


def listed(*models: str, order: ListedOrder = ListedOrder.AS_LISTED) -> ConfigurationSpec:
    """A configuration that lists its models."""
    return ConfigurationSpec(identifier="letters", selection=Selection.LISTED, models=models, order=order)


def fixed(*models: str) -> ConfigurationSpec:
    """A configuration that names its one model, or none."""
    return ConfigurationSpec(identifier="summaries", selection=Selection.FIXED, models=models)


def ranked(
    *models: ModelSpec,
    mode: PolicyMode = PolicyMode.BALANCED,
    prefer_lowest_cost: bool = False,
    call_history: bool = True,
    currency: str = "USD",
    requirements: Requirements = CHAT,
    known: Figures | None = None,
) -> Decision:
    """The decision of a criteria configuration over these models."""
    return decide(
        configuration=criteria(Criteria(prefer_lowest_cost=prefer_lowest_cost)),
        catalogue=Catalogue.of(models),
        requirements=requirements,
        policy=RoutingPolicy(mode=mode, call_history=call_history, currency=currency),
        now=NOW,
        figures=known or figures(),
    )


def decided(
    configuration: ConfigurationSpec,
    *models: ModelSpec,
    policy: RoutingPolicy | None = None,
    requirements: Requirements = CHAT,
    limits: Limits = UNLIMITED,
    known: Figures | None = None,
) -> Decision:
    """The decision of any configuration over these models."""
    return decide(
        configuration=configuration,
        catalogue=Catalogue.of(models),
        requirements=requirements,
        policy=policy or RoutingPolicy(),
        now=NOW,
        limits=limits,
        figures=known or figures(),
    )


def order(decision: Decision) -> list[str]:
    """Identifiers of the eligible, best first."""
    return [each.model.identifier for each in decision.eligible]


def candidate(decision: Decision, identifier: str) -> Candidate:
    """One candidate of a decision."""
    return next(each for each in decision.candidates if each.model.identifier == identifier)
