"""The seeded past: its stated means, what it decides, what it adds up to, and that it is brought up to now."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections, models, transaction
from django.db.models import Count, Max, Sum
from pytest_django import DjangoDbBlocker

from governance.changes.settings import store_setting
from governance.decisions import Ruling, Standing, rule
from governance.demo import cast
from governance.demo.chronicle import BUSY_END
from governance.demo.seed import SIMULATOR_KEY, SeedConflict, Seeded, seed
from governance.demo.world import BAD_PROVIDER, World, nominal_history
from governance.models import AccessKey, Application
from governance.settings_store.registry import CALL_HISTORY
from governance.settings_store.store import load_settings
from governance.shared_state.memory import MemoryStore
from governance.standing_poll import StandingPoll
from routing.circuits import Circuits
from routing.core.policy import PolicyMode
from routing.core.pricing import Price as PriceValue
from routing.core.requirements import Requirements
from routing.core.scenario import differences, load_scenario
from routing.core.signals import HistoryKey
from routing.core.transcript import document, outline, restore
from routing.core.vocabulary import Operation
from routing.credentials import read_key
from routing.models import LanguageModel, Price, Provider
from routing.snapshots import load_snapshot
from routing.vault import Vault
from telemetry.health import read_health
from telemetry.history import read_history
from telemetry.models import Attempt, Call, DecisionRecord, UsageDay
from telemetry.usage import SUM_FIELDS
from tests.authors import SOMEBODY
from tests.factories import ProviderFactory
from tests.project.processes import ROOT

NOW = datetime(2026, 11, 27, 15, 20, 31, tzinfo=UTC)  # a Friday
LENGTH = timedelta(days=9)
SIMULATOR = "http://127.0.0.1:8900"
VAULT = Vault([("k1", bytes(32))])
SCENARIO = ROOT / "docs" / "scenarios" / "demo-support-chat.json"

SWIFT_CHAT = HistoryKey("openai", "atlas-4-swift", Operation.CHAT)
DEEP_CHAT = HistoryKey("openai", "atlas-4-deep", Operation.CHAT)
SWIFT_TOOLS = HistoryKey("openai", "atlas-4-swift", Operation.TOOLS)


@dataclass(frozen=True)
class Past:
    seeded: Seeded

    def seed_again(self, now: datetime = NOW, **changes: Any) -> Seeded:
        arguments: dict[str, Any] = {"simulator": SIMULATOR, "vault": VAULT, "keys": self.seeded.keys}
        return seed(now=now, length=LENGTH, **{**arguments, **changes})


@pytest.fixture(scope="module")
def seeded_once(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Past]:
    """Nine days, seeded once for all tests here, in a transaction that is rolled back after the last."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield Past(seed(now=NOW, simulator=SIMULATOR, vault=VAULT, length=LENGTH))
        transaction.set_rollback(True)


