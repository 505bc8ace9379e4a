"""What is in force, and the question that is asked of it: remembered rulings are those that would be made afresh, and
nothing in force is older than it may be."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, InterfaceError
from hypothesis import given, settings
from hypothesis import strategies as st

from governance import decisions
from governance.changes.settings import clear_setting, store_setting
from governance.decisions import HEALTH_AGE, HISTORY_AGE, Ruling, Standing, StandingPoll, lay_out, rule
from governance.settings_store.registry import CALL_HISTORY, CURRENCY, POLICY_MODE, TELEMETRY
from governance.settings_store.store import EffectiveSettings, SubmissionPolicy
from governance.shared_state.memory import MemoryStore
from routing.circuits import Circuits
from routing.core.catalogue import Catalogue, ModelSpec, ProviderSpec
from routing.core.configuration import ConfigurationSpec, Criteria, override
from routing.core.decision import decide
from routing.core.failures import Failure, FailureKind
from routing.core.money import Money
from routing.core.plan import Preference, Skip, Step
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.pricing import Price, Rates
from routing.core.requirements import Limits, Requirements
from routing.core.retry import RetryPolicy
from routing.core.signals import Figures, HealthFigure, HistoryFigure, HistoryKey, figures_of
from routing.core.transcript import canonical, digest, document
from routing.core.vocabulary import Capability, ListedOrder, Operation, Reach, Selection, SkipReason
from routing.snapshots import CatalogueSnapshot
from telemetry.health import read_health
from telemetry.history import read_history
from tests.authors import SOMEBODY
from tests.factories import (
    CallFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)

NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=1)
SOON = NOW + timedelta(minutes=10)
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
CHAT = Requirements(operation=Operation.CHAT, prompt_tokens=100)


def price(input_rate: int, *, since: datetime = LONG_AGO, currency: str = "USD") -> Price:
    """A price of a whole number of dollars, four times as much for the output."""
    return Price(since, currency, Rates(input=input_rate * 10**9, output=4 * input_rate * 10**9))


EAST = ProviderSpec("prod-east", "openai", priority=60)
WEST = ProviderSpec("prod-west", "custom", reach=Reach.SELF_HOSTED)
MODELS = (
    ModelSpec(
        "fast",
        "gpt-x-mini",
        EAST,
        context_length=8_000,
        capabilities=frozenset({"chat"}),
        prices=(price(1), price(3, since=NOW)),
    ),
    ModelSpec("wise", "gpt-x-pro", EAST, context_length=32_000, prices=(price(9), price(2, since=SOON))),
    ModelSpec("huge", "gpt-x-max", WEST, context_length=128_000, capabilities=frozenset({"chat", "tools"})),
    ModelSpec("odd", "gpt-x-odd", WEST, prices=(price(0, currency="EUR"),)),
)
LISTED = ConfigurationSpec(
    "listed", Selection.LISTED, models=("wise", "fast", "gone", "odd"), order=ListedOrder.HEALTHIEST
)
CHEAPEST = ConfigurationSpec("cheapest", Selection.LISTED, models=("wise", "fast"), order=ListedOrder.CHEAPEST)
CHEAP = Criteria(prefer_lowest_cost=True)
CONFIGURATIONS = (
    ConfigurationSpec("ranked", Selection.CRITERIA, fallbacks=("listed", "off", "gone", "fixed")),
    ConfigurationSpec("picky", Selection.CRITERIA, criteria=Criteria(("chat",), min_context_length=16_000)),
    ConfigurationSpec("picky", Selection.CRITERIA, criteria=Criteria(max_cost_input=10**9)),  # a hypothetical one
    ConfigurationSpec("cheap", Selection.CRITERIA, criteria=CHEAP, policy_mode=PolicyMode.ECONOMY),
    LISTED,
    CHEAPEST,
    ConfigurationSpec("fixed", Selection.FIXED, models=("huge",)),
    ConfigurationSpec("off", Selection.FIXED, models=("fast",), is_active=False),
)  # fmt: skip
HISTORY = {
    HistoryKey("openai", "gpt-x-mini", Operation.CHAT): HistoryFigure(9, 900.0, 9, Money(10**6, "USD")),
    HistoryKey("custom", "gpt-x-max", Operation.CHAT): HistoryFigure(9, 200.0, 9, Money(10**7, "USD")),
    HistoryKey("openai", "gpt-x-pro", Operation.STREAM): HistoryFigure(5, 400.0),
}


def alone() -> Circuits:
    """The circuits of a process that shares them with nobody."""
    return Circuits(store=MemoryStore())


def fail(circuits: Circuits, model: str) -> None:
    """A call to the model fails, in a way that opens nothing."""
    admission = circuits.admit(model)
    assert admission is not None
    circuits.failed(model, admission, Failure(FailureKind.UNREADABLE, "garbage"))


def serve(circuits: Circuits, model: str) -> None:
    """A call to the model is answered."""
    admission = circuits.admit(model)
    assert admission is not None
    circuits.served(model, admission)


def standing_of(
    *,
    policy: RoutingPolicy | None = None,
    circuits: Circuits | None = None,
    models: tuple[ModelSpec, ...] = MODELS,
    now: datetime = NOW,
) -> Standing:
    """What is in force on paper."""
    catalogue = Catalogue.of(models, version=3)
    circuits = circuits or alone()
    return Standing.of(
        settings=EffectiveSettings(
            routing=policy or RoutingPolicy(mode=PolicyMode.BALANCED, call_history=True),
            retry=RetryPolicy(),
            deadline=60.0,
            reorders_fallbacks=False,
            max_body_bytes=1,
            submissions=SubmissionPolicy(
                max_deliveries=2, content_kept=timedelta(hours=1), rows_kept=timedelta(days=1), max_batch_calls=3
            ),
            entries_kept=timedelta(days=400),
            version=1,
        ),
        snapshot=CatalogueSnapshot(
            catalogue=catalogue,
            configurations={each.identifier: each for each in CONFIGURATIONS},
            providers={},
            quality={"fast": 0.5, "huge": 0.9},
            version=3,
        ),
        figures=figures_of(
            catalogue,
            quality={"fast": 0.5, "huge": 0.9},
            health={"openai": HealthFigure(10, 9, 500.0)},
            history=HISTORY,
            failures_in_a_row=circuits.counts,
        ),
        circuits=circuits,
        now=now,
    )


# --- Remembered rulings ---------------------------------------------------------------------------------------------

MOMENTS = st.sampled_from(
    [EARLIER, NOW, NOW + timedelta(seconds=1), SOON - timedelta(microseconds=1), SOON, SOON + timedelta(hours=1)]
)
QUESTIONS = st.tuples(
    st.sampled_from([*CONFIGURATIONS, override("fast"), override("odd"), override("gone")]),
    st.builds(
        Requirements,
        operation=st.none() | st.sampled_from(Operation),
        needs=st.frozensets(st.sampled_from([Capability.TOOLS, Capability.VISION, Capability.STRUCTURED_OUTPUT])),
        prompt_tokens=st.none()
        | st.sampled_from([0, 1, 7_999, 8_000, 8_001, 31_999, 32_000, 32_001, 128_000, 128_001, 10**9])
        | st.integers(0, 200_000),
        max_output=st.none() | st.integers(1, 100_000),
    ),
    st.builds(
        Limits,
        allowed_models=st.none() | st.frozensets(st.sampled_from(["fast", "wise", "huge"])),
        budget_targets=st.lists(st.frozensets(st.sampled_from(["fast", "wise"])), max_size=2).map(tuple),
        internal_only=st.booleans(),
        on_device=st.booleans(),
        regions=st.none() | st.just(frozenset({"eu"})),
        cost_ceiling=st.none() | st.builds(Money, st.integers(0, 10**9), st.sampled_from(["USD", "EUR"])),
    ),
    MOMENTS,
    st.sampled_from(["", "fast fails", "wise fails", "fast serves"]),
)


@settings(max_examples=150, deadline=None)
@given(asked=st.lists(QUESTIONS, min_size=2, max_size=25))
def test_a_remembered_ruling_is_the_one_that_would_be_made_afresh(asked: list[Any]) -> None:
    circuits = alone()
    standing = standing_of(circuits=circuits)
    for configuration, requirements, limits, now, event in asked:
        if event:
            model, _, happens = event.partition(" ")
            (fail if happens == "fails" else serve)(circuits, model)
        ruling = rule(standing, configuration, requirements=requirements, limits=limits, now=now)
        fresh = decide(
            configuration=configuration,
            catalogue=standing.snapshot.catalogue,
            requirements=requirements,
            limits=limits,
            policy=standing.settings.routing,
            figures=standing.figures,
            now=now,
        )
        content = canonical(document(fresh))
        assert ruling.document == content
        assert ruling.digest == digest(content)
        assert [each.model for each in ruling.decision.eligible] == [each.model for each in fresh.eligible]


def test_questions_that_need_no_other_answer_share_one() -> None:
    standing = standing_of()
    ranked = CONFIGURATIONS[0]

    def asked(requirements: Requirements = CHAT, limits: Limits | None = None, now: datetime = NOW) -> object:
        return rule(standing, ranked, requirements=requirements, limits=limits or Limits(), now=now)

    first = asked()
    assert asked(now=NOW + timedelta(minutes=9)) is first
    assert asked(replace(CHAT, prompt_tokens=8_000)) is first
    assert asked(replace(CHAT, max_output=5)) is first
    assert asked(replace(CHAT, prompt_tokens=8_001)) is not first
    assert asked(replace(CHAT, prompt_tokens=None)) is not first
    assert asked(limits=Limits(on_device=True)) is not first
    ceiling = Limits(cost_ceiling=Money(10**9, "USD"))
    assert asked(limits=ceiling) is not asked(limits=ceiling)


def test_a_question_about_the_past_is_not_remembered() -> None:
    """Of prices that were in force before the standing was put together, it only knows the last one to be right."""
    standing = standing_of()

    def rate(now: datetime) -> int:
        chosen = rule(standing, CHEAPEST, requirements=CHAT, now=now).decision.selected
        assert chosen is not None
        assert chosen.reading.price is not None
        return chosen.reading.price.rates.input // 10**9

    assert [rate(EARLIER), rate(NOW), rate(EARLIER), rate(NOW)] == [1, 3, 1, 3]


def test_a_hypothetical_configuration_is_not_taken_for_the_real_one() -> None:
    standing = standing_of()
    real = CONFIGURATIONS[0]
    for other in (
        replace(real, criteria=Criteria(capabilities=("tools",))),
        replace(real, policy_mode=PolicyMode.ECONOMY),
        replace(real, selection=Selection.LISTED, models=("fast", "wise")),
        replace(real, selection=Selection.LISTED, models=("fast", "wise"), order=ListedOrder.CHEAPEST),
        replace(real, selection=Selection.LISTED, models=("wise", "fast")),
    ):
        first = rule(standing, real, requirements=CHAT, now=NOW)
        assert rule(standing, other, requirements=CHAT, now=NOW).digest != first.digest


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_REMEMBERED", 3)
    standing = standing_of()
    for number in range(20):
        limits = Limits(allowed_models=frozenset({f"model-{number}"}))
        rule(standing, LISTED, requirements=CHAT, limits=limits, now=NOW)
        assert len(standing.remembered) <= 3


def test_a_memory_that_is_cleared_while_it_is_asked_costs_nothing_but_a_decision() -> None:
    """Pages ask from threads of their own, and each may clear what another is about to read."""

    class Cleared(dict[tuple[object, ...], Ruling]):
        def __contains__(self, key: object) -> bool:
            was_there = super().__contains__(key)
            self.clear()
            return was_there

    standing = replace(standing_of(), remembered=Cleared())
    first = rule(standing, LISTED, requirements=CHAT, now=NOW)
    assert rule(standing, LISTED, requirements=CHAT, now=NOW).digest == first.digest


def test_a_price_comes_into_force_at_its_second() -> None:
    standing = standing_of()
    cheapest = CHEAPEST
    assert standing.fresh_until == SOON
    late = Price(SOON, "USD", Rates(input=10**8, output=10**8))
    standing = standing_of(models=(replace(MODELS[1], prices=(price(9), late)), MODELS[0]))

    def first(now: datetime) -> str:
        ruling = rule(standing, cheapest, requirements=CHAT, now=now)
        return ruling.decision.eligible[0].model.identifier

    for _ in range(2):
        assert first(SOON - timedelta(microseconds=1)) == "fast"
        assert first(SOON) == "wise"
        assert first(SOON + timedelta(days=1)) == "wise"


def test_the_healthiest_order_sees_a_failure_at_once() -> None:
    circuits = alone()
    standing = standing_of(circuits=circuits)

    def order() -> list[str]:
        ruling = rule(standing, LISTED, requirements=CHAT, now=NOW)
        return [each.model.identifier for each in ruling.decision.eligible]

    assert order() == ["wise", "fast", "odd"]
    fail(circuits, "wise")
    assert order() == ["fast", "odd", "wise"]
    fail(circuits, "fast")
    fail(circuits, "fast")
    assert order() == ["odd", "wise", "fast"]
    serve(circuits, "fast")
    assert order() == ["fast", "odd", "wise"]


def test_other_orders_do_not_decide_anew_for_a_failure() -> None:
    circuits = alone()
    standing = standing_of(circuits=circuits)
    before = rule(standing, CHEAPEST, requirements=CHAT, now=NOW)
    fail(circuits, "wise")
    assert rule(standing, CHEAPEST, requirements=CHAT, now=NOW) is before


def test_the_routes_of_a_call() -> None:
    standing = standing_of()
    ranked = CONFIGURATIONS[0]
    ruling = rule(standing, ranked, requirements=CHAT, now=NOW)
    laid = lay_out(
        standing,
        ranked,
        ruling,
        requirements=CHAT,
        now=NOW,
        may_ask_for=lambda name: name != "fixed",
        preference=Preference("huge", "pin"),
    )
    head, *rest = laid.steps
    assert (head, laid.preference) == (Step("ranked", MODELS[2]), "pin")
    own = [each.model.identifier for each in ruling.decision.eligible if each.model.identifier != "huge"][:2]
    assert [(each.configuration, each.model.identifier) for each in rest] == [
        *(("ranked", name) for name in own),
        *(("listed", name) for name in ("wise", "fast", "odd") if name not in own),
    ]
    reasons = {skip.name: skip.reason for skip in laid.skips}
    assert reasons["off"] is SkipReason.CONFIGURATION_INACTIVE
    assert reasons["gone"] is SkipReason.CONFIGURATION_MISSING
    assert reasons["fixed"] is SkipReason.CONFIGURATION_FORBIDDEN
    assert all(isinstance(skip, Skip) for skip in laid.skips)


# --- What is in force -----------------------------------------------------------------------------------------------


class Reads:
    """Counts the reads of history and health, and lets them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.history: list[str] = []
        self.health = 0
        self.error: Exception | None = None

        def count_history(*, now: datetime, currency: str) -> Mapping[HistoryKey, HistoryFigure]:
            self.history.append(currency)
            self._fail()
            return read_history(now=now, currency=currency)

        def count_health(*, now: datetime) -> Mapping[str, HealthFigure]:
            self.health += 1
            self._fail()
            return read_health(now=now)

        monkeypatch.setattr(decisions, "read_history", count_history)
        monkeypatch.setattr(decisions, "read_health", count_health)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.fixture
