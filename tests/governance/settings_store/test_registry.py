"""Every setting: its default, what it accepts, and where an unreadable value lands. A setting without expectations
here fails."""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.settings_store import registry
from governance.settings_store.registry import REGISTRY, Setting
from routing.core.policy import PolicyMode
from routing.core.vocabulary import Enforcement


@dataclass(frozen=True)
class Expectation:
    """What a setting is expected to do.

    ``good`` maps values that may be stored to what they mean; ``bad`` are values that may not be stored and mean
    ``unreadable``; ``lenient`` are values that may not be stored either, but would be understood.
    """

    default: Any
    good: dict[Any, Any]
    bad: list[Any]
    unreadable: Any
    says: str  # words of the help about unreadable values, or about what the setting does
    lenient: tuple[tuple[Any, Any], ...] = ()


WHOLE_NUMBERS: list[Any] = [None, "", "many", "4096", True, False, 1.5, 2048.0, -1, 0, [], {}, 10**30]
EXPECTED: dict[str, Expectation] = {
    "routing.policyMode": Expectation(
        default=PolicyMode.PROVIDER_PRIORITY,
        good={mode.value: mode for mode in PolicyMode},
        bad=[None, "", "cheapest", "Balanced", "BALANCED", 1, True, ["balanced"], {"mode": "balanced"}],
        lenient=((" balanced ", PolicyMode.BALANCED),),
        unreadable=PolicyMode.PROVIDER_PRIORITY,
        says="Whatever is no mode means providerPriority",
    ),
    "routing.callHistory": Expectation(
        default=False,
        good={True: True, False: False},
        bad=[None, "", "true", "on", 1, 0, [], [True], {}],
        unreadable=False,
        says="Unreadable means off",
    ),
    "routing.operationCapabilityEnforcement": Expectation(
        default=Enforcement.ENFORCE,
        good={each.value: each for each in Enforcement},
        bad=[None, "", "off", "none", False, True, 0, ["observe"], {}],
        lenient=((" Observe ", Enforcement.OBSERVE), ("OBSERVE", Enforcement.OBSERVE)),
        unreadable=Enforcement.ENFORCE,
        says="Unreadable means that it is",
    ),
    "routing.currency": Expectation(
        default="USD",
        good={"USD": "USD", "EUR": "EUR", "JPY": "JPY"},
        bad=[None, "", "usd", "US", "USDT", "U5D", "A1B", "€€€", "ÄÖÜ", 840, True, ["USD"], {}],
        unreadable="USD",
        says="A figure in another currency is no figure",
    ),
    "telemetry.enabled": Expectation(
        default=True,
        good={True: True, False: False},
        bad=[None, "", "false", "off", 0, 1, [], {}],
        unreadable=True,
        says="Only an explicit false switches it off",
    ),
    "gateway.maxBodyBytes": Expectation(
        default=32 * 1024 * 1024,
        good={1024: 1024, 2048: 2048, 1024**3: 1024**3},
        bad=[*WHOLE_NUMBERS, 1023, 1024**3 + 1],
        unreadable=32 * 1024 * 1024,
        says="A larger one gets 413",
    ),
    "health.reorderFallback": Expectation(
        default=False,
        good={True: True, False: False},
        bad=[None, "", "true", "on", 1, 0, [], [True], {}],
        unreadable=False,
        says="Health that is not known counts as 0.5",
    ),
    "gateway.deadlineSeconds": Expectation(
        default=900,
        good={1: 1, 20: 20, 86_400: 86_400},
        bad=[*WHOLE_NUMBERS, 86_401],
        unreadable=900,
        says="ends as a time-out whatever routes are left",
    ),
    "retry.attempts": Expectation(
        default=2,
        good={1: 1, 3: 3, 10: 10},
        bad=[*WHOLE_NUMBERS, 11],
        unreadable=2,
        says="the first time included",
    ),
    "retry.firstWaitMilliseconds": Expectation(
        default=250,
        good={1: 1, 400: 400, 60_000: 60_000},
        bad=[*WHOLE_NUMBERS, 60_001],
        unreadable=250,
        says="What a provider advises is waited exactly",
    ),
    "retry.longestWaitMilliseconds": Expectation(
        default=30_000,
        good={1: 1, 2000: 2000, 600_000: 600_000},
        bad=[*WHOLE_NUMBERS, 600_001],
        unreadable=30_000,
        says="not bounded by it",
    ),
    "budgets.assumedMaxOutput": Expectation(
        default=4096,
        good={1: 1, 8192: 8192, 10_000_000: 10_000_000},
        bad=[*WHOLE_NUMBERS, 10_000_001],
        unreadable=4096,
        says="neither the caller nor the model has a limit",
    ),
    "budgets.assumedImageTokens": Expectation(
        default=5000,
        good={1: 1, 765: 765, 1_000_000: 1_000_000},
        bad=[*WHOLE_NUMBERS, 1_000_001],
        unreadable=5000,
        says="one image of a prompt",
    ),
    "budgets.assumedFileTokens": Expectation(
        default=100_000,
        good={1: 1, 30_000: 30_000, 10_000_000: 10_000_000},
        bad=[*WHOLE_NUMBERS, 10_000_001],
        unreadable=100_000,
        says="No more is assumed than fits the model's context",
    ),
    "budgets.entryDays": Expectation(
        default=400,
        good={7: 7, 30: 30, 36_500: 36_500},
        bad=[*WHOLE_NUMBERS, 6, 36_501],
        unreadable=400,
        says="balances stay, and are proven as before",
    ),
    "budgets.accountDays": Expectation(
        default=1100,
        good={31: 31, 400: 400, 36_500: 36_500},
        bad=[*WHOLE_NUMBERS, 30, 36_501],
        unreadable=1100,
        says="one of all time for good",
    ),
    "budgets.deliveryDays": Expectation(
        default=90,
        good={7: 7, 30: 30, 36_500: 36_500},
        bad=[*WHOLE_NUMBERS, 6, 36_501],
        unreadable=90,
        says="no longer than the alerts are",
    ),
    "calls.maxDeliveries": Expectation(
        default=2,
        good={1: 1, 3: 3, 10: 10},
        bad=[*WHOLE_NUMBERS, 11],
        unreadable=2,
        says="never sent again, whatever this says",
    ),
    "calls.contentHours": Expectation(
        default=24,
        good={1: 1, 72: 72, 2160: 2160},
        bad=[*WHOLE_NUMBERS, 2161],
        unreadable=24,
        says="no worker has taken up by then has expired",
    ),
    "calls.submissionDays": Expectation(
        default=30,
        good={1: 1, 90: 90, 3650: 3650},
        bad=[*WHOLE_NUMBERS, 3651],
        unreadable=30,
        says="once they have ended",
    ),
    "calls.maxBatchCalls": Expectation(
        default=1000,
        good={1: 1, 50: 50, 100_000: 100_000},
        bad=[*WHOLE_NUMBERS, 100_001],
        unreadable=1000,
        says="How many calls one batch may hold",
    ),
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def test_every_setting_has_its_expectations_and_every_expectation_its_setting() -> None:
    assert set(EXPECTED) == set(REGISTRY)


def test_every_declared_setting_is_registered_under_its_key() -> None:
    declared = {value.key: value for value in vars(registry).values() if isinstance(value, Setting)}
    assert dict(REGISTRY) == declared


@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_a_key_is_dotted_and_its_help_is_a_sentence(key: str) -> None:
    setting = REGISTRY[key]
    assert re.fullmatch(r"[a-z]+(?:\.[a-z][A-Za-z]*)+", key)
    assert setting.help[0].isupper()
    assert setting.help.endswith(".")
    assert EXPECTED[key].says in setting.help


@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_the_default_is_in_force_without_a_stored_value_and_may_be_stored(key: str) -> None:
    setting, expected = REGISTRY[key], EXPECTED[key]
    assert setting.default == expected.default
    assert type(setting.default) is type(expected.default)
    assert setting.accepts(setting.default) is None
    assert setting.read(setting.default) == expected.default


@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_what_may_be_stored_means_what_it_says(key: str) -> None:
    setting, expected = REGISTRY[key], EXPECTED[key]
    for stored, meant in expected.good.items():
        assert setting.accepts(stored) is None, stored
        read = setting.read(json.loads(json.dumps(stored)))
        assert read == meant
        assert type(read) is type(expected.default)


@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_an_unreadable_value_is_refused_and_lands_where_the_help_says(key: str) -> None:
    setting, expected = REGISTRY[key], EXPECTED[key]
    for bad in expected.bad:
        assert setting.accepts(bad), bad
        assert setting.read(bad) == expected.unreadable, bad
        assert type(setting.read(bad)) is type(expected.default)
    for lenient, meant in expected.lenient:
        assert setting.accepts(lenient), lenient
        assert setting.read(lenient) == meant


@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_every_choice_may_be_stored_and_has_words(key: str) -> None:
    setting = REGISTRY[key]
    for value, label in setting.choices:
        assert setting.accepts(value) is None
        assert label
    if setting.choices:
        assert {value for value, _ in setting.choices} == set(EXPECTED[key].good)


@pytest.mark.parametrize("key", sorted(REGISTRY))
@given(value=json_values)
def test_reading_never_fails_and_what_is_refused_has_a_reason(key: str, value: Any) -> None:
    setting = REGISTRY[key]
    assert type(setting.read(value)) is type(setting.default)
    complaint = setting.accepts(value)
    assert complaint is None or complaint.strip()
