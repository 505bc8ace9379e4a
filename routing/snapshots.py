"""Rows into values: the catalogue as the decision sees it, in a constant number of queries.

A process keeps one :class:`CatalogueSnapshot` and asks a few times a second whether the records have moved on
(:class:`Polled`). Everything of a call reads one snapshot, so that it cannot see half of a change. All dated prices
are in it, because a price comes into force without a write.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from routing.core.catalogue import Catalogue, ModelSpec, ProviderSpec
from routing.core.configuration import ConfigurationSpec, Criteria
from routing.core.policy import PolicyMode
from routing.core.pricing import LongPrompt, Price, Rates, timeline
from routing.core.vocabulary import DataBoundary, ListedOrder, Reach, Selection, ServiceTier
from routing.models import (
    DETERMINISTIC,
    CatalogueVersion,
    Configuration,
    EvaluationResult,
    FallbackLink,
    LanguageModel,
    ListedModel,
    Provider,
)
from routing.models import Price as PriceRow

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

_LOADS = 3  # in one refresh, while records change under it


class Polled(Generic[Value]):
    """A value made from records, made anew when their version moves.

    ``current`` never waits and never fails once a first value was loaded: if the records cannot be read, the last
    good value stays in force.
    """

    def __init__(self, *, name: str, read_version: Callable[[], int], load: Callable[[], Value]) -> None:
        self._name = name
        self._read_version = read_version
        self._load = load
        self._version: int | None = None
        self._value: Value | None = None

    @property
    def current(self) -> Value:
        """The value in force. Reads the records only if nothing was ever loaded."""
        if self._value is None:
            self.refresh()
        if self._value is None:
            raise RuntimeError(f"{self._name} could not be read yet; is the database there?")
        return self._value

    @property
    def is_loaded(self) -> bool:
        """Whether there is a value to serve calls with."""
        return self._value is not None

    @property
    def version(self) -> int | None:
        """The version of the value in force; ``None`` if nothing was ever loaded."""
        return self._version

    def refresh(self) -> bool:
        """Load again if the version moved; tells whether it did. A database error is raised.

        The version is read first, and again after loading: if a change landed in between, half of it may have been
        read, so it is loaded once more. When changes come too fast for that, the last load counts, under the version
        before it, and the next poll loads again: nothing is ever missed.
        """
        version = loaded = self._read_version()
        if version == self._version:
            return False
        value = self._load()
        for _ in range(_LOADS - 1):
            version = self._read_version()
            if version == loaded:
                break
            value, loaded = self._load(), version
        self._value, self._version = value, loaded
        logger.info("%s: version %s in force", self._name, loaded)
        return True

    def forget(self) -> None:
        """Drop the value, so that the next reader loads it."""
        self._value = self._version = None


@dataclass(frozen=True, slots=True)
class CatalogueSnapshot:
    """Everything routing knows of records at one version.

    ``endpoints`` holds the pieces of a provider that only the sending side needs, by provider identifier, the key
    still sealed. ``quality`` is by model identifier. ``configurations`` has inactive ones too, since a page and an
    error tell them from missing ones.
    """

    catalogue: Catalogue
    configurations: Mapping[str, ConfigurationSpec]
    providers: Mapping[str, Provider]
    quality: Mapping[str, float]
    version: int


def load_snapshot() -> CatalogueSnapshot:
    """Read the catalogue: eight queries, however many records there are."""
    version = CatalogueVersion.read()
    providers = {row.pk: row for row in Provider.objects.filter(is_active=True, retired_at=None)}
    specs = {pk: _provider(row) for pk, row in providers.items()}
    prices: dict[int, list[PriceRow]] = defaultdict(list)
    for price in PriceRow.objects.order_by("valid_from", "pk"):
        prices[price.model_id].append(price)
    models = [
        _model(row, specs[row.provider_id], prices_of(prices[row.pk]))
        for row in LanguageModel.objects.filter(is_active=True, retired_at=None)
        if row.provider_id in specs
    ]
    return CatalogueSnapshot(
        catalogue=Catalogue.of(models, version=version),
        configurations=_configurations(),
        providers={row.identifier: row for row in providers.values()},
        quality=_quality(),
        version=version,
    )


def catalogue_poll() -> Polled[CatalogueSnapshot]:
    """A poll of the catalogue, for one process."""
    return Polled(name="catalogue", read_version=CatalogueVersion.read, load=load_snapshot)


def _configurations() -> dict[str, ConfigurationSpec]:
    listed: dict[int, list[str]] = defaultdict(list)
    for configuration, model in ListedModel.objects.order_by("position", "pk").values_list(
        "configuration_id", "model__identifier"
    ):
        listed[configuration].append(model)
    fallbacks: dict[int, list[str]] = defaultdict(list)
    for configuration, fallback in FallbackLink.objects.order_by("position", "pk").values_list(
        "configuration_id", "fallback__identifier"
    ):
        fallbacks[configuration].append(fallback)
    rows = Configuration.objects.filter(retired_at=None).select_related("fixed_model")
    return {row.identifier: _configuration(row, listed[row.pk], fallbacks[row.pk]) for row in rows}


def _configuration(row: Configuration, listed: list[str], fallbacks: list[str]) -> ConfigurationSpec:
    selection = Selection(row.selection)
    models: tuple[str, ...] = ()
    if selection is Selection.FIXED and row.fixed_model is not None:
        models = (row.fixed_model.identifier,)
    elif selection is Selection.LISTED:
        models = tuple(listed)
    return ConfigurationSpec(
        identifier=row.identifier,
        selection=selection,
        models=models,
        order=ListedOrder(row.listed_order),
        criteria=Criteria(
            capabilities=tuple(row.capabilities),
            adapter_types=tuple(row.adapter_types),
            min_context_length=row.min_context_length,
            max_cost_input=row.max_input_rate,
            prefer_lowest_cost=row.prefer_lowest_cost,
        ),
        policy_mode=PolicyMode.read(row.policy_mode) if row.policy_mode else None,
        fallbacks=tuple(fallbacks),
        plan_limit=row.plan_limit,
        repairs_output=row.repairs_output,
        repeats_timeouts=row.repeats_timeouts,
        cache_seconds=row.cache_seconds,
        is_active=row.is_active,
    )


def _provider(row: Provider) -> ProviderSpec:
    return ProviderSpec(
        identifier=row.identifier,
        adapter_type=row.adapter_type,
        name=row.name,
        priority=row.priority,
        reach=Reach(row.reach),
        data_boundary=DataBoundary(row.data_boundary),
        region=row.region,
    )


def _model(row: LanguageModel, provider: ProviderSpec, prices: tuple[Price, ...]) -> ModelSpec:
    return ModelSpec(
        identifier=row.identifier,
        model_id=row.model_id,
        provider=provider,
        name=row.name,
        capabilities=frozenset(row.capabilities),
        context_length=row.context_length or None,
        max_output=row.max_output or None,
        is_default=row.is_default,
        sorting=row.sorting,
        prices=prices,
    )


def prices_of(rows: Iterable[PriceRow]) -> tuple[Price, ...]:
    """A model's dated prices from its rows, which are in ascending order of their moments."""
    by_tier: dict[ServiceTier, list[Price]] = defaultdict(list)
    for row in rows:
        by_tier[ServiceTier(row.service_tier)].append(price_of(row))
    return timeline(by_tier.pop(ServiceTier.STANDARD, []), by_tier)


