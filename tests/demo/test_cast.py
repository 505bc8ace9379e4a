"""The demo's cast, profiles and habits fit together, and the simulator understands what it is told."""

import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from governance.demo import cast
from governance.demo.draws import mirrored, usage_of
from governance.demo.habits import HABITS
from governance.demo.profiles import PROFILES, behaviours, profile_of
from governance.demo.simulator.book import BehaviourBook
from routing.core.pricing import cost
from routing.core.vocabulary import Operation
from routing.providers.registry import ADAPTER_TYPES

ROOT = Path(__file__).resolve().parents[2]
STARTED = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_the_names_of_no_two_namespaces_are_alike() -> None:
    namespaces = {
        "provider": {each.spec.identifier for each in cast.PROVIDERS},
        "adapter type": {each.spec.adapter_type for each in cast.PROVIDERS},
        "path": {each.path for each in cast.PROVIDERS},
        "model": {each.spec.identifier for each in cast.MODELS},
        "model id": {each.spec.model_id for each in cast.MODELS},
        "configuration": {each.spec.identifier for each in cast.CONFIGURATIONS},
        "application": {each.identifier for each in cast.APPLICATIONS},
        "budget": {each.spec.identifier for each in cast.BUDGETS},
    }
    names = [name for names in namespaces.values() for name in names]
    assert len(names) == len(set(names))
    assert len(namespaces["adapter type"]) == len(cast.PROVIDERS)


def test_every_adapter_type_is_one_that_can_be_called() -> None:
    assert {each.spec.adapter_type for each in cast.PROVIDERS} <= set(ADAPTER_TYPES)


def test_there_is_one_of_everything_that_pages_have_to_tell_apart() -> None:
    assert any(not each.spec.capabilities for each in cast.MODELS), "an undeclared model"
    assert any(each.rates is None for each in cast.MODELS), "an unpriced model"
    assert any(each.rates is not None and each.rates.input == 0 for each in cast.MODELS), "a free model"
    assert any(each.cut_to is not None for each in cast.MODELS), "a price that changed"
    assert {each.spec.selection.value for each in cast.CONFIGURATIONS} == {"criteria", "listed", "fixed"}
    assert any(each.spec.fallbacks for each in cast.CONFIGURATIONS), "a fallback chain"


def test_the_price_was_cut_at_a_midnight_within_the_thirty_days() -> None:
    assert cast.price_cut(started=STARTED) == datetime(2026, 11, 18, tzinfo=UTC)
    cut = next(each for each in cast.MODELS if each.cut_to is not None)
    before, after = cut.prices(started=STARTED)
    assert (before.rates, after.rates) == (cut.rates, cut.cut_to)
    assert before.valid_from < after.valid_from < STARTED


def test_habits_name_what_there_is() -> None:
    allowed = {each.identifier: each.configurations for each in cast.APPLICATIONS}
    for habit in HABITS:
        assert habit.configuration in (allowed[habit.application] or ())
        assert habit.usually in {each.spec.identifier for each in cast.MODELS}
        assert len(habit.hours) == 24


def test_a_habit_adds_up_to_its_day_and_rests_at_the_weekend() -> None:
    habit = HABITS[0]
    monday = sum(habit.expected(datetime(2026, 11, 30, hour, tzinfo=UTC)) for hour in range(24))
    sunday = sum(habit.expected(datetime(2026, 11, 29, hour, tzinfo=UTC)) for hour in range(24))
    assert monday == pytest.approx(habit.per_day)
    assert sunday == pytest.approx(habit.per_day * habit.weekend)


def test_three_calls_go_down_the_ladder_and_then_cost_nothing() -> None:
    (ladder,) = (each.spec for each in cast.BUDGETS if each.spec.tiers)
    assert ladder.scope.configuration in {each.spec.identifier for each in cast.CONFIGURATIONS}
    assert ladder.scope.configuration not in {habit.configuration for habit in HABITS}, "visitors alone ask for it"
    spent, served = 0, []
    for model in (cast.DEEP, cast.SWIFT, cast.STEADY):
        past = [tier.targets[0] for tier in ladder.tiers if spent * 100 >= tier.threshold * ladder.limit]
        served.append(past[-1] if past else cast.DEEP)
        (price,) = next(each for each in cast.MODELS if each.spec.identifier == model).prices(started=STARTED)
        spent += cost(usage_of(profile_of(model, Operation.CHAT)), price).nanos
    assert served == [cast.DEEP, cast.SWIFT, cast.STEADY]
    assert spent == 6_700_000 + 18_400_000, "the last one is free"


@pytest.mark.parametrize(
    ("model", "operation", "nanos"),
    [
        (cast.SWIFT, Operation.CHAT, 6_700_000),
        (cast.DEEP, Operation.CHAT, 18_400_000),
        (cast.SWIFT, Operation.TOOLS, 29_000_000),
    ],
)
def test_stated_costs_follow_from_tokens_and_price(model: str, operation: Operation, nanos: int) -> None:
    (price,) = next(each for each in cast.MODELS if each.spec.identifier == model).prices(started=STARTED)
    profile = profile_of(model, operation)
    assert profile.stated
    assert cost(usage_of(profile), price).nanos == nanos


def test_calls_that_visitors_make_leave_the_stated_figures_where_they_are() -> None:
    told = behaviours()
    for path in ("atlas/atlas-4-swift", "atlas/atlas-4-deep"):
        assert told[path]["latency"]["spread_ms"] == 0
        assert told[path]["tokens"]["completion_spread"] == 0
        assert told[path]["failures"] == []
    assert not any(habit.live for habit in HABITS if profile_of(habit.usually, habit.operation).stated)


def test_the_simulator_understands_what_it_is_told() -> None:
    book = BehaviourBook(behaviours(speed=4.0), seed=1)
    for each in cast.MODELS:
        path = next(provider.path for provider in cast.PROVIDERS if provider.spec == each.spec.provider)
        route = book.resolve(path, each.spec.model_id)
        assert route.behaviour.latency.mean_ms > 0
        assert each.spec.model_id in book.models(path)
    assert book.resolve("atlas", "atlas-4-swift").behaviour.latency.mean_ms == pytest.approx((4259 - 5) / 4)


@pytest.mark.parametrize("key", [key for key, profile in PROFILES.items() if profile.stated], ids=str)
def test_two_draws_that_mirror_each_other_have_the_means_of_their_profile(key: tuple[str, Operation]) -> None:
    profile = PROFILES[key]
    for seed in range(200):
        above, below = mirrored(profile, random.Random(seed))
        assert above.latency_ms + below.latency_ms == 2 * profile.latency_ms
        assert above.usage.input + below.usage.input == 2 * profile.prompt
        assert above.usage.output + below.usage.output == 2 * profile.output
        assert min(above.latency_ms, below.latency_ms) > 0
        for draw in (above, below):
            assert min(draw.usage.input, draw.usage.output) > draw.usage.reasoning // 2
            assert draw.usage.reasoning <= draw.usage.output


def test_the_generator_needs_no_django() -> None:
    script = "import sys, governance.demo.traffic\nsys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0
