"""Where a value in force comes from, and what the environment pins."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from pytest_django import DjangoAssertNumQueries, Settings

from governance.models import SettingValue
from governance.settings_store.registry import CALL_HISTORY, CURRENCY, POLICY_MODE, REGISTRY, TELEMETRY
from governance.settings_store.sources import (
    Source,
    check_changeable,
    check_storable,
    resolve,
    settings_in_force,
)
from governance.settings_store.store import load_settings
from routing.core.policy import PolicyMode


@pytest.mark.parametrize(
    ("stored", "pinned", "expected"),
    [
        ({}, {}, (False, Source.DEFAULT)),
        ({"routing.callHistory": True}, {}, (True, Source.STORED)),
        ({"routing.callHistory": False}, {}, (False, Source.STORED)),
        ({"routing.callHistory": "on"}, {}, (False, Source.UNREADABLE)),
        ({"routing.callHistory": None}, {}, (False, Source.UNREADABLE)),
        ({"routing.callHistory": False}, {"routing.callHistory": True}, (True, Source.ENVIRONMENT)),
        ({"routing.callHistory": "on"}, {"routing.callHistory": False}, (False, Source.ENVIRONMENT)),
        ({}, {"routing.currency": "EUR"}, (False, Source.DEFAULT)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_environment_wins_over_what_is_stored_and_that_over_the_default(
    stored: dict[str, Any], pinned: dict[str, Any], expected: tuple[bool, Source]
) -> None:
    assert resolve(CALL_HISTORY, stored=stored, pinned=pinned) == expected


@pytest.mark.django_db
def test_every_setting_is_told_with_its_source(
    settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    SettingValue.objects.create(key="routing.currency", value="EUR")
    SettingValue.objects.create(key="routing.callHistory", value="perhaps")
    SettingValue.objects.create(key="telemetry.enabled", value=True)
    settings.SIGNALBOX_SETTINGS = {"telemetry.enabled": False, "routing.policyMode": "economy"}
    with django_assert_num_queries(1):
        rows = {each.setting.key: each for each in settings_in_force()}
    assert list(rows) == list(REGISTRY)
    assert {key: each.source for key, each in rows.items() if each.source is not Source.DEFAULT} == {
        "routing.currency": Source.STORED,
        "routing.callHistory": Source.UNREADABLE,
        "telemetry.enabled": Source.ENVIRONMENT,
        "routing.policyMode": Source.ENVIRONMENT,
    }
    assert (rows[TELEMETRY.key].value, rows[TELEMETRY.key].is_pinned) == (False, True)
    assert rows[TELEMETRY.key].stored_at is not None, "what is stored waits"
    assert rows[POLICY_MODE.key].value is PolicyMode.ECONOMY
    assert rows[POLICY_MODE.key].stored_at is None
    assert (rows[CURRENCY.key].value, rows[CURRENCY.key].is_pinned) == ("EUR", False)


@pytest.mark.django_db
def test_a_pin_is_in_force_for_calls_and_what_is_stored_comes_back_without_it(settings: Settings) -> None:
    SettingValue.objects.create(key="routing.currency", value="EUR")
    settings.SIGNALBOX_SETTINGS = {"routing.currency": "CHF", "gateway.maxBodyBytes": 2048}
    effective = load_settings()
    assert (effective.routing.currency, effective.max_body_bytes) == ("CHF", 2048)
    settings.SIGNALBOX_SETTINGS = {}
    effective = load_settings()
    assert (effective.routing.currency, effective.max_body_bytes) == ("EUR", 32 * 1024 * 1024)


def test_what_is_pinned_is_not_changed_elsewhere(settings: Settings) -> None:
    settings.SIGNALBOX_SETTINGS = {"routing.currency": "CHF"}
    said = (
        "routing.currency is pinned by the environment variable SIGNALBOX_SETTINGS; it is changed there, and by a "
        "restart."
    )
    with pytest.raises(ValidationError) as refused:
        check_changeable("routing.currency")
    assert refused.value.messages == [said]
    with pytest.raises(ValidationError) as refused:
        check_storable("routing.currency", "EUR")
    assert refused.value.messages == [said]
    check_storable("routing.callHistory", True)


@pytest.mark.parametrize(
    ("key", "value", "field"), [("routing.nothing", True, "key"), ("routing.currency", "euros", "value")]
)
def test_what_may_not_be_stored_is_refused(key: str, value: Any, field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        check_storable(key, value)
    assert list(refused.value.message_dict) == [field]