def price_of(row: PriceRow) -> Price:
    """A price's row as the value that costs are computed from."""
    tier = None
    if row.long_prompt_threshold is not None and row.long_input_rate is not None and row.long_output_rate is not None:
        tier = LongPrompt(
            threshold=row.long_prompt_threshold,
            inclusive=row.long_prompt_inclusive,
            rates=Rates(
                input=row.long_input_rate,
                output=row.long_output_rate,
                cached_input=row.long_cached_input_rate,
                cache_write=row.long_cache_write_rate,
                cache_write_hour=row.long_cache_write_hour_rate,
            ),
        )
    return Price(
        valid_from=row.valid_from,
        currency=row.currency,
        rates=Rates(
            input=row.input_rate,
            output=row.output_rate,
            cached_input=row.cached_input_rate,
            cache_write=row.cache_write_rate,
            cache_write_hour=row.cache_write_hour_rate,
        ),
        long_prompt=tier,
    )


def _quality() -> dict[str, float]:
    """Mean over golden sets of the mean score of the latest deterministic run; of equal moments the later row."""
    latest: dict[tuple[str, str], float] = {}
    rows = EvaluationResult.objects.filter(grader=DETERMINISTIC).order_by("run_at", "pk")
    for model, golden_set, score in rows.values_list("model__identifier", "golden_set", "mean_score"):
        latest[(model, golden_set)] = score
    scores: dict[str, list[float]] = defaultdict(list)
    for (model, _), score in latest.items():
        scores[model].append(score)
    return {model: sum(each) / len(each) for model, each in scores.items()}
