"""The catalogue as the decision sees it: complete, in order, and in the same number of queries at any size."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from routing.core.catalogue import ProviderSpec
from routing.core.policy import PolicyMode
from routing.core.pricing import LongPrompt, Price, Rates, price_at
from routing.core.vocabulary import DataBoundary, ListedOrder, Reach, Selection, ServiceTier
from routing.models import CatalogueVersion, Configuration, LanguageModel, Provider
from routing.snapshots import CatalogueSnapshot, Polled, catalogue_poll, load_snapshot
from tests.factories import (
    ConfigurationFactory,
    EvaluationResultFactory,
    FallbackLinkFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)

QUERIES = 8  # what the docstring of `load_snapshot` promises


def populate(number: int) -> None:
    """Add so many of everything."""
    for _ in range(number):
        model = LanguageModelFactory.create(priced=True)
        PriceFactory.create(model=model, valid_from=timezone.now())
        EvaluationResultFactory.create(model=model)
        ConfigurationFactory.create(fixed=True, fixed_model=model)
        listed = ConfigurationFactory.create(listed=True, models=[model])
        FallbackLinkFactory.create(configuration=listed)


@pytest.mark.django_db
@pytest.mark.parametrize("number", [0, 1, 30])
def test_a_snapshot_takes_as_many_queries_as_it_says(
    number: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    populate(number)
    with django_assert_num_queries(QUERIES):
        snapshot = load_snapshot()
    assert len(snapshot.catalogue.models) == number
    assert len(snapshot.configurations) == 3 * number


def test_the_number_of_queries_is_documented() -> None:
    assert "eight queries" in (load_snapshot.__doc__ or "")


@pytest.mark.django_db
def test_an_empty_installation_has_an_empty_catalogue() -> None:
    snapshot = load_snapshot()
    assert snapshot.catalogue.models == ()
    assert (snapshot.configurations, snapshot.providers, snapshot.quality) == ({}, {}, {})
    assert snapshot.version == snapshot.catalogue.version == 1


@pytest.mark.django_db
def test_a_model_and_its_provider_as_values() -> None:
    provider = ProviderFactory.create(
        priority=80, reach=Reach.SELF_HOSTED.value, data_boundary=DataBoundary.INTERNAL.value, region="eu-central"
    )
    LanguageModelFactory.create(provider=provider, is_default=True, sorting=4, max_output=0)
    snapshot = load_snapshot()
    model = snapshot.catalogue.by_identifier["fast"]
    assert model.provider == ProviderSpec(
        identifier="prod-east",
        adapter_type="openai",
        name="Production, east",
        priority=80,
        reach=Reach.SELF_HOSTED,
        data_boundary=DataBoundary.INTERNAL,
        region="eu-central",
    )
    assert (model.identifier, model.model_id, model.name) == ("fast", "gpt-x-mini", "Fast and small")
    assert model.capabilities == {"chat", "tools"}
    assert (model.context_length, model.max_output) == (128_000, None)  # 0 is unknown
    assert (model.is_default, model.sorting, model.prices) == (True, 4, ())
    assert snapshot.providers["prod-east"].pk == provider.pk
    assert snapshot.version == snapshot.catalogue.version == CatalogueVersion.read()


@pytest.mark.django_db
@pytest.mark.parametrize("off", [{"is_active": False}, {"retired_at": timezone.now()}], ids=["inactive", "retired"])
def test_what_is_switched_off_is_not_in_service(off: dict[str, Any]) -> None:
    LanguageModelFactory.create(identifier="good", provider=ProviderFactory.create(identifier="prod-west"))
    LanguageModelFactory.create(identifier="off", **off)
    LanguageModelFactory.create(identifier="orphan", provider=ProviderFactory.create(identifier="gone", **off))
    snapshot = load_snapshot()
    assert [model.identifier for model in snapshot.catalogue.models] == ["good"]
    assert "gone" not in snapshot.providers


@pytest.mark.django_db
def test_models_stand_in_candidate_order() -> None:
    for identifier, name, sorting in [("c", "Beta", 0), ("b", "Beta", 0), ("a", "Alpha", 1), ("d", "Alpha", 0)]:
        LanguageModelFactory.create(identifier=identifier, name=name, sorting=sorting)
    assert [model.identifier for model in load_snapshot().catalogue.models] == ["d", "b", "c", "a"]


# --- Prices ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_prices_are_all_there_in_order_of_their_moments() -> None:
    model = LanguageModelFactory.create()
    moments = [datetime(2026, month, 1, tzinfo=UTC) for month in (3, 1, 12, 2)]
    for moment in moments:
        PriceFactory.create(model=model, valid_from=moment, input_rate=moment.month)
    PriceFactory.create()  # another model's
    prices = load_snapshot().catalogue.by_identifier[model.identifier].prices
    assert [price.valid_from for price in prices] == sorted(moments)
    in_force = price_at(prices, datetime(2026, 2, 28, tzinfo=UTC))
    assert in_force is not None
    assert in_force.rates.input == 2
    assert price_at(prices, datetime(2025, 12, 31, tzinfo=UTC)) is None


@pytest.mark.django_db
def test_a_price_has_its_rates_and_its_long_prompt_tier() -> None:
    model = LanguageModelFactory.create()
    row = PriceFactory.create(
        model=model,
        currency="EUR",
        input_rate=1,
        output_rate=2,
        cached_input_rate=0,
        cache_write_rate=None,
        long_prompt_threshold=200_000,
        long_prompt_inclusive=True,
        long_input_rate=5,
        long_output_rate=6,
        long_cached_input_rate=None,
        long_cache_write_rate=8,
        cache_write_hour_rate=9,
        long_cache_write_hour_rate=10,
    )
    assert load_snapshot().catalogue.by_identifier[model.identifier].prices == (
        Price(
            valid_from=row.valid_from,
            currency="EUR",
            rates=Rates(input=1, output=2, cached_input=0, cache_write=None, cache_write_hour=9),
            long_prompt=LongPrompt(
                threshold=200_000,
                inclusive=True,
                rates=Rates(input=5, output=6, cached_input=None, cache_write=8, cache_write_hour=10),
            ),
        ),
    )


@pytest.mark.django_db
def test_classes_of_service_stand_beside_the_standard_price() -> None:
    model = LanguageModelFactory.create(priced=True)
    PriceFactory.create(model=model, service_tier="flex", input_rate=7)
    later = PriceFactory.create(model=model, service_tier="batch", input_rate=5, valid_from=timezone.now())
    first, second = load_snapshot().catalogue.by_identifier[model.identifier].prices
    assert [tier for tier, _ in first.tiers] == [ServiceTier.FLEX]
    assert second.valid_from == later.valid_from
    assert (second.of(ServiceTier.FLEX).rates.input, second.of(ServiceTier.BATCH).rates.input) == (7, 5)
    assert second.of(ServiceTier.PRIORITY).rates.input == 2_500_000_000


@pytest.mark.django_db
def test_a_free_price_is_a_price() -> None:
    PriceFactory.create(input_rate=0, output_rate=0)
    (price,) = load_snapshot().catalogue.by_identifier["fast"].prices
    assert price.list_nanos == 0
    assert price.long_prompt is None


# --- Configurations -------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_criteria_as_values() -> None:
    ConfigurationFactory.create(
        capabilities=["vision", "chat"],
        adapter_types=["anthropic"],
        min_context_length=32_000,
        max_input_rate=3_000_000_000,
        prefer_lowest_cost=True,
        policy_mode=PolicyMode.ECONOMY.value,
        plan_limit=2,
        repairs_output=True,
        cache_seconds=900,
    )
    spec = load_snapshot().configurations["support-chat"]
    assert (spec.selection, spec.models, spec.is_active) == (Selection.CRITERIA, (), True)
    assert spec.criteria.capabilities == ("vision", "chat")
    assert spec.criteria.adapter_types == ("anthropic",)
    assert spec.criteria.min_context_length == 32_000
    assert spec.criteria.max_cost_input == 3_000_000_000
    assert spec.criteria.prefer_lowest_cost is True
    assert (spec.policy_mode, spec.plan_limit, spec.repairs_output) == (PolicyMode.ECONOMY, 2, True)
    assert spec.cache_seconds == 900


@pytest.mark.django_db
def test_a_configuration_without_a_mode_has_none_and_asks_for_nothing() -> None:
    ConfigurationFactory.create()
    spec = load_snapshot().configurations["support-chat"]
    assert spec.policy_mode is None
    assert spec.criteria.max_cost_input is None
    assert spec.cache_seconds is None
    assert (spec.criteria.capabilities, spec.criteria.adapter_types, spec.fallbacks) == ((), (), ())


@pytest.mark.django_db
def test_a_fixed_model_goes_by_its_identifier_even_while_it_is_out_of_service() -> None:
    ConfigurationFactory.create(fixed=True, fixed_model__is_active=False)
    snapshot = load_snapshot()
    assert snapshot.configurations["support-chat"].models == ("fast",)
    assert snapshot.catalogue.models == ()


@pytest.mark.django_db
def test_a_fixed_model_left_over_from_another_selection_does_not_count() -> None:
    ConfigurationFactory.create(fixed=True, selection=Selection.CRITERIA.value)
    assert load_snapshot().configurations["support-chat"].models == ()


@pytest.mark.django_db
def test_listed_models_keep_their_places() -> None:
    models = [LanguageModelFactory.create(identifier=name) for name in ("m-three", "m-one", "m-two")]
    configuration = ConfigurationFactory.create(listed=True, models=models, listed_order=ListedOrder.HEALTHIEST.value)
    spec = load_snapshot().configurations["support-chat"]
    assert (spec.selection, spec.order) == (Selection.LISTED, ListedOrder.HEALTHIEST)
    assert spec.models == ("m-three", "m-one", "m-two")
    first = configuration.listed_models.get(position=0)
    first.position = 5
    first.save()
    assert load_snapshot().configurations["support-chat"].models == ("m-one", "m-two", "m-three")


@pytest.mark.django_db
def test_fallbacks_keep_their_places_and_equal_places_the_order_of_entry() -> None:
    configuration = ConfigurationFactory.create()
    for identifier, position in [("z-chat", 1), ("y-chat", 0), ("x-chat", 1)]:
        FallbackLinkFactory.create(
            configuration=configuration,
            fallback=ConfigurationFactory.create(identifier=identifier),
            position=position,
        )
    assert load_snapshot().configurations["support-chat"].fallbacks == ("y-chat", "z-chat", "x-chat")


@pytest.mark.django_db
def test_an_inactive_configuration_is_told_from_a_retired_one() -> None:
    ConfigurationFactory.create(identifier="paused", is_active=False)
    ConfigurationFactory.create(identifier="retired", retired_at=timezone.now())
    configurations = load_snapshot().configurations
    assert list(configurations) == ["paused"]
    assert configurations["paused"].is_active is False


# --- Quality --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_quality_is_the_mean_over_sets_of_the_latest_deterministic_run() -> None:
    model = LanguageModelFactory.create()
    day = timedelta(days=1)
    now = timezone.now()
    for golden_set, grader, run_at, score in [
        ("refunds", "deterministic", now - day, 0.9),
        ("refunds", "deterministic", now - 2 * day, 0.1),  # older
        ("refunds", "judge", now, 0.0),  # not deterministic
        ("greetings", "deterministic", now - 9 * day, 0.5),
        ("greetings", "deterministic", now - 9 * day, 0.7),  # of equal moments the later row
    ]:
        EvaluationResultFactory.create(
            model=model, golden_set=golden_set, grader=grader, run_at=run_at, mean_score=score
        )
    EvaluationResultFactory.create(grader="judge")  # of another model: nothing deterministic
    assert load_snapshot().quality == {model.identifier: pytest.approx(0.8)}


@pytest.mark.django_db
def test_a_score_of_zero_is_a_score() -> None:
    EvaluationResultFactory.create(mean_score=0.0)
    assert load_snapshot().quality == {"fast": 0.0}


# --- Polling --------------------------------------------------------------------------------------------------------


class Records:
    """Stands in for the database: a version, what is loaded under it, and what is done in which order."""

    def __init__(self) -> None:
        self.version = 1
        self.content = "one"
        self.log: list[str] = []
        self.fails = False
        self.changes_while_loading = 0

    def read_version(self) -> int:
        self.log.append("version")
        if self.fails:
            raise OperationalError("gone")
        return self.version

    def load(self) -> str:
        self.log.append("load")
        content = self.content
        if self.changes_while_loading:
            self.changes_while_loading -= 1
            self.version += 1
            self.content = f"at {self.version}"
        return content

    def poll(self) -> Polled[str]:
        return Polled(name="records", read_version=self.read_version, load=self.load)


def test_the_first_reader_loads_and_the_next_ones_read_nothing() -> None:
    records = Records()
    poll = records.poll()
    loaded = [poll.is_loaded]
    assert poll.current == "one"
    loaded.append(poll.is_loaded)
    assert loaded == [False, True]
    records.log.clear()
    assert poll.current == "one"
    assert records.log == []


def test_a_poll_loads_only_when_the_version_moved() -> None:
    records = Records()
    poll = records.poll()
    assert poll.refresh() is True
    records.log.clear()
    assert poll.refresh() is False
    assert records.log == ["version"]
    records.version, records.content = 2, "two"
    assert poll.current == "one"
    assert poll.refresh() is True
    assert poll.current == "two"


def test_a_version_that_went_back_is_another_version() -> None:
    """A database restored from a backup."""
    records = Records()
    records.version = 9
    poll = records.poll()
    poll.refresh()
    records.version, records.content = 4, "restored"
    assert poll.refresh() is True
    assert poll.current == "restored"


def test_the_version_is_read_before_the_records() -> None:
    records = Records()
    records.poll().refresh()
    assert records.log[:2] == ["version", "load"]


def test_a_change_while_loading_is_loaded_at_once() -> None:
    records = Records()
    records.changes_while_loading = 1
    poll = records.poll()
    poll.refresh()
    assert poll.current == "at 2"
    assert records.log == ["version", "load", "version", "load", "version"]
    assert poll.refresh() is False


def test_changes_that_never_end_do_not_hold_a_refresh_up_and_are_not_missed() -> None:
    records = Records()
    records.changes_while_loading = 5
    poll = records.poll()
    poll.refresh()
    assert records.log.count("load") == 3
    assert poll.current == "at 3"
    poll.refresh()
    assert poll.current == records.content == "at 6"
    assert poll.refresh() is False


def test_the_last_good_value_stays_while_the_database_is_away() -> None:
    records = Records()
    poll = records.poll()
    poll.refresh()
    records.version, records.content, records.fails = 2, "two", True
    with pytest.raises(OperationalError):
        poll.refresh()
    assert poll.current == "one"
    records.fails = False
    assert poll.refresh() is True
    assert poll.current == "two"


def test_a_load_that_fails_is_tried_again() -> None:
    records = Records()
    poll = records.poll()
    poll.refresh()
    records.version, records.content = 2, "two"

    def fail() -> str:
        raise OperationalError("gone half-way")

    broken = Polled(name="records", read_version=records.read_version, load=fail)
    with pytest.raises(OperationalError):
        broken.refresh()
    assert not broken.is_loaded
    with pytest.raises(OperationalError):
        _ = broken.current


def test_a_forgotten_value_is_loaded_by_the_next_reader() -> None:
    records = Records()
    poll = records.poll()
    poll.refresh()
    records.content = "two"
    poll.forget()
    assert not poll.is_loaded
    assert poll.current == "two"


@pytest.mark.django_db
def test_the_catalogue_follows_its_records(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    poll: Polled[CatalogueSnapshot] = catalogue_poll()
    assert list(poll.current.catalogue.by_identifier) == []
    with django_assert_num_queries(1):
        assert poll.refresh() is False
    model = LanguageModelFactory.create()
    assert list(poll.current.catalogue.by_identifier) == []
    with django_assert_num_queries(QUERIES + 2):
        assert poll.refresh() is True
    assert list(poll.current.catalogue.by_identifier) == [model.identifier]
    assert poll.current.version == CatalogueVersion.read()


@pytest.mark.django_db
def test_every_kind_of_change_reaches_the_snapshot() -> None:
    model = LanguageModelFactory.create(priced=True)
    configuration = ConfigurationFactory.create(listed=True, models=[model])
    poll = catalogue_poll()
    poll.refresh()

    Provider.objects.get(pk=model.provider_id).save()
    assert poll.refresh() is True
    LanguageModel.objects.get(pk=model.pk).save()
    assert poll.refresh() is True
    model.prices.get().delete()
    assert poll.refresh() is True
    assert poll.current.catalogue.by_identifier[model.identifier].prices == ()
    Configuration.objects.get(pk=configuration.pk).save()
    assert poll.refresh() is True
    configuration.listed_models.get().delete()
    assert poll.refresh() is True
    assert poll.current.configurations[configuration.identifier].models == ()
    EvaluationResultFactory.create(model=model)
    assert poll.refresh() is True
    assert poll.current.quality == {model.identifier: 0.8}
