"""Settings in the admin: every declared one with what is in force, and forms that the registry checks."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries, Settings

from governance.admin.cells import breakable
from governance.admin.settings import setting_rows
from governance.changes.settings import store_setting
from governance.models import SettingsVersion, SettingValue
from governance.settings_store.registry import REGISTRY
from governance.settings_store.sources import Source
from governance.settings_store.store import load_settings
from tests.authors import SOMEBODY
from tests.governance.admin.pages import complaints, sent_by, text_of

LIST = reverse("admin:governance_settingvalue_changelist")

# What a person enters, what is stored, and how the list then says it.
ENTERED: dict[str, tuple[str, Any, str]] = {
    "routing.policyMode": ("economy", "economy", "economy (Cost first)"),
    "routing.callHistory": ("True", True, "On"),
    "routing.operationCapabilityEnforcement": ("observe", "observe", "observe (Only record what would be refused)"),
    "routing.currency": ("EUR", "EUR", "EUR"),
    "telemetry.enabled": ("False", False, "Off"),
    "gateway.maxBodyBytes": ("4096", 4096, "4,096 bytes"),
    "health.reorderFallback": ("True", True, "On"),
    "gateway.deadlineSeconds": ("20", 20, "20 seconds"),
    "retry.attempts": ("3", 3, "3 attempts"),
    "retry.firstWaitMilliseconds": ("400", 400, "400 milliseconds"),
    "retry.longestWaitMilliseconds": ("2000", 2000, "2,000 milliseconds"),
    "budgets.assumedMaxOutput": ("77", 77, "77 tokens"),
    "budgets.assumedImageTokens": ("850", 850, "850 tokens"),
    "budgets.assumedFileTokens": ("20000", 20_000, "20,000 tokens"),
    "budgets.entryDays": ("90", 90, "90 days"),
    "budgets.accountDays": ("400", 400, "400 days"),
    "budgets.deliveryDays": ("30", 30, "30 days"),
    "calls.maxDeliveries": ("3", 3, "3 deliveries"),
    "calls.contentHours": ("48", 48, "48 hours"),
    "calls.submissionDays": ("7", 7, "7 days"),
    "calls.maxBatchCalls": ("50", 50, "50 calls"),
}
REFUSED: dict[str, str] = {
    "routing.policyMode": "cheapest",
    "routing.callHistory": "perhaps",
    "routing.operationCapabilityEnforcement": "off",
    "routing.currency": "euros",
    "telemetry.enabled": "perhaps",
    "gateway.maxBodyBytes": "5",
    "health.reorderFallback": "perhaps",
    "gateway.deadlineSeconds": "0",
    "retry.attempts": "11",
    "retry.firstWaitMilliseconds": "soon",
    "retry.longestWaitMilliseconds": "0.5",
    "budgets.assumedMaxOutput": "many",
    "budgets.assumedImageTokens": "0",
    "budgets.assumedFileTokens": "-5",
    "budgets.entryDays": "6",
    "budgets.accountDays": "30",
    "budgets.deliveryDays": "6",
    "calls.maxDeliveries": "0",
    "calls.contentHours": "-1",
    "calls.submissionDays": "for ever",
    "calls.maxBatchCalls": "1.5",
}


def page_of(key: str) -> str:
    return reverse("admin:governance_settingvalue_change", args=[key])


def change(operator: Client, key: str, **values: Any) -> Any:
    return operator.post(page_of(key), sent_by(operator.get(page_of(key)), **values))


def test_every_setting_is_entered_here() -> None:
    assert set(ENTERED) == set(REFUSED) == set(REGISTRY)


def test_the_list_shows_every_setting_with_its_help(operator: Client) -> None:
    page = text_of(operator.get(LIST))
    for key, setting in REGISTRY.items():
        assert breakable(key) in page
        assert setting.help[:40] in page
        assert page_of(key) in page


@pytest.mark.django_db
def test_the_list_takes_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for key, (_, value, _) in ENTERED.items():
        with django_assert_num_queries(1):
            setting_rows()
        store_setting(key, value, author=SOMEBODY)


@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_a_setting_is_changed_and_put_back(operator: Client, key: str) -> None:
    entered, stored, shown = ENTERED[key]
    before = SettingsVersion.read()
    defaults = {row.key: row.in_force for row in setting_rows()}
    assert change(operator, key, value=entered).status_code == 302
    value = SettingValue.objects.get(key=key).value
    assert value == stored
    assert type(value) is type(stored)
    assert SettingsVersion.read() > before
    rows = {row.key: row for row in setting_rows()}
    assert (rows[key].in_force, rows[key].stored_at is None) == (shown, False)
    assert {other: row.in_force for other, row in rows.items()} == {**defaults, key: shown}
    assert sent_by(operator.get(page_of(key)))["value"] == [entered]

    before = SettingsVersion.read()
    assert change(operator, key, use_default="on").status_code == 302
    assert not SettingValue.objects.exists()
    assert SettingsVersion.read() > before
    assert {row.key: row.in_force for row in setting_rows()} == defaults


@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_what_the_registry_refuses_is_not_stored(operator: Client, key: str) -> None:
    answer = change(operator, key, value=REFUSED[key])
    assert list(complaints(answer)) == ["value"]
    assert not SettingValue.objects.exists()
    assert SettingsVersion.read() == 1


@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_the_form_shows_the_value_in_force_and_the_default(operator: Client, key: str) -> None:
    page = operator.get(page_of(key))
    assert sent_by(page)["value"] == [str(REGISTRY[key].default)]
    assert "The default is " in text_of(page)


def test_the_default_is_taken_whatever_else_was_typed(operator: Client) -> None:
    store_setting("routing.currency", "EUR", author=SOMEBODY)
    assert change(operator, "routing.currency", value="euros", use_default="on").status_code == 302
    assert load_settings().routing.currency == "USD"


def test_a_value_that_cannot_be_read_is_shown_beside_what_is_in_force(operator: Client) -> None:
    SettingValue.objects.create(key="routing.policyMode", value="cheapest")
    page = text_of(operator.get(LIST))
    assert "&#x27;cheapest&#x27; is stored, which cannot be read" in page
    (row,) = [row for row in setting_rows() if row.key == "routing.policyMode"]
    assert row.in_force.startswith("providerPriority")


def test_a_value_of_another_shape_breaks_no_page(operator: Client) -> None:
    for key in REGISTRY:
        SettingValue.objects.create(key=key, value=json.loads('{"a": [null, 1.5]}'))
        assert operator.get(page_of(key)).status_code == 200
    assert operator.get(LIST).status_code == 200


def test_there_is_no_page_for_what_is_no_setting(operator: Client) -> None:
    answer = operator.get(page_of("routing.nothing"), follow=True)
    assert "with ID “routing.nothing”" in text_of(answer)
    assert operator.post(page_of("routing.nothing"), {"value": "1"}).status_code == 302
    assert not SettingValue.objects.exists()


def test_a_looker_on_changes_nothing(auditor: Client) -> None:
    assert auditor.get(page_of("routing.callHistory")).status_code == 200
    assert auditor.post(page_of("routing.callHistory"), {"value": "True"}).status_code == 403
    assert not SettingValue.objects.exists()


def test_a_pinned_setting_is_shown_as_such_and_offers_no_change(operator: Client, settings: Settings) -> None:
    SettingValue.objects.create(key="routing.currency", value="EUR")
    settings.SIGNALBOX_SETTINGS = {"routing.currency": "CHF"}
    row = next(row for row in setting_rows() if row.key == "routing.currency")
    assert (row.in_force, row.source, row.stored_at is None) == ("CHF", Source.ENVIRONMENT, False)
    listed = text_of(operator.get(LIST))
    assert "SIGNALBOX_SETTINGS; what is stored since 20" in listed
    page = text_of(operator.get(page_of("routing.currency")))
    assert "Pinned by the environment variable SIGNALBOX_SETTINGS" in page
    assert "CHF" in page
    assert 'name="_save"' not in page
    assert 'name="value"' not in page
    assert operator.post(page_of("routing.currency"), {"value": "USD"}).status_code == 403
    assert SettingValue.objects.get(key="routing.currency").value == "EUR"