def poll(db: None) -> StandingPoll:
    return StandingPoll(circuits=alone())


def in_force(poll: StandingPoll, now: datetime = NOW) -> Standing:
    """What is in force after a look at a moment."""
    standing = poll.refresh(now=now)
    assert poll.current is standing
    return standing


def test_nothing_is_in_force_before_the_first_look(poll: StandingPoll) -> None:
    assert poll.current is None
    assert in_force(poll).settings.routing == RoutingPolicy()


def test_a_standing_stays_while_nothing_changes(poll: StandingPoll, django_assert_num_queries: Any) -> None:
    first = in_force(poll)
    with django_assert_num_queries(3):  # settings, catalogue, and what budgets come with
        assert in_force(poll, NOW + timedelta(seconds=59)) is first
    ConfigurationFactory()
    second = in_force(poll, NOW + timedelta(seconds=59))
    assert second is not first
    assert "support-chat" in second.snapshot.configurations
    store_setting(POLICY_MODE.key, "economy", author=SOMEBODY)
    assert in_force(poll, NOW + timedelta(seconds=59)).settings.routing.mode is PolicyMode.ECONOMY
    clear_setting(POLICY_MODE.key, author=SOMEBODY)
    third = in_force(poll, NOW + timedelta(seconds=59))
    assert third.settings.routing.mode is PolicyMode.PROVIDER_PRIORITY
    assert third.remembered == {}


