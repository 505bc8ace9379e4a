"""How long a decision takes, and its transcript: ``python bench/decide.py``.

Every figure is the best of several repeats in processor time of this process, so that what else the machine does
hardly matters. It is a measurement for people; nothing fails by it.
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from routing.core.catalogue import Catalogue, ModelSpec, ProviderSpec
from routing.core.configuration import ConfigurationSpec, Criteria
from routing.core.decision import Decision, decide
from routing.core.money import Money
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.pricing import Price, Rates
from routing.core.requirements import Limits, Requirements
from routing.core.signals import Figures, HealthFigure, HistoryFigure, HistoryKey, figures_of
from routing.core.transcript import canonical, digest, document
from routing.core.vocabulary import Operation, Selection

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PRICED_FROM = (datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
SIZES = (5, 20, 100)
MODES = (PolicyMode.PROVIDER_PRIORITY, PolicyMode.BALANCED, PolicyMode.ECONOMY)
REPEATS = 400
SECONDS = 0.002
CONFIGURATION = ConfigurationSpec(
    identifier="assistant",
    selection=Selection.CRITERIA,
    criteria=Criteria(
        capabilities=("chat",), min_context_length=8_000, max_cost_input=50 * 10**9, prefer_lowest_cost=True
    ),
)
REQUIREMENTS = Requirements(operation=Operation.CHAT, prompt_tokens=1_200, max_output=800)


def catalogue_of(count: int) -> Catalogue:
    """Models on four providers of equal priority, each with two dated prices."""
    providers = [
        ProviderSpec(identifier=f"prod-{index}", adapter_type=f"kind-{index}", region="eu") for index in range(4)
    ]
    return Catalogue.of(
        ModelSpec(
            identifier=f"model-{index:03d}",
            model_id=f"vendor-model-{index:03d}",
            name=f"Model {index}",
            provider=providers[index % 4],
            capabilities=frozenset({"chat", "tools", "streaming"}),
            context_length=128_000,
            max_output=8_192,
            sorting=index % 3,
            prices=tuple(
                Price(moment, "USD", Rates(input=10**8 * (1 + index), output=4 * 10**8 * (1 + index)))
                for moment in PRICED_FROM
            ),
        )
        for index in range(count)
    )


def figures_for(catalogue: Catalogue) -> Figures:
    """Every figure there is, for every model."""
    return figures_of(
        catalogue,
        quality={model.identifier: 0.5 + index % 40 / 100 for index, model in enumerate(catalogue.models)},
        health={f"kind-{index}": HealthFigure(200, 190 - index, 900.0 + index) for index in range(4)},
        history={
            HistoryKey(model.provider.adapter_type, model.model_id, operation): HistoryFigure(
                calls=40,
                mean_latency_ms=1_000.0 + 137 * (index % 17),
                priced_calls=38,
                mean_cost=Money(10**6 * (3 + index % 11), "USD"),
            )
            for index, model in enumerate(catalogue.models)
            for operation in Operation
        },
        failures_in_a_row={},
    )


def best(action: Callable[[], object]) -> float:
    """Microseconds of processor time for one run of ``action``: the least of several repeats."""
    started = process_time()
    action()
    count = max(1, int(SECONDS / max(process_time() - started, 1e-6)))
    least = float("inf")
    for _ in range(REPEATS):
        started = process_time()
        for _ in range(count):
            action()
        least = min(least, (process_time() - started) / count)
    return least * 1e6


def main() -> None:
    print(f"Python {sys.version.split()[0]}; microseconds of processor time, best of {REPEATS}")
    print(f"{'':34}" + "".join(f"{size:>8}" for size in SIZES) + "  candidates")
    for mode in MODES:
        print(f"{'decide, ' + mode.value:34}" + "".join(f"{best(_deciding(size, mode)):8.0f}" for size in SIZES))
    decisions = {size: _deciding(size, PolicyMode.BALANCED)() for size in SIZES}
    print(
        f"{'document + canonical + digest':34}" + "".join(f"{best(_writing(decisions[size])):8.0f}" for size in SIZES)
    )
    print(f"{'figures_of, once per reading':34}" + "".join(f"{best(_expanding(size)):8.0f}" for size in SIZES))


def _deciding(size: int, mode: PolicyMode) -> Callable[[], Decision]:
    catalogue = catalogue_of(size)
    figures = figures_for(catalogue)
    policy = RoutingPolicy(mode=mode, call_history=True)
    limits = Limits(allowed_models=frozenset(catalogue.by_identifier))
    return lambda: decide(
        configuration=CONFIGURATION,
        catalogue=catalogue,
        requirements=REQUIREMENTS,
        policy=policy,
        now=NOW,
        limits=limits,
        figures=figures,
    )


def _writing(decision: Decision) -> Callable[[], str]:
    return lambda: digest(canonical(document(decision)))


def _expanding(size: int) -> Callable[[], Figures]:
    catalogue = catalogue_of(size)
    return lambda: figures_for(catalogue)


if __name__ == "__main__":
    main()
