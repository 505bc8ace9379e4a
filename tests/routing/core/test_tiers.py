"""Tiers of budgets in a decision: an advisory one goes first, a strict one alone, and nothing loosens it."""

from dataclasses import replace
from typing import Any

import pytest

from routing.core.catalogue import Catalogue, ModelSpec, ProviderSpec
from routing.core.configuration import ConfigurationSpec, Criteria, override
from routing.core.decision import Decision, decide
from routing.core.failures import FailureKind
from routing.core.plan import Fallback, Plan, Preference, final_failure, plan, tier_preference
from routing.core.policy import RoutingPolicy
from routing.core.requirements import Limits, Requirements
from routing.core.scenario import ScenarioError, read_scenario
from routing.core.scenario_file import scenario_of
from routing.core.tiers import BudgetTier, strict_targets
from routing.core.transcript import document, restore
from routing.core.vocabulary import DataBoundary, Operation, Selection, SkipReason
from tests.routing.core.samples import NOW

EAST = ProviderSpec("prod-east", "openai", data_boundary=DataBoundary.EXTERNAL)
LAB = ProviderSpec("lab", "vllm", data_boundary=DataBoundary.INTERNAL)
PREMIUM = ModelSpec("premium", "gpt-x-pro", EAST, capabilities=frozenset({"chat", "vision"}))
ECONOMY = ModelSpec("economy", "gpt-x-mini", EAST, capabilities=frozenset({"chat"}), context_length=8_000)
PRIVATE = ModelSpec("private", "llama-9", LAB)
CATALOGUE = Catalogue.of([PREMIUM, ECONOMY, PRIVATE])

FIXED = ConfigurationSpec("fixed", Selection.FIXED, models=("premium",))
LISTED = ConfigurationSpec("listed", Selection.LISTED, models=("premium", "private"))
RANKED = ConfigurationSpec("ranked", Selection.CRITERIA)
NAMED = override("premium")
ALL = (FIXED, LISTED, RANKED, NAMED)


def strict(*targets: str, budget: str = "desk", threshold: int = 80) -> BudgetTier:
    return BudgetTier(budget, threshold, 83, targets, is_strict=True)


def advisory(*targets: str, budget: str = "team", threshold: int = 50) -> BudgetTier:
    return BudgetTier(budget, threshold, 61, targets, is_strict=False)


def decided(configuration: ConfigurationSpec, *tiers: BudgetTier, **limits: Any) -> Decision:
    requirements = Requirements(operation=Operation.CHAT, prompt_tokens=100)
    return decide(
        configuration=configuration,
        catalogue=CATALOGUE,
        requirements=requirements,
        policy=RoutingPolicy(),
        now=NOW,
        limits=replace(Limits(tiers=tiers), **limits),
    )


def walked(laid_out: Plan) -> list[str]:
    return [step.model.identifier for step in laid_out.steps]


def planned(configuration: ConfigurationSpec, *tiers: BudgetTier, preference: Preference | None = None) -> Plan:
    return plan(decided(configuration, *tiers), limit=3, preference=preference)


@pytest.mark.parametrize("configuration", [FIXED, LISTED, RANKED], ids=lambda each: each.identifier)
def test_past_an_advisory_tier_its_target_goes_first_and_the_others_stay(configuration: ConfigurationSpec) -> None:
    before = walked(planned(configuration))
    after = planned(configuration, advisory("economy"))
    assert walked(after)[0] == "economy"
    assert set(before) <= {"economy", *walked(after)}
    assert after.preference == "tier:team"


@pytest.mark.parametrize("configuration", [FIXED, LISTED, RANKED], ids=lambda each: each.identifier)
def test_past_a_strict_tier_its_target_is_all_there_is(configuration: ConfigurationSpec) -> None:
    assert walked(planned(configuration, strict("economy"))) == ["economy"]
    pinned = planned(configuration, strict("economy"), preference=Preference("premium", "pin"))
    assert (walked(pinned), pinned.preference) == (["economy"], "")


def test_the_first_target_that_may_serve_goes_first_unless_one_does_anyway() -> None:
    assert walked(planned(FIXED, advisory("gone", "private", "economy")))[0] == "private"
    assert tier_preference(decided(FIXED, advisory("economy", "premium"))) == Preference("premium", "tier:team")
    assert tier_preference(decided(FIXED, advisory("gone"))) is None


def test_whoever_names_a_model_gets_it_or_nothing() -> None:
    assert walked(planned(NAMED, advisory("economy"))) == ["premium"]
    assert walked(planned(NAMED, strict("economy"))) == []
    assert walked(planned(NAMED, strict("premium", "economy"))) == ["premium"]


def test_what_a_tier_wishes_goes_before_a_pin() -> None:
    laid_out = planned(RANKED, advisory("economy"), preference=Preference("private", "pin"))
    assert (walked(laid_out)[0], laid_out.preference) == ("economy", "tier:team")


def test_an_advisory_tier_does_not_loosen_a_strict_one() -> None:
    laid_out = planned(LISTED, strict("economy"), advisory("premium", threshold=99))
    assert (walked(laid_out), laid_out.preference) == (["economy"], "")


def test_strict_tiers_that_name_different_targets_leave_none() -> None:
    tiers = (strict("economy"), strict("private", budget="all"))
    assert strict_targets(tiers) == frozenset()
    assert walked(planned(RANKED, *tiers)) == []
    assert strict_targets((strict("economy", "private"), strict("private", budget="all"))) == frozenset({"private"})
    assert strict_targets((advisory("economy"),)) is None


def failure_of(decision: Decision, allowed: frozenset[str] | None = None) -> tuple[FailureKind, str]:
    failure = final_failure(decision=decision, last=None, skips=(), allowed_models=allowed)
    return failure.kind, failure.code


