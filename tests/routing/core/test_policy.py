import pytest

from routing.core.policy import WEIGHTS, PolicyMode, RoutingPolicy, Weights
from routing.core.vocabulary import Enforcement


def test_the_weights_of_each_mode() -> None:
    assert dict(WEIGHTS) == {
        PolicyMode.PROVIDER_PRIORITY: Weights(quality=0, health=0, cost=0, latency=0),
        PolicyMode.BALANCED: Weights(quality=0.4, health=0.4, cost=0.2, latency=0.1),
        PolicyMode.QUALITY: Weights(quality=0.7, health=0.3, cost=0, latency=0.05),
        PolicyMode.ECONOMY: Weights(quality=0.1, health=0.3, cost=0.6, latency=0.05),
    }


@pytest.mark.parametrize("mode", PolicyMode)
def test_a_mode_is_read_by_its_word(mode: PolicyMode) -> None:
    assert PolicyMode.read(f" {mode.value} ") is mode


@pytest.mark.parametrize("value", [None, "", "Balanced", "BALANCED", "fast", 3, True, ["balanced"], {}])
def test_what_is_no_mode_means_provider_priority(value: object) -> None:
    assert PolicyMode.read(value) is PolicyMode.PROVIDER_PRIORITY


def test_all_modes_but_the_default_are_measured() -> None:
    assert [mode for mode in PolicyMode if not mode.is_measured] == [PolicyMode.PROVIDER_PRIORITY]


def test_what_holds_without_settings() -> None:
    policy = RoutingPolicy()
    assert policy.mode is PolicyMode.PROVIDER_PRIORITY
    assert policy.call_history is False
    assert policy.enforcement is Enforcement.ENFORCE
    assert policy.currency == "USD"
    assert policy.telemetry is True