@pytest.fixture
def past(seeded_once: Past, django_db_blocker: DjangoDbBlocker) -> Iterator[Past]:
    """The seeded past, which a test may change."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield seeded_once
        transaction.set_rollback(True)


def standing_with(*, history: bool, now: datetime = NOW) -> Standing:
    """What is in force over the rows as they are."""
    store_setting(CALL_HISTORY.key, history, author=SOMEBODY)
    poll = StandingPoll(circuits=Circuits(store=MemoryStore()))
    poll.refresh(now=now)
    assert poll.current is not None
    return poll.current


def ruling_on(configuration: str, *, history: bool, now: datetime = NOW) -> Ruling:
    """The decision of a chat call, by the path of the live call."""
    standing = standing_with(history=history, now=now)
    spec = standing.snapshot.configurations[configuration]
    return rule(standing, spec, requirements=Requirements(operation=Operation.CHAT), now=now)


def signals_of(ruling: Ruling) -> dict[str, dict[str, float]]:
    """By model and signal, to four decimals."""
    return {
        each["identifier"]: {name: round(value, 4) for name, value in each["signals"].items() if value is not None}
        for each in outline(ruling.decision)["candidates"]
        if each["reason"] is None
    }


def assert_stated_means(now: datetime) -> None:
    history = read_history(now=now, currency="USD")
    for key, latency, nanos in (
        (SWIFT_CHAT, 4259.0, 6_700_000),
        (DEEP_CHAT, 9094.0, 18_400_000),
        (SWIFT_TOOLS, None, 29_000_000),
    ):
        figure = history[key]
        assert figure.calls == figure.priced_calls >= 20
        assert figure.mean_cost is not None
        assert figure.mean_cost.nanos == nanos
        assert latency is None or figure.mean_latency_ms == latency


# --- Stated means ---------------------------------------------------------------------------------------------------


def test_the_means_are_exactly_the_stated_ones(past: Past) -> None:
    assert_stated_means(NOW)


def test_a_stated_mean_cost_is_no_matter_of_rounding(past: Past) -> None:
    calls = Call.objects.self_served().filter(
        served_adapter_type="openai",
        served_model_id="atlas-4-swift",
        operation="chat",
        started_at__gte=NOW - timedelta(days=7),
    )
    summed = calls.order_by().aggregate(cost=Sum("actual_cost_nanos"), calls=Count("pk"))
    assert summed["cost"] == summed["calls"] * 6_700_000
    assert calls.order_by().values("latency_ms").distinct().count() > 20


@pytest.mark.parametrize("hours", [1, 7, 26, 40])
def test_they_stay_so_while_the_window_moves_on(past: Past, hours: int) -> None:
    assert_stated_means(NOW + timedelta(hours=hours, minutes=17))
    assert_stated_means(NOW - timedelta(hours=hours, minutes=41))


def test_history_of_everything_else_is_about_what_profiles_and_habits_say(past: Past) -> None:
    measured = read_history(now=NOW, currency="USD")
    for key, nominal in nominal_history(load_snapshot(), now=NOW).items():
        figure = measured[key]
        assert figure.mean_latency_ms == pytest.approx(nominal.mean_latency_ms, rel=0.2)
        assert figure.calls == pytest.approx(nominal.calls, rel=0.35)


# --- Decisions ------------------------------------------------------------------------------------------------------


def test_the_switch_changes_who_serves_support_chat(past: Past) -> None:
    before, after = ruling_on("support-chat", history=False), ruling_on("support-chat", history=True)
    assert [each.model.identifier for each in before.decision.eligible] == ["deep-chat", "swift-chat"]
    assert [each.model.identifier for each in after.decision.eligible] == ["swift-chat", "deep-chat"]
    assert signals_of(before)["deep-chat"].keys() == {"quality", "health"}
    assert signals_of(after)["swift-chat"]["latency"] == 0.5937
    assert signals_of(after)["deep-chat"]["latency"] == 0.4063


def test_with_the_switch_on_drafts_are_compared_by_what_calls_cost(past: Past) -> None:
    before, after = ruling_on("support-drafts", history=False), ruling_on("support-drafts", history=True)
    assert (before.decision.basis, after.decision.basis) == ("listPrice", "callCost")
    assert signals_of(after)["swift-chat"]["callCost"] == 0.6237
    assert signals_of(after)["deep-chat"]["callCost"] == 0.3763


def test_the_switch_still_decides_after_days_of_standing_still(past: Past) -> None:
    later = NOW + timedelta(days=5)
    past.seed_again(later)
    assert ruling_on("support-chat", history=False, now=later).decision.eligible[0].model.identifier == "deep-chat"
    assert ruling_on("support-chat", history=True, now=later).decision.eligible[0].model.identifier == "swift-chat"


def test_what_the_scenario_expects_holds_over_the_seeded_records(past: Past) -> None:
    scenario = load_scenario(SCENARIO.read_text(encoding="utf-8"))
    assert scenario.expect is not None
    assert differences(scenario.expect, scenario.decide()) == []
    standing = standing_with(history=True)
    # Health is what the last quarter of an hour happened to be, and here that of the scenario.
    figures = replace(standing.figures, health=scenario.figures.health)
    standing = replace(standing, figures=figures, remembered={})
    spec = standing.snapshot.configurations["support-chat"]
    ruling = rule(standing, spec, requirements=Requirements(operation=Operation.CHAT), now=NOW)
    assert differences(scenario.expect, ruling.decision) == []
    assert outline(ruling.decision)["mode"] == outline(scenario.decide())["mode"]


def test_the_scenario_holds_the_nominal_figures_and_the_records(past: Past) -> None:
    scenario = load_scenario(SCENARIO.read_text(encoding="utf-8"))
    snapshot = load_snapshot()
    nominal = nominal_history(snapshot, now=NOW)
    assert [each.identifier for each in scenario.catalogue.models] == [
        each.identifier for each in snapshot.catalogue.models
    ]
    for written, stored in zip(scenario.catalogue.models, snapshot.catalogue.models, strict=True):
        assert (written.capabilities, written.context_length, written.max_output, written.is_default) == (
            stored.capabilities,
            stored.context_length,
            stored.max_output,
            stored.is_default,
        )
        assert written.provider.adapter_type == stored.provider.adapter_type
        assert [price.rates.input for price in written.prices] == [price.rates.input for price in stored.prices[-1:]]
    assert scenario.figures.quality == pytest.approx(snapshot.quality)
    assert scenario.figures.history is not None
    for key in (SWIFT_CHAT, DEEP_CHAT):
        identifier = next(each.identifier for each in snapshot.catalogue.models if each.model_id == key.model_id)
        assert scenario.figures.history[Operation.CHAT][identifier] == nominal[key]


def test_every_provider_has_recent_calls_that_health_counts(past: Past) -> None:
    assert set(read_health(now=NOW)) == {each.spec.adapter_type for each in cast.PROVIDERS}


def test_every_call_carries_a_decision_that_explains_its_first_route(past: Past) -> None:
    assert not Call.objects.filter(decision=None).exists()
    selected = {
        record.digest: restore(record.document).selected
        for record in DecisionRecord.objects.filter(calls__isnull=False)
    }
    for digest, model in (
        Call.objects.exclude(first_model="").order_by().values_list("decision", "first_model").distinct()
    ):
        candidate = selected[digest]
        assert candidate is not None
        assert candidate.model.identifier == model


def test_decision_records_can_be_restored(past: Past) -> None:
    for record in DecisionRecord.objects.all():
        assert document(restore(record.document)) == record.document


def test_prices_in_decisions_are_those_of_the_day(past: Past) -> None:
    cut = Price.objects.filter(model__identifier="borealis-scribe").order_by("-valid_from").first()
    assert cut is not None
    assert cut.valid_from == cast.price_cut(started=NOW)


# --- Records --------------------------------------------------------------------------------------------------------


def test_the_records_are_the_cast(past: Past) -> None:
    snapshot = load_snapshot()
    by_identifier = snapshot.catalogue.by_identifier
    assert set(by_identifier) == {each.spec.identifier for each in cast.MODELS}
    for each in cast.MODELS:
        stored = by_identifier[each.spec.identifier]
        prices: tuple[PriceValue, ...] = each.prices(started=NOW)
        assert stored.prices == prices
        assert stored.provider == each.spec.provider
        assert (stored.capabilities, stored.context_length) == (each.spec.capabilities, each.spec.context_length)
    assert snapshot.configurations == {each.spec.identifier: each.spec for each in cast.CONFIGURATIONS}


def test_providers_are_the_simulators(past: Past) -> None:
    for provider in Provider.objects.all():
        path = next(each.path for each in cast.PROVIDERS if each.spec.identifier == provider.identifier)
        assert provider.base_url == f"{SIMULATOR}/{path}/v1"
        assert read_key(provider, vault=VAULT) == SIMULATOR_KEY


def test_the_installation_is_balanced_and_reads_no_history(past: Past) -> None:
    policy = load_settings().routing
    assert (policy.mode, policy.call_history) == (PolicyMode.BALANCED, False)


@pytest.mark.parametrize(
    "kind", [Provider, LanguageModel, Application, AccessKey, Call, UsageDay], ids=lambda kind: kind.__name__
)
def test_everything_is_marked(past: Past, kind: type[models.Model]) -> None:
    rows = kind._default_manager.all()
    assert rows.exists()
    assert not rows.exclude(source=cast.SOURCE).exists()


def test_every_application_has_one_key_and_the_visitors_may_do_everything(past: Past) -> None:
    assert set(past.seeded.keys) == {each.identifier for each in cast.APPLICATIONS}
    assert len(set(past.seeded.keys.values())) == len(cast.APPLICATIONS)
    key = AccessKey.objects.get(application__identifier=cast.VISITOR)
    assert (key.allowed_configurations, key.allowed_models, key.may_name_models) == (None, None, True)


# --- Calls ----------------------------------------------------------------------------------------------------------


def test_there_is_some_of_everything(past: Past) -> None:
    calls = Call.objects.order_by()
    assert {each.value for each in (Operation.CHAT, Operation.STREAM, Operation.TOOLS, Operation.STREAM_TOOLS)} | {
        "vision"
    } == set(calls.values_list("operation", flat=True).distinct())
    assert 2000 < calls.count() < 4500
    assert calls.filter(success=False).exists()
    assert calls.filter(success=True, fallback_attempts__gt=0).exists()
    assert calls.filter(success=True, retries__gt=0).exists()
    assert calls.filter(usage_coverage="absent", success=True).exists()
    assert calls.filter(actual_cache_read_tokens__gt=0).exists()


def test_weekends_are_quieter(past: Past) -> None:
    by_day = {
        day: Call.objects.filter(started_at__date=day).count()
        for day in (datetime(2026, 11, number, tzinfo=UTC).date() for number in range(20, 27))
    }
    weekend = [count for day, count in by_day.items() if day.weekday() >= 5]
    weekdays = [count for day, count in by_day.items() if day.weekday() < 5]
    assert max(weekend) < min(weekdays)


def test_one_hour_was_bad_for_one_provider(past: Past) -> None:
    world = World(snapshot=load_snapshot(), settings=load_settings(), keys={}, started=NOW)
    hours = [NOW.replace(minute=0) - timedelta(hours=hour) for hour in range(24 * 9)]
    (bad,) = [hour for hour in hours if world.is_bad(BAD_PROVIDER, hour)]
    assert bad.weekday() < 5
    calls = Call.objects.filter(started_at__gte=bad, started_at__lt=bad + timedelta(hours=1), requested="code-review")
    early = calls.filter(first_provider=BAD_PROVIDER)
    assert early.exclude(first_failure_kind="").count() > early.count() / 2
    assert early.filter(success=True, served_provider="atlas-cloud", fallback_attempts__gt=0).exists()
    assert calls.filter(first_provider="atlas-cloud", first_failure_kind="").exists(), "then decisions avoid it"


def test_attempts_tell_the_story_of_calls_that_needed_several(past: Past) -> None:
    several = Call.objects.filter(requests_sent__gt=1).prefetch_related("attempts")
    assert several.count() > 10
    for call in several:
        attempts = list(call.attempts.all())
        assert [each.index for each in attempts] == list(range(call.requests_sent))
        assert len({each.model for each in attempts}) == call.fallback_attempts + 1
        assert call.retries == call.requests_sent - call.fallback_attempts - 1
        assert attempts[0].model == call.first_model
        assert (attempts[-1].failure_kind == "") is call.success
        assert call.latency_ms == pytest.approx(sum(each.latency_ms + each.waited_ms for each in attempts))
        assert not call.success or attempts[-1].model == call.served_model
    assert not Attempt.objects.exclude(call__in=several).exists()


def test_figures_are_absent_where_nothing_was_reported(past: Past) -> None:
    for call in Call.objects.filter(usage_coverage="absent"):
        assert (call.actual_input_tokens, call.actual_cost_nanos, call.cost_currency) == (None, None, "")
    assert not Call.objects.filter(streamed=True, success=True, first_token_ms=None).exists()
    assert not Call.objects.filter(streamed=False).exclude(first_token_ms=None).exists()


def test_no_call_had_not_ended(past: Past) -> None:
    ends = [
        started + timedelta(milliseconds=latency)
        for started, latency in Call.objects.values_list("started_at", "latency_ms")
    ]
    assert max(ends) <= NOW


def sums_of_calls() -> dict[tuple[Any, ...], dict[str, int]]:
    sums: dict[tuple[Any, ...], dict[str, int]] = {}
    for call in Call.objects.all():
        key = (call.started_at.date(), call.application, call.key, call.user, call.source, call.served_configuration,
               call.served_provider, call.served_model, call.operation, call.cost_currency)  # fmt: skip
        row = sums.setdefault(key, dict.fromkeys(SUM_FIELDS, 0))
        row["requests"] += 1
        row["failures"] += not call.success
        row["input_tokens"] += call.actual_input_tokens or 0
        row["cache_read_tokens"] += call.actual_cache_read_tokens or 0
        row["cache_write_tokens"] += call.actual_cache_write_tokens or 0
        row["output_tokens"] += call.actual_output_tokens or 0
        row["reasoning_tokens"] += call.actual_reasoning_tokens or 0
        row["cost_nanos"] += call.actual_cost_nanos or 0
        row["unpriced_requests"] += call.success and call.actual_cost_nanos is None
    return sums


def sums_of_usage() -> dict[tuple[Any, ...], dict[str, int]]:
    return {
        (row.day, row.application, row.key, row.user, row.source, row.configuration, row.provider, row.model,
         row.operation, row.currency): {name: getattr(row, name) for name in SUM_FIELDS}
        for row in UsageDay.objects.all()
    }  # fmt: skip


def test_usage_days_are_the_sums_of_the_calls(past: Past) -> None:
    assert sums_of_usage() == sums_of_calls()


# --- Starting again -------------------------------------------------------------------------------------------------


def test_seeding_twice_adds_nothing(past: Past) -> None:
    counts = {kind: kind._default_manager.count() for kind in (Provider, LanguageModel, Price, AccessKey, UsageDay)}
    again = past.seed_again()
    assert (again.calls, again.is_first, again.started) == (0, False, NOW)
    assert again.keys == past.seeded.keys
    assert {kind: kind._default_manager.count() for kind in counts} == counts


def test_seeding_a_minute_later_adds_only_that_minute(past: Past) -> None:
    latest = Call.objects.aggregate(at=Max("started_at"))["at"]
    added = past.seed_again(NOW + timedelta(minutes=1)).calls
    assert added == Call.objects.filter(started_at__gt=latest).count() <= 4


@pytest.mark.parametrize("gap", [timedelta(hours=2), timedelta(days=3, hours=11), timedelta(days=90)])
def test_after_a_pause_the_past_reaches_up_to_now_again(past: Past, gap: timedelta) -> None:
    later = NOW + gap
    before = Call.objects.count()
    added = past.seed_again(later).calls
    assert Call.objects.count() == before + added
    latest = Call.objects.aggregate(at=Max("started_at"))["at"]
    assert later - timedelta(minutes=3) < latest <= later
    assert set(read_health(now=later)) == {each.spec.adapter_type for each in cast.PROVIDERS}
    assert_stated_means(later)
    assert sums_of_usage() == sums_of_calls()
    assert past.seed_again(later).calls == 0


def test_a_past_that_stood_still_for_long_begins_anew_but_not_earlier_than_its_length(past: Past) -> None:
    later = NOW + timedelta(days=90)
    past.seed_again(later)
    added = Call.objects.filter(started_at__gt=NOW)
    assert not added.filter(started_at__lt=later - LENGTH).exists()
    assert added.filter(started_at__lt=later - LENGTH + timedelta(days=1)).exists()


def test_real_calls_are_not_doubled(past: Past) -> None:
    """The generator's calls reach up to some moment; the seeded ones begin after it."""
    later, moment = NOW + timedelta(hours=9), NOW + timedelta(hours=8)
    row = Call.objects.order_by("-started_at").first()
    assert row is not None
    row.pk, row.started_at, row._state.adding = "00000000-0000-7000-8000-000000000001", moment, True
    row.save()
    past.seed_again(later)
    between = Call.objects.filter(started_at__gt=NOW, started_at__lt=later - BUSY_END)
    assert not between.filter(started_at__lt=moment).exists()
    assert between.filter(started_at__gt=moment).exists()