REFUSED = (FailureKind.OVER_BUDGET, "budget_target_unavailable")


@pytest.mark.parametrize("configuration", ALL, ids=lambda each: each.identifier or "named")
def test_a_missing_target_refuses_rather_than_restoring_the_dearer_route(configuration: ConfigurationSpec) -> None:
    decision = decided(configuration, strict("gone"))
    assert decision.eligible == ()
    assert decision.unavailable == ("gone",)
    assert failure_of(decision) == REFUSED


def test_an_incompatible_target_refuses() -> None:
    large = Requirements(operation=Operation.CHAT, prompt_tokens=9_000)
    for requirements in (large, Requirements(operation=Operation.VISION, prompt_tokens=100)):
        decision = decide(
            configuration=LISTED,
            catalogue=CATALOGUE,
            requirements=requirements,
            policy=RoutingPolicy(),
            now=NOW,
            limits=Limits(tiers=(strict("economy"),)),
        )
        assert failure_of(decision) == REFUSED
    picky = replace(RANKED, criteria=Criteria(capabilities=("vision",)))
    assert failure_of(decided(picky, strict("economy"))) == REFUSED


def test_a_forbidden_target_refuses() -> None:
    allowed = frozenset({"premium"})
    assert failure_of(decided(FIXED, strict("economy"), allowed_models=allowed), allowed) == REFUSED
    assert failure_of(decided(FIXED, strict("economy"), internal_only=True)) == REFUSED
    assert walked(plan(decided(FIXED, strict("private"), internal_only=True), limit=1)) == ["private"]


def test_a_key_that_allows_nothing_is_told_that() -> None:
    allowed = frozenset({"another"})
    decision = decided(FIXED, strict("economy"), allowed_models=allowed)
    assert failure_of(decision, allowed)[0] is FailureKind.FORBIDDEN


def test_the_refusal_says_which_budget_and_how_much_but_no_models_that_the_key_does_not_allow() -> None:
    decision = decided(LISTED, strict("economy", "gone"), allowed_models=frozenset({"premium", "gone"}))
    failure = final_failure(decision=decision, last=None, skips=(), allowed_models=frozenset({"premium", "gone"}))
    assert failure.details == {"budget": "desk", "threshold": "80", "percent": "83", "targets": "gone"}
    assert "83 % of the budget desk are used up, which is past its tier at 80 %" in failure.message
    assert "economy" not in failure.message


def test_where_it_cannot_be_read_nothing_is_sent_and_the_call_may_come_again() -> None:
    unread = BudgetTier("desk", 80, None, (), is_strict=True)
    failure = final_failure(decision=decided(RANKED, unread), last=None, skips=())
    assert (failure.kind, failure.code, failure.retry_after) == (FailureKind.TRANSIENT, "budget_tiers_unread", 1.0)
    assert "whether the budget desk is past a strict tier cannot be read just now" in failure.message


def test_a_fallback_configuration_is_bound_too() -> None:
    tiers = (strict("economy"),)
    fallback = Fallback("listed", decision=decided(LISTED, *tiers))
    laid_out = plan(decided(NAMED, *tiers), limit=1, fallbacks=[fallback])
    assert walked(laid_out) == ["economy"]
    wished = Fallback("listed", decision=decided(LISTED, advisory("private")))
    assert walked(plan(decided(replace(FIXED, models=("economy",))), limit=1, fallbacks=[wished])) == [
        "economy", "private", "premium",
    ]  # fmt: skip
    refused = Fallback("listed", decision=decided(LISTED, strict("gone")))
    assert plan(decided(FIXED), limit=1, fallbacks=[refused]).skips[0].reason is SkipReason.NOTHING_ELIGIBLE


@pytest.mark.parametrize("configuration", ALL, ids=lambda each: each.identifier or "named")
@pytest.mark.parametrize(
    "tiers", [(strict("economy"),), (advisory("economy"),), (strict("gone"), advisory("private", "gone")), ()]
)
def test_a_decision_is_written_down_and_saved_with_its_tiers(
    configuration: ConfigurationSpec, tiers: tuple[BudgetTier, ...]
) -> None:
    decision = decided(configuration, *tiers)
    content = document(decision)
    assert ("tiers" in content) is bool(tiers)
    assert restore(content).tiers == tiers
    assert document(restore(content)) == content
    saved = scenario_of(decision)
    again = read_scenario(saved).decide()
    assert again.tiers == tiers
    assert [each.model.identifier for each in again.eligible] == [each.model.identifier for each in decision.eligible]
    assert saved["expect"]["selected"] == (None if decision.selected is None else decision.selected.model.identifier)


@pytest.mark.parametrize(
    ("tiers", "words"),
    [
        ([{"budget": "desk", "threshold": 101, "percent": 83, "targets": []}], "threshold"),
        ([{"budget": "desk", "limit": 5}], "limit"),
        ({"budget": "desk"}, "budget_tiers"),
    ],
)
def test_a_tier_that_is_malformed_is_named(tiers: object, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        read_scenario({"models": [], "budget_tiers": tiers})


def test_a_fixed_scenario_names_one_model_and_targets() -> None:
    models = [{"identifier": "premium"}, {"identifier": "economy"}]
    tiers = [{"budget": "desk", "threshold": 80, "percent": 83, "targets": ["economy"], "strict": True}]
    scenario = read_scenario({"selection": "fixed", "models": models, "budget_tiers": tiers})
    assert scenario.decide().selected is not None
    with pytest.raises(ScenarioError, match="names one model"):
        read_scenario({"selection": "fixed", "models": models})
