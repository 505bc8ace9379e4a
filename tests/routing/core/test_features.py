from dataclasses import replace

import pytest

from routing.core.conversation import Effort, ReasoningWish, ToolChoice, ToolMode
from routing.core.features import Feature, features_of
from tests.routing.core.feature_samples import BESIDES, SAMPLES, plain, sampled


def test_there_is_a_sample_of_every_feature() -> None:
    assert set(SAMPLES) == set(Feature)


@pytest.mark.parametrize("feature", Feature)
def test_a_sample_asks_for_its_feature_and_for_little_else(feature: Feature) -> None:
    assert features_of(SAMPLES[feature]) == {feature} | BESIDES.get(feature, frozenset())


def test_what_everybody_does_anyway_is_no_feature() -> None:
    request = replace(
        plain(),
        parallel_calls=True,
        choices=1,
        tool_choice=ToolChoice(ToolMode.AUTO),
        sampling=sampled(presence_penalty=0, frequency_penalty=0.0).sampling,
    )
    assert features_of(request) == frozenset()


def test_a_temperature_of_zero_is_one() -> None:
    assert features_of(sampled(temperature=0)) == {Feature.TEMPERATURE}
    assert features_of(sampled(seed=0)) == {Feature.SEED}


def test_parallel_calls_matter_only_where_there_are_tools() -> None:
    assert features_of(replace(plain(), parallel_calls=False)) == frozenset()


def test_reasoning_that_is_turned_off_is_not_asked_for() -> None:
    assert not ReasoningWish(Effort.NONE).is_on
    assert all(ReasoningWish(effort).is_on for effort in Effort if effort is not Effort.NONE)
    assert ReasoningWish().is_on