def test_what_a_visitor_changed_stays(past: Past) -> None:
    provider = Provider.objects.get(identifier="dynamo-express")
    provider.is_active, provider.base_url = False, "http://127.0.0.1:1/elsewhere"
    provider.save()
    Price.objects.filter(model__identifier="dynamo-spark").delete()
    store_setting("routing.policyMode", "quality", author=SOMEBODY)
    past.seed_again(NOW + timedelta(hours=3), simulator="http://127.0.0.1:8901")
    provider.refresh_from_db()
    assert (provider.is_active, provider.base_url) == (False, "http://127.0.0.1:8901/dynamo/v1")
    assert not Price.objects.filter(model__identifier="dynamo-spark").exists()
    assert load_settings().routing.mode is PolicyMode.QUALITY
    added = Call.objects.filter(started_at__gt=NOW)
    assert added.exists()
    assert not added.filter(served_provider="dynamo-express").exists()


def test_a_key_whose_secret_is_lost_is_made_anew(past: Past) -> None:
    known = {name: secret for name, secret in past.seeded.keys.items() if name != cast.VISITOR}
    again = past.seed_again(keys=known)
    assert again.keys[cast.VISITOR] != past.seeded.keys[cast.VISITOR]
    assert {name: again.keys[name] for name in known} == known
    living = AccessKey.objects.filter(application__identifier=cast.VISITOR, revoked_at=None)
    assert living.count() == 1