def test_history_is_kept_for_five_minutes_and_health_for_one(poll: StandingPoll, reads: Reads) -> None:
    assert (timedelta(minutes=5), timedelta(minutes=1)) == (HISTORY_AGE, HEALTH_AGE)
    expected = {0: (1, 1), 59: (1, 1), 60: (1, 2), 119: (1, 2), 120: (1, 3), 299: (1, 4), 300: (2, 4), 359: (2, 5)}
    for seconds, counts in expected.items():
        in_force(poll, NOW + timedelta(seconds=seconds))
        assert (len(reads.history), reads.health) == counts, seconds


def test_a_clock_that_is_set_back_keeps_nothing(poll: StandingPoll, reads: Reads) -> None:
    in_force(poll)
    in_force(poll, NOW - timedelta(seconds=1))
    assert (len(reads.history), reads.health) == (2, 2)


def test_figures_can_be_forgotten(poll: StandingPoll, reads: Reads) -> None:
    first = in_force(poll)
    poll.forget_figures()
    assert in_force(poll) is not first
    assert (len(reads.history), reads.health) == (2, 2)


@pytest.mark.parametrize("error", [DatabaseError("no"), InterfaceError("no")], ids=["database", "interface"])
def test_a_read_that_fails_is_no_figures_and_no_failure(
    poll: StandingPoll, reads: Reads, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    LanguageModelFactory()
    CallFactory(started_at=NOW - timedelta(minutes=1))
    reads.error = error
    standing = in_force(poll)
    assert standing.figures.history is None
    assert standing.figures.health == {}
    assert "call history cannot be read" in caplog.text
    assert "health cannot be read" in caplog.text
    reads.error = None
    standing = in_force(poll, NOW + HISTORY_AGE)
    assert standing.figures.history is not None
    assert standing.figures.health.keys() == {"fast"}


def test_without_telemetry_nothing_is_read(poll: StandingPoll, reads: Reads) -> None:
    LanguageModelFactory()
    CallFactory(started_at=NOW - timedelta(minutes=1))
    store_setting(TELEMETRY.key, False, author=SOMEBODY)
    standing = in_force(poll)
    assert (reads.history, reads.health) == ([], 0)
    assert (standing.figures.history, standing.figures.health) == (None, {})
    store_setting(TELEMETRY.key, True, author=SOMEBODY)
    assert in_force(poll).figures.health.keys() == {"fast"}  # at once
    assert (len(reads.history), reads.health) == (1, 1)
    store_setting(TELEMETRY.key, False, author=SOMEBODY)
    assert in_force(poll).figures == Figures(quality={}, failures_in_a_row={})


def test_another_currency_is_another_history(poll: StandingPoll, reads: Reads) -> None:
    LanguageModelFactory()
    for _ in range(5):
        CallFactory(started_at=NOW - timedelta(minutes=1), actual_cost_nanos=5, cost_currency="EUR")

    def cost() -> Money | None:
        history = in_force(poll).figures.history
        assert history is not None
        return history[Operation.CHAT]["fast"].mean_cost

    assert cost() is None
    store_setting(CURRENCY.key, "EUR", author=SOMEBODY)
    assert cost() == Money(5, "EUR")
    assert reads.history == ["USD", "EUR"]
    store_setting(CALL_HISTORY.key, True, author=SOMEBODY)
    assert cost() == Money(5, "EUR")
    assert reads.history == ["USD", "EUR"]  # whether it is used does not matter for reading it


def test_figures_find_their_models_by_adapter_type(poll: StandingPoll) -> None:
    """The identifiers of these providers are spelled like adapter types, those of the models like model ids."""
    east = ProviderFactory(identifier="custom", adapter_type="openai")
    west = ProviderFactory(identifier="openai", adapter_type="custom")
    fast = LanguageModelFactory(provider=east, identifier="gpt-x-pro", model_id="gpt-x-mini")
    LanguageModelFactory(provider=west, identifier="gpt-x-mini", model_id="gpt-x-pro")
    EvaluationResultFactory(model=fast, mean_score=0.7)
    CallFactory(
        started_at=NOW - timedelta(minutes=1),
        first_provider="x", first_adapter_type="openai", first_model="y", first_model_id="z",
        served_provider="openai", served_adapter_type="openai", served_model="x", served_model_id="gpt-x-mini",
    )  # fmt: skip
    figures = in_force(poll).figures
    assert figures.quality == {"gpt-x-pro": 0.7}
    assert figures.health.keys() == {"gpt-x-pro"}
    assert figures.history is not None
    assert {operation for operation, found in figures.history.items() if found} == {Operation.CHAT}
    assert figures.history[Operation.CHAT].keys() == {"gpt-x-pro"}


def test_a_price_that_comes_into_force_is_a_new_standing(poll: StandingPoll, reads: Reads) -> None:
    model = LanguageModelFactory(priced=True)
    PriceFactory(model=model, valid_from=SOON)
    PriceFactory(model=model, valid_from=SOON + timedelta(hours=1))
    first = in_force(poll)
    assert first.fresh_until == SOON
    just_before = SOON - timedelta(microseconds=1)
    poll._measured.refresh(first.settings, now=just_before)  # so that only the price is new
    assert in_force(poll, just_before) is first
    second = in_force(poll, SOON)
    assert second is not first
    assert second.fresh_until == SOON + timedelta(hours=1)


def test_a_look_that_fails_half_way_hides_nothing(poll: StandingPoll, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings have changed, and the catalogue cannot be read at just that moment."""
    first = in_force(poll)
    store_setting(POLICY_MODE.key, "economy", author=SOMEBODY)
    refresh: Callable[[], bool] = poll._catalogue.refresh

    def fail() -> bool:
        raise DatabaseError("away")

    monkeypatch.setattr(poll._catalogue, "refresh", fail)
    with pytest.raises(DatabaseError):
        poll.refresh(now=NOW)
    assert poll.current is first  # the last one stays in force
    monkeypatch.setattr(poll._catalogue, "refresh", refresh)
    assert in_force(poll).settings.routing.mode is PolicyMode.ECONOMY
