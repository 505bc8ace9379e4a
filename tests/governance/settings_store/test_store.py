"""Settings in force: what is stored, else the default; one way to store, and a version that moves with it."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from pytest_django import DjangoAssertNumQueries

from governance.changes.settings import clear_setting, store_setting
from governance.models import SettingsVersion, SettingValue
from governance.settings_store.registry import CALL_HISTORY, CURRENCY, POLICY_MODE, REGISTRY
from governance.settings_store.store import (
    SettingsSnapshot,
    load_settings,
    settings_poll,
)
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.vocabulary import Enforcement
from tests.authors import SOMEBODY

# A value that differs from the default, and the attribute in which a call reads it.
CHANGES: dict[str, tuple[Any, str, Any]] = {
    "routing.policyMode": ("economy", "routing.mode", PolicyMode.ECONOMY),
    "routing.callHistory": (True, "routing.call_history", True),
    "routing.operationCapabilityEnforcement": ("observe", "routing.enforcement", Enforcement.OBSERVE),
    "routing.currency": ("EUR", "routing.currency", "EUR"),
    "telemetry.enabled": (False, "routing.telemetry", False),
    "gateway.maxBodyBytes": (4096, "max_body_bytes", 4096),
    "health.reorderFallback": (True, "reorders_fallbacks", True),
    "gateway.deadlineSeconds": (20, "deadline", 20.0),
    "retry.attempts": (5, "retry.attempts", 5),
    "retry.firstWaitMilliseconds": (400, "retry.first_wait", 0.4),
    "retry.longestWaitMilliseconds": (2000, "retry.longest_wait", 2.0),
    "budgets.assumedMaxOutput": (77, "routing.assumed.max_output", 77),
    "budgets.assumedImageTokens": (300, "routing.assumed.image_tokens", 300),
    "budgets.assumedFileTokens": (7000, "routing.assumed.file_tokens", 7000),
    "budgets.entryDays": (31, "entries_kept", timedelta(days=31)),
    "budgets.accountDays": (62, "accounts_kept", timedelta(days=62)),
    "budgets.deliveryDays": (14, "deliveries_kept", timedelta(days=14)),
    "calls.maxDeliveries": (5, "submissions.max_deliveries", 5),
    "calls.contentHours": (5, "submissions.content_kept", timedelta(hours=5)),
    "calls.submissionDays": (7, "submissions.rows_kept", timedelta(days=7)),
    "calls.maxBatchCalls": (4, "submissions.max_batch_calls", 4),
}

pytestmark = pytest.mark.django_db


def read(effective: Any, path: str) -> Any:
    for name in path.split("."):
        effective = getattr(effective, name)
    return effective


def test_every_setting_is_changed_here() -> None:
    assert set(CHANGES) == set(REGISTRY)


def test_an_empty_table_is_the_defaults() -> None:
    effective = load_settings()
    assert effective.routing == RoutingPolicy()
    assert effective.max_body_bytes == 32 * 1024 * 1024
    assert effective.version == 1


@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_a_stored_value_reaches_what_a_call_is_handed_and_nothing_else_moves(key: str) -> None:
    value, _, expected = CHANGES[key]
    before = {other: read(load_settings(), CHANGES[other][1]) for other in REGISTRY}
    assert before[key] != expected
    store_setting(key, value, author=SOMEBODY)
    after = {other: read(load_settings(), CHANGES[other][1]) for other in REGISTRY}
    assert after == {**before, key: expected}


@pytest.mark.parametrize("key", sorted(REGISTRY))
@pytest.mark.parametrize("garbage", [None, {"a": 1}, [1, 2], -5, "\x7f"])
def test_an_unreadable_row_counts_as_none_at_all(key: str, garbage: Any) -> None:
    default = read(load_settings(), CHANGES[key][1])
    SettingValue.objects.create(key=key, value=garbage)
    assert read(load_settings(), CHANGES[key][1]) == default


def test_a_value_may_be_stored_again_and_again() -> None:
    for mode in ("economy", "quality", "balanced"):
        store_setting("routing.policyMode", mode, author=SOMEBODY)
    assert SettingValue.objects.count() == 1
    assert load_settings().routing.mode is PolicyMode.BALANCED


def test_storing_moves_the_version() -> None:
    store_setting("routing.callHistory", True, author=SOMEBODY)
    first = SettingsVersion.read()
    store_setting("routing.callHistory", False, author=SOMEBODY)
    assert SettingsVersion.read() > first > 1


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("routing.callHistory", "true", "value"),
        ("routing.currency", "A1B", "value"),
        ("routing.nothing", True, "key"),
    ],
)
def test_what_is_not_accepted_is_not_stored(key: str, value: Any, field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        store_setting(key, value, author=SOMEBODY)
    assert list(refused.value.message_dict) == [field]
    assert key in refused.value.messages[0]
    assert not SettingValue.objects.exists()
    assert SettingsVersion.read() == 1


def test_a_cleared_setting_is_at_its_default_and_everybody_hears_of_it() -> None:
    store_setting("routing.callHistory", True, author=SOMEBODY)
    before = SettingsVersion.read()
    clear_setting("routing.callHistory", author=SOMEBODY)
    assert load_settings().routing.call_history is False
    assert SettingsVersion.read() > before


def test_a_row_of_a_setting_that_is_no_more_does_no_harm() -> None:
    SettingValue.objects.create(key="routing.ofOldTimes", value="anything")
    assert load_settings().routing == RoutingPolicy()


def test_settings_take_two_queries_however_many_are_stored(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for stored in range(len(CHANGES) + 1):
        with django_assert_num_queries(2):
            load_settings()
        if stored < len(CHANGES):
            key = sorted(CHANGES)[stored]
            store_setting(key, CHANGES[key][0], author=SOMEBODY)


def test_a_process_follows_the_settings() -> None:
    poll = settings_poll()

    def reads_history() -> bool:
        return poll.current.routing.call_history

    assert not reads_history()
    assert poll.refresh() is False
    store_setting("routing.callHistory", True, author=SOMEBODY)
    assert not reads_history()
    assert poll.refresh()
    assert reads_history()
    assert poll.current.version == SettingsVersion.read()


def test_a_snapshot_is_asked_with_declarations() -> None:
    snapshot = SettingsSnapshot({"routing.callHistory": True, "routing.currency": 5}, version=7)
    assert snapshot[CALL_HISTORY] is True
    assert snapshot[CURRENCY] == "USD"
    assert snapshot[POLICY_MODE] is PolicyMode.PROVIDER_PRIORITY
    assert snapshot.version == 7
