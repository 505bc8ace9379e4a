"""What a change of a setting is said to do is what it does: foretold, then made, and decided again."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from governance.changes.settings import store_setting
from governance.decisions import Standing, rule
from governance.gateway.service import standing_now
from governance.settings_store.store import load_settings
from governance.standing_poll import under
from governance.tab.consequences import Consequence, Foresight, foresee
from routing.core.requirements import Requirements
from routing.core.vocabulary import Operation
from telemetry.models import Call
from tests.authors import SOMEBODY
from tests.factories import (
    CallFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)

pytestmark = pytest.mark.django_db

CHOICES: list[tuple[str, Any]] = [
    ("routing.callHistory", True),
    ("routing.policyMode", "balanced"),
    ("routing.policyMode", "quality"),
    ("routing.policyMode", "economy"),
    ("routing.operationCapabilityEnforcement", "observe"),
    ("routing.currency", "EUR"),
    ("telemetry.enabled", False),
    ("budgets.assumedMaxOutput", 1),
    ("gateway.maxBodyBytes", 4096),
]


@pytest.fixture
def world() -> None:
    """Three models, each best at something else: quality, price and time, in two currencies; what the first is asked
    first it failed half of late."""
    now = timezone.now()
    for place, (name, score, rate, currency, latency) in enumerate((
        ("clever", 0.95, 9_000_000_000, "USD", 9_000.0),
        ("cheap", 0.60, 500_000_000, "USD", 4_000.0),
        ("swift", 0.70, 100_000_000, "EUR", 900.0),
    )):  # fmt: skip
        provider = ProviderFactory.create(adapter_type=("openai", "vllm", "custom")[place])
        model = LanguageModelFactory.create(
            identifier=name, model_id=f"vendor-{name}", provider=provider, sorting=place,
            capabilities=["chat"] if name == "clever" else ["chat", "tools"],
        )  # fmt: skip
        EvaluationResultFactory.create(model=model, mean_score=score)
        PriceFactory.create(model=model, currency=currency, input_rate=rate, output_rate=rate)
        for index in range(6):
            is_fault = name == "clever" and index % 2 == 0
            called(provider.adapter_type, name, latency, currency, minutes=index)
            if is_fault:
                CallFactory.create(
                    started_at=now - timedelta(minutes=index), first_adapter_type=provider.adapter_type,
                    success=False, failure_kind="transient", first_failure_kind="transient",
                )  # fmt: skip
    for mode in ("", "balanced", "quality", "economy", "providerPriority"):
        ConfigurationFactory.create(identifier=f"by-{mode or 'installation'}", criteria=True, policy_mode=mode)
    ConfigurationFactory.create(identifier="asleep", criteria=True, is_active=False)
    ConfigurationFactory.create(identifier="letters", listed=True, listed_order="cheapest")
    ConfigurationFactory.create(identifier="summaries", fixed=True)


def called(adapter_type: str, name: str, latency: float, currency: str, *, minutes: int) -> None:
    names = {"adapter_type": adapter_type, "model_id": f"vendor-{name}", "model": name}
    CallFactory.create(
        started_at=timezone.now() - timedelta(minutes=minutes),
        latency_ms=latency,
        cost_currency=currency,
        **{f"{which}_{part}": value for which in ("first", "served") for part, value in names.items()},
    )


def firsts(standing: Standing) -> dict[tuple[str, Operation], list[str]]:
    return {
        (spec.identifier, operation): [
            each.model.route
            for each in rule(
                standing, spec, requirements=Requirements(operation=operation), now=timezone.now()
            ).decision.eligible
        ]
        for spec in standing.snapshot.configurations.values()
        if spec.is_active
        for operation in Operation
    }


@pytest.mark.parametrize(("key", "value"), CHOICES, ids=str)
@pytest.mark.parametrize("before", [{}, {"routing.policyMode": "balanced", "routing.callHistory": True}], ids=str)
def test_what_is_foretold_is_what_happens(key: str, value: Any, before: dict[str, Any], world: None) -> None:
    for name, stored in before.items():
        store_setting(name, stored, author=SOMEBODY)
    was = firsts(standing_now())
    (foresight,) = foresee(standing_now(), [{key: value}], now=timezone.now())
    store_setting(key, value, author=SOMEBODY)
    now = firsts(standing_now())
    foretold = {
        (each.configuration, operation): (each.before, each.after)
        for each in foresight.changes
        for operation in each.operations
    }
    happened = {
        asked: (next(iter(was[asked]), None), next(iter(now[asked]), None)) for asked in was if was[asked] != now[asked]
    }
    assert foretold == happened


def test_the_world_of_these_tests_is_moved_by_every_choice_that_can_move_it(world: None) -> None:
    """Or the test above would say nothing."""
    store_setting("routing.policyMode", "economy", author=SOMEBODY)
    foresights = foresee(standing_now(), [{key: value} for key, value in CHOICES], now=timezone.now())
    moved = {
        (key, value)
        for (key, value), foresight in zip(CHOICES, foresights, strict=True)
        if foresight.elsewhere or foresight.reordered
    }
    unmoved = {("routing.policyMode", "economy"), ("budgets.assumedMaxOutput", 1), ("gateway.maxBodyBytes", 4096)}
    assert set(CHOICES) - moved == unmoved
    without = [choice for choice, each in zip(CHOICES, foresights, strict=True) if not each.takes_part]
    assert without == [("routing.policyMode", "economy"), ("gateway.maxBodyBytes", 4096)]


def test_operations_with_one_outcome_are_told_in_one(world: None) -> None:
    (foresight,) = foresee(standing_now(), [{"routing.operationCapabilityEnforcement": "observe"}], now=timezone.now())
    told = [each for each in foresight.changes if each.configuration == "by-providerPriority"]
    assert [(each.operations, each.before, each.after) for each in told] == [
        ((Operation.VISION,), None, "prod-east/clever"),
        ((Operation.TOOLS, Operation.STREAM_TOOLS), "prod-east-4/fast", "prod-east/clever"),
    ]
    assert all(each.goes_elsewhere for each in told)


def test_who_is_counted(world: None) -> None:
    (foresight,) = foresee(standing_now(), [{"routing.policyMode": "quality"}], now=timezone.now())
    assert (foresight.configurations, foresight.measured, foresight.going_by_mode) == (7, 4, 1)
    (foresight,) = foresee(standing_now(), [{"routing.policyMode": "providerPriority"}], now=timezone.now())
    assert (foresight.takes_part, foresight.measured, foresight.changes) == (False, 3, ())


def test_what_the_environment_pins_changes_nothing(world: None, settings: Settings) -> None:
    settings.SIGNALBOX_SETTINGS = {"routing.policyMode": "economy"}
    (foresight,) = foresee(standing_now(), [{"routing.policyMode": "quality"}], now=timezone.now())
    assert not foresight.takes_part


def test_the_same_first_and_others_behind_it_go_nowhere_else() -> None:
    def consequence(after: str) -> Consequence:
        return Consequence("any", (Operation.CHAT,), "prod-east/fast", after, ())

    same, other = consequence("prod-east/fast"), consequence("lab/huge")
    foresight = Foresight(takes_part=True, configurations=1, measured=1, going_by_mode=0, changes=(same, other))
    assert (foresight.elsewhere, foresight.reordered) == ((other,), (same,))


def test_figures_are_read_anew_only_where_the_settings_say_which_there_are(
    world: None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    standing, now = standing_now(), timezone.now()
    with django_assert_num_queries(2):
        settings = load_settings(supposed={"routing.callHistory": True})
    with django_assert_num_queries(0):
        assert under(standing, settings, now=now).figures is standing.figures
    in_euro, silent = (
        load_settings(supposed=each) for each in ({"routing.currency": "EUR"}, {"telemetry.enabled": False})
    )
    with django_assert_num_queries(2):
        history = under(standing, in_euro, now=now).figures.history
    assert history is not None
    assert {name for name, figure in history[Operation.CHAT].items() if figure.mean_cost} == {"swift"}
    with django_assert_num_queries(0):
        figures = under(standing, silent, now=now).figures
    assert (figures.history, figures.health) == (None, {})
    assert Call.objects.exists()