def test_a_provider_key_that_does_not_open_is_sealed_anew(past: Past) -> None:
    other = Vault([("k2", bytes([7] * 32))])
    past.seed_again(vault=other)
    assert all(read_key(provider, vault=other) == SIMULATOR_KEY for provider in Provider.objects.all())


def test_a_policy_that_is_not_the_demos_is_left_alone(db: None) -> None:
    seed(now=NOW, simulator=SIMULATOR, vault=VAULT, set_policy=False, length=timedelta(hours=1))
    assert load_settings().routing.mode is PolicyMode.PROVIDER_PRIORITY


def test_a_name_that_is_taken_is_a_conflict(db: None) -> None:
    ProviderFactory(identifier="atlas-cloud")
    with pytest.raises(SeedConflict, match="atlas-cloud that is not the demo's"):
        seed(now=NOW, simulator=SIMULATOR, vault=VAULT, length=timedelta(hours=1))


@pytest.mark.django_db(transaction=True)
def test_two_that_seed_at_once_add_nothing_twice() -> None:
    arguments: dict[str, Any] = {"simulator": SIMULATOR, "vault": VAULT, "length": timedelta(hours=2)}

    def seed_in_a_thread() -> int:
        try:
            return seed(now=NOW, **arguments).calls
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=2) as pool:
        added = sorted(future.result() for future in [pool.submit(seed_in_a_thread) for _ in range(2)])
    assert added[0] == 0
    assert added[1] == Call.objects.count() > 20
    assert Provider.objects.count() == len(cast.PROVIDERS)
    assert AccessKey.objects.filter(revoked_at=None).count() == len(cast.APPLICATIONS)
    assert sums_of_usage() == sums_of_calls()
