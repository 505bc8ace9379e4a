"""The question that is asked of what is in force: remembered rulings are those that would be made afresh."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance import decisions
from governance.decisions import Ruling, Standing, lay_out, rule
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
from routing.core.signals import HealthFigure, HistoryFigure, HistoryKey, figures_of
from routing.core.transcript import canonical, digest, document
from routing.core.vocabulary import Capability, ListedOrder, Operation, Reach, Selection, SkipReason
from routing.snapshots import CatalogueSnapshot

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
            accounts_kept=timedelta(days=1100),
            deliveries_kept=timedelta(days=90),
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
